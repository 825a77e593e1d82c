package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options say what to run.
type Options struct {
	// Path is the program, Args its arguments without the program's name.
	Path string
	Args []string
	// Env is added to the environment of the caller, from which every variable is taken away whose
	// name begins with AWS_ or SPINIFEX_: a test does not depend on whose machine it runs on.
	Env []string
	// Dir is the working directory; empty means the caller's.
	Dir string
	// Log also gets what the program writes; nil keeps it in memory only.
	Log io.Writer
}

// Process is a running program, or one that has ended.
type Process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	out   output
	done  chan struct{}
	err   error // of Wait; set before done is closed
}

// Start runs a program. The caller ends it with Kill or Stop.
func Start(opts Options) (*Process, error) {
	p := &Process{cmd: exec.Command(opts.Path, opts.Args...), done: make(chan struct{})}
	p.out.also = opts.Log
	p.cmd.Dir = opts.Dir
	p.cmd.Env = append(CleanEnv(), opts.Env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.WaitDelay = time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("process: start %s: %w", opts.Path, err)
	}
	p.stdin = stdin
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("process: start %s: %w", opts.Path, err)
	}
	return p, nil
}

// run starts the program and waits for its end. It keeps its thread for so long: the kernel takes
// the end of the thread that started a process for the end of the parent.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.err = p.cmd.Wait()
		close(p.done)
	}
}

// CleanEnv is the caller's environment without what would reach into the product or its clients.
func CleanEnv() []string {
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "AWS_") && !strings.HasPrefix(entry, "SPINIFEX_") {
			env = append(env, entry)
		}
	}
	return env
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed once the process has ended and its output is complete.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Output is everything written so far, to standard output and error.
func (p *Process) Output() string { return p.out.String() }

// Signal sends a signal to the process.
func (p *Process) Signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("process: signal %d with %s: %w", p.PID(), sig, err)
	}
	return nil
}

// Kill ends the process as a power cut would and waits until it is gone.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Stop asks the process to end with SIGTERM and waits. When ctx ends first it is killed and the
// error says so; an exit status other than 0 is an error, too.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if _, err := p.Wait(ctx); err != nil {
		return errors.Join(err, p.Kill())
	}
	return p.err
}

// Wait returns the exit status, -1 for the end by a signal, once the process has ended.
func (p *Process) Wait(ctx context.Context) (status int, err error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("process: %d has not ended: %w", p.PID(), context.Cause(ctx))
	}
}

// output collects what a process writes.
type output struct {
	also io.Writer

	mu  sync.Mutex
	buf strings.Builder
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Write(b)
	if o.also != nil {
		return o.also.Write(b)
	}
	return len(b), nil
}

// String is what was written so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
