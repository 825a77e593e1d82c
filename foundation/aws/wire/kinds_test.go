package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/aws/models"
)

// kindsModel has every type of shape in every place, which no served service has.
func kindsModel(t *testing.T, protocol string) *Service {
	t.Helper()
	const doc = `{"metadata":{"protocol":"%s","apiVersion":"1","xmlNamespace":"urn:kinds","endpointPrefix":"kinds"},
	"operations":{
		"Put":{"name":"Put","http":{"method":"PUT","requestUri":"/put/{Key+}"},"input":{"shape":"All","locationName":"PutRequest"},"output":{"shape":"Out"},"errors":[{"shape":"Full"}]},
		"Blob":{"name":"Blob","http":{"method":"POST","requestUri":"/blob"},"input":{"shape":"BlobBody"},"output":{"shape":"TextBody"}},
		"Doc":{"name":"Doc","http":{"method":"POST","requestUri":"/doc"},"input":{"shape":"DocBody"},"output":{"shape":"DocBody"}},
		"Acl":{"name":"Acl","http":{"method":"POST","requestUri":"/doc?acl"}},
		"Typed":{"name":"Typed","http":{"method":"POST","requestUri":"/doc?kind=typed"}}},
	"shapes":{
		"All":{"type":"structure","members":{
			"Key":{"shape":"Str","location":"uri","locationName":"Key"},"Head":{"shape":"Time","location":"header","locationName":"X-Head"},
			"Meta":{"shape":"StrMap","location":"headers","locationName":"X-Meta-"},"When":{"shape":"Unix","location":"querystring","locationName":"when"},"Rest":{"shape":"StrMap","location":"querystring"},
			"B":{"shape":"Bool"},"I":{"shape":"Int"},"L":{"shape":"Long"},"F":{"shape":"Float"},"D":{"shape":"Double"},"T":{"shape":"Time"},"X":{"shape":"Bin"},"C":{"shape":"Char"},
			"M":{"shape":"IntMap"},"FM":{"shape":"FlatMap"},"S":{"shape":"Nested"},"Secret":{"shape":"Secret"}}},
		"Nested":{"type":"structure","members":{"A":{"shape":"Str","xmlAttribute":true,"locationName":"n:a"},"E":{"shape":"Str"}},"xmlNamespace":{"prefix":"n","uri":"urn:n"}},
		"Out":{"type":"structure","required":["Names"],"members":{"Code":{"shape":"Int","location":"statusCode"},"Meta":{"shape":"StrMap","location":"headers","locationName":"X-Meta-"},"Date":{"shape":"Time","location":"header","locationName":"X-Date"},
			"D":{"shape":"Double"},"F":{"shape":"Float"},"Names":{"shape":"Strs"},"M":{"shape":"IntMap"},"X":{"shape":"Bin"}}},
		"BlobBody":{"type":"structure","payload":"Body","members":{"Body":{"shape":"Bin"}}},"TextBody":{"type":"structure","payload":"Body","members":{"Body":{"shape":"Str"}}},
		"DocBody":{"type":"structure","payload":"Doc","members":{"Doc":{"shape":"Inner","locationName":"Doc"}}},"Inner":{"type":"structure","members":{"N":{"shape":"Int"}}},
		"Full":{"type":"structure","exception":true,"fault":true,"members":{"message":{"shape":"Str"},"Needed":{"shape":"Int"},"Names":{"shape":"Strs"}}},
		"Strs":{"type":"list","member":{"shape":"Str"}},"StrMap":{"type":"map","key":{"shape":"Str"},"value":{"shape":"Str"}},"IntMap":{"type":"map","key":{"shape":"Short"},"value":{"shape":"Int"},"max":2},
		"FlatMap":{"type":"map","flattened":true,"key":{"shape":"Str","locationName":"k"},"value":{"shape":"Int","locationName":"v"}},
		"Str":{"type":"string"},"Short":{"type":"string","max":3},"Secret":{"type":"string","sensitive":true,"min":3,"pattern":"(?=x)y"},"Bool":{"type":"boolean"},"Int":{"type":"integer","max":100},"Long":{"type":"long"},"Float":{"type":"float"},"Double":{"type":"double","min":-1,"max":2},
		"Time":{"type":"timestamp"},"Unix":{"type":"timestamp","timestampFormat":"unixTimestamp"},"Bin":{"type":"blob","max":4},"Char":{"type":"character"}}}`
	var m models.Service
	require.NoError(t, json.Unmarshal([]byte(strings.Replace(doc, "%s", protocol, 1)), &m))
	require.NoError(t, m.Resolve())
	s, err := New(&m, Limits{})
	require.NoError(t, err)
	return s
}

// typedKinds is what the generator would make of shape All.
type typedKinds struct {
	Key    *string           `json:"Key,omitzero"`
	Head   *time.Time        `json:"Head,omitzero"`
	Meta   map[string]string `json:"Meta,omitzero"`
	When   *time.Time        `json:"When,omitzero"`
	Rest   map[string]string `json:"Rest,omitzero"`
	B      *bool             `json:"B,omitzero"`
	I      *int32            `json:"I,omitzero"`
	L      *int64            `json:"L,omitzero"`
	F      *float32          `json:"F,omitzero"`
	D      *float64          `json:"D,omitzero"`
	T      *time.Time        `json:"T,omitzero"`
	X      []byte            `json:"X,omitzero"`
	C      *string           `json:"C,omitzero"`
	M      map[string]int32  `json:"M,omitzero"`
	FM     map[string]int32  `json:"FM,omitzero"`
	S      *typedNested      `json:"S,omitzero"`
	Secret *string           `json:"Secret,omitzero"`
}

type typedNested struct {
	A *string `json:"A,omitzero"`
	E *string `json:"E,omitzero"`
}

const kindsBody = `<PutRequest xmlns="urn:kinds"><B>true</B><I>-7</I><L>9007199254740993</L><F>1.5</F><D>-0.25</D><T>2026-01-02T03:04:05.006Z</T><X>AAEC</X><C>é</C>` +
	`<M><entry><key>a</key><value>1</value></entry><entry><value>2</value><key>b</key></entry></M><FM><k>x</k><v>3</v></FM><FM><k>y</k><v>4</v></FM>` +
	`<S xmlns:n="urn:n" n:a="attr"><E>e</E></S></PutRequest>`

func kindsRequest(target, body string) *http.Request {
	r := httptest.NewRequest("PUT", target, strings.NewReader(body))
	r.Header.Set("X-Head", "Fri, 02 Jan 2026 03:04:05 GMT")
	r.Header.Set("X-Meta-One", " 1 ")
	return r
}

func TestEveryKindOverRESTXML(t *testing.T) {
	s := kindsModel(t, "rest-xml")
	assert.Equal(t, []string{"Secret"}, s.SkippedPatterns())
	req, err := s.Match(kindsRequest("/put/a/b%2Fc/?when=1767323045.5&color=red", kindsBody), []byte(kindsBody))
	require.NoError(t, err)
	var got typedKinds
	require.NoError(t, s.Decode(req, &got))
	second := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := typedKinds{
		Key: new("a/b/c/"), Head: &second, Meta: map[string]string{"one": "1"}, When: new(second.Add(500 * time.Millisecond)), Rest: map[string]string{"color": "red"},
		B: new(true), I: new(int32(-7)), L: new(int64(9007199254740993)), F: new(float32(1.5)), D: new(-0.25), T: new(second.Add(6 * time.Millisecond)), X: []byte{0, 1, 2}, C: new("é"),
		M: map[string]int32{"a": 1, "b": 2}, FM: map[string]int32{"x": 3, "y": 4}, S: &typedNested{A: new("attr"), E: new("e")},
	}
	assert.Equal(t, want, got)

	tree, err := s.structure(s.model.Shapes["All"], &got)
	require.NoError(t, err)
	var b xmlBuffer
	require.NoError(t, b.members(s.model.Shapes["All"], tree))
	assert.Equal(t, `<B>true</B><C>é</C><D>-0.25</D><F>1.5</F><FM><k>x</k><v>3</v></FM><FM><k>y</k><v>4</v></FM><I>-7</I><L>9007199254740993</L>`+
		`<M><entry><key>a</key><value>1</value></entry><entry><key>b</key><value>2</value></entry></M><S xmlns:n="urn:n" n:a="attr"><E>e</E></S>`+
		`<T>2026-01-02T03:04:05.006Z</T><X>AAEC</X>`, b.String())

	// The same through the JSON that gateway and daemons exchange.
	text, err := json.Marshal(got)
	require.NoError(t, err)
	var untyped map[string]any
	require.NoError(t, json.Unmarshal(text, &untyped))
	untyped["X"] = []byte{0, 1, 2}
	untyped["L"] = int64(9007199254740993) // beyond what an untyped JSON number holds
	again, err := s.structure(s.model.Shapes["All"], untyped)
	require.NoError(t, err)
	assert.Equal(t, tree, again)
}

func TestEveryKindIsValidated(t *testing.T) {
	s := kindsModel(t, "rest-xml")
	for body, want := range map[string]string{
		`<B>yes</B>`:                        `Value 'yes' at 'b' failed to satisfy constraint: Member must be true or false`,
		`<I>101</I>`:                        `Value '101' at 'i' failed to satisfy constraint: Member must have value less than or equal to 100`,
		`<I>2147483648</I>`:                 `Value '2147483648' at 'i' failed to satisfy constraint: Member must be a whole number from -2147483648 to 2147483647`,
		`<F>0x1p4</F>`:                      `Value '0x1p4' at 'f' failed to satisfy constraint: Member must be a number`,
		`<D>2.5</D>`:                        `Value '2.5' at 'd' failed to satisfy constraint: Member must have value less than or equal to 2`,
		`<D>-1.5</D>`:                       `Value '-1.5' at 'd' failed to satisfy constraint: Member must have value greater than or equal to -1`,
		`<D>NaN</D>`:                        `Value 'NaN' at 'd' failed to satisfy constraint: Member must have value greater than or equal to -1`,
		`<T>soon</T>`:                       `Value 'soon' at 't' failed to satisfy constraint: Member must be a timestamp such as 2006-01-02T15:04:05Z`,
		`<X>-</X>`:                          `Value '-' at 'x' failed to satisfy constraint: Member must be base64 text`,
		`<X>AAAAAAAA</X>`:                   `Value at 'x' failed to satisfy constraint: Member must have length less than or equal to 4`,
		`<C>ab</C>`:                         `Value 'ab' at 'c' failed to satisfy constraint: Member must be one character`,
		`<Secret>x</Secret>`:                `Value at 'secret' failed to satisfy constraint: Member must have length greater than or equal to 3`,
		`<M>` + entries(3, "k") + `</M>`:    `Value at 'm' failed to satisfy constraint: Member must have length less than or equal to 2`,
		`<M>` + entries(1, "long") + `</M>`: `Value 'long0' at 'm.key' failed to satisfy constraint: Member must have length less than or equal to 3`,
	} {
		doc := "<PutRequest>" + body + "</PutRequest>"
		req, err := s.Match(kindsRequest("/put/a", doc), []byte(doc))
		require.NoError(t, err)
		err = s.Decode(req, &typedKinds{})
		require.Error(t, err, body)
		assert.Equal(t, "ValidationException: 1 validation error detected: "+want, err.Error())
	}
	for _, body := range []string{
		"<M><pair/></M>", "<M><entry><key>a</key></entry></M>", "<M><entry><key>a</key><key>b</key></entry></M>", "<M><entry><other/></entry></M>",
		"<M>" + entries(1, "k") + entries(1, "k") + "</M>", "<S><A>not an element</A></S>", "<FM><key>x</key></FM>",
	} {
		doc := "<PutRequest>" + body + "</PutRequest>"
		req, err := s.Match(kindsRequest("/put/a", doc), []byte(doc))
		require.NoError(t, err)
		err = s.Decode(req, &typedKinds{})
		require.Error(t, err, body)
		assert.True(t, strings.HasPrefix(err.Error(), "ValidationException: Invalid XML ; "), err.Error())
	}
}

func entries(n int, key string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "<entry><key>%s%d</key><value>%d</value></entry>", key, i, i)
	}
	return b.String()
}

func TestEveryKindOverQuery(t *testing.T) {
	s := kindsModel(t, "query")
	body := "Action=Put&Version=1&B=false&I=3&F=1&D=0.5&T=2026-01-02T03:04:05Z&When=5&X=AAE%3D&C=c&M.entry.1.key=a&M.entry.1.value=1&M.entry.2.key=b&M.entry.2.value=2&FM.1.k=x&FM.1.v=3&S.E=e"
	r := httptest.NewRequest("POST", "/", strings.NewReader(body))
	req, err := s.Match(r, []byte(body))
	require.NoError(t, err)
	got := map[string]any{}
	require.NoError(t, s.Decode(req, &got))
	assert.Equal(t, map[string]any{"a": int64(1), "b": int64(2)}, got["M"])
	assert.Equal(t, map[string]any{"x": int64(3)}, got["FM"])
	assert.Equal(t, map[string]any{"E": "e"}, got["S"])
	assert.Equal(t, []byte{0, 1}, got["X"])
	for _, bad := range []string{"&M.entry.1.key=a&M.entry.2.key=a&M.entry.1.value=1&M.entry.2.value=1", "&M.entry.1.value=1", "&M.entry.1.key=a", "&M.entry.x.key=a"} {
		body := "Action=Put&Version=1" + bad
		req, err := s.Match(httptest.NewRequest("POST", "/", nil), []byte(body))
		require.NoError(t, err)
		err = s.Decode(req, &got)
		require.Error(t, err, bad)
		assert.True(t, strings.HasPrefix(err.Error(), "MalformedQueryString: "), err.Error())
	}
}

func TestOutputsBesideTheBody(t *testing.T) {
	s := kindsModel(t, "rest-xml")
	w := httptest.NewRecorder()
	require.NoError(t, s.Encode(w, "Put", map[string]any{
		"Code": 202, "Meta": map[string]string{"a": "b"}, "Date": time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		"D": math.Inf(1), "F": float32(1.1), "X": "text",
	}, "id"))
	assert.Equal(t, 202, w.Code)
	assert.Equal(t, "b", w.Header().Get("X-Meta-A"))
	assert.Equal(t, "Fri, 02 Jan 2026 03:04:05 GMT", w.Header().Get("X-Date"))
	assert.Contains(t, w.Body.String(), `<Out xmlns="urn:kinds"><D>Infinity</D><F>1.1</F><Names></Names><X>dGV4dA==</X></Out>`)

	w = httptest.NewRecorder()
	require.NoError(t, s.Encode(w, "Put", map[string]any{"Code": 204}, "id"))
	assert.Equal(t, 204, w.Code)
	assert.Empty(t, w.Body.String())
	assert.Empty(t, w.Header().Get("Content-Length"))
	require.Error(t, s.Encode(httptest.NewRecorder(), "Put", map[string]any{"Code": 1000}, "id"))

	w = httptest.NewRecorder()
	require.NoError(t, s.Encode(w, "Acl", nil, "id"))
	assert.Empty(t, w.Body.String())
	w = httptest.NewRecorder()
	require.NoError(t, s.Encode(w, "Blob", map[string]any{"Body": "plain"}, "id"))
	assert.Equal(t, "plain", w.Body.String())
	w = httptest.NewRecorder()
	require.NoError(t, s.Encode(w, "Doc", map[string]any{"Doc": map[string]any{"N": 1}}, "id"))
	assert.Equal(t, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"+`<Doc xmlns="urn:kinds"><N>1</N></Doc>`, w.Body.String())
	assert.Equal(t, "text/xml", w.Header().Get("Content-Type"))
}

func TestPayloadsAndQueryTemplates(t *testing.T) {
	s := kindsModel(t, "rest-xml")
	for target, want := range map[string]string{"/doc": "Doc", "/doc?x=1": "Doc", "/doc?acl": "Acl", "/doc?acl=": "Acl", "/doc?kind=typed": "Typed", "/doc?kind=other": "Doc"} {
		req, err := s.Match(httptest.NewRequest("POST", target, nil), nil)
		require.NoError(t, err)
		assert.Equal(t, want, req.Operation.Name, target)
	}
	got := map[string]any{}
	req, err := s.Match(httptest.NewRequest("POST", "/blob", nil), []byte{1, 2})
	require.NoError(t, err)
	require.NoError(t, s.Decode(req, &got))
	assert.Equal(t, map[string]any{"Body": []byte{1, 2}}, got)
	req, err = s.Match(httptest.NewRequest("POST", "/doc", nil), []byte("<Doc><N>5</N></Doc>"))
	require.NoError(t, err)
	require.NoError(t, s.Decode(req, &got))
	assert.Equal(t, map[string]any{"Doc": map[string]any{"N": int64(5)}}, got)
}

func TestMembersOfAnError(t *testing.T) {
	for _, protocol := range []string{"query", "rest-xml"} {
		s := kindsModel(t, protocol)
		w := httptest.NewRecorder()
		require.NoError(t, s.EncodeError(w, "Put", &aws.Error{Code: "Full", Message: "no room", Detail: map[string]any{"message": "x", "Needed": 3.0, "Names": []string{"a"}}}, "id"))
		assert.Equal(t, 500, w.Code)
		assert.Contains(t, w.Body.String(), `<Error><Type>Receiver</Type><Code>Full</Code><Message>no room</Message><Names><member>a</member></Names><Needed>3</Needed></Error><RequestId>id</RequestId>`)
		w = httptest.NewRecorder()
		require.NoError(t, s.EncodeError(w, "Put", &aws.Error{Code: "Full", Message: "no room", Detail: map[string]any{"Needed": "x"}}, "id"))
		assert.Contains(t, w.Body.String(), `<Code>Full</Code><Message>no room</Message></Error>`)
	}
}

func TestClip(t *testing.T) {
	assert.Equal(t, "short", clip("short"))
	long := clip(strings.Repeat("é", 2000))
	assert.True(t, strings.HasSuffix(long, "é..."))
	assert.LessOrEqual(t, len(long), 2051)
}

func TestUnknownErrorsOfACodecAreTheServers(t *testing.T) {
	s := kindsModel(t, "query")
	e := s.clientError(fmt.Errorf("a bug"))
	assert.Equal(t, "InternalFailure: The request could not be processed.: a bug", e.Error())
}
