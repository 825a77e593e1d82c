package awsingress

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/aws/sigv4"
	"github.com/mulgadc/spinifex/foundation/aws/wire"
)

// exchange is one request and what the stages have found out about it.
type exchange struct {
	w        *answerWriter
	r        *http.Request
	received time.Time
	id       string // request id
	source   netip.Addr

	scope   sigv4.Scope // as claimed; verified once call is set
	service *service    // nil for one that the cloud has not
	body    []byte
	call    *aws.Call
	matched *wire.Request
	op      *aws.Operation
	in, out any
	// inputFault is what is wrong with the input; it is told after authorisation.
	inputFault error

	// rooms are those that the request has entered.
	rooms []chan struct{}

	// code is the error code that was answered, cause what lies behind it.
	code  string
	cause error
}

func newExchange(w http.ResponseWriter, r *http.Request, now time.Time) *exchange {
	x := &exchange{w: &answerWriter{ResponseWriter: w}, r: r, received: now, id: newRequestID()}
	if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		x.source = peer.Addr().Unmap()
	}
	return x
}

// enter takes a place in a room until leave, if there is one.
func (x *exchange) enter(room chan struct{}) bool {
	select {
	case room <- struct{}{}:
		x.rooms = append(x.rooms, room)
		return true
	default:
		return false
	}
}

// leave gives back the places that were taken.
func (x *exchange) leave() {
	for _, room := range x.rooms {
		<-room
	}
}

// action is the operation's name, as far as the model has it.
func (x *exchange) action() string {
	if x.matched != nil {
		return x.matched.Operation.Name
	}
	return ""
}

// serviceName is the service's signing name, "unknown" for one that the cloud has not.
func (x *exchange) serviceName() string {
	if x.service != nil {
		return x.service.name
	}
	return "unknown"
}

// newRequestID returns a random UUID, the form of AWS's request ids.
func newRequestID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// answerWriter remembers what was answered.
type answerWriter struct {
	http.ResponseWriter
	status int // 0 until the header is written
	bytes  int64
}

// WriteHeader remembers the status.
func (w *answerWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write counts the bytes.
func (w *answerWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
