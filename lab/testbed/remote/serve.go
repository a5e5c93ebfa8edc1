package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"sync"
	"syscall"
	"time"

	"mcmw/lab/process"
	"mcmw/lab/testbed"
)

const (
	// protocol is the version of the methods. It changes when they become incompatible.
	protocol = 3
	// service is the name of the methods' receiver.
	service = "Host"
	// maxOutput is the most output of a program in one answer, bytes.
	maxOutput = 64 << 10
)

// The arguments and answers of the methods.
type (
	nothing = struct{}
	// Version is that of the host.
	Version struct {
		Protocol int
		Mcmwlab  string
	}
	// Program is a program to start. The lab numbers programs.
	Program struct {
		ID         int
		Name, Path string
		Args       []string
		CPUs       []int
		Stdout     bool // whether its output is read
	}
	// Signal is a signal for a program, which the host kills later if needed.
	Signal struct {
		ID     int
		Signal syscall.Signal
	}
	// Part is a part of a program's output or, after the last, how the program has ended.
	Part struct {
		Output []byte
		Ended  bool
		Code   int    // -1: by a signal
		Text   string // for an error: the program's name, how it ended, and the end of its output
	}
)

// Starter starts a program, as Start of testbed.Host does.
type Starter func(ctx context.Context, p testbed.Program) (testbed.Process, error)

// host has the methods of the host's side.
type host struct {
	ctx     context.Context // ends with the connection
	begin   Starter
	version string

	mu       sync.Mutex       // guards programs, and is held while one is started
	programs map[int]*program // nil for those that are stopped before they start
}

type program struct {
	testbed.Process
	out *io.PipeReader // its output; nil: it is not read
}

// Serve carries out the calls from in and answers them to out. When in or ctx ends, or out fails, it kills the programs
// that still run and returns. A read of in can then still be in progress.
func Serve(ctx context.Context, in io.Reader, out io.Writer, start Starter, version string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h := &host{ctx: ctx, begin: start, version: version, programs: map[int]*program{}}
	server := rpc.NewServer()
	if err := server.RegisterName(service, h); err != nil {
		return err
	}
	go server.ServeCodec(codec{jsonrpc.NewServerCodec(stream{in, output{out}}), cancel})
	<-ctx.Done()
	h.mu.Lock() // so that none is being started, and from now on none is
	var ending sync.WaitGroup
	for _, p := range h.programs {
		if p == nil {
			continue
		}
		if p.out != nil {
			p.out.Close()
		}
		ending.Go(func() { p.Stop(syscall.SIGKILL) })
	}
	ending.Wait()
	if err := context.Cause(ctx); !errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// output is a writer that is not closed with the connection.
type output struct{ io.Writer }

func (output) Close() error { return nil }

// codec calls ended with the first error of reading or writing.
type codec struct {
	rpc.ServerCodec
	ended func(error)
}

func (c codec) ReadRequestHeader(r *rpc.Request) error {
	err := c.ServerCodec.ReadRequestHeader(r)
	switch {
	case errors.Is(err, io.EOF):
		c.ended(err)
	case err != nil:
		c.ended(fmt.Errorf("what the lab sends is not a request of this version of mcmwlab: %w", err))
	}
	return err
}

func (c codec) WriteResponse(r *rpc.Response, answer any) error {
	err := c.ServerCodec.WriteResponse(r, answer)
	if err != nil {
		c.ended(err)
	}
	return err
}

// Wait returns when the connection ends.
func (h *host) Wait(nothing, *nothing) error {
	<-h.ctx.Done()
	return nil
}

// Version returns the version of the methods and of mcmwlab.
func (h *host) Version(_ nothing, v *Version) error {
	*v = Version{protocol, h.version}
	return nil
}

// FreePort returns a port of an address on which nothing listens.
func (h *host) FreePort(address string, port *int) (err error) {
	*port, err = process.FreePort(address)
	return err
}

// Clock returns the time.
func (h *host) Clock(_ nothing, now *time.Time) error {
	*now = time.Now()
	return nil
}

// Start starts a program and returns its process id.
func (h *host) Start(wanted Program, pid *int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.programs[wanted.ID]; known {
		return fmt.Errorf("%s: program %d is stopped, or exists already", wanted.Name, wanted.ID)
	}
	p := testbed.Program{Name: wanted.Name, Path: wanted.Path, Args: wanted.Args, CPUs: wanted.CPUs}
	started := &program{}
	var in *io.PipeWriter
	if wanted.Stdout {
		started.out, in = io.Pipe()
		p.Stdout = in
	}
	var err error
	if started.Process, err = h.begin(h.ctx, p); err != nil {
		return err
	}
	if in != nil {
		go func() {
			<-started.Done()
			in.Close()
		}()
	}
	h.programs[wanted.ID], *pid = started, started.Pid()
	return nil
}

// Read returns the next part of a program's output, or how the program has ended; then the host forgets it.
func (h *host) Read(id int, part *Part) error {
	h.mu.Lock()
	p := h.programs[id]
	h.mu.Unlock()
	if p == nil {
		return fmt.Errorf("there is no program %d", id)
	}
	if p.out != nil {
		buffer := make([]byte, maxOutput)
		if n, err := p.out.Read(buffer); err == nil {
			part.Output = buffer[:n]
			return nil
		}
	}
	<-p.Done()
	*part = Part{Ended: true, Code: p.ExitCode(), Text: p.Ended().Error()}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.programs, id)
	return nil
}

// Stop stops a program, also one that has not been started yet.
func (h *host) Stop(s Signal, _ *nothing) error {
	h.mu.Lock()
	p, known := h.programs[s.ID]
	if !known {
		h.programs[s.ID] = nil
	}
	h.mu.Unlock()
	if p != nil {
		p.Stop(s.Signal)
	}
	return nil
}
