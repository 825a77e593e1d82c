package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
	"github.com/mulgadc/spinifex/foundation/lifecycle/reconciler"
	"github.com/mulgadc/spinifex/foundation/lifecycle/supervise"
)

// Defaults of Options.
const (
	DefaultMaxTCP = 512
	DefaultPoll   = 30 * time.Second
	DefaultReport = 2 * time.Second
)

// StatusStore keeps what each DNS server serves; the bucket dnsapi.ServersBucket is one.
type StatusStore interface {
	Put(ctx context.Context, key string, value []byte) (rev uint64, err error)
	Delete(ctx context.Context, key string) error
}

// Options of a Server.
type Options struct {
	// Listen is the address for UDP and TCP, "host:port" (dns.listen). Port 0 picks a free one.
	Listen string
	// Node is this node's name; its status is kept under it. Required.
	Node string
	// Zones are the zone objects to serve. Required.
	Zones dnsapi.ZoneReader
	// Servers takes this server's status. Required.
	Servers StatusStore
	// Log receives bad zones and outages of the zone store. Nil discards them.
	Log *slog.Logger
	// Meter receives the metrics. Nil discards them.
	Meter metric.Meter
	// Listening is told the address once it answers there. Nil is fine.
	Listening func(netip.AddrPort)
	// Sockets is the number of UDP sockets and of goroutines that serve them; 0 is GOMAXPROCS. Where
	// the system cannot share a port between sockets there is one.
	Sockets int
	// MaxTCP bounds the open TCP connections, of which one more takes the place of the quietest; 0 takes
	// the default.
	MaxTCP int
	// Poll is how often the zone store is listed, in case the watch missed something; 0 takes the
	// default.
	Poll time.Duration
	// Report is how often the status is written; 0 takes the default. It must stay well below
	// dnsapi.ServerLive.
	Report time.Duration
}

func (o Options) withDefaults() (Options, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Meter == nil {
		o.Meter = noop.NewMeterProvider().Meter("dns")
	}
	if o.Listening == nil {
		o.Listening = func(netip.AddrPort) {}
	}
	if o.Sockets == 0 {
		o.Sockets = runtime.GOMAXPROCS(0)
	}
	if o.MaxTCP == 0 {
		o.MaxTCP = DefaultMaxTCP
	}
	if o.Poll == 0 {
		o.Poll = DefaultPoll
	}
	if o.Report == 0 {
		o.Report = DefaultReport
	}
	switch {
	case o.Node == "":
		return o, errors.New("dns server: no node name")
	case o.Zones == nil || o.Servers == nil:
		return o, errors.New("dns server: no zone store or no status store")
	case o.Sockets < 1 || o.MaxTCP < 1:
		return o, errors.New("dns server: Sockets and MaxTCP must be positive")
	case o.Poll < 0 || o.Report < 0 || o.Report > dnsapi.ServerLive/2:
		return o, fmt.Errorf("dns server: Poll must be positive, Report within %v", dnsapi.ServerLive/2)
	}
	return o, checkListen(o.Listen)
}

// Server answers DNS queries from the zone store. Make one with New.
type Server struct {
	opts  Options
	cache *cache
	// view is nil until the zone store has been read completely once.
	view atomic.Pointer[view]
	// counts has one element for each UDP socket and one for all of TCP.
	counts     []*counts
	tcpEvicted atomic.Uint64
	badZones   atomic.Int64
	// wakeReport has the reporter write after a reload, which it sees by reloaded.
	wakeReport func()
	reloaded   <-chan struct{}
	follower   *follower
}

// New makes a server from valid options. It opens nothing.
func New(opts Options) (*Server, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{opts: opts, cache: newCache()}
	s.wakeReport, s.reloaded = reconciler.NewWake()
	for range opts.Sockets + 1 {
		s.counts = append(s.counts, &counts{})
	}
	s.follower = newFollower(s)
	return s, nil
}

// Run serves until ctx ends and returns its cause, or until the address cannot be used, and returns
// that. It may be called again afterwards, and then begins with the zones that it had.
func (s *Server) Run(ctx context.Context) error {
	socks, err := listen(ctx, s.opts.Listen, s.opts.Sockets)
	if err != nil {
		return err
	}
	withdraw, err := s.observe()
	if err != nil {
		return errors.Join(err, socks.close())
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	serve := func(fn func(context.Context) error) {
		running.Go(func() {
			if err := supervise.Call(ctx, fn); err != nil {
				cancel(err)
			}
		})
	}
	for i, conn := range socks.udp {
		serve(func(context.Context) error { return s.serveUDP(conn, s.newWorker(s.counts[i])) })
	}
	serve(func(ctx context.Context) error { return s.serveTCP(ctx, socks.tcp) })
	loop := func(name string, fn func(context.Context) error) {
		running.Go(func() {
			_ = supervise.Run(ctx, supervise.Options{Name: name, Log: s.opts.Log}, fn) // ends with ctx only
		})
	}
	loop("dns.follow", s.follower.run)
	loop("dns.report", s.report)
	s.opts.Log.Info("dns server listens", "addr", socks.addr.String(), "udp_sockets", len(socks.udp))
	s.opts.Listening(socks.addr)
	<-ctx.Done()
	closeErr := socks.close()
	running.Wait()
	if err := errors.Join(closeErr, withdraw()); err != nil {
		s.opts.Log.Warn("dns server did not close cleanly", "error", err)
	}
	return context.Cause(ctx)
}
