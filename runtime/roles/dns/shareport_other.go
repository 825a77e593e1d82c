//go:build !linux

package dnsserver

import "syscall"

// canSharePort says that several sockets can have one port, and the system spreads clients over them.
const canSharePort = false

func sharePort(_, _ string, _ syscall.RawConn) error { return nil }
