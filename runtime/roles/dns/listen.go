package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
)

// portTries is how often another free port is tried when UDP does not get the one that TCP got.
const portTries = 20

// udpBuffer is asked for each UDP socket, for bursts; the system may give less.
const udpBuffer = 4 << 20

// sockets are the open sockets of a server, all on one port.
type sockets struct {
	tcp  *net.TCPListener
	udp  []*net.UDPConn
	addr netip.AddrPort
}

func (s *sockets) close() error {
	var errs []error
	if s.tcp != nil {
		errs = append(errs, s.tcp.Close())
	}
	for _, c := range s.udp {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// checkListen checks the form of an address.
func checkListen(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("dns.listen = %q: want host:port: %w", addr, err)
	}
	return nil
}

// listen opens one TCP and n UDP sockets on addr. Its error names the configuration key.
func listen(ctx context.Context, addr string, n int) (*sockets, error) {
	var err error
	for range portTries {
		var s *sockets
		if s, err = listenOnce(ctx, addr, n); err == nil {
			return s, nil
		}
		if _, port, _ := net.SplitHostPort(addr); port != "0" || !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("dns.listen = %q: the port is in use, choose another: %w", addr, err)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("dns.listen = %q: ports below 1024 need root: %w", addr, err)
	}
	return nil, fmt.Errorf("dns.listen = %q: %w", addr, err)
}

func listenOnce(ctx context.Context, addr string, n int) (*sockets, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &sockets{tcp: l.(*net.TCPListener)}
	s.addr = s.tcp.Addr().(*net.TCPAddr).AddrPort()
	s.addr = netip.AddrPortFrom(s.addr.Addr().Unmap(), s.addr.Port())
	udpAddr := net.JoinHostPort(host, strconv.Itoa(int(s.addr.Port())))
	if err := s.openUDP(ctx, udpAddr, n); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *sockets) openUDP(ctx context.Context, addr string, n int) error {
	var lc net.ListenConfig
	if canSharePort {
		// A socket that does not share shows whether a stranger has the port: one that shares would
		// take half of the stranger's queries, silently.
		probe, err := lc.ListenPacket(ctx, "udp", addr)
		if err != nil {
			return err
		}
		if err := probe.Close(); err != nil {
			return err
		}
		lc.Control = sharePort
	} else {
		n = 1
	}
	for range n {
		pc, err := lc.ListenPacket(ctx, "udp", addr)
		if err != nil {
			return err
		}
		conn := pc.(*net.UDPConn)
		s.udp = append(s.udp, conn)
		if err := conn.SetReadBuffer(udpBuffer); err != nil {
			return err
		}
	}
	return nil
}
