package dnsserver

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// canSharePort says that several sockets can have one port, and the system spreads clients over them.
const canSharePort = true

// sharePort lets other sockets of this user have the same port.
func sharePort(_, _ string, conn syscall.RawConn) error {
	var optErr error
	err := conn.Control(func(fd uintptr) {
		optErr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	return errors.Join(err, optErr)
}
