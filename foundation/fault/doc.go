// Package fault marks the points of the code where a test stops or kills the process.
//
// In an ordinary build Point returns its context and costs nothing. In a build with the tag "fault" the
// variable SPINIFEX_FAULT arms one point:
//
//	SPINIFEX_FAULT=<point>=stop:<file>[:after=N]   at the N-th hit (1) create <file>, then SIGSTOP the own process, once
//	SPINIFEX_FAULT=<point>=exit[:after=N]          at the N-th hit (1) end the process without any clean-up
//
// A test waits for the file, lets time pass and sends SIGCONT: what the process does next it does
// with whatever it had decided before.
package fault
