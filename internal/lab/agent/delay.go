package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// delayedPieces bounds the pieces of replies in flight per connection. No more are read from the server until some have arrived.
// With one outstanding request there is one.
const delayedPieces = 256

// piece is the result of one read from the server.
type piece struct {
	bytes []byte
	due   time.Time
	to    chan<- []byte // of its connection; has room for all pieces in flight
}

// delayer delays all replies by the same time. So they are due in the order of their arrival.
type delayer struct {
	delay time.Duration
	to    string
	// pieces: readers of all connections -> release, in the order of their due times.
	pieces chan piece
}

// ServeDelay forwards the connections of a listener to a server and delays every reply, as a longer path to the server would.
// Replies don't wait for each other, and requests are forwarded at once. It returns nil when ctx ends.
func ServeDelay(ctx context.Context, listener net.Listener, to string, delay time.Duration) error {
	defer listener.Close()
	timer, err := newAlarm()
	if err != nil {
		return err
	}
	running, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(running, func() {
		listener.Close()
		timer.Close()
	})
	defer stop()
	d := &delayer{delay: delay, to: to, pieces: make(chan piece, delayedPieces)}
	var parts sync.WaitGroup
	defer parts.Wait()
	defer end(nil)
	parts.Go(func() { end(d.release(running, timer)) })
	for {
		conn, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case running.Err() != nil:
			return context.Cause(running)
		case err != nil:
			return err
		}
		parts.Go(func() { d.serve(running, conn) })
	}
}

// serve forwards one connection until both ends have closed it.
func (d *delayer) serve(ctx context.Context, client net.Conn) {
	defer client.Close()
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", d.to)
	if err != nil {
		return
	}
	defer server.Close()
	ctx, end := context.WithCancel(ctx)
	defer end()
	stop := context.AfterFunc(ctx, func() {
		client.Close()
		server.Close()
	})
	defer stop()
	due := make(chan []byte, delayedPieces)    // release -> arrive; never closed
	room := make(chan struct{}, delayedPieces) // one element for each piece in flight
	ended := make(chan struct{})               // closed when the server sends no more
	var ways sync.WaitGroup
	ways.Go(func() {
		// The error of one direction does not matter: closing it ends the other direction as the server expects.
		_, _ = io.Copy(server, client)
		if half, ok := server.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
			end()
		}
	})
	ways.Go(func() {
		defer close(ended)
		d.read(ctx, server, due, room)
	})
	ways.Go(func() {
		defer end()
		arrive(ctx, client, due, room, ended)
	})
	ways.Wait()
}

// read reads from the server until that fails, and passes the pieces to release.
func (d *delayer) read(ctx context.Context, server net.Conn, to chan<- []byte, room chan<- struct{}) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if n > 0 {
			p := piece{bytes: bytes.Clone(buffer[:n]), due: time.Now().Add(d.delay), to: to}
			if !put(ctx, room, struct{}{}) || !put(ctx, d.pieces, p) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// put sends a value, unless ctx ends first.
func put[T any](ctx context.Context, to chan<- T, v T) bool {
	select {
	case to <- v:
		return true
	case <-ctx.Done():
		return false
	}
}

// release passes pieces to their connections when they are due, until ctx ends.
func (d *delayer) release(ctx context.Context, timer waiter) error {
	for {
		select {
		case p := <-d.pieces:
			if left := time.Until(p.due); left > 0 {
				if err := timer.wait(left); err != nil {
					return err
				}
			}
			p.to <- p.bytes
		case <-ctx.Done():
			return nil
		}
	}
}

// waiter waits for a time, or returns an error.
type waiter interface{ wait(time.Duration) error }

// arrive writes due pieces to the client, until a write fails, ctx ends, or the server has closed and all pieces are written.
func arrive(ctx context.Context, client net.Conn, due <-chan []byte, room, ended <-chan struct{}) {
	for ended != nil || len(room) > 0 {
		select {
		case reply := <-due:
			if _, err := client.Write(reply); err != nil {
				return
			}
			<-room
		case <-ended:
			ended = nil // pieces in flight still arrive
		case <-ctx.Done():
			return
		}
	}
}

// alarm is a timer of the kernel that is read like a socket. The runtime's own timers can be a millisecond late when nothing else
// happens.
type alarm struct{ *os.File }

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making a timer: %w", err)
	}
	return &alarm{os.NewFile(uintptr(fd), "timer")}, nil
}

// wait returns after d, or with an error when the alarm is closed.
func (a *alarm) wait(d time.Duration) error {
	raw, err := a.SyscallConn()
	if err != nil {
		return err
	}
	var setErr error
	err = raw.Control(func(fd uintptr) {
		setErr = unix.TimerfdSettime(int(fd), 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}, nil)
	})
	if err := errors.Join(err, setErr); err != nil {
		return err
	}
	var times [8]byte // how often the timer has expired: once
	_, err = io.ReadFull(a, times[:])
	return err
}
