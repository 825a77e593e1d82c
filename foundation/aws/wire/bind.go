package wire

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/mulgadc/spinifex/foundation/aws/models"
)

// fieldIndex finds a struct's fields by the member names in their json tags.
type fieldIndex map[string]int

func (s *Service) fieldsOf(t reflect.Type) fieldIndex {
	if f, ok := s.fields.Load(t); ok {
		return f.(fieldIndex)
	}
	f := fieldIndex{}
	for i := range t.NumField() {
		sf := t.Field(i)
		name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if sf.IsExported() && name != "" && name != "-" {
			f[name] = i
		}
	}
	s.fields.Store(t, f)
	return f
}

// bind puts a tree into a pointer to a Go value.
func (s *Service) bind(tree map[string]any, into any) error {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return fmt.Errorf("wire: cannot decode into a %T; a pointer is needed", into)
	}
	if err := s.set(v.Elem(), tree); err != nil {
		return fmt.Errorf("wire: decode into %T: %w", into, err)
	}
	return nil
}

func (s *Service) set(dst reflect.Value, v any) error {
	switch dst.Kind() {
	case reflect.Pointer:
		if dst.IsNil() {
			dst.Set(reflect.New(dst.Type().Elem()))
		}
		return s.set(dst.Elem(), v)
	case reflect.Interface:
		dst.Set(reflect.ValueOf(v))
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		switch dst.Kind() {
		case reflect.Struct:
			return s.setStruct(dst, v)
		case reflect.Map:
			return s.setMap(dst, v)
		}
	case []any:
		if dst.Kind() == reflect.Slice {
			dst.Set(reflect.MakeSlice(dst.Type(), len(v), len(v)))
			for i, e := range v {
				if err := s.set(dst.Index(i), e); err != nil {
					return err
				}
			}
			return nil
		}
	default:
		src := reflect.ValueOf(v)
		if src.IsValid() && scalarFits(src, dst) {
			dst.Set(src.Convert(dst.Type()))
			return nil
		}
	}
	return fmt.Errorf("a %s cannot hold a %T", dst.Type(), v)
}

// scalarFits keeps reflect's conversions to those that keep the value: it would also make a number
// a string of one rune.
func scalarFits(src, dst reflect.Value) bool {
	switch src.Kind() {
	case reflect.Int64:
		return dst.CanInt() && !dst.OverflowInt(src.Int())
	case reflect.Float64:
		return dst.CanFloat()
	case reflect.String, reflect.Bool, reflect.Struct, reflect.Slice:
		return src.Kind() == dst.Kind() && src.Type().ConvertibleTo(dst.Type())
	}
	return false
}

func (s *Service) setStruct(dst reflect.Value, tree map[string]any) error {
	fields := s.fieldsOf(dst.Type())
	for name, v := range tree {
		i, ok := fields[name]
		if !ok {
			return fmt.Errorf("%s has no member %s", dst.Type(), name)
		}
		if err := s.set(dst.Field(i), v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (s *Service) setMap(dst reflect.Value, tree map[string]any) error {
	m := reflect.MakeMapWithSize(dst.Type(), len(tree))
	for k, v := range tree {
		e := reflect.New(dst.Type().Elem()).Elem()
		if err := s.set(e, v); err != nil {
			return fmt.Errorf("key %q: %w", k, err)
		}
		m.SetMapIndex(reflect.ValueOf(k).Convert(dst.Type().Key()), e)
	}
	dst.Set(m)
	return nil
}

// structure makes the tree of a Go value of a structure shape. Members that are absent are left
// out, save required lists, which become empty ones: a client expects to see them.
func (s *Service) structure(sh *models.Shape, v any) (map[string]any, error) {
	out, err := s.tree(sh, reflect.ValueOf(v))
	if err != nil {
		return nil, err
	}
	if out == nil {
		out, _ = s.tree(sh, reflect.ValueOf(map[string]any{}))
	}
	return out.(map[string]any), nil
}

// tree makes the tree of a value, nil where there is none.
func (s *Service) tree(sh *models.Shape, v reflect.Value) (any, error) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return nil, nil
		}
		v = v.Elem()
	}
	if !v.IsValid() {
		return nil, nil
	}
	switch sh.Type {
	case "structure":
		return s.structTree(sh, v)
	case "list":
		if v.Kind() != reflect.Slice {
			return nil, fmt.Errorf("%s is a list; a %s cannot be one", sh.Name, v.Type())
		}
		return s.listTree(sh, v)
	case "map":
		if v.Kind() != reflect.Map || v.Type().Key().Kind() != reflect.String {
			return nil, fmt.Errorf("%s is a map; a %s cannot be one", sh.Name, v.Type())
		}
		return s.mapTree(sh.Value.Shape, v)
	}
	return scalarTree(sh, v)
}

func (s *Service) structTree(sh *models.Shape, v reflect.Value) (any, error) {
	var member func(name string) reflect.Value // invalid where absent
	switch {
	case v.Kind() == reflect.Struct:
		fields := s.fieldsOf(v.Type())
		for name := range fields {
			if sh.Members[name] == nil {
				return nil, fmt.Errorf("%s has no member %s, which %s has", sh.Name, name, v.Type())
			}
		}
		member = func(name string) reflect.Value {
			if i, ok := fields[name]; ok {
				return v.Field(i)
			}
			return reflect.Value{}
		}
	case v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String:
		member = func(name string) reflect.Value { return v.MapIndex(reflect.ValueOf(name).Convert(v.Type().Key())) }
	default:
		return nil, fmt.Errorf("%s is a structure; a %s cannot be one", sh.Name, v.Type())
	}
	out := map[string]any{}
	for _, name := range sh.MemberNames {
		m := sh.Members[name]
		t, err := s.tree(m.Shape, member(name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if t == nil && m.Shape.Type == "list" && !m.Flattened && m.Location == "" && isRequired(sh, name) {
			t = []any{}
		}
		if t != nil {
			out[name] = t
		}
	}
	return out, nil
}

func (s *Service) listTree(sh *models.Shape, v reflect.Value) (any, error) {
	if v.IsNil() {
		return nil, nil
	}
	out := make([]any, 0, v.Len())
	for i := range v.Len() {
		e, err := s.tree(sh.Member.Shape, v.Index(i))
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		if e == nil {
			return nil, fmt.Errorf("element %d is nil", i)
		}
		out = append(out, e)
	}
	return out, nil
}

func (s *Service) mapTree(value *models.Shape, v reflect.Value) (any, error) {
	if v.IsNil() {
		return nil, nil
	}
	out := make(map[string]any, v.Len())
	for it := v.MapRange(); it.Next(); {
		e, err := s.tree(value, it.Value())
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", it.Key(), err)
		}
		if e != nil {
			out[it.Key().String()] = e
		}
	}
	return out, nil
}

// scalarTree makes the tree of a scalar. Numbers and times that came through JSON into an untyped
// map are accepted too.
func scalarTree(sh *models.Shape, v reflect.Value) (any, error) {
	misfit := func() (any, error) {
		return nil, fmt.Errorf("%s is a %s; a %s cannot be one", sh.Name, sh.Type, v.Type())
	}
	switch sh.Type {
	case "boolean":
		if v.Kind() == reflect.Bool {
			return v.Bool(), nil
		}
	case "integer", "long":
		switch {
		case v.CanInt():
			return v.Int(), nil
		case v.CanFloat() && v.Float() == float64(int64(v.Float())):
			return int64(v.Float()), nil
		}
	case "float", "double":
		switch {
		case v.CanFloat():
			return v.Float(), nil
		case v.CanInt():
			return float64(v.Int()), nil
		}
	case "timestamp":
		if t, ok := v.Interface().(time.Time); ok {
			return t, nil
		}
		if v.Kind() == reflect.String {
			if t, ok := parseTime("", v.String()); ok {
				return t, nil
			}
		}
	case "blob":
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
			if v.IsNil() {
				return nil, nil
			}
			return v.Bytes(), nil
		}
		if v.Kind() == reflect.String {
			return []byte(v.String()), nil
		}
	default:
		if v.Kind() == reflect.String {
			return v.String(), nil
		}
	}
	return misfit()
}
