package agent

import (
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

// delayedPieces is how many pieces of replies a connection may have on their way; more are not read from the server until these have
// arrived. With one request outstanding there is one.
const delayedPieces = 256

// piece is the result of one read from the server.
type piece struct {
	bytes []byte
	due   time.Time
	to    chan<- []byte // of its connection; has room for all pieces on their way
}

// delayer holds all replies back for the same time. As that is the same for all, they are due in the order in which they came.
type delayer struct {
	delay time.Duration
	to    string
	// pieces leads from the readers of all connections to release, in the order of time.
	pieces chan piece
}

// ServeDelay forwards connections of a listener to a server and delays every reply, as a longer path to the server would:
// replies don't wait for each other, and requests are forwarded at once. It returns nil when ctx ends.
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

// serve passes one connection on until both ends have closed it.
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
	due := make(chan []byte, delayedPieces)    // release -> arrive; closed by nobody
	room := make(chan struct{}, delayedPieces) // one for each piece on its way
	gone := make(chan struct{})                // closed when the server sends no more
	var ways sync.WaitGroup
	ways.Go(func() {
		// The error of one direction does not matter: closing it ends the other direction as the server expects.
		_, _ = io.Copy(server, client)
		if half, ok := server.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
			end()
		}
	})
	ways.Go(func() {
		defer close(gone)
		d.read(ctx, server, due, room)
	})
	ways.Go(func() {
		defer end()
		arrive(ctx, client, due, room, gone)
	})
	ways.Wait()
}

// read takes what the server sends until it ends.
func (d *delayer) read(ctx context.Context, server net.Conn, to chan<- []byte, room chan<- struct{}) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if n > 0 {
			p := piece{bytes: append([]byte(nil), buffer[:n]...), due: time.Now().Add(d.delay), to: to}
			if !put(ctx, room, struct{}{}) || !put(ctx, d.pieces, p) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// put sends a value unless ctx ends before.
func put[T any](ctx context.Context, to chan<- T, v T) bool {
	select {
	case to <- v:
		return true
	case <-ctx.Done():
		return false
	}
}

// release hands pieces to their connections when they are due, until ctx ends.
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
func arrive(ctx context.Context, client net.Conn, due <-chan []byte, room <-chan struct{}, gone <-chan struct{}) {
	for gone != nil || len(room) > 0 {
		select {
		case bytes := <-due:
			if _, err := client.Write(bytes); err != nil {
				return
			}
			<-room
		case <-gone:
			gone = nil // what is on its way arrives yet
		case <-ctx.Done():
			return
		}
	}
}

// alarm is a timer of the kernel that is read like a socket. The runtime's own timers, while nothing else happens, are up to a
// millisecond late.
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
	var times [8]byte // how often it went off: once
	_, err = io.ReadFull(a, times[:])
	return err
}
