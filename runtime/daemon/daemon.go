package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/mulgadc/spinifex/domains/iam"
	"github.com/mulgadc/spinifex/foundation/config"
	"github.com/mulgadc/spinifex/foundation/messaging"
	"github.com/mulgadc/spinifex/foundation/state/clustersize"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/telemetry"
	"github.com/mulgadc/spinifex/runtime/node"
	"github.com/mulgadc/spinifex/runtime/roles/awsgw"
)

// Options say what a process runs.
type Options struct {
	// Config is complete and checked.
	Config *config.Config
	// Roles of the process; without Config.NATS.URL, RoleNATS runs the embedded server.
	Roles []node.Role
	// Version of the program.
	Version string
	Log     *slog.Logger
	// Ready is told once that everything works; nil is fine.
	Ready func(Info)
}

// Info is what a person needs to use a process that is ready.
type Info struct {
	// Client is for the AWS clients; zero without the gateway.
	Client awsgw.ClientConfig
}

// process is a process between start and stop. Only the goroutine of Run uses it.
type process struct {
	opts Options
	cfg  *config.Config
	log  *slog.Logger
	name string // of the process, "<node>/<role>"

	data     *node.DataDir
	tel      *telemetry.Telemetry
	loopRec  *telemetry.LoopRecorder
	readable telemetry.Readiness
	embedded *node.NATSServer
	size     clustersize.Size
	conn     *messaging.Conn // for everything but the sync bucket
	syncConn *messaging.Conn
	obsolete *obsoleteRemover
	sync     *kvstore.Bucket
	locks    *daemonLocks
	leaders  *leaderWatch
	domains  *domains
	// administrator is the first user, of a process with the gateway.
	administrator iam.Administrator

	info  Info
	stuck bool // a loop did not stop

	// undo is the way back, a line per thing that was started.
	undo []step
}

// step is a named part of the start or the stop with its own bound; a bound of 0 is none.
type step struct {
	name  string
	bound time.Duration
	run   func(context.Context) error
}

// Run starts the process, waits until ctx ends, and stops it. It returns nil after a stop without a
// fault. A start that fails is undone; one that ctx ends is no fault.
func Run(ctx context.Context, opts Options) error {
	p := &process{opts: opts, cfg: opts.Config, log: opts.Log, name: processName(opts.Config.Node.Name, opts.Roles)}
	err := p.start(ctx)
	if err == nil {
		p.readable.SetReady()
		p.log.Info("ready", "process", p.name, "endpoint", p.info.Client.Endpoint)
		if opts.Ready != nil {
			opts.Ready(p.info)
		}
		<-ctx.Done()
	}
	p.readable.SetStep("stopping")
	if ctx.Err() != nil {
		p.log.Info("stopping", "cause", context.Cause(ctx))
		err = nil
	}
	return errors.Join(err, p.stop(context.WithoutCancel(ctx)))
}

// start is the sequence of a process that starts. What runs on the node already would be looked after
// first, before NATS; in this release nothing does.
func (p *process) start(ctx context.Context) error {
	for _, s := range []step{
		{"lock the data directory", 10 * time.Second, p.lockDataDir},
		{"start telemetry", 10 * time.Second, p.startTelemetry},
		{"start NATS", time.Minute, p.startNATS},
		{"connect to NATS", 5 * time.Minute, p.connect},
		{"remove obsolete buckets", 0, p.removeObsolete},
		{"build the leases", 5 * time.Minute, p.buildLocks},
		{"construct the domains", time.Minute, p.constructDomains},
		{"start loops and endpoints", time.Minute, p.startServing},
		{"wait for the first elections", time.Minute, p.waitElections},
	} {
		p.readable.SetStep(s.name)
		if err := s.do(ctx, p.log, "start step done"); err != nil {
			return fmt.Errorf("start: %s: %w", s.name, err)
		}
	}
	return nil
}

// stop undoes what was started, the last first. A step that fails does not keep the others from it.
func (p *process) stop(ctx context.Context) error {
	var errs []error
	for _, s := range slices.Backward(p.undo) {
		if err := s.do(ctx, p.log, "stop step done"); err != nil {
			errs = append(errs, fmt.Errorf("stop: %s: %w", s.name, err))
		}
	}
	return errors.Join(errs...)
}

// onStop adds to the way back.
func (p *process) onStop(name string, bound time.Duration, run func(context.Context) error) {
	p.undo = append(p.undo, step{name, bound, run})
}

func (s step) do(ctx context.Context, log *slog.Logger, done string) error {
	if s.bound > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.bound, fmt.Errorf("not done within %v", s.bound))
		defer cancel()
	}
	start := time.Now()
	if err := s.run(ctx); err != nil {
		return err
	}
	log.Info(done, "step", s.name, "duration_ms", time.Since(start).Milliseconds())
	return nil
}

// processName is the holder name of a process with several roles: that of the daemon if it is one.
func processName(nodeName string, roles []node.Role) string {
	if slices.Contains(roles, node.RoleDaemon) || len(roles) == 0 {
		return holderName(nodeName, node.RoleDaemon)
	}
	return holderName(nodeName, roles[len(roles)-1])
}

func (p *process) runs(role node.Role) bool { return slices.Contains(p.opts.Roles, role) }

func (p *process) lockDataDir(context.Context) error {
	roles := slices.Clone(p.opts.Roles)
	if p.cfg.NATS.URL != "" {
		roles = slices.DeleteFunc(roles, func(r node.Role) bool { return r == node.RoleNATS })
	}
	var err error
	if p.data, err = node.OpenDataDir(p.cfg.Node.DataDir, roles...); err != nil {
		return fmt.Errorf("node.data_dir = %q: %w", p.cfg.Node.DataDir, err)
	}
	p.onStop("unlock the data directory", 10*time.Second, func(context.Context) error { return p.data.Close() })
	p.log.Info("node", "node", p.cfg.Node.Name, "node_id", p.data.NodeID(), "incarnation", p.data.Incarnation(),
		"data_dir", p.cfg.Node.DataDir, "version", p.opts.Version)
	return nil
}

func (p *process) startTelemetry(ctx context.Context) error {
	var err error
	if p.tel, err = telemetry.New(telemetry.Options{
		Service: string(p.opts.Roles[len(p.opts.Roles)-1]), Version: p.opts.Version, Node: p.cfg.Node.Name,
	}); err != nil {
		return err
	}
	p.onStop("stop metrics", 5*time.Second, p.tel.Shutdown)
	if p.loopRec, err = telemetry.NewLoopRecorder(p.tel.Meter("runtime/daemon")); err != nil {
		return err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", p.cfg.Telemetry.Listen)
	if err != nil {
		return fmt.Errorf("telemetry.listen = %q: %w", p.cfg.Telemetry.Listen, err)
	}
	server := telemetry.NewServer(listener, p.tel, &p.readable, p.log)
	g := p.newGroup(ctx, "stop the telemetry endpoint", 5*time.Second)
	g.run("telemetry", server.Run)
	p.log.Info("telemetry endpoint listens", "addr", server.Addr())
	return nil
}

// newGroup makes a group of loops that the way back stops at this place.
func (p *process) newGroup(ctx context.Context, stop string, bound time.Duration) *group {
	g := newGroup(ctx, p.log, p.loopRec.Restarted)
	p.onStop(stop, bound, g.stop)
	return g
}

func (p *process) startNATS(ctx context.Context) error {
	if p.cfg.NATS.URL != "" || !p.runs(node.RoleNATS) {
		return nil
	}
	var err error
	p.embedded, err = node.StartNATS(ctx, node.NATSOptions{
		Listen: p.cfg.NATS.Listen, Node: p.cfg.Node.Name, Data: p.data, Log: p.log,
	})
	if err != nil {
		return err
	}
	p.onStop("stop NATS", 30*time.Second, func(context.Context) error { p.embedded.Stop(); return nil })
	p.log.Info("embedded NATS server runs", "url", p.embedded.Client().URL)
	return nil
}

// connect makes the two connections. That of the sync bucket has no buffer for the time it is away.
func (p *process) connect(ctx context.Context) error {
	var err error
	if p.size, err = DeclaredSize(p.cfg); err != nil {
		return err
	}
	target, err := p.natsTarget(ctx)
	if err != nil {
		return err
	}
	target.Log = p.log
	for _, c := range []struct {
		conn     **messaging.Conn
		name     string
		noBuffer bool
	}{{&p.conn, p.name, false}, {&p.syncConn, p.name + "/sync", true}} {
		opts := target
		opts.Name, opts.NoReconnectBuffer = c.name, c.noBuffer
		conn, err := messaging.Connect(ctx, opts)
		if err != nil {
			return fmt.Errorf("%w (nats.url = %q)", err, config.RedactURL(p.cfg.NATS.URL))
		}
		*c.conn = conn
		p.onStop("drain the connection "+c.name, 10*time.Second, conn.Drain)
	}
	return p.conn.WaitJetStream(ctx)
}

// DeclaredSize is one node for the embedded server, and what is configured for a cluster that exists;
// undeclared is fine for an external server that is no cluster.
func DeclaredSize(cfg *config.Config) (clustersize.Size, error) {
	switch {
	case cfg.NATS.URL == "":
		return clustersize.Declare(1)
	case cfg.NATS.Servers > 0:
		return clustersize.Declare(cfg.NATS.Servers)
	}
	return clustersize.Size{}, nil
}

// natsTarget says where NATS is: in this process, at the URL, or where another process of this node
// has left it.
func (p *process) natsTarget(ctx context.Context) (messaging.Options, error) {
	if p.cfg.NATS.URL != "" {
		return messaging.Options{URL: p.cfg.NATS.URL}, nil
	}
	if p.embedded != nil {
		client := p.embedded.Client()
		return messaging.Options{InProcess: p.embedded, User: client.User, Password: client.Password}, nil
	}
	for said := false; ; said = true {
		client, err := node.ReadClient(p.cfg.Node.DataDir)
		if err == nil {
			return messaging.Options{URL: client.URL, User: client.User, Password: client.Password}, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return messaging.Options{}, err // waiting does not repair a file
		}
		if !said {
			p.log.Warn("waiting for this node's NATS server, which spinifex daemon runs; set nats.url to use another", "error", err)
		}
		select {
		case <-ctx.Done():
			return messaging.Options{}, fmt.Errorf("%w; last fault: %w", context.Cause(ctx), err)
		case <-time.After(time.Second):
		}
	}
}

// removeObsolete is for the daemon: it builds the leases that earlier releases had there.
func (p *process) removeObsolete(ctx context.Context) error {
	if !p.runs(node.RoleDaemon) {
		return nil
	}
	reappeared, err := p.tel.Meter("runtime/daemon").Int64Counter("spinifex.obsolete_buckets.reappeared")
	if err != nil {
		return err
	}
	for _, bucket := range obsoleteBuckets { // an increase from nothing to one is no increase to Prometheus
		reappeared.Add(ctx, 0, metric.WithAttributes(attribute.String("bucket", bucket)))
	}
	p.obsolete = &obsoleteRemover{
		store: natsBuckets{p.conn}, log: p.log,
		reappeared: func(bucket string) {
			reappeared.Add(context.Background(), 1, metric.WithAttributes(attribute.String("bucket", bucket)))
		},
	}
	return p.obsolete.removeAtStart(ctx)
}

// buildLocks makes the one handle of the sync bucket and all leases of the process, and opens the
// bucket if there are any: a cluster whose size nobody declared is a fault here, not later.
func (p *process) buildLocks(ctx context.Context) error {
	rec, err := telemetry.NewLeaseRecorder(p.tel.Meter("foundation/state/kvsync"), p.log)
	if err != nil {
		return err
	}
	opts := []kvstore.Option{
		kvstore.WithSize(p.size), kvstore.WithIdentity(p.data), kvstore.WithRecorder(rec), kvstore.WithLogger(p.log),
	}
	if p.embedded != nil {
		opts = append(opts, kvstore.WithSyncAlways())
	}
	p.sync = kvstore.OpenSyncBucket(p.syncConn.JetStream(), opts...)
	p.locks = newDaemonLocks(p.sync, p.cfg.Node.Name, p.opts.Roles, p.cfg.Locks.TTL)
	for _, lease := range p.locks.all() {
		rec.Begin(lease.Key())
	}
	p.leaders = newLeaderWatch(p.sync, p.locks.all())
	if err := p.leaders.measure(p.tel.Meter("runtime/daemon")); err != nil {
		return err
	}
	if len(p.locks.all()) == 0 {
		return nil
	}
	err = p.retry(ctx, "the sync bucket cannot be opened yet", func(ctx context.Context) error {
		_, err := p.sync.KV(ctx)
		return err
	})
	if errors.Is(err, clustersize.ErrUndeclared) {
		return fmt.Errorf("nats.servers is not set, the number of servers of the NATS cluster at nats.url: %w", err)
	}
	if err != nil {
		return err
	}
	p.onStop("release the leases", 10*time.Second, func(ctx context.Context) error {
		if p.stuck {
			return errors.New("not released: loops have not stopped, the leases lapse by themselves")
		}
		p.locks.release(ctx, p.log)
		return nil
	})
	return nil
}
