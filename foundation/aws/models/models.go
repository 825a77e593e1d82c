package models

import (
	"compress/gzip"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

//go:embed *.json.gz
var files embed.FS

// ErrUnknownService is returned by Load for a service that has no model here.
var ErrUnknownService = errors.New("no API model of this service")

// Service is the model of one service's API.
type Service struct {
	Metadata   Metadata              `json:"metadata"`
	Operations map[string]*Operation `json:"operations"`
	Shapes     map[string]*Shape     `json:"shapes"`
}

// Metadata says how the service is reached.
type Metadata struct {
	APIVersion     string `json:"apiVersion"`
	EndpointPrefix string `json:"endpointPrefix"`
	// GlobalEndpoint is set for a service with one endpoint for all regions.
	GlobalEndpoint string `json:"globalEndpoint"`
	// JSONVersion and TargetPrefix belong to the json protocol.
	JSONVersion  string `json:"jsonVersion"`
	TargetPrefix string `json:"targetPrefix"`
	// Protocol is "query", "ec2", "json", "rest-json" or "rest-xml".
	Protocol        string `json:"protocol"`
	ServiceFullName string `json:"serviceFullName"`
	ServiceID       string `json:"serviceId"`
	SigningName     string `json:"signingName"`
	XMLNamespace    string `json:"xmlNamespace"`
}

// Signing returns the service name of the SigV4 credential scope.
func (m Metadata) Signing() string {
	if m.SigningName != "" {
		return m.SigningName
	}
	return m.EndpointPrefix
}

// Operation is one API operation. Input and Output are nil where there is none.
type Operation struct {
	Name     string `json:"name"`
	HTTP     HTTP   `json:"http"`
	Input    *Ref   `json:"input"`
	Output   *Ref   `json:"output"`
	Errors   []*Ref `json:"errors"`
	AuthType string `json:"authtype"`
}

// HTTP is the request line of an operation and the status of its good answer.
type HTTP struct {
	Method string `json:"method"`
	// RequestURI is a path template with {Label} and {Label+}, with a query part in some models.
	RequestURI string `json:"requestUri"`
	// ResponseCode is 0 where the model says nothing; that means 200.
	ResponseCode int `json:"responseCode"`
}

// Traits are the attributes that a shape and a reference to it can both carry.
type Traits struct {
	// Location is where a member of a REST input or output is: "" (body), "uri", "querystring",
	// "header", "headers" (a map by prefix) or "statusCode".
	Location     string     `json:"location"`
	LocationName string     `json:"locationName"`
	QueryName    string     `json:"queryName"`
	Flattened    bool       `json:"flattened"`
	XMLAttribute bool       `json:"xmlAttribute"`
	XMLNamespace *Namespace `json:"xmlNamespace"`
	// TimestampFormat is "iso8601", "rfc822" or "unixTimestamp"; "" means the protocol's default.
	TimestampFormat  string `json:"timestampFormat"`
	IdempotencyToken bool   `json:"idempotencyToken"`
	Streaming        bool   `json:"streaming"`
	JSONValue        bool   `json:"jsonvalue"`
	// ResultWrapper is the element that a query answer is wrapped in.
	ResultWrapper string `json:"resultWrapper"`
	// Payload names the member that is the whole body of a REST input or output.
	Payload string `json:"payload"`
}

// Namespace is an XML namespace; some models give a bare string for it.
type Namespace struct {
	URI    string `json:"uri"`
	Prefix string `json:"prefix"`
}

// UnmarshalJSON reads either form.
func (n *Namespace) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &n.URI)
	}
	type plain Namespace
	return json.Unmarshal(b, (*plain)(n))
}

// Ref is a reference to a shape, with the traits of the place it stands at. After loading, each
// trait that the place leaves open has the shape's value.
type Ref struct {
	ShapeName string `json:"shape"`
	Traits
	Shape *Shape `json:"-"`
	// LocalName is the locationName given at this place, "" where only the shape has one.
	LocalName string `json:"-"`
}

// Shape is one type of the model.
type Shape struct {
	Name string `json:"-"`
	// Type is "structure", "list", "map", "string", "boolean", "integer", "long", "float",
	// "double", "timestamp", "blob" or "character".
	Type string `json:"type"`
	Traits
	// Members of a structure; MemberNames has their names in order, which is the order they are
	// written in.
	Members     map[string]*Ref `json:"members"`
	MemberNames []string        `json:"-"`
	Required    []string        `json:"required"`
	// Member is a list's element; Key and Value are a map's.
	Member *Ref `json:"member"`
	Key    *Ref `json:"key"`
	Value  *Ref `json:"value"`
	// Enum lists the legal values of a string.
	Enum []string `json:"enum"`
	// Min and Max bound a number, the length of a string (in characters) or blob (in bytes), or
	// the number of elements of a list or map.
	Min     *float64 `json:"min"`
	Max     *float64 `json:"max"`
	Pattern string   `json:"pattern"`
	// Exception is true of an error; Error has its code and status where the model gives them.
	Exception bool       `json:"exception"`
	Fault     bool       `json:"fault"`
	Error     *ErrorInfo `json:"error"`
	Sensitive bool       `json:"sensitive"`
	// Document marks a structure of free JSON.
	Document bool `json:"document"`
}

// ErrorInfo is what the model says of an error on the wire.
type ErrorInfo struct {
	Code           string `json:"code"`
	HTTPStatusCode int    `json:"httpStatusCode"`
	SenderFault    bool   `json:"senderFault"`
}

// Load reads the model of a service by its file name without endings, such as "route53". It reads
// and resolves the model at each call, some milliseconds: a caller keeps what it gets.
func Load(service string) (*Service, error) {
	f, err := files.Open(service + ".json.gz")
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
			return nil, fmt.Errorf("model %q: %w", service, ErrUnknownService)
		}
		return nil, fmt.Errorf("model %q: open: %w", service, err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("model %q: unpack: %w", service, err)
	}
	var doc struct {
		Service *Service `json:"service"`
	}
	if err := json.NewDecoder(z).Decode(&doc); err != nil {
		return nil, fmt.Errorf("model %q: decode: %w", service, err)
	}
	if doc.Service == nil {
		return nil, fmt.Errorf("model %q: no service in it", service)
	}
	if err := doc.Service.Resolve(); err != nil {
		return nil, fmt.Errorf("model %q: %w", service, err)
	}
	return doc.Service, nil
}

// Names returns the names that Load knows, sorted.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil // an embedded root directory can always be read
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".json.gz"))
	}
	return names
}

// Resolve links the references of a model that was decoded from JSON and fills the derived
// fields. Load has done it; it is for models from elsewhere, such as protocol test vectors.
func (s *Service) Resolve() error {
	for name, sh := range s.Shapes {
		sh.Name = name
		sh.MemberNames = slices.Sorted(maps.Keys(sh.Members))
		for _, r := range []*Ref{sh.Member, sh.Key, sh.Value} {
			if err := s.link(r, name); err != nil {
				return err
			}
		}
		for m, r := range sh.Members {
			if err := s.link(r, name+"."+m); err != nil {
				return err
			}
		}
		for _, m := range sh.Required {
			if sh.Members[m] == nil {
				return fmt.Errorf("shape %s requires %s, which it does not have", name, m)
			}
		}
	}
	for name, op := range s.Operations {
		for _, r := range append([]*Ref{op.Input, op.Output}, op.Errors...) {
			if err := s.link(r, "operation "+name); err != nil {
				return err
			}
		}
	}
	return nil
}

// link resolves one reference. at is the place, for the error.
func (s *Service) link(r *Ref, at string) error {
	if r == nil {
		return nil
	}
	sh := s.Shapes[r.ShapeName]
	if sh == nil {
		return fmt.Errorf("%s refers to shape %q, which the model does not have", at, r.ShapeName)
	}
	r.Shape = sh
	r.LocalName = r.LocationName
	r.inherit(sh.Traits)
	return nil
}

// inherit takes the shape's value for each trait that the reference leaves open.
func (r *Ref) inherit(t Traits) {
	take := func(dst *string, src string) {
		if *dst == "" {
			*dst = src
		}
	}
	take(&r.Location, t.Location)
	take(&r.LocationName, t.LocationName)
	take(&r.QueryName, t.QueryName)
	take(&r.TimestampFormat, t.TimestampFormat)
	take(&r.ResultWrapper, t.ResultWrapper)
	take(&r.Payload, t.Payload)
	if r.XMLNamespace == nil {
		r.XMLNamespace = t.XMLNamespace
	}
	r.Flattened = r.Flattened || t.Flattened
	r.XMLAttribute = r.XMLAttribute || t.XMLAttribute
	r.IdempotencyToken = r.IdempotencyToken || t.IdempotencyToken
	r.Streaming = r.Streaming || t.Streaming
	r.JSONValue = r.JSONValue || t.JSONValue
}

// ErrorCode returns the code that an exception has on the wire: the model's, or the shape's name.
func (sh *Shape) ErrorCode() string {
	if sh.Error != nil && sh.Error.Code != "" {
		return sh.Error.Code
	}
	return sh.Name
}

// ErrorStatus returns the HTTP status of an exception: the model's, or 400, or 500 for a fault.
func (sh *Shape) ErrorStatus() int {
	switch {
	case sh.Error != nil && sh.Error.HTTPStatusCode != 0:
		return sh.Error.HTTPStatusCode
	case sh.Fault:
		return 500
	}
	return 400
}
