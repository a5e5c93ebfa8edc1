package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"syscall"
	"time"

	"mcmw/lab/process"
	"mcmw/lab/testbed"
)

// Starter starts a program, as Start of testbed.Host does.
type Starter func(ctx context.Context, p testbed.Program) (testbed.Process, error)

// server is the host's side of a connection.
type server struct {
	ctx   context.Context
	start Starter
	out   *writer

	// owned by Serve's loop
	programs map[int]testbed.Process

	ending sync.WaitGroup // goroutines that wait for the end of programs
}

// Serve carries out the requests from in and writes events to out. When in or ctx ends, or out fails, it kills the
// programs that still run and returns. A read of in can then still be in progress.
func Serve(ctx context.Context, in io.Reader, out io.Writer, start Starter, version string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &server{ctx: ctx, start: start, out: newWriter(out), programs: map[int]testbed.Process{}}
	if err := s.out.write(event{Hello: &hello{protocol, version}}); err != nil {
		return err
	}
	requests := make(chan request) // reader -> this loop; never closed
	go func() {
		err := read(in, func(r request) error {
			select {
			case requests <- r:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		cancel(cmp.Or(err, io.EOF))
	}()
	err := s.loop(requests)
	for _, p := range s.programs {
		s.ending.Go(func() { p.Stop(syscall.SIGKILL) })
	}
	s.ending.Wait()
	return err
}

// loop carries out requests until the connection ends.
func (s *server) loop(requests <-chan request) error {
	for {
		var err error
		select {
		case r := <-requests:
			err = s.serve(r)
		case <-s.ctx.Done():
			if err = context.Cause(s.ctx); errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
}

// serve carries out a request. An error means that the connection cannot continue.
func (s *server) serve(r request) error {
	switch {
	case r.Start != nil:
		return s.startProgram(r.ID, r.Start)
	case r.Stop > 0:
		if p, ok := s.programs[r.ID]; ok {
			s.ending.Go(func() { p.Stop(syscall.Signal(r.Stop)) })
		}
		return nil
	case r.FreePort != "":
		port, err := process.FreePort(r.FreePort)
		if err != nil {
			return s.out.write(event{ID: r.ID, Error: err.Error()})
		}
		return s.out.write(event{ID: r.ID, Port: port})
	case r.Clock:
		return s.out.write(event{ID: r.ID, Clock: time.Now().UnixNano()})
	default:
		return fmt.Errorf("request %d is of an unknown kind; expected the same version of mcmwlab on both sides", r.ID)
	}
}

// startProgram starts a program, and sends events for its output and its end.
func (s *server) startProgram(id int, wanted *program) error {
	if _, ok := s.programs[id]; ok {
		return s.out.write(event{ID: id, Error: fmt.Sprintf("program %d exists already", id)})
	}
	p := testbed.Program{Name: wanted.Name, Path: wanted.Path, Args: wanted.Args, CPUs: wanted.CPUs}
	answered := make(chan struct{}) // closed when the answer has been sent, which must precede the output
	defer close(answered)
	if wanted.Stdout {
		p.Stdout = &output{id, answered, s.out}
	}
	started, err := s.start(s.ctx, p)
	if err != nil {
		return s.out.write(event{ID: id, Error: err.Error()})
	}
	maps.DeleteFunc(s.programs, func(_ int, p testbed.Process) bool { return p.Ended() != nil })
	s.programs[id] = started
	s.ending.Go(func() {
		<-started.Done()
		<-answered
		e := &ended{Code: started.ExitCode(), Text: started.Ended().Error()}
		_ = s.out.write(event{ID: id, Ended: e}) // if the connection is broken, its reader ends it
	})
	return s.out.write(event{ID: id, Pid: started.Pid()})
}

// output sends a program's output as events.
type output struct {
	id       int
	answered <-chan struct{}
	out      *writer
}

// Write sends all of p.
func (o *output) Write(p []byte) (n int, err error) {
	<-o.answered
	for n < len(p) {
		part := p[n:min(n+maxOutput, len(p))]
		if err := o.out.write(event{ID: o.id, Output: part}); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}
