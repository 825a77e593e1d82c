package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// storeLook is how often the store is looked at.
	storeLook = 5 * time.Second
	// restartTime bounds the start of a server that replaces another.
	restartTime = time.Minute
	// roomProbe is what must fit on the disk, in bytes, before a server that could not write is
	// restarted: enough for it to begin and to be of use.
	roomProbe = 8 << 20
)

// A stream whose write has failed once, on a full disk for example, refuses every write until the
// server starts again: the library remembers the fault and does not try. So the server is restarted in
// place when the disk takes writes again; its clients reconnect. Until then it serves reads.

// beginWatch looks at the store until endWatch.
func (n *NATSServer) beginWatch() {
	ctx, cancel := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(storeLook)
		defer tick.Stop()
		told := ""
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				told = n.look(ctx, told)
			}
		}
	})
	n.endWatch = func() { cancel(); watch.Wait() }
}

// look restarts the server if its store has failed and the disk takes writes. told is what it last
// logged as the reason why it did not, and it returns the new one: each is logged once.
func (n *NATSServer) look(ctx context.Context, told string) string {
	if !n.down {
		fault := n.fault()
		if fault == nil {
			return ""
		}
		if err := n.room(); err != nil {
			if told != err.Error() {
				n.opts.Log.Error("embedded NATS server cannot write, waiting for the disk", "error", fault, "disk", err)
			}
			return err.Error()
		}
		n.opts.Log.Warn("embedded NATS server is restarted because it has stopped writing", "error", fault)
	}
	if err := n.restart(ctx); err != nil {
		if ctx.Err() == nil && told != err.Error() {
			n.opts.Log.Error("embedded NATS server does not start again", "error", err)
		}
		return err.Error()
	}
	n.opts.Log.Info("embedded NATS server runs again", "url", n.client.URL)
	return ""
}

// restart replaces the server by a new one on the same port and store.
func (n *NATSServer) restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, restartTime, fmt.Errorf("not done within %v", restartTime))
	defer cancel()
	n.down = true
	n.srv.Shutdown()
	n.srv.WaitForShutdown()
	if err := n.start(ctx); err != nil {
		return err
	}
	n.down = false
	return nil
}

// streamFaults are what the server knows to be wrong with streams.
func (n *NATSServer) streamFaults() []server.HealthzError {
	var faults []server.HealthzError
	for _, e := range n.srv.Healthz(&server.HealthzOptions{Details: true}).Errors {
		if e.Type == server.HealthzErrorStream {
			faults = append(faults, e)
		}
	}
	return faults
}

// writeFault is the fault for which a stream refuses writes, nil if none does.
func (n *NATSServer) writeFault() error {
	for _, e := range n.streamFaults() {
		if strings.Contains(e.Error, "write error") {
			return errors.New(e.Error)
		}
	}
	return nil
}

// diskTakesWrites writes and syncs a file beside the store.
func (n *NATSServer) diskTakesWrites() error {
	f, err := os.OpenFile(n.opts.Data.Path("nats", "probe"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, roomProbe))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
}

// lostStreams is an error when a stream that has messages could not be read. The server passes over it,
// and the bucket would be made anew, empty: a damaged file of a few octets would delete everything that
// the bucket records. A stream that was being made or deleted when the machine stopped is none of these.
func (n *NATSServer) lostStreams() error {
	var errs []error
	for _, e := range n.streamFaults() {
		dir := n.opts.Data.Path("nats", "jetstream", e.Account, "streams", e.Stream)
		if strings.HasPrefix(e.Stream, ".") || !hasMessages(dir) {
			continue
		}
		errs = append(errs, fmt.Errorf("%s: restore %s from a backup, or move it away to begin without what it holds", e.Error, dir))
	}
	return errors.Join(errs...)
}

// hasMessages says whether a stream's directory is that of a stream that is not deleted, with messages.
func hasMessages(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, "meta.inf")); err != nil {
		return false
	}
	files, _ := os.ReadDir(filepath.Join(dir, "msgs")) // without it there are none
	for _, f := range files {
		if info, err := f.Info(); err == nil && strings.HasSuffix(f.Name(), ".blk") && info.Size() > 0 {
			return true
		}
	}
	return false
}
