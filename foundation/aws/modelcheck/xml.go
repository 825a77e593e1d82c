package modelcheck

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
)

// element is an XML element.
type element struct {
	name, namespace string
	text            string
	children        []*element
}

func (e *element) child(name string) *element {
	for _, c := range e.children {
		if c.name == name {
			return c
		}
	}
	return nil
}

// parseXML reads a document of one element.
func parseXML(body []byte) (*element, error) {
	d := xml.NewDecoder(bytes.NewReader(body))
	top := &element{}
	stack := []*element{top}
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		last := stack[len(stack)-1]
		switch t := tok.(type) {
		case xml.StartElement:
			e := &element{name: t.Name.Local, namespace: t.Name.Space}
			last.children = append(last.children, e)
			stack = append(stack, e)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			last.text += string(t)
		}
	}
	if len(top.children) != 1 {
		return nil, fmt.Errorf("%d root elements", len(top.children))
	}
	return top.children[0], nil
}
