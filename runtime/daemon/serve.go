package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mulgadc/spinifex/foundation/messaging"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/runtime/roles/awsgw"
)

const (
	// operationsDrain is how long the calls under way have when the daemon stops.
	operationsDrain = 10 * time.Second
	// settleWait bounds the wait for each thing that normally takes a moment; the process is ready
	// without it all the same.
	settleWait = 10 * time.Second
	// settlePoll is how often it is looked for.
	settlePoll = 50 * time.Millisecond
)

// startServing starts the loops and then the endpoints, so that they stop the other way round: the
// gateway, which still needs the daemon for its last calls, the DNS server, the operations, the loops.
func (p *process) startServing(ctx context.Context) error {
	p.startLoops(ctx)
	if err := p.startOperations(ctx); err != nil {
		return err
	}
	if err := p.startDNS(ctx); err != nil {
		return err
	}
	return p.startGateway(ctx)
}

func (p *process) startLoops(ctx context.Context) {
	g := newGroup(ctx, p.log, p.loopRec.Restarted)
	p.onStop("stop the loops", 30*time.Second, func(ctx context.Context) error {
		err := g.stop(ctx)
		p.stuck = err != nil
		return err
	})
	for _, l := range p.domains.loops {
		g.run(l.name, l.run)
	}
	if p.obsolete != nil {
		g.run("obsolete buckets", p.obsolete.watch)
	}
	if len(p.locks.all()) > 0 {
		g.run("leader watch", p.leaders.run)
	}
	answers := &lockAnswers{
		process: p.name, incarnation: p.data.Incarnation(), leases: p.locks.all(),
		sync: p.sync, syncAlways: p.embedded != nil, leaders: p.leaders,
	}
	g.run("locks status", func(ctx context.Context) error { return answers.run(ctx, p.conn) })
	g.run("locks transfer", func(ctx context.Context) error { return answerTransfers(ctx, p.conn, p.locks.all(), p.log) })
}

// startOperations serves the daemon's operations and waits until they can be called.
func (p *process) startOperations(ctx context.Context) error {
	if len(p.domains.operations) == 0 {
		return nil
	}
	verifier := messaging.NewVerifier(messaging.NewKeyDirectory(p.domains.nodes))
	opts := messaging.ServiceOptions{
		Version: strings.TrimPrefix(p.opts.Version, "v"), Node: p.cfg.Node.Name, DrainTimeout: operationsDrain, Log: p.log,
	}
	if _, err := messaging.NewService(p.conn.Raw(), p.domains.operations, verifier, opts); err != nil {
		return err // a table that is wrong would fail at each restart
	}
	g := p.newGroup(ctx, "drain the operations", operationsDrain+5*time.Second)
	g.run("operations", func(ctx context.Context) error {
		service, err := messaging.NewService(p.conn.Raw(), p.domains.operations, verifier, opts)
		if err != nil {
			return err
		}
		return service.Run(ctx)
	})
	return p.settle(ctx, "operations are not served yet", p.operationsServed)
}

// operationsServed asks NATS's service discovery for each AWS service.
func (p *process) operationsServed(ctx context.Context) error {
	var names []string
	for _, op := range p.domains.operations {
		names = append(names, op.Service)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		answers, err := p.conn.Survey(ctx, "$SRV.PING.aws-"+name, settlePoll)
		if err != nil {
			return err
		}
		if len(answers) == 0 {
			return fmt.Errorf("nobody serves %s", name)
		}
	}
	return nil
}

func (p *process) startDNS(ctx context.Context) error {
	if p.domains.dnsServer == nil {
		return nil
	}
	g := p.newGroup(ctx, "stop the DNS server", 10*time.Second)
	if err := g.start(ctx, "dns server", p.domains.dnsListens, p.domains.dnsServer.Run); err != nil {
		return fmt.Errorf("dns.listen = %q: %w", p.cfg.DNS.Listen, err)
	}
	return nil
}

// startGateway opens the port, serves, and writes the files for AWS clients.
func (p *process) startGateway(ctx context.Context) error {
	if p.domains.gateway == nil {
		return nil
	}
	if err := p.domains.gateway.Listen(ctx); err != nil {
		return err // names awsgw.listen
	}
	g := p.newGroup(ctx, "drain the gateway", gatewayDrain+5*time.Second)
	g.run("gateway", p.domains.gateway.Run)
	var err error
	p.info.Client, err = awsgw.WriteClientConfig(p.data.Path("aws"), awsgw.ClientCredentials{
		AccessKeyID: p.administrator.AccessKeyID, SecretAccessKey: p.administrator.Secret,
		Region: p.cfg.AWS.Region, Endpoint: p.domains.gateway.Endpoint(),
	})
	if err != nil {
		return err
	}
	return p.settle(ctx, "the gateway does not answer yet", p.gatewayAnswers)
}

// gatewayAnswers asks the gateway whether it is well.
func (p *process) gatewayAnswers(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.domains.gateway.Endpoint()+"/health", nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// waitElections waits until each of this process's leases has a holder, here or elsewhere: what a
// person asks for as soon as the process is ready is then carried out at once.
func (p *process) waitElections(ctx context.Context) error {
	for _, lease := range p.locks.all() {
		if err := p.settle(ctx, "an election has no winner yet", func(ctx context.Context) error {
			_, _, err := p.sync.Load(ctx, lease.Key())
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until look succeeds, for settleWait at most; then it warns and the start goes on. Its only
// error is the cause of ctx.
func (p *process) settle(ctx context.Context, msg string, look func(context.Context) error) error {
	waiting, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	for {
		err := look(waiting)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last fault: %w", context.Cause(ctx), err)
		case <-waiting.Done():
			p.log.Warn(msg, "waited_ms", settleWait.Milliseconds(), "error", err)
			return nil
		case <-time.After(settlePoll):
		}
	}
}

// retry calls try until it succeeds, fails for another reason than a store that is away, or ctx ends.
func (p *process) retry(ctx context.Context, msg string, try func(context.Context) error) error {
	for said := false; ; said = true {
		err := try(ctx)
		if err == nil || !errors.Is(err, kvsync.ErrUnavailable) {
			return err
		}
		if !said {
			p.log.Warn(msg, "error", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last fault: %w", context.Cause(ctx), err)
		case <-time.After(time.Second):
		}
	}
}
