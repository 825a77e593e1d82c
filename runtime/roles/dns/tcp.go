package dnsserver

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// tcpIdle bounds the wait for a whole request, and for the client to take an answer.
	tcpIdle = 10 * time.Second
	// tcpRequest bounds a request; a client that sends a longer one is cut off.
	tcpRequest = 4096
	// acceptPause is the wait after a failed accept, such as for lack of file descriptors.
	acceptPause = 50 * time.Millisecond
)

// streamWorker is a worker with room for a TCP answer; connections share them between requests.
type streamWorker struct {
	*worker
	out []byte
}

// serveTCP answers the connections of a listener until it is closed, and waits for them.
func (s *Server) serveTCP(ctx context.Context, l *net.TCPListener) error {
	tcpCounts := s.counts[len(s.counts)-1]
	workers := sync.Pool{New: func() any {
		return &streamWorker{worker: s.newWorker(tcpCounts), out: make([]byte, 0, 2+dns.MaxMsgSize)}
	}}
	open := newStreams(s.opts.MaxTCP)
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		conn, err := l.AcceptTCP()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			s.opts.Log.Warn("dns accept failed", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(acceptPause):
			}
			continue
		}
		st, evicted := open.add(conn)
		if evicted {
			s.tcpEvicted.Add(1)
		}
		conns.Go(func() {
			defer open.remove(st)
			s.serveConn(ctx, st, &workers)
		})
	}
}

// serveConn answers the requests of one connection, in order, until the client closes it, idles or
// misbehaves, its place is taken, or ctx ends.
func (s *Server) serveConn(ctx context.Context, conn *stream, workers *sync.Pool) {
	defer func() { _ = conn.Close() }() // the client is done, or is given up on
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	in := bufio.NewReaderSize(conn, tcpRequest+2)
	for ctx.Err() == nil {
		if err := conn.SetDeadline(time.Now().Add(tcpIdle)); err != nil {
			return
		}
		if err := s.serveRequest(conn, in, workers); err != nil {
			return
		}
		conn.hear()
	}
}

// serveRequest reads one request and writes its answer.
func (s *Server) serveRequest(conn io.Writer, in *bufio.Reader, workers *sync.Pool) error {
	head, err := in.Peek(2)
	if err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint16(head))
	if size > tcpRequest {
		return fmt.Errorf("request of %d octets", size)
	}
	msg, err := in.Peek(2 + size)
	if err != nil {
		return err
	}
	w := workers.Get().(*streamWorker)
	defer workers.Put(w)
	reply := w.handle(msg[2:], w.out[2:2], overTCP)
	if reply == nil {
		return errors.New("not a query")
	}
	if _, err := in.Discard(2 + size); err != nil {
		return err
	}
	out := w.out[:2+len(reply)]
	binary.BigEndian.PutUint16(out, uint16(len(reply)))
	_, err = conn.Write(out)
	return err
}
