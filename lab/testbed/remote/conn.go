package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
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

// Conn is the lab's side of a connection to a host. It is safe for concurrent use.
type Conn struct {
	name string // of the host, in errors
	out  *writer
	in   io.Closer // closes what out writes to
	done chan struct{}

	mu       sync.Mutex         // guards the fields below; nothing is written to the connection while it is held
	next     int                // id of the next request
	answers  map[int]chan event // take -> ask, by request id; each carries one event
	programs map[int]*remote    // programs that have not ended; nil once the connection has ended
	failure  error              // why the connection ended; nil while it is up
}

// NewConn makes a connection from a command's output (in) and input (out), and returns when the host has sent its
// hello. explain returns why the connection has ended, given the error of reading in; it may wait for the command's
// end. Closing out must make in end.
func NewConn(ctx context.Context, name string, in io.Reader, out io.WriteCloser, explain func(error) error) (*Conn,
	error,
) {
	c := &Conn{
		name: name, out: newWriter(out), in: out, done: make(chan struct{}), next: 1,
		answers: map[int]chan event{}, programs: map[int]*remote{},
	}
	greeted := make(chan *hello, 1)
	go func() {
		first := true
		err := read(in, func(e event) error {
			if first != (e.Hello != nil) {
				return errors.New("its answer is not that of this version of mcmwlab; expected the same version on " +
					"all hosts")
			}
			if first {
				first = false
				greeted <- e.Hello
				return nil
			}
			return c.take(e)
		})
		c.end(explain(err))
	}()
	select {
	case h := <-greeted:
		if h.Protocol != protocol {
			c.Close()
			return nil,
				fmt.Errorf("%s: its mcmwlab (%s) has another version than this one; expected the same version on all "+
					"hosts", name, h.Version)
		}
		return c, nil
	case <-c.done:
		return nil, c.failure
	case <-ctx.Done():
		c.Close()
		return nil, context.Cause(ctx)
	}
}

// take passes an event to the request or program that it is for.
func (c *Conn) take(e event) error {
	c.mu.Lock()
	p, answer := c.programs[e.ID], c.answers[e.ID]
	switch {
	case e.Ended != nil:
		delete(c.programs, e.ID)
	case e.Output == nil:
		delete(c.answers, e.ID)
		if e.Error != "" {
			delete(c.programs, e.ID)
		}
	}
	c.mu.Unlock()
	switch {
	case e.Output != nil && p != nil && p.stdout != nil:
		if _, err := p.stdout.Write(e.Output); err != nil {
			return fmt.Errorf("writing the output of %s: %w", p.name, err)
		}
	case e.Ended != nil && p != nil:
		p.end(e.Ended.Code, errors.New(e.Ended.Text))
	case e.Output == nil && e.Ended == nil && answer != nil:
		answer <- e
	}
	return nil
}

// end fails all requests and programs, because the connection has ended.
func (c *Conn) end(failure error) {
	c.mu.Lock()
	c.failure = fmt.Errorf("%s: %w", c.name, failure)
	programs := c.programs
	c.programs = nil
	c.mu.Unlock()
	for _, p := range programs {
		p.end(-1, fmt.Errorf("%s: %w", p.name, c.failure))
	}
	close(c.done)
}

// Close ends the connection and waits for its end. The host then kills its programs.
func (c *Conn) Close() {
	_ = c.in.Close() // an error does not matter: done tells when the connection has ended
	<-c.done
}

// ask sends a request and returns its answer. p is the program that the request starts; nil for other requests.
func (c *Conn) ask(ctx context.Context, r request, p *remote) (event, error) {
	answer := make(chan event, 1)
	c.mu.Lock()
	if c.programs == nil {
		c.mu.Unlock()
		return event{}, c.failure
	}
	r.ID = c.next
	c.next++
	c.answers[r.ID] = answer
	if p != nil {
		p.id = r.ID
		c.programs[r.ID] = p
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout,
		fmt.Errorf("%s has not answered within %v", c.name, answerTimeout))
	defer cancel()
	if err := c.out.write(r); err != nil {
		// The end of the command that reaches the host explains the error.
		select {
		case <-c.done:
			return event{}, c.failure
		case <-ctx.Done():
			return event{}, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	select {
	case e := <-answer:
		if e.Error != "" {
			return event{}, fmt.Errorf("%s: %s", c.name, e.Error)
		}
		return e, nil
	case <-c.done:
		return event{}, c.failure
	case <-ctx.Done():
		return event{}, context.Cause(ctx)
	}
}

// FreePort returns a port of an address of the host on which nothing listens.
func (c *Conn) FreePort(ctx context.Context, address string) (int, error) {
	e, err := c.ask(ctx, request{FreePort: address}, nil)
	return e.Port, err
}

// clockProbes is how often a clock is read. The reading with the shortest round trip counts.
const clockProbes = 5

// Clock returns how far the host's clock is ahead of this machine's, and the uncertainty of that.
func (c *Conn) Clock(ctx context.Context) (ahead, within time.Duration, err error) {
	within = answerTimeout
	for range clockProbes {
		sent := time.Now()
		e, err := c.ask(ctx, request{Clock: true}, nil)
		if err != nil {
			return 0, 0, err
		}
		if half := time.Since(sent) / 2; half < within {
			ahead, within = time.Unix(0, e.Clock).Sub(sent.Add(half)), half
		}
	}
	return ahead, within, nil
}

func (c *Conn) Start(ctx context.Context, p testbed.Program) (testbed.Process, error) {
	started := &remote{conn: c, name: p.Name, stdout: p.Stdout, done: make(chan struct{})}
	e, err := c.ask(ctx, request{Start: &program{p.Name, p.Path, p.Args, p.CPUs, p.Stdout != nil}}, started)
	if err != nil {
		_ = c.out.write(request{ID: started.id, Stop: int(syscall.SIGKILL)}) // without an answer it can still start
		return nil, err
	}
	started.pid = e.Pid
	return started, nil
}

type remote struct {
	conn   *Conn
	name   string
	stdout io.Writer // written by the connection's reader; nil: the output is discarded
	id     int       // of its request
	pid    int       // set before Start returns

	done chan struct{} // closed when it has ended
	code int           // its exit code; valid once done is closed
	how  error         // how it ended; valid once done is closed
}

func (p *remote) end(code int, how error) {
	p.code, p.how = code, how
	close(p.done)
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

// Stop makes the host stop it. If the host does not answer any more, Stop closes the connection, which ends the
// program.
func (p *remote) Stop(signal syscall.Signal) {
	if p.Ended() != nil {
		return
	}
	_ = p.conn.out.write(request{ID: p.id, Stop: int(signal)}) // if the connection is broken, its reader ends p
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
	// Host is the host's name, in errors.
	Host string
	Cmd  *exec.Cmd
	// Prepare, if set, is called before the host sends its hello: it starts the agent if the command itself doesn't. It
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
	p, err := process.Start("the connection to "+c.Host, c.Cmd)
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
			return nil, fmt.Errorf("%s: %w", c.Host, err)
		}
	}
	return NewConn(ctx, c.Host, in, out, explain)
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
