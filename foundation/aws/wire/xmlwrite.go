package wire

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/mulgadc/spinifex/foundation/aws/models"
)

// xmlError writes the ErrorResponse that query and REST-XML services share. Members of a modelled
// exception stand beside code and message.
func xmlError(namespace string, f *failure, requestID string) *answer {
	var b xmlBuffer
	b.declare()
	b.open("ErrorResponse", namespace)
	b.errorElement(f)
	b.text("RequestId", requestID)
	b.close("ErrorResponse")
	return &answer{status: f.status, header: xmlHeader(), body: b.Bytes()}
}

func (b *xmlBuffer) errorElement(f *failure) {
	b.open("Error", "")
	b.text("Type", f.sender())
	b.text("Code", f.code)
	b.text("Message", f.message)
	if f.shape != nil {
		rest := make(map[string]any, len(f.detail))
		for k, v := range f.detail {
			if !strings.EqualFold(k, "message") {
				rest[k] = v
			}
		}
		mark := b.Len()
		if b.members(f.shape, rest) != nil {
			b.Truncate(mark)
		}
	}
	b.close("Error")
}

func xmlHeader() http.Header { return http.Header{"Content-Type": {"text/xml"}} }

// xmlBuffer writes XML. Element names come from the model, which has only plain ones.
type xmlBuffer struct{ bytes.Buffer }

func (b *xmlBuffer) declare() { b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n") }

func (b *xmlBuffer) open(name, namespace string) {
	b.WriteByte('<')
	b.WriteString(name)
	if namespace != "" {
		b.attr("xmlns", namespace)
	}
	b.WriteByte('>')
}

func (b *xmlBuffer) attr(name, value string) {
	b.WriteByte(' ')
	b.WriteString(name)
	b.WriteString(`="`)
	_ = xml.EscapeText(b, []byte(value)) // a buffer does not fail
	b.WriteByte('"')
}

func (b *xmlBuffer) close(name string) {
	b.WriteString("</")
	b.WriteString(name)
	b.WriteByte('>')
}

func (b *xmlBuffer) text(name, value string) {
	b.open(name, "")
	_ = xml.EscapeText(b, []byte(value)) // a buffer does not fail
	b.close(name)
}

// members writes the members of a structure that are in the body, in the order of their names.
func (b *xmlBuffer) members(sh *models.Shape, tree map[string]any) error {
	for _, name := range sh.MemberNames {
		m := sh.Members[name]
		v, ok := tree[name]
		if !ok || m.Location != "" || m.XMLAttribute {
			continue
		}
		if err := b.value(m, bodyName(name, m), v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// value writes one member as the element called name, or as several where it is flattened.
func (b *xmlBuffer) value(m *models.Ref, name string, v any) error {
	switch m.Shape.Type {
	case "structure":
		tree, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("a structure cannot be a %T", v)
		}
		if err := b.openStructure(m, name, tree); err != nil {
			return err
		}
		if err := b.members(m.Shape, tree); err != nil {
			return err
		}
		b.close(name)
	case "list":
		return b.list(m, name, v)
	case "map":
		return b.mapping(m, name, v)
	default:
		text, err := formatScalar(m.Shape, formatOr(m, "iso8601"), v)
		if err != nil {
			return err
		}
		b.text(name, text)
	}
	return nil
}

// openStructure writes a structure's start tag with its namespace and attributes.
func (b *xmlBuffer) openStructure(m *models.Ref, name string, tree map[string]any) error {
	b.WriteByte('<')
	b.WriteString(name)
	if ns := m.XMLNamespace; ns != nil {
		attr := "xmlns"
		if ns.Prefix != "" {
			attr += ":" + ns.Prefix
		}
		b.attr(attr, ns.URI)
	}
	for _, n := range m.Shape.MemberNames {
		a := m.Shape.Members[n]
		if v, ok := tree[n]; ok && a.XMLAttribute {
			text, err := formatScalar(a.Shape, formatOr(a, "iso8601"), v)
			if err != nil {
				return fmt.Errorf("%s: %w", n, err)
			}
			b.attr(bodyName(n, a), text)
		}
	}
	b.WriteByte('>')
	return nil
}

func (b *xmlBuffer) list(m *models.Ref, name string, v any) error {
	list, ok := v.([]any)
	if !ok {
		return fmt.Errorf("a list cannot be a %T", v)
	}
	element := name
	if !m.Flattened {
		b.open(name, "")
		element = listMember(m.Shape, "member")
	}
	for i, e := range list {
		if err := b.value(m.Shape.Member, element, e); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	if !m.Flattened {
		b.close(name)
	}
	return nil
}

func (b *xmlBuffer) mapping(m *models.Ref, name string, v any) error {
	entries, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("a map cannot be a %T", v)
	}
	key, value := mapNames(m.Shape)
	entry := name
	if !m.Flattened {
		b.open(name, "")
		entry = "entry"
	}
	for _, k := range slices.Sorted(maps.Keys(entries)) {
		b.open(entry, "")
		b.text(key, k)
		if err := b.value(m.Shape.Value, value, entries[k]); err != nil {
			return fmt.Errorf("key %q: %w", k, err)
		}
		b.close(entry)
	}
	if !m.Flattened {
		b.close(name)
	}
	return nil
}
