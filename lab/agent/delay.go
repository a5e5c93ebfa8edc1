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

// delayedPieces bounds the pieces of replies in flight per connection. No more are read from the server until some have
// arrived. With one outstanding request there is one.
const delayedPieces = 256

// piece is the result of one read from the server.
type piece struct {
	bytes []byte
	due   time.Time
}

// ServeDelay forwards the connections of a listener to a server and delays every reply, as a longer path to the server
// would. Replies don't wait for each other, and requests are forwarded at once. It returns nil when ctx ends.
func ServeDelay(ctx context.Context, listener net.Listener, to string, delay time.Duration) error {
	return serve(ctx, listener, func(ctx context.Context, conn net.Conn) { forward(ctx, conn, to, delay) })
}

// forward forwards one connection until both ends have closed it.
func forward(ctx context.Context, client net.Conn, to string, delay time.Duration) {
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	timer, err := newAlarm()
	if err != nil {
		return
	}
	defer timer.Close()
	ctx, end := context.WithCancel(ctx)
	defer end()
	stop := context.AfterFunc(ctx, func() {
		client.Close()
		server.Close()
		timer.Close()
	})
	defer stop()
	pieces := make(chan piece, delayedPieces) // readPieces -> writePieces; closed by readPieces
	var ways sync.WaitGroup
	ways.Go(func() {
		// The error of one direction does not matter: closing it ends the other direction as the server expects.
		_, _ = io.Copy(server, client)
		if server.(*net.TCPConn).CloseWrite() != nil {
			end()
		}
	})
	ways.Go(func() {
		defer close(pieces)
		readPieces(ctx, server, delay, pieces)
	})
	ways.Go(func() {
		defer end()
		writePieces(client, pieces, timer.wait)
	})
	ways.Wait()
}

// readPieces reads from the server until that fails, or ctx ends.
func readPieces(ctx context.Context, server net.Conn, delay time.Duration, pieces chan<- piece) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if n > 0 {
			select {
			case pieces <- piece{bytes.Clone(buffer[:n]), time.Now().Add(delay)}:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// writePieces writes pieces to the client when they are due, until pieces is closed, or wait or a write fails.
func writePieces(client net.Conn, pieces <-chan piece, wait func(time.Duration) error) {
	for p := range pieces {
		if left := time.Until(p.due); left > 0 && wait(left) != nil {
			return
		}
		if _, err := client.Write(p.bytes); err != nil {
			return
		}
	}
}

// alarm is a timer of the kernel that is read like a socket. The runtime's own timers can be a millisecond late when
// nothing else happens.
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
