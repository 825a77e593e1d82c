package route53

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/aws"
	api "github.com/mulgadc/spinifex/foundation/aws/api/route53"
	"github.com/mulgadc/spinifex/foundation/aws/wire"
)

// Ids of the recording.
const (
	recordedPublic  = "HOOXD2N76NJRINRY1ITK4L"
	recordedPrivate = "4XROD8Y2HIBPZFVDVB9Q9C"
)

// replay sends recorded requests to the handlers, through the codec of the wire.
type replay struct {
	t          *testing.T
	c          *cloud
	s          *Service
	loops      *loops
	wire       *wire.Service
	operations map[string]aws.Operation
	zone       string // that stands for recordedPublic
	change     string // the last one
	written    map[string]string
}

// errNotServed is an operation that is not in the table: the gateway refuses it.
var errNotServed = errors.New("not served")

type recordedCall struct {
	Action     string            `json:"action"`
	Parameters map[string]string `json:"parameters"`
}

// send carries out one call and returns the operation's name, the answer and the HTTP response.
func (r *replay) send(rec recordedCall) (name string, out any, resp *http.Response, err error) {
	r.t.Helper()
	method, path, _ := strings.Cut(rec.Action, " ")
	path = strings.ReplaceAll(path, recordedPublic, r.zone)
	path = regexp.MustCompile(`/change/\w+`).ReplaceAllString(path, r.change)
	body := rec.Parameters["_xml"]
	query := url.Values{}
	for k, v := range rec.Parameters {
		if k != "_xml" {
			query.Set(k, v)
		}
	}
	target := "http://route53.cloud.test" + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, target, strings.NewReader(body))
	require.NoError(r.t, err)
	matched, err := r.wire.Match(req, []byte(body))
	require.NoError(r.t, err)
	name = matched.Operation.Name
	op, served := r.operations[name]
	if !served {
		return name, nil, nil, errNotServed
	}
	in := op.NewInput()
	require.NoError(r.t, r.wire.Decode(matched, in))
	w := httptest.NewRecorder()
	if out, err = op.Handler(r.t.Context(), call(alice), in); err != nil {
		e, ok := errors.AsType[*aws.Error](err)
		require.True(r.t, ok, "%v", err)
		require.NoError(r.t, r.wire.EncodeError(w, name, e, "req"))
	} else {
		require.NoError(r.t, r.wire.Encode(w, name, out, "req"), "an answer has all that the model requires")
	}
	return name, out, w.Result(), err
}

// check holds an answer against what was written before.
func (r *replay) check(rec recordedCall, name string, out any, resp *http.Response) {
	t := r.t
	switch out := out.(type) {
	case *api.CreateHostedZoneResponse:
		assert.Equal(t, http.StatusCreated, resp.StatusCode)
		assert.Contains(t, resp.Header.Get("Location"), *out.HostedZone.Id)
		r.zone, _ = bareID(*out.HostedZone.Id, zonePrefix)
		r.change = *out.ChangeInfo.Id
	case *api.ChangeResourceRecordSetsResponse:
		r.change = *out.ChangeInfo.Id
	case *api.UpdateHostedZoneCommentResponse:
		r.written["GetHostedZone"] = "" // another answer from here on
	case *api.GetChangeResponse:
		assert.Equal(t, "INSYNC", *out.ChangeInfo.Status)
	case *api.ListResourceRecordSetsResponse:
		require.NotEmpty(t, out.ResourceRecordSets)
		first := out.ResourceRecordSets[0]
		assert.Equal(t, rec.Parameters["name"], *first.Name, "the list begins at the record asked for")
		assert.Equal(t, rec.Parameters["type"], *first.Type)
		r.same(name+*first.Name, out.ResourceRecordSets[:1])
	case *api.GetHostedZoneResponse:
		plain := *out.HostedZone
		plain.ResourceRecordSetCount = nil
		r.same(name, []any{plain, out.DelegationSet})
	case *api.ListTagsForResourceResponse:
		assert.Equal(t, []api.Tag{{Key: new("k"), Value: new("v")}}, out.ResourceTagSet.Tags)
	}
}

// same wants a later answer to be the first one again.
func (r *replay) same(what string, answer any) {
	text, err := json.Marshal(answer)
	require.NoError(r.t, err)
	if r.written[what] != "" {
		assert.Equal(r.t, r.written[what], string(text), what)
	}
	r.written[what] = string(text)
}

// settle does what the loops and a DNS server do between two calls.
func (r *replay) settle() {
	r.loops.realize()
	r.c.report("n1")
}

func (r *replay) forgetRecords(rec recordedCall) {
	if strings.Contains(rec.Parameters["_xml"], "UPSERT") {
		for k := range r.written {
			if strings.HasPrefix(k, "ListResourceRecordSets") {
				delete(r.written, k)
			}
		}
	}
}

// What Terraform sent for zones and records is answered completely, reads answer the same until
// something is changed, and the destruction leaves nothing. Private zones are not in this release:
// theirs are refused clearly, and change nothing.
func TestReplayOfTerraform(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	w, err := wire.Load(api.Model, wire.Limits{})
	require.NoError(t, err)
	r := &replay{
		t: t, c: c, s: s, loops: c.loops(s), wire: w, operations: map[string]aws.Operation{},
		zone: "ZNONE", change: "/change/CNONE", written: map[string]string{},
	}
	for _, op := range Operations(s) {
		r.operations[op.Name] = op
	}
	f, err := os.Open("testdata/terraform-calls.jsonl")
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	calls, refused := 0, 0
	for lines := bufio.NewScanner(f); lines.Scan(); calls++ {
		var rec recordedCall
		require.NoError(t, json.Unmarshal(lines.Bytes(), &rec))
		name, out, resp, err := r.send(rec)
		private := strings.Contains(rec.Action, recordedPrivate)
		switch {
		case strings.Contains(rec.Parameters["_xml"], "<VPC>") && !private:
			requireCode(t, api.CodeInvalidInput, err)
			assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
			refused++
		case errors.Is(err, errNotServed):
			assert.Equal(t, "AssociateVPCWithHostedZone", name)
			refused++
		case private:
			requireCode(t, api.CodeNoSuchHostedZone, err)
			assert.Equal(t, http.StatusNotFound, resp.StatusCode)
			refused++
		default:
			require.NoError(t, err, "%s %v", rec.Action, rec.Parameters)
			r.forgetRecords(rec)
			r.check(rec, name, out, resp)
		}
		r.settle()
	}
	assert.Equal(t, 87, calls)
	assert.NotZero(t, refused)
	assert.Empty(t, c.zones.all(), "nothing is published any more")
	for _, kind := range []string{kindZone, kindCaller, kindStatus, kindDelegation} {
		for e, err := range c.bucket.List(t.Context(), prefix(alice, kind)) {
			require.NoError(t, err)
			t.Errorf("left behind: %s", e.Key)
		}
	}
}
