package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"mcmw/lab/process"
)

// startAttempts is how often a program that ends at once is started on another port: another process can take a port
// between FreePort and the program.
const startAttempts = 3

// daemon is a program that serves on an address.
type daemon struct {
	*process.Process
	Addr string // host:port
}

// startOn starts a program that serves on addr.
func startOn(name, addr string, cmd *exec.Cmd) (*daemon, error) {
	p, err := process.Start(name, cmd)
	if err != nil {
		return nil, err
	}
	return &daemon{p, addr}, nil
}

// launch starts a program on a free port of host and waits until it answers there.
func launch(ctx context.Context, name, host string, command func(port int) *exec.Cmd) (*daemon, error) {
	for attempt := 1; ; attempt++ {
		port, err := process.FreePort(host)
		if err != nil {
			return nil, err
		}
		p, err := startOn(name, net.JoinHostPort(host, strconv.Itoa(port)), command(port))
		if err != nil {
			return nil, err
		}
		if err = p.awaitReady(ctx); err == nil {
			return p, nil
		}
		ended := p.Ended() != nil
		p.Stop(syscall.SIGKILL)
		if attempt == startAttempts || !ended {
			return nil, err
		}
	}
}

// awaitReady waits until the program answers a request.
func (p *daemon) awaitReady(ctx context.Context) error {
	late := time.After(process.ReadyTimeout)
	for {
		if err := process.Answers(p.Addr); err == nil {
			return nil
		}
		select {
		case <-p.Done():
			return p.Ended()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late:
			return fmt.Errorf("%s doesn't answer on %s after %v; its last output:\n%s", p.Name, p.Addr,
				process.ReadyTimeout, p.Log())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// memcached returns the command that starts the memcached at path on an address, with additional arguments.
func memcached(path, host string, port int, args ...string) *exec.Cmd {
	// -u root is needed to run as root, otherwise ignored.
	return exec.Command(path, append([]string{"-l", host, "-p", strconv.Itoa(port), "-U", "0", "-u", "root"},
		args...)...)
}
