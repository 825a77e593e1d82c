package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// The exit statuses.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitSignal = 130 // a second signal did not wait for the stop to end
)

// failure is an error of the work itself; every other error that a command returns is one of its
// usage or configuration.
type failure struct{ error }

func (f *failure) Unwrap() error { return f.error }

// failed marks an error of the work itself. failed(nil) is nil.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return &failure{err}
}

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		first := <-signals
		cancel(fmt.Errorf("%s signal received", first))
		second := <-signals
		fmt.Fprintln(os.Stderr, "spinifex: ended by a second signal:", second)
		os.Exit(exitSignal)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// run is main without the process around it; it returns the exit status.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	root := newRoot(&app{environ: environ, host: thisHost(), stdout: stdout, stderr: stderr})
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	fmt.Fprintln(stderr, "spinifex:", err)
	if _, ok := errors.AsType[*failure](err); ok {
		return exitFailed
	}
	return exitUsage
}
