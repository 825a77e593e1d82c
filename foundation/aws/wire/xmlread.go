package wire

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"

	"github.com/mulgadc/spinifex/foundation/aws/models"
)

// xmlReader reads an XML body against a shape, element by element, so that nothing is kept that the
// model does not have.
type xmlReader struct {
	dec    *xml.Decoder
	index  map[*models.Shape]map[string]string
	limits Limits
	depth  int
	seen   int
}

// newXMLReader makes the reader of a body, which may begin with the byte order mark of UTF-8.
func (s *Service) newXMLReader(body []byte) *xmlReader {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	return &xmlReader{dec: xml.NewDecoder(bytes.NewReader(body)), index: s.index, limits: s.limits}
}

// next returns the next start or end of an element, or the text between; comments are left out.
func (x *xmlReader) next() (xml.Token, error) {
	for {
		tok, err := x.dec.Token()
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		if err != nil {
			return nil, malformedf("The XML you provided was not well-formed.")
		}
		switch t := tok.(type) {
		case xml.StartElement:
			x.depth++
			x.seen += 1 + len(t.Attr)
			if x.depth > x.limits.Depth {
				return nil, malformedf("The XML you provided is nested deeper than %d levels.", x.limits.Depth)
			}
			if x.seen > x.limits.Members {
				return nil, malformedf("The XML you provided has more than %d elements.", x.limits.Members)
			}
			return t, nil
		case xml.EndElement:
			x.depth--
			return t, nil
		case xml.CharData:
			return t, nil
		case xml.Directive:
			return nil, malformedf("The XML you provided has a document type declaration, which is not accepted.")
		}
	}
}

// root returns the document's one element; what may stand before it is passed over.
func (x *xmlReader) root() (xml.StartElement, error) {
	for {
		tok, err := x.next()
		if errors.Is(err, io.EOF) {
			return xml.StartElement{}, malformedf("The XML you provided has no element.")
		}
		if err != nil {
			return xml.StartElement{}, err
		}
		switch t := tok.(type) {
		case xml.StartElement:
			return t, nil
		case xml.CharData:
			if !blank(t) {
				return xml.StartElement{}, malformedf("The XML you provided has text outside its element.")
			}
		}
	}
}

// end checks that nothing follows the document's element.
func (x *xmlReader) end() error {
	for {
		tok, err := x.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if text, ok := tok.(xml.CharData); !ok || !blank(text) {
			return malformedf("The XML you provided has more than one element.")
		}
	}
}

func blank(text []byte) bool { return len(bytes.TrimSpace(text)) == 0 }

// value reads the element that start opened. prev is what earlier elements of a flattened list or
// map have given.
func (x *xmlReader) value(m *models.Ref, start xml.StartElement, prev any) (any, error) {
	switch m.Shape.Type {
	case "structure":
		return x.structure(m.Shape, start)
	case "list":
		if m.Flattened {
			v, err := x.value(m.Shape.Member, start, nil)
			list, _ := prev.([]any)
			return append(list, v), err
		}
		return x.list(m.Shape, start)
	case "map":
		entries, ok := prev.(map[string]any)
		if !ok {
			entries = map[string]any{}
		}
		if m.Flattened {
			return entries, x.entry(m.Shape, start, entries)
		}
		return entries, x.entries(m.Shape, start, entries)
	}
	text, err := x.text(start)
	if err != nil {
		return nil, err
	}
	return parseScalar(m.Shape, formatOr(m, "iso8601"), text), nil
}

// children calls f for each element inside the one that start opened, and returns after its end. The
// decoder takes care that there is one.
func (x *xmlReader) children(start xml.StartElement, f func(xml.StartElement) error) error {
	for {
		tok, err := x.next()
		if err != nil {
			return err
		}
		switch t := tok.(type) {
		case xml.EndElement:
			return nil
		case xml.StartElement:
			if err := f(t); err != nil {
				return err
			}
		case xml.CharData:
			if !blank(t) {
				return invalidf("Invalid XML ; element %q has text where elements belong.", clip(start.Name.Local))
			}
		}
	}
}

func (x *xmlReader) structure(sh *models.Shape, start xml.StartElement) (map[string]any, error) {
	out := map[string]any{}
	for _, name := range sh.MemberNames {
		m := sh.Members[name]
		if !m.XMLAttribute {
			continue
		}
		want := bodyName(name, m)
		want = want[strings.LastIndexByte(want, ':')+1:]
		for _, a := range start.Attr {
			if a.Name.Local == want && a.Name.Space != "xmlns" {
				out[name] = parseScalar(m.Shape, formatOr(m, "iso8601"), a.Value)
			}
		}
	}
	err := x.children(start, func(el xml.StartElement) error {
		name, ok := x.index[sh][el.Name.Local]
		if !ok || sh.Members[name].XMLAttribute {
			return invalidf("Invalid XML ; element %q is not known in %q.", clip(el.Name.Local), clip(start.Name.Local))
		}
		m := sh.Members[name]
		prev, again := out[name]
		if again && !m.Flattened {
			return invalidf("Invalid XML ; element %q stands twice in %q.", clip(el.Name.Local), clip(start.Name.Local))
		}
		v, err := x.value(m, el, prev)
		out[name] = v
		return err
	})
	return out, err
}

func (x *xmlReader) list(sh *models.Shape, start xml.StartElement) ([]any, error) {
	want := listMember(sh, "member")
	out := []any{}
	err := x.children(start, func(el xml.StartElement) error {
		if el.Name.Local != want {
			return invalidf("Invalid XML ; element %q is not known in %q; %q is expected.", clip(el.Name.Local), clip(start.Name.Local), want)
		}
		v, err := x.value(sh.Member, el, nil)
		out = append(out, v)
		return err
	})
	return out, err
}

func (x *xmlReader) entries(sh *models.Shape, start xml.StartElement, out map[string]any) error {
	return x.children(start, func(el xml.StartElement) error {
		if el.Name.Local != "entry" {
			return invalidf("Invalid XML ; element %q is not known in %q; \"entry\" is expected.", clip(el.Name.Local), clip(start.Name.Local))
		}
		return x.entry(sh, el, out)
	})
}

// entry reads one key and value.
func (x *xmlReader) entry(sh *models.Shape, start xml.StartElement, out map[string]any) error {
	keyName, valueName := mapNames(sh)
	var key *string
	var value any
	err := x.children(start, func(el xml.StartElement) error {
		var err error
		switch {
		case el.Name.Local == keyName && key == nil:
			var text string
			text, err = x.text(el)
			key = &text
		case el.Name.Local == valueName && value == nil:
			value, err = x.value(sh.Value, el, nil)
		default:
			err = invalidf("Invalid XML ; element %q does not belong in %q.", clip(el.Name.Local), clip(start.Name.Local))
		}
		return err
	})
	if err != nil {
		return err
	}
	if key == nil || value == nil {
		return invalidf("Invalid XML ; %q needs %q and %q.", clip(start.Name.Local), keyName, valueName)
	}
	if _, twice := out[*key]; twice {
		return invalidf("Invalid XML ; the key %q stands twice.", clip(*key))
	}
	out[*key] = value
	return nil
}

// text reads an element that holds text alone.
func (x *xmlReader) text(start xml.StartElement) (string, error) {
	var b strings.Builder
	for {
		tok, err := x.next()
		if err != nil {
			return "", err
		}
		switch t := tok.(type) {
		case xml.EndElement:
			return b.String(), nil
		case xml.CharData:
			b.Write(t)
		case xml.StartElement:
			return "", invalidf("Invalid XML ; element %q holds element %q where text belongs.", clip(start.Name.Local), clip(t.Name.Local))
		}
	}
}
