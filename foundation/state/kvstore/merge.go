package kvstore

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
)

// mergeUnknown returns next, the encoding of a value of type t, with the members of old that t does
// not know: of the object itself, of objects in it, and of list elements that old has in the same
// form as next, as far as t knows. What cannot be told apart safely, such as an element that was
// changed, is taken from next alone.
func mergeUnknown(old, next json.RawMessage, t reflect.Type) json.RawMessage {
	for t.Kind() == reflect.Pointer && !opaque(t) {
		t = t.Elem()
	}
	if opaque(t) {
		return next
	}
	switch t.Kind() {
	case reflect.Struct:
		return mergeStruct(old, next, t)
	case reflect.Map:
		return mergeMap(old, next, t.Elem())
	case reflect.Slice, reflect.Array:
		return mergeList(old, next, t.Elem())
	}
	return next
}

// opaque reports whether a type has an encoding of its own, which says nothing about its fields.
func opaque(t reflect.Type) bool {
	for _, i := range []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()} {
		if t.Implements(i) || t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(i) {
			return true
		}
	}
	return false
}

func mergeStruct(old, next json.RawMessage, t reflect.Type) json.RawMessage {
	was, is := object(old), object(next)
	if was == nil || is == nil {
		return next
	}
	known := members(t)
	for name, value := range was {
		// The decoder takes a member whose name differs in case only.
		field, ok := known[strings.ToLower(name)]
		now, present := is[name]
		switch {
		case !ok && !present:
			is[name] = value
		case ok && present:
			is[name] = mergeUnknown(value, now, field)
		}
	}
	return encoded(is, next)
}

func mergeMap(old, next json.RawMessage, elem reflect.Type) json.RawMessage {
	was, is := object(old), object(next)
	if was == nil || is == nil {
		return next
	}
	for name, now := range is {
		if value, ok := was[name]; ok {
			is[name] = mergeUnknown(value, now, elem)
		}
	}
	return encoded(is, next)
}

// mergeList takes the old form of every element that next has unchanged, wherever it stands now.
func mergeList(old, next json.RawMessage, elem reflect.Type) json.RawMessage {
	var was, is []json.RawMessage
	if json.Unmarshal(old, &was) != nil || json.Unmarshal(next, &is) != nil {
		return next
	}
	same := make(map[string][]json.RawMessage, len(was))
	for _, value := range was {
		v := reflect.New(elem)
		if json.Unmarshal(value, v.Interface()) != nil {
			continue
		}
		if known, err := json.Marshal(v.Interface()); err == nil {
			same[string(known)] = append(same[string(known)], value)
		}
	}
	for i, now := range is {
		if values := same[string(now)]; len(values) > 0 {
			is[i], same[string(now)] = values[0], values[1:]
		}
	}
	return encoded(is, next)
}

// object decodes a JSON object, nil for anything else.
func object(value json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(value, &m) != nil {
		return nil
	}
	return m
}

func encoded(v any, otherwise json.RawMessage) json.RawMessage {
	out, err := json.Marshal(v)
	if err != nil {
		return otherwise
	}
	return out
}

// members returns the types of the members of a struct's encoding by their names in lower case.
func members(t reflect.Type) map[string]reflect.Type {
	out := make(map[string]reflect.Type)
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Tag.Get("json") == "-" {
			continue
		}
		ft := f.Type
		for ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		if f.Anonymous && name == "" && ft.Kind() == reflect.Struct {
			for inner, it := range members(ft) {
				if _, outer := out[inner]; !outer {
					out[inner] = it
				}
			}
			continue
		}
		if !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		out[strings.ToLower(name)] = f.Type
	}
	return out
}
