package dnsserver

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

const (
	// udpBatch is how many datagrams one system call moves when they arrive faster than they are
	// answered.
	udpBatch = 32
	// udpRequest bounds a request; a longer one is cut and so malformed.
	udpRequest = 2048
	// maxUDPFaults ends the server when reading fails this often in a row.
	maxUDPFaults = 100
	// oobSize holds the address that a datagram was sent to, of either family.
	oobSize = 128
)

// serveUDP answers the datagrams of one socket until it is closed.
func (s *Server) serveUDP(conn *net.UDPConn, w *worker) error {
	// Moving batches does not depend on the address family.
	pc := ipv4.NewPacketConn(conn)
	wildcard := conn.LocalAddr().(*net.UDPAddr).IP.IsUnspecified()
	if wildcard {
		if err := wantDestination(conn); err != nil {
			return err
		}
	}
	in, out := newBatch(wildcard), make([]ipv4.Message, udpBatch)
	replies := make([][]byte, udpBatch)
	for i := range out {
		replies[i] = make([]byte, 0, maxUDPSize)
		out[i].Buffers = make([][]byte, 1)
	}
	for faults := 0; ; {
		n, err := pc.ReadBatch(in, 0)
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			if faults++; faults == maxUDPFaults {
				return fmt.Errorf("read DNS datagrams: %w", err)
			}
			continue
		}
		faults = 0
		answers := 0
		for i := range in[:n] {
			m := &in[i]
			reply := w.handle(m.Buffers[0][:m.N], replies[answers], overUDP)
			if reply == nil {
				continue
			}
			out[answers].Buffers[0] = reply
			out[answers].Addr = m.Addr
			if wildcard {
				out[answers].OOB = sourceOf(m.OOB[:m.NN])
			}
			answers++
		}
		if err := sendAll(pc, out[:answers]); err != nil {
			return nil // closed
		}
	}
}

func newBatch(oob bool) []ipv4.Message {
	ms := make([]ipv4.Message, udpBatch)
	for i := range ms {
		ms[i].Buffers = [][]byte{make([]byte, udpRequest)}
		if oob {
			ms[i].OOB = make([]byte, oobSize)
		}
	}
	return ms
}

// sendAll sends the answers. One that cannot be sent is left out, as the network would; the client asks
// again. It fails when the socket is closed.
func sendAll(pc *ipv4.PacketConn, ms []ipv4.Message) error {
	for len(ms) > 0 {
		n, err := pc.WriteBatch(ms, 0)
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil || n == 0 {
			n = max(n, 0) + 1
		}
		ms = ms[min(n, len(ms)):]
	}
	return nil
}

// wantDestination asks for the address that each datagram was sent to: an answer from a wildcard
// socket must come from it, or the client ignores it. A socket of one family refuses the other's option.
func wantDestination(conn *net.UDPConn) error {
	err6 := ipv6.NewPacketConn(conn).SetControlMessage(ipv6.FlagDst|ipv6.FlagInterface, true)
	err4 := ipv4.NewPacketConn(conn).SetControlMessage(ipv4.FlagDst|ipv4.FlagInterface, true)
	if err4 != nil && err6 != nil {
		return fmt.Errorf("ask for the destination of DNS datagrams: %w", errors.Join(err4, err6))
	}
	return nil
}

// sourceOf turns the control message of a request into the one that makes its answer come from the
// address that the request went to.
func sourceOf(oob []byte) []byte {
	var dst net.IP
	var cm6 ipv6.ControlMessage
	var cm4 ipv4.ControlMessage
	if cm6.Parse(oob) == nil && cm6.Dst != nil {
		dst = cm6.Dst
	} else if cm4.Parse(oob) == nil && cm4.Dst != nil {
		dst = cm4.Dst
	}
	switch {
	case dst == nil:
		return nil
	case dst.To4() != nil:
		return (&ipv4.ControlMessage{Src: dst}).Marshal()
	default:
		return (&ipv6.ControlMessage{Src: dst, IfIndex: cm6.IfIndex}).Marshal()
	}
}
