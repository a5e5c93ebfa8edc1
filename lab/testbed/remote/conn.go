package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"mcmw/lab/process"
	"mcmw/lab/testbed"
)

const (
	// answerTimeout bounds how long a busy host may take to answer a request.
	answerTimeout = 30 * time.Second
	// stopTimeout is how long a program may take to end after Stop. The host kills it earlier.
	stopTimeout = 20 * time.Second
)

// Conn is the lab's side of a connection to a host, which it represents. It is safe for concurrent use.
type Conn struct {
	name    string // of the host, in errors
	host    Command
	client  *rpc.Client
	last    atomic.Int64  // id of the last program
	done    chan struct{} // closed when the connection has ended
	failure error         // why it has ended; valid once done is closed
}

// NewConn makes a connection from a command's output (in) and input (out), and returns when the host has said its
// version. explain returns why the connection has ended, given the error of what the host has sent; it may wait for the
// command's end. Closing out must make in end.
func NewConn(ctx context.Context, name string, in io.Reader, out io.WriteCloser, explain func(error) error) (*Conn,
	error,
) {
	c := &Conn{name: name, client: jsonrpc.NewClient(stream{in, out}), done: make(chan struct{})}
	// It is answered by the end of the connection.
	end := c.client.Go(service+".Wait", nothing{}, &nothing{}, make(chan *rpc.Call, 1))
	go func() {
		<-end.Done
		err := end.Error
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed) ||
			errors.Is(err, syscall.EPIPE) || errors.Is(err, rpc.ErrShutdown) {
			err = nil // the end of the command explains it
		}
		if err != nil {
			err = fmt.Errorf("its answer is not that of this version of mcmwlab; expected the same version on all "+
				"hosts (%w)", err)
		}
		c.failure = fmt.Errorf("%s: %w", name, explain(err))
		close(c.done)
	}()
	var host Version
	err := c.call(ctx, "Version", nothing{}, &host)
	if err == nil && host.Protocol != protocol {
		err = fmt.Errorf("%s: its mcmwlab (%s) has another version than this one; expected the same version on all "+
			"hosts", name, host.Mcmwlab)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// stream is both directions of a connection.
type stream struct {
	io.Reader
	io.WriteCloser
}

// Close ends the connection and waits for its end. The host then kills its programs.
func (c *Conn) Close() {
	_ = c.client.Close() // an error does not matter: done tells when the connection has ended
	<-c.done
}

// call calls a method of the host.
func (c *Conn) call(ctx context.Context, method string, argument, answer any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout,
		fmt.Errorf("%s has not answered within %v", c.name, answerTimeout))
	defer cancel()
	call := c.client.Go(service+"."+method, argument, answer, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if refused, ok := errors.AsType[rpc.ServerError](call.Error); ok || call.Error == nil {
		if ok {
			return fmt.Errorf("%s: %w", c.name, refused)
		}
		return nil
	}
	select { // the end of the connection explains the error
	case <-c.done:
		return c.failure
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Conn) Name() string    { return c.host.Name }
func (c *Conn) Address() string { return c.host.Address }

func (c *Conn) FreePort(ctx context.Context) (port int, err error) {
	return port, c.call(ctx, "FreePort", c.Address(), &port)
}

// clockProbes is how often a clock is read. The reading with the shortest round trip counts.
const clockProbes = 5

// Clock returns how far the host's clock is ahead of this machine's, and the uncertainty of that.
func (c *Conn) Clock(ctx context.Context) (ahead, within time.Duration, err error) {
	within = answerTimeout
	for range clockProbes {
		var there time.Time
		sent := time.Now()
		if err := c.call(ctx, "Clock", nothing{}, &there); err != nil {
			return 0, 0, err
		}
		if half := time.Since(sent) / 2; half < within {
			ahead, within = there.Sub(sent.Add(half)), half
		}
	}
	return ahead, within, nil
}

func (c *Conn) Start(ctx context.Context, p testbed.Program) (testbed.Process, error) {
	r := &remote{conn: c, name: p.Name, id: int(c.last.Add(1)), done: make(chan struct{})}
	var pid int
	if err := c.call(ctx, "Start", Program{r.id, p.Name, p.Path, p.Args, p.CPUs, p.Stdout != nil}, &pid); err != nil {
		r.signal(syscall.SIGKILL) // without an answer it can still start
		return nil, err
	}
	r.pid = pid
	go r.follow(p.Stdout)
	return r, nil
}

type remote struct {
	conn *Conn
	name string
	id   int
	pid  int

	done chan struct{} // closed when it has ended
	code int           // its exit code; valid once done is closed
	how  error         // how it ended; valid once done is closed
}

// follow writes the program's output to out until the program or the connection ends.
func (p *remote) follow(out io.Writer) {
	defer close(p.done)
	for {
		var part Part
		if p.conn.client.Call(service+".Read", p.id, &part) != nil {
			<-p.conn.done
			p.code, p.how = -1, fmt.Errorf("%s: %w", p.name, p.conn.failure)
			return
		}
		if part.Ended {
			p.code, p.how = part.Code, errors.New(part.Text)
			return
		}
		if _, err := out.Write(part.Output); err != nil {
			p.conn.Close()
			p.code, p.how = -1, fmt.Errorf("writing the output of %s: %w", p.name, err)
			return
		}
	}
}

func (p *remote) Pid() int { return p.pid }

// Done returns a channel that is closed when the program or the connection has ended.
func (p *remote) Done() <-chan struct{} { return p.done }

// Ended returns how it has ended; nil while it runs.
func (p *remote) Ended() error {
	select {
	case <-p.done:
		return p.how
	default:
		return nil
	}
}

// ExitCode returns its exit code; -1 while it runs, or if a signal or the end of the connection ended it.
func (p *remote) ExitCode() int {
	if p.Ended() == nil {
		return -1
	}
	return p.code
}

// signal makes the host stop the program, and does not wait for it.
func (p *remote) signal(s syscall.Signal) {
	p.conn.client.Go(service+".Stop", Signal{p.id, s}, &nothing{}, make(chan *rpc.Call, 1))
}

// Stop makes the host stop it. If the host does not answer any more, Stop closes the connection, which ends the
// program.
func (p *remote) Stop(signal syscall.Signal) {
	if p.Ended() != nil {
		return
	}
	p.signal(signal)
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		p.conn.Close()
	}
}

// closeTimeout is how long a command may take to end after its input has ended; the host stops its programs meanwhile.
const closeTimeout = 10 * time.Second

// Command is a command that reaches a host.
type Command struct {
	Kind, Name string // of the host, such as "pod" and "load-0"
	Address    string // of the host
	Cmd        *exec.Cmd
	// Prepare, if set, is called before the first call: it starts the agent if the command itself doesn't. It
	// must not read more of in than the answers to what it has written.
	Prepare func(in *bufio.Reader, out io.Writer) error
	// Explain returns an error that says why the command ended, given its exit code, -1 for a signal, and the end of
	// its standard error.
	Explain func(code int, stderr string) error
}

// Connect starts a command that reaches a host and returns the connection over it. The command ends with the
// connection.
func Connect(ctx context.Context, c Command) (*Conn, error) {
	read, written := io.Pipe()
	c.Cmd.Stdout = written
	stdin, err := c.Cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	name := c.Kind + " " + c.Name
	p, err := process.Start("the connection to "+name, c.Cmd)
	if err != nil {
		return nil, err
	}
	go func() {
		<-p.Done()
		written.Close()
	}()
	in, out := bufio.NewReader(read), &input{WriteCloser: stdin, p: p}
	explain := func(err error) error {
		read.CloseWithError(errors.New("the connection has ended")) // so that nothing waits for the command's output
		if err != nil {
			p.Stop(syscall.SIGTERM)
			return err
		}
		<-p.Done()
		return c.Explain(p.ExitCode(), p.Log())
	}
	if c.Prepare != nil {
		stop := context.AfterFunc(ctx, func() { p.Stop(syscall.SIGTERM) })
		err := c.Prepare(in, out)
		if !stop() {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			_ = out.Close()
			if ended := explain(nil); errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) {
				err = ended
			}
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	conn, err := NewConn(ctx, name, in, out, explain)
	if err == nil {
		conn.host = c
	}
	return conn, err
}

// input is the standard input of the command. The command must end when it is closed.
type input struct {
	io.WriteCloser
	p *process.Process
}

// Close closes the input, and kills the command if it doesn't end then.
func (i *input) Close() error {
	kill := time.AfterFunc(closeTimeout, func() { i.p.Stop(syscall.SIGKILL) })
	go func() {
		<-i.p.Done()
		kill.Stop()
	}()
	return i.WriteCloser.Close()
}
