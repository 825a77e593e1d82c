package modelcheck

import (
	"slices"
	"strings"

	"github.com/mulgadc/spinifex/foundation/aws/models"
)

// common are the codes that AWS's services answer beside the modelled ones.
func common() []string {
	return []string{
		"AccessDenied", "AccessDeniedException", "ExpiredToken", "IncompleteSignature", "InternalFailure", "InvalidAction", "InvalidClientTokenId",
		"InvalidInput", "InvalidParameterCombination", "InvalidParameterValue", "MalformedInput", "MalformedQueryString", "MissingAction",
		"MissingAuthenticationToken", "MissingParameter", "OptInRequired", "RequestEntityTooLarge", "RequestExpired", "SerializationException",
		"ServiceUnavailable", "SignatureDoesNotMatch", "Throttling", "ThrottlingException", "UnknownOperationException", "UnrecognizedClientException",
		"ValidationError", "ValidationException",
	}
}

// failure judges an error answer: its form, and its code and status against the model.
func (c *check) failure(status int, body []byte) {
	root := c.parse(body)
	if root == nil {
		return
	}
	if root.child("RequestId") == nil {
		c.add(Required, "<RequestId>")
	}
	el := root.child("Error")
	if el == nil {
		c.add(Body, "<%s> without <Error>", root.name)
		return
	}
	text := map[string]string{}
	for _, n := range []string{"Type", "Code", "Message"} {
		e := el.child(n)
		if e == nil || e.text == "" {
			c.add(Required, "<Error><%s>", n)
			continue
		}
		text[n] = e.text
	}
	wantType := "Sender"
	if status >= 500 {
		wantType = "Receiver"
	}
	if text["Type"] != "" && text["Type"] != wantType {
		c.add(Enum, "<Type>%s with status %d", text["Type"], status)
	}
	c.errorCode(text["Code"], status)
	c.errorRoot(root, text["Code"])
}

func (c *check) errorCode(code string, status int) {
	var modelled []string
	for _, r := range c.op.Errors {
		if r.Shape.ErrorCode() == code {
			if want := r.Shape.ErrorStatus(); want != status {
				c.add(Error, "%s with status %d, the model says %d", code, status, want)
			}
			return
		}
		modelled = append(modelled, r.Shape.ErrorCode())
	}
	if code != "" && !slices.Contains(common(), code) {
		c.add(Error, "%s (%d) is not modelled; modelled: %s", code, status, strings.Join(modelled, ", "))
	}
}

// errorRoot judges the root element: ErrorResponse, or the code of an error that lists its messages.
func (c *check) errorRoot(root *element, code string) {
	var sh *models.Shape
	for _, r := range c.op.Errors {
		if m := r.Shape.Members["messages"]; r.Shape.ErrorCode() == code && m != nil {
			sh = r.Shape
		}
	}
	if sh == nil {
		if root.name != "ErrorResponse" {
			c.add(Body, "root <%s>, the protocol says <ErrorResponse>", root.name)
		}
		return
	}
	if root.name != code {
		c.add(Body, "root <%s>, the protocol says <%s>", root.name, code)
	}
	list := root.child("Messages")
	if list == nil || len(list.children) == 0 {
		c.add(Required, "<Messages><Message>")
		return
	}
	for _, e := range list.children {
		if e.name != "Message" {
			c.add(Unknown, "<Messages><%s>, the model says <Message>", e.name)
		}
	}
}
