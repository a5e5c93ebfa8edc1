package main

import (
	"context"
	"errors"
	"net"
	"slices"
	"syscall"
	"time"

	"mcmw/internal/faulty"
	"mcmw/test/history"
)

// withRestart returns s with a middleware that a signal ends during the fault and that is started again at once. It may
// start to serve only after the fault has ended.
func (s Scenario) withRestart(name, what string, signal syscall.Signal) Scenario {
	fault, heal := s.fault, s.heal
	s.fault = func(ctx context.Context, sys *system) error {
		return errors.Join(fault(ctx, sys), sleep(ctx, restartAfter), sys.relaunchMcmw(signal))
	}
	s.heal = func(ctx context.Context, sys *system) error {
		if heal != nil {
			if err := heal(ctx, sys); err != nil {
				return err
			}
		}
		return sys.awaitServing(ctx)
	}
	s.served, s.keeps = false, nil // another rule applies without that mcmw
	s.Name, s.Title, s.Long = s.Name+name, s.Title+"; meanwhile "+what+" and started again", true
	s.Manners = history.Manners{Resend: signal == syscall.SIGTERM, Restarts: true, Kills: signal == syscall.SIGKILL}
	if s.Kills {
		s.reads, s.writes = orCut(s.reads), orCut(s.writes)
	}
	return s
}

// restartAfter is the time from the beginning of a fault to the restart of mcmw.
const restartAfter = 700 * time.Millisecond

// orCut returns an expression that matches what errors matches, and ended connections.
func orCut(errors string) string {
	if errors == "" {
		return "^" + history.TextCut
	}
	return errors + "|^" + history.TextCut
}

// with returns args with more appended.
func with(args []string, more ...string) []string { return slices.Concat(args, more) }

// killServer ends a server at once; a cache has nothing to save.
func killServer(_ context.Context, _ *system, server *server) error {
	server.proc.Stop(syscall.SIGKILL)
	server.proc = nil
	return nil
}

// startServer starts a server, empty.
func startServer(ctx context.Context, s *system, server *server) error { return s.launch(ctx, server) }

// freezeServer suspends a server: its kernel still accepts connections, but nothing is answered.
func freezeServer(_ context.Context, _ *system, server *server) error {
	return server.proc.Signal(syscall.SIGSTOP)
}

// thawServer resumes a suspended server.
func thawServer(_ context.Context, _ *system, server *server) error {
	return server.proc.Signal(syscall.SIGCONT)
}

// injectInto makes a server's proxy inject a fault.
func injectInto(f faulty.Fault) serverAction {
	return func(_ context.Context, _ *system, server *server) error {
		server.proxy.Inject(f)
		return nil
	}
}

// at applies do to the servers with the given numbers.
func at(do serverAction, numbers ...int) action {
	return func(ctx context.Context, s *system) (err error) {
		for _, i := range numbers {
			err = errors.Join(err, do(ctx, s, s.servers[i]))
		}
		return err
	}
}

// each applies do to every server.
func each(do serverAction) action {
	return func(ctx context.Context, s *system) (err error) {
		for _, server := range s.servers {
			err = errors.Join(err, do(ctx, s, server))
		}
		return err
	}
}

// atShadow applies do to the shadow.
func atShadow(do serverAction) action {
	return func(ctx context.Context, s *system) error { return do(ctx, s, s.shadow) }
}

// Actions on the victim.
var (
	kill   = at(killServer, victim)
	start  = at(startServer, victim)
	freeze = at(freezeServer, victim)
	thaw   = at(thawServer, victim)
	lift   = inject(faulty.Fault{})
)

// inject makes the victim's proxy inject a fault.
func inject(f faulty.Fault) action { return at(injectInto(f), victim) }

// atOnce restarts the servers with the given numbers: all are killed, and then started.
func atOnce(numbers ...int) action {
	return func(ctx context.Context, s *system) error {
		return errors.Join(at(killServer, numbers...)(ctx, s), at(startServer, numbers...)(ctx, s))
	}
}

// restarts kills the victim and starts it again at once, five times.
func restarts(ctx context.Context, s *system) error {
	for range 5 {
		if err := errors.Join(kill(ctx, s), start(ctx, s), sleep(ctx, 300*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}

// freezes suspends and resumes the victim repeatedly, each for the given time.
func freezes(d time.Duration, times int) action {
	return func(ctx context.Context, s *system) error {
		for range times {
			if err := errors.Join(freeze(ctx, s), sleep(ctx, d), thaw(ctx, s), sleep(ctx, d)); err != nil {
				return err
			}
		}
		return nil
	}
}

func partition(_ context.Context, s *system) error { return s.servers[victim].space.partition() }

func heal(_ context.Context, s *system) error { return s.servers[victim].space.heal() }

// lies makes the victim send false replies; nil makes it send correct ones again.
func lies(l *faulty.Lie) action {
	return func(_ context.Context, s *system) error {
		s.servers[victim].liar.Tell(l)
		return nil
	}
}

// podMemory is the memory limit of mcmw under attack, bytes: half of what the chart gives a pod.
const podMemory = 256 << 20

// fewFiles is how many files mcmw may open in the scenario that exhausts them. crowd is how many clients then connect
// in addition to those of the load.
const (
	fewFiles = 256
	crowd    = 400
)

// exhaust opens more connections than mcmw may open files, closes them, and expects an answer on a new one.
func exhaust(ctx context.Context, s *system) error {
	var conns []net.Conn
	leave := func() {
		for _, conn := range conns {
			conn.Close()
		}
	}
	defer leave()
	for range crowd {
		conn, err := net.Dial("tcp", s.mcmw.Addr)
		if err != nil {
			return err
		}
		conns = append(conns, conn)
	}
	if err := sleep(ctx, 2*time.Second); err != nil {
		return err
	}
	leave()
	return s.mcmw.awaitReady(ctx)
}

// move makes the name server fail for a while, moves the victim to another address, and later kills the server at the
// previous address.
func move(ctx context.Context, s *system) error {
	s.dns.Fail("")
	if err := sleep(ctx, time.Second); err != nil {
		return err
	}
	s.dns.Heal()
	if err := errors.Join(sleep(ctx, 500*time.Millisecond), s.move(ctx), sleep(ctx, time.Second)); err != nil {
		return err
	}
	s.endPrevious()
	return nil
}

// sleep waits for d. It returns early, with an error, if ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
