package wire_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	sdkaws "github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/aws/client"
	"github.com/aws/aws-sdk-go/aws/credentials"
	"github.com/aws/aws-sdk-go/aws/defaults"
	sdkroute53 "github.com/aws/aws-sdk-go/service/route53"
	sdksts "github.com/aws/aws-sdk-go/service/sts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mulgadc/spinifex/foundation/aws/api/route53"
	"github.com/mulgadc/spinifex/foundation/aws/api/sts"
	"github.com/mulgadc/spinifex/foundation/aws/models"
	"github.com/mulgadc/spinifex/foundation/aws/wire"
)

const requestID = "c5b1a1f0-0000-4000-8000-000000000001"

// transport is an AWS SDK client's connection to a Service without a network between.
type transport func(w http.ResponseWriter, r *http.Request, body []byte)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	w := httptest.NewRecorder()
	f(w, r, body)
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

// ClientConfig makes the transport an SDK session, without the settings that a real one takes from
// the environment.
func (f transport) ClientConfig(service string, _ ...*sdkaws.Config) client.Config {
	return client.Config{
		Config: &sdkaws.Config{
			Region:      sdkaws.String("us-east-1"),
			Credentials: credentials.NewStaticCredentials("AKIA", "secret", ""),
			HTTPClient:  &http.Client{Transport: f},
			MaxRetries:  sdkaws.Int(0),
			// The server's validation is what is tested.
			DisableParamValidation: sdkaws.Bool(true),
		},
		Handlers:      defaults.Handlers(),
		Endpoint:      "http://cloud.example.test",
		SigningRegion: "us-east-1",
		SigningName:   service,
	}
}

func load(t require.TestingT, name string) *wire.Service {
	s, err := wire.Load(name, wire.Limits{})
	require.NoError(t, err)
	return s
}

// Every served operation, called by the SDK with random inputs that the model allows, arrives as it
// was sent; random outputs that the model allows arrive at the SDK as they were answered.
func TestSDKRoundTrip(t *testing.T) {
	for _, svc := range []struct {
		model      string
		operations []string
		client     func(transport) any
	}{
		{route53.Model, route53.Operations(), func(f transport) any { return sdkroute53.New(f) }},
		{sts.Model, sts.Operations(), func(f transport) any { return sdksts.New(f) }},
	} {
		s := load(t, svc.model)
		for _, name := range svc.operations {
			t.Run(svc.model+"/"+name, func(t *testing.T) {
				op := s.Model().Operations[name]
				rapid.Check(t, func(t *rapid.T) {
					method := reflect.ValueOf(svc.client(nil)).MethodByName(name)
					in := reflect.New(method.Type().In(0).Elem())
					wantIn := generate(t, op.Input.Shape, in.Elem(), "in")
					wantOut := generate(t, op.Output.Shape, reflect.New(method.Type().Out(0).Elem()).Elem(), "out")
					setSDK(t, in.Elem(), wantIn)

					gotIn := map[string]any{}
					client := svc.client(func(w http.ResponseWriter, r *http.Request, body []byte) {
						req, err := s.Match(r, body)
						require.NoError(t, err)
						assert.Equal(t, name, req.Operation.Name)
						require.NoError(t, s.Decode(req, &gotIn))
						require.NoError(t, s.Encode(w, name, wantOut, requestID))
					})
					results := reflect.ValueOf(client).MethodByName(name).Call([]reflect.Value{in})
					if err, ok := results[1].Interface().(error); ok {
						require.NoError(t, err)
					}
					assert.Equal(t, wantIn, gotIn)
					assert.Equal(t, wantOut, getSDK(results[0].Elem(), op.Output.Shape))
				})
			})
		}
	}
}

// The generated types hold what the generic tree holds.
func TestTypedAndUntypedAgree(t *testing.T) {
	s := load(t, "route53")
	op := s.Model().Operations["ChangeResourceRecordSets"]
	rapid.Check(t, func(t *rapid.T) {
		tree := generate(t, op.Input.Shape, reflect.ValueOf(route53.ChangeResourceRecordSetsRequest{}), "in")
		var typed route53.ChangeResourceRecordSetsRequest
		var untyped map[string]any
		c := sdkroute53.New(transport(func(w http.ResponseWriter, r *http.Request, body []byte) {
			req, err := s.Match(r, body)
			require.NoError(t, err)
			require.NoError(t, s.Decode(req, &typed))
			require.NoError(t, s.Decode(req, &untyped))
			require.NoError(t, s.Encode(w, "ChangeResourceRecordSets", &route53.ChangeResourceRecordSetsResponse{}, requestID))
		}))
		var in sdkroute53.ChangeResourceRecordSetsInput
		setSDK(t, reflect.ValueOf(&in).Elem(), tree)
		_, err := c.ChangeResourceRecordSets(&in)
		require.NoError(t, err)
		assert.Equal(t, tree, untyped)
		assert.Equal(t, tree, getSDK(reflect.ValueOf(typed), op.Input.Shape))
	})
}

// generate makes a random tree that the model allows, with members that the Go type like has too:
// the SDK's types are older than the model.
func generate(t *rapid.T, sh *models.Shape, like reflect.Value, path string) map[string]any {
	out := map[string]any{}
	for _, name := range sh.MemberNames {
		field := like.FieldByName(exported(name))
		required := false
		for _, r := range sh.Required {
			required = required || r == name
		}
		if !field.IsValid() || !required && !rapid.Bool().Draw(t, path+"."+name+"?") {
			continue
		}
		ft := field.Type()
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		out[name] = generateValue(t, sh.Members[name], ft, path+"."+name)
	}
	return out
}

func generateValue(t *rapid.T, m *models.Ref, like reflect.Type, path string) any {
	sh := m.Shape
	minimum, maximum := limit(sh.Min, 0), limit(sh.Max, 8)
	switch sh.Type {
	case "structure":
		return generate(t, sh, reflect.New(like).Elem(), path)
	case "list":
		// At least one: the SDK reads an empty list as none.
		n := rapid.IntRange(int(max(minimum, 1)), int(min(maximum, minimum+3))).Draw(t, path+"#")
		elem := like.Elem()
		if elem.Kind() == reflect.Pointer {
			elem = elem.Elem()
		}
		list := []any{}
		for i := range n {
			list = append(list, generateValue(t, sh.Member, elem, fmt.Sprintf("%s[%d]", path, i)))
		}
		return list
	case "boolean":
		return rapid.Bool().Draw(t, path)
	case "integer", "long":
		return rapid.Int64Range(minimum, max(minimum, limit(sh.Max, 1<<31-1))).Draw(t, path)
	case "timestamp":
		return time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, path)).UTC()
	}
	if len(sh.Enum) > 0 {
		return rapid.SampledFrom(sh.Enum).Draw(t, path)
	}
	if sh.Name == "IPAddress" {
		return rapid.SampledFrom([]string{"192.0.2.1", "2001:db8:0:0:0:0:0:1"}).Draw(t, path)
	}
	if sh.Pattern != "" || m.Location == "header" {
		return rapid.StringMatching(patternFor(sh, minimum)).Draw(t, path)
	}
	if m.Location == "uri" {
		minimum = 1
	}
	text := rapid.StringOfN(rapid.RuneFrom(nil, unicode.Letter, unicode.Digit, unicode.Punct, unicode.Symbol, unicode.Zs), int(minimum), int(min(maximum, minimum+8)), -1).Draw(t, path)
	if m.Location == "uri" && m.LocationName == "Id" {
		text = strings.ReplaceAll(text, "/", "_") // the SDK takes what is before a slash off
	}
	if m.Location == "uri" && (text == "." || text == "..") {
		text = "dot"
	}
	return text
}

// patternFor returns a pattern whose texts satisfy the shape.
func patternFor(sh *models.Shape, minimum int64) string {
	switch sh.Name {
	case "ResourceURI":
		return `https://[a-z]{1,8}/[A-Z0-9%]{1,8}`
	case "Latitude", "Longitude":
		return `-?[0-9]{1,2}\.[0-9]{1,2}`
	case "UUID":
		return `[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}`
	}
	return fmt.Sprintf(`[0-9A-Za-z_-]{%d,%d}`, max(minimum, 1), max(minimum, 1)+3)
}

func limit(f *float64, otherwise int64) int64 {
	if f == nil {
		return otherwise
	}
	return int64(*f)
}

func exported(name string) string {
	if name == "" {
		return ""
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// setSDK fills a struct of pointers from a tree.
func setSDK(t require.TestingT, dst reflect.Value, v any) {
	if dst.Kind() == reflect.Pointer {
		dst.Set(reflect.New(dst.Type().Elem()))
		setSDK(t, dst.Elem(), v)
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v {
			setSDK(t, dst.FieldByName(exported(name)), e)
		}
	case []any:
		dst.Set(reflect.MakeSlice(dst.Type(), len(v), len(v)))
		for i, e := range v {
			setSDK(t, dst.Index(i), e)
		}
	default:
		src := reflect.ValueOf(v)
		require.True(t, src.CanConvert(dst.Type()), "%T into %s", v, dst.Type())
		dst.Set(src.Convert(dst.Type()))
	}
}

// getSDK is the tree of a struct of pointers.
func getSDK(v reflect.Value, sh *models.Shape) any {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	switch sh.Type {
	case "structure":
		out := map[string]any{}
		for _, name := range sh.MemberNames {
			if f := v.FieldByName(exported(name)); f.IsValid() {
				if e := getSDK(f, sh.Members[name].Shape); e != nil {
					out[name] = e
				}
			}
		}
		return out
	case "list":
		if v.IsNil() {
			return nil
		}
		out := []any{}
		for i := range v.Len() {
			out = append(out, getSDK(v.Index(i), sh.Member.Shape))
		}
		return out
	case "integer", "long":
		return v.Int()
	case "timestamp":
		return v.Interface().(time.Time).UTC()
	}
	return v.Interface()
}
