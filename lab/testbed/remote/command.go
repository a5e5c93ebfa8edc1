package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"

	"mcmw/lab/process"
)

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
	p, err := process.Start("the connection to "+c.Host, "", c.Cmd)
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
