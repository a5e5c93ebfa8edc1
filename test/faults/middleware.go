package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mcmw/lab/process"
	"mcmw/test/history"
)

// writePools writes the configuration file for servers and returns its path. If that fails, the middleware reports that
// it cannot read it.
func (s *system) writePools(servers []string) string {
	file, err := os.CreateTemp("", "mcmw-pools-*.yaml")
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	_, _ = file.WriteString(s.settings.pools(s, servers))
	s.files = append(s.files, file.Name())
	return file.Name()
}

// names returns the servers as --servers takes them.
func (s *system) names(addr func(*server) string) []string {
	var names []string
	for _, server := range s.servers {
		names = append(names, server.name+"="+addr(server))
	}
	return names
}

// middlewareHost is the address of the middlewares: an outgoing connection cannot take a port that a middleware leaves
// for a moment.
const middlewareHost = "127.0.0.100"

// startMcmw starts the middlewares and waits until they serve.
func (s *system) startMcmw(ctx context.Context) error {
	var err error
	if s.listen, s.admin, err = placeMcmw(); err != nil {
		return err
	}
	s.admins = []admin{s.admin}
	if err := s.launchMcmw(); err != nil {
		return err
	}
	for range s.settings.others() {
		listen, at, err := placeMcmw()
		if err != nil {
			return err
		}
		other, err := startOn("another mcmw", listen, s.command(listen, at, (*server).own))
		if err != nil {
			return err
		}
		s.others, s.admins = append(s.others, other), append(s.admins, at)
		if err := other.awaitReady(ctx); err != nil {
			return err
		}
	}
	return s.awaitServing(ctx)
}

// placeMcmw returns free addresses for a middleware.
func placeMcmw() (listen string, at admin, err error) {
	var addrs [2]string
	for i := range addrs {
		port, err := process.FreePort(middlewareHost)
		if err != nil {
			return "", at, err
		}
		addrs[i] = net.JoinHostPort(middlewareHost, strconv.Itoa(port))
	}
	return addrs[0], admin{addrs[1]}, nil
}

// entrances are the addresses of the middlewares.
func (s *system) entrances() []string {
	addrs := []string{s.mcmw.Addr}
	for _, other := range s.others {
		addrs = append(addrs, other.Addr)
	}
	return addrs
}

// awaitServing waits until the middleware answers a client.
func (s *system) awaitServing(ctx context.Context) error {
	if !s.settings.logins {
		return s.mcmw.awaitReady(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, process.ReadyTimeout)
	defer cancel()
	for {
		conn, err := net.Dial("tcp", s.listen)
		if err == nil {
			err = history.Visit(conn)
			conn.Close()
		}
		if err == nil {
			return nil
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return errors.Join(s.mcmw.Ended(), err)
		}
	}
}

// command returns the command of a middleware at the given addresses, which reaches each server at the address that
// addr returns.
func (s *system) command(listen string, at admin, addr func(*server) string) *exec.Cmd {
	names := s.names(addr)
	source, value := "--servers", strings.Join(names, ",")
	switch {
	case s.dns != nil:
		value = "srv+" + service + "."
	case s.settings.pools != nil:
		source, value = "--config", s.writePools(names)
	}
	return exec.Command(s.programs.Mcmw,
		slices.Concat([]string{"serve", "--listen", listen, source, value, "--admin", at.addr, "--log-format", "json"},
			s.settings.args)...)
}

// launchMcmw starts the first middleware.
func (s *system) launchMcmw() (err error) {
	cmd := s.command(s.listen, s.admin, (*server).addr)
	if s.dns != nil {
		cmd.Args = append(cmd.Args, "--resolver", s.dns.Addr())
	}
	if s.passwords != "" {
		cmd.Args = append(cmd.Args, "--auth-file", s.passwords)
	}
	if s.settings.files > 0 {
		cmd = exec.Command("prlimit", append([]string{fmt.Sprintf("--nofile=%d", s.settings.files)}, cmd.Args...)...)
	}
	if s.group != nil {
		cmd = s.group.Command(cmd.Args[0], cmd.Args[1:]...)
	}
	cmd.Stderr = &process.Lines{Take: s.events.take}
	s.mcmw, err = startOn("mcmw", s.listen, cmd)
	return err
}

// relaunchMcmw ends the first middleware by a signal and starts it again, without waiting until it serves.
func (s *system) relaunchMcmw(signal syscall.Signal) error {
	if err := s.mcmw.Ended(); err != nil {
		return err
	}
	s.mcmw.Stop(signal)
	if code := s.mcmw.ExitCode(); signal == syscall.SIGTERM && code != 0 {
		s.broken = append(s.broken, fmt.Sprintf("mcmw exited with code %d after SIGTERM", code))
	}
	return s.launchMcmw()
}
