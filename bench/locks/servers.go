package locks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mulgadc/spinifex/internal/process"
)

// Servers are NATS servers on loopback, one or a cluster, each a process of its own.
type Servers struct {
	// URLs are the addresses for clients, in the order of the servers.
	URLs []string

	procs []*process.Process
}

// StartServers starts n servers with their data below dir, from the binary of internal/natsd. With
// synced each write is on disk before it is acknowledged.
func StartServers(ctx context.Context, binary, dir string, n int, synced bool) (*Servers, error) {
	var routes []string
	if n > 1 {
		var err error
		if routes, err = FreePorts(n); err != nil {
			return nil, err
		}
	}
	s := &Servers{}
	for i := range n {
		args := []string{"-dir", filepath.Join(dir, strconv.Itoa(i)), fmt.Sprintf("-sync=%t", synced), "-name", ServerName(i)}
		if n > 1 {
			args = append(args, "-route", routes[i], "-peers", strings.Join(routes, ","))
		}
		p, err := process.Start(process.Options{Path: binary, Args: args})
		if err != nil {
			s.Stop()
			return nil, err
		}
		s.procs = append(s.procs, p)
	}
	for _, p := range s.procs {
		url, err := Ready(ctx, p)
		if err != nil {
			s.Stop()
			return nil, err
		}
		s.URLs = append(s.URLs, url)
	}
	return s, nil
}

// ServerName is the name of server i, as JetStream tells leaders.
func ServerName(i int) string { return fmt.Sprintf("n%d", i+1) }

// Kill ends server i as a power cut would.
func (s *Servers) Kill(i int) error { return s.procs[i].Kill() }

// Stop ends all servers.
func (s *Servers) Stop() {
	for _, p := range s.procs {
		_ = p.Kill()
	}
}

// Ready waits for the line "ready X" of a process and returns X.
func Ready(ctx context.Context, p *process.Process) (string, error) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		if _, rest, ok := strings.Cut("\n"+p.Output(), "\nready "); ok {
			if line, _, whole := strings.Cut(rest, "\n"); whole {
				return line, nil
			}
		}
		select {
		case <-ticker.C:
		case <-p.Done():
			return "", errors.New("the process ended before it was ready: " + p.Output())
		case <-ctx.Done():
			return "", fmt.Errorf("the process is not ready: %w", context.Cause(ctx))
		}
	}
}

// FreePorts returns n ports of 127.0.0.1 that are free at this moment.
func FreePorts(n int) ([]string, error) {
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // held until all are chosen, so that none is chosen twice
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return ports, nil
}
