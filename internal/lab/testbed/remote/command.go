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

	"mcmw/internal/lab/process"
)

// closeTimeout is how long a command may take to end when its input has: the host stops its programs meanwhile.
const closeTimeout = 10 * time.Second

// Command is a command that reaches a host.
type Command struct {
	// Host is the host's name, in errors.
	Host string
	Cmd  *exec.Cmd
	// Prepare is called before the host is expected to say hello: it has the agent started if the command itself doesn't. nil:
	// nothing has to be done. What it reads of in beyond its part is lost.
	Prepare func(in *bufio.Reader, out io.Writer) error
	// Explain makes an error of how the command ended: the code, -1 for a signal, and the end of what it wrote to standard error.
	Explain func(code int, stderr string) error
}

// Connect starts a command that reaches a host, and returns the connection. It ends with the connection.
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
		read.CloseWithError(errors.New("nobody reads it any more")) // so that the command's output isn't waited for
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

// input is the standard input of the command. When it is closed the command has to end.
type input struct {
	io.WriteCloser
	p *process.Process
}

// Close ends the input, and kills the command if it doesn't end then.
func (i *input) Close() error {
	kill := time.AfterFunc(closeTimeout, func() { i.p.Stop(syscall.SIGKILL) })
	go func() {
		<-i.p.Done()
		kill.Stop()
	}()
	return i.WriteCloser.Close()
}
