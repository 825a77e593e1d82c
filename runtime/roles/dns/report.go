package dnsserver

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
)

const (
	// reportGap is the least time between two reports, so that a burst of reloads is one report.
	reportGap = 50 * time.Millisecond
	// reportTimeout bounds one write of the status.
	reportTimeout = 2 * time.Second
	// statusVersion of dnsapi.ServerStatus.
	statusVersion = 1
)

// report writes the status after each reload and every Report, and deletes it when ctx ends: a server
// that has stopped is not waited for.
func (s *Server) report(ctx context.Context) error {
	key := dnsapi.ServerKey(s.opts.Node)
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
		defer cancel()
		if err := s.opts.Servers.Delete(ctx, key); err != nil {
			s.opts.Log.Debug("dns status not deleted", "key", key, "error", err)
		}
	}()
	failing := false
	for {
		start := time.Now()
		err := s.writeStatus(ctx, key)
		switch {
		case err != nil && ctx.Err() == nil && !failing:
			failing = true
			s.opts.Log.Warn("dns status not written", "key", key, "error", err)
		case err == nil && failing:
			failing = false
			s.opts.Log.Info("dns status written again", "key", key)
		}
		if !s.waitReport(ctx, start) {
			return context.Cause(ctx)
		}
	}
}

// waitReport waits until the next report is due and reports whether ctx is alive.
func (s *Server) waitReport(ctx context.Context, last time.Time) bool {
	gap := time.NewTimer(time.Until(last.Add(reportGap)))
	defer gap.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-gap.C:
	}
	due := time.NewTimer(time.Until(last.Add(s.opts.Report)))
	defer due.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-due.C:
	case <-s.reloaded:
	}
	return true
}

// writeStatus writes what is served. Before the zone store has been read there is nothing to say.
func (s *Server) writeStatus(ctx context.Context, key string) error {
	v := s.view.Load()
	if v == nil {
		return nil
	}
	value, err := json.Marshal(dnsapi.ServerStatus{Version: statusVersion, Node: s.opts.Node, Zones: v.serials()})
	if err != nil {
		return fmt.Errorf("encode dns status: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	if _, err := s.opts.Servers.Put(ctx, key, value); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}
