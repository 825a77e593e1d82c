package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/mulgadc/spinifex/bench/locks"
	"github.com/mulgadc/spinifex/bench/report"
	"github.com/mulgadc/spinifex/internal/process"
)

// natsd is the package of the NATS server.
const natsd = "github.com/mulgadc/spinifex/internal/natsd"

// startPatience bounds the start of all servers, the forming of clusters included.
const startPatience = 90 * time.Second

// bench is one run.
type bench struct {
	scale  float64
	report *report.Report
	dir    string

	r1, synced, r3 *locks.Servers
	etcd1, etcd3   *members
	closers        []func()
}

// start starts all servers.
func (b *bench) start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	defer func() {
		if err != nil {
			b.stop()
		}
	}()
	if b.dir, err = os.MkdirTemp("", "bench-locks"); err != nil {
		return err
	}
	binary, err := process.Build(ctx, b.dir, natsd)
	if err != nil {
		return err
	}
	for _, s := range []struct {
		into   **locks.Servers
		name   string
		n      int
		synced bool
	}{{&b.r1, "r1", 1, false}, {&b.synced, "synced", 1, true}, {&b.r3, "r3", 3, true}} {
		if *s.into, err = locks.StartServers(ctx, binary, filepath.Join(b.dir, s.name), s.n, s.synced); err != nil {
			return fmt.Errorf("start NATS %s: %w", s.name, err)
		}
		b.closers = append(b.closers, (*s.into).Stop)
	}
	for _, s := range []struct {
		into **members
		name string
		n    int
	}{{&b.etcd1, "etcd1", 1}, {&b.etcd3, "etcd3", 3}} {
		if *s.into, err = startMembers(ctx, filepath.Join(b.dir, s.name), s.n); err != nil {
			return fmt.Errorf("start %s: %w", s.name, err)
		}
		b.closers = append(b.closers, (*s.into).stop)
	}
	return nil
}

// stop ends all servers and removes their data.
func (b *bench) stop() {
	for _, f := range b.closers {
		f()
	}
	_ = os.RemoveAll(b.dir)
}

// scaled is n times the scale of the run, at least least.
func (b *bench) scaled(n, least int) int { return max(int(float64(n)*b.scale), least) }

// row adds a row of times.
func (b *bench) row(name string, times []time.Duration, to string, base []time.Duration) {
	b.report.Rows = append(b.report.Rows, report.TimesRow(name, times, to, base))
}

// atMost and atLeast add a goal.
func (b *bench) atMost(what string, value, limit float64) {
	b.report.Goals = append(b.report.Goals, report.Goal{What: what, Value: value, Limit: limit})
}

func (b *bench) atLeast(what string, value, limit float64) {
	b.report.Goals = append(b.report.Goals, report.Goal{What: what, Value: value, Limit: limit, AtLeast: true})
}

// single measures one replica.
func (b *bench) single(ctx context.Context) error { return locks.Single(ctx, b.r1.URLs, b.report) }

// natsClients connects n clients of R3 servers, spread over the servers.
func (b *bench) natsClients(ctx context.Context, n int) ([]*locks.Client, func(), error) {
	var clients []*locks.Client
	closeAll := func() {
		for _, c := range clients {
			c.Close()
		}
	}
	for i := range n {
		c, err := locks.Connect(ctx, 3, rotated(b.r3.URLs, i))
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		clients = append(clients, c)
	}
	return clients, closeAll, nil
}

// etcdClients connects n clients of a cluster, spread over its members.
func etcdClients(m *members, n int) ([]*clientv3.Client, func(), error) {
	var clients []*clientv3.Client
	closeAll := func() {
		for _, c := range clients {
			_ = c.Close()
		}
	}
	for i := range n {
		c, err := m.client(i % len(m.urls))
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		clients = append(clients, c)
	}
	return clients, closeAll, nil
}

// rotated begins with element i.
func rotated(urls []string, i int) []string {
	i %= len(urls)
	return append(append([]string{}, urls[i:]...), urls[:i]...)
}

// inTurn runs all of ops once, beginning with another one each time that turn grows.
func inTurn(turn int, ops ...func() error) error {
	var errs []error
	for i := range ops {
		errs = append(errs, ops[(turn+i)%len(ops)]())
	}
	return errors.Join(errs...)
}

// etcdVersion is the version that this program was built with.
func etcdVersion() string {
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, d := range info.Deps {
			if d.Path == "go.etcd.io/etcd/server/v3" {
				return d.Version
			}
		}
	}
	return "of unknown version"
}
