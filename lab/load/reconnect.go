package load

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// wakeIndex is the value that epoll reports instead of a connection's index when connections have been reopened.
const wakeIndex = -1

// dialler reopens a thread's connections, each in a goroutine, so that the thread's other connections continue
// meanwhile.
type dialler struct {
	dial  func(target string) (fd int, err error)
	ready chan redialled // dialling goroutines -> thread; has room for all connections; never closed
	wake  int            // an eventfd in the thread's epoll instance

	pending int    // dials in progress
	made    uint64 // connections reopened during recording
	took    int64  // how long these took together, ns
}

// redialled is a reopened connection, or the error of reopening it.
type redialled struct {
	c    *conn
	fd   int
	err  error
	took int64 // ns
}

// newDialler returns a dialler for a thread and adds it to the thread's epoll instance.
func newDialler(epoll, connections int, dial func(target string) (int, error)) (*dialler, error) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: wakeIndex}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, wake, &event); err != nil {
		unix.Close(wake)
		return nil, fmt.Errorf("epoll_ctl: %w", err)
	}
	return &dialler{dial: dial, ready: make(chan redialled, connections), wake: wake}, nil
}

// close waits for the dials in progress and closes their connections.
func (d *dialler) close() {
	for ; d.pending > 0; d.pending-- {
		if r := <-d.ready; r.err == nil {
			unix.Close(r.fd)
		}
	}
	unix.Close(d.wake)
}

// worn reports whether a connection has used its quota, and must be reopened once its requests are answered.
func (c *conn) worn() bool { return c.quota == 0 }

// redial closes a connection that waits for nothing, and reopens it.
func (t *thread) redial(c *conn) error {
	if err := t.unwatch(c); err != nil {
		return err
	}
	if t.pacer != nil {
		t.agenda.set(c, false)
	}
	unix.Close(c.fd)
	c.fd, c.dialling = -1, true
	t.dialler.pending++
	d, began := t.dialler, t.now()
	go func() {
		fd, err := d.dial(c.target)
		d.ready <- redialled{c: c, fd: fd, err: err, took: t.now() - began}
		one := binary.NativeEndian.AppendUint64(nil, 1)
		_, _ = unix.Write(d.wake, one) // it can fail only if it is full, and then it wakes the thread as well
	}()
	return nil
}

// takeRedialled takes over the reopened connections.
func (t *thread) takeRedialled() error {
	var count [8]byte
	_, _ = unix.Read(t.dialler.wake, count[:]) // the channel tells how many there are
	for {
		select {
		case r := <-t.dialler.ready:
			if err := t.redialled(r); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (t *thread) redialled(r redialled) error {
	t.dialler.pending--
	c := r.c
	c.dialling = false
	if r.err != nil {
		if t.sending && !t.phase.isOver(t.now()) {
			return fmt.Errorf("reconnecting: %w", r.err)
		}
		t.active-- // the load has ended; the connection is not needed
		return nil
	}
	c.fd, c.quota = r.fd, t.o.ReconnectAfter
	if t.recording {
		t.dialler.made++
		t.dialler.took += r.took
	}
	if err := t.watch(c, unix.EPOLL_CTL_ADD, unix.EPOLLIN); err != nil {
		return err
	}
	c.pace.free = t.now()
	return t.fill(c)
}
