package faults

import (
	"cmp"
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"mcmw/internal/faulty"
)

// Scenario is a system, a fault, and the errors expected from it.
type Scenario struct {
	Name string
	// Title describes the fault.
	Title string
	// Args are arguments of `mcmw serve`.
	Args []string
	// Long scenarios are not in a quick suite.
	Long bool

	settings settings
	// fault begins what happens and heal ends it, after lasts. heal may be nil: then it ends by itself.
	fault, heal func(context.Context, *system) error
	lasts       time.Duration
	// then is how long the load continues afterwards.
	then time.Duration
	// reads and writes are regular expressions for the errors that are to be expected; "" for none. counts is one for those of increments
	// besides, where mcmw lets one server decide them: behind the end of its connection nobody knows whether it has.
	reads, writes, counts string
	manners
	// groups: a second group of connections uses the keys of the server that fails, and the first none of them.
	groups bool
}

const (
	// calm is the time before the fault.
	calm = 1500 * time.Millisecond
	// untilSpent is so long behind a fault that what was stored in a gutter has ended, and may be compared with what the servers hold.
	untilSpent = (gutterTTL + 4) * time.Second
	// usually is the default duration of a fault, and of the load after it.
	usually = 3 * time.Second
)

// Of a system of three servers: errors that name the victim, and such that name any.
const (
	byVictim = `^server-2: `
	byAny    = `^server-[123]: `
)

// What systems consist of.
var (
	plain   = settings{servers: 3}
	proxied = settings{servers: 3, proxies: true}
	spaced  = settings{servers: 3, spaced: true}
	named   = settings{servers: 3, named: true}
	scarce  = settings{servers: 3, files: fewFiles}
	lied    = settings{servers: 3, liars: true, memory: podMemory}
	recent  = settings{servers: 3, recent: true}
	fleet   = settings{servers: 3, fleet: true}
	apart   = settings{servers: 3, fleet: true, proxies: true}
	chunked = settings{servers: 3, large: true}
	doubled = settings{servers: 3, shadow: true, pools: withShadow}
	spared  = settings{servers: 6, fleet: true, proxies: true, pools: gutter}
	lonely  = settings{servers: 6, proxies: true, pools: gutter}
	routed  = settings{servers: 6, fleet: true, pools: twoPools}
	given   = settings{servers: 6, fleet: true, pools: movingRoutes, fixed: []string{"change-step"}}
	other   = settings{servers: 9, fleet: true, pools: movingGutters, fixed: []string{"change-step"}}
	spares  = settings{servers: 9, fleet: true, pools: movingKeysOfGutters, fixed: []string{"change-step"}}
	moving  = settings{servers: 6, fleet: true, pools: migrations(1), fixed: []string{"change-step"}}
	back    = settings{servers: 6, fleet: true, pools: migrations(2), fixed: []string{"change-step"}}
	warmed  = settings{servers: 6, fleet: true, pools: warmsUp, fixed: []string{"change-step"}}
	filled  = settings{servers: 3, fleet: true, pools: fillsVictim, fixed: []string{"change-step"}}
)

// Replication and acknowledgement, as `mcmw serve` takes them.
var (
	ackAny      = []string{"--replicas", "all", "--ack", "any", "--sharded"}
	ackQuorum   = []string{"--replicas", "all", "--ack", "quorum"}
	ackAll      = []string{"--replicas", "all", "--ack", "all"}
	twoOfThree  = []string{"--replicas", "2", "--ack", "any", "--sharded"}
	oneReplica  = []string{"--replicas", "1", "--sharded"}
	inChunks    = []string{"--replicas", "all", "--ack", "any", "--sharded", "--large-values", "256k", "--item-size", "16k"}
	ackLive     = []string{"--replicas", "all", "--ack", "live", "--writers", "several"}
	severalOne  = []string{"--replicas", "1", "--writers", "several"}
	severalTwo  = []string{"--replicas", "2", "--ack", "all", "--writers", "several", "--timeout", "5s", "--connect-timeout", "5s"}
	aloneOne    = []string{"--replicas", "1", "--writers", "one"}
	flushOnJoin = []string{"--replicas", "all", "--ack", "any", "--rejoin", "flush"}
)

// Scenarios returns all, in their order.
func Scenarios() []Scenario {
	list := []Scenario{
		{Name: "kill-any", Title: "a server is killed and started again", Args: ackAny, fault: kill, heal: start, counts: byVictim, settings: plain},
		{Name: "kill-quorum", Title: "a server is killed and started again", Args: ackQuorum, fault: kill, heal: start, counts: byVictim, Long: true, settings: plain},
		{Name: "kill-all", Title: "a server is killed and started again", Args: ackAll, fault: kill, heal: start, writes: byVictim, Long: true, settings: plain},
		{Name: "kill-two", Title: "a server is killed and started again", Args: twoOfThree, fault: kill, heal: start, counts: byVictim, Long: true, settings: plain},
		{Name: "kill-one", Title: "a server is killed and started again", Args: oneReplica, fault: kill, heal: start, reads: byVictim, writes: byVictim, groups: true, Long: true, settings: plain},
		{Name: "kill-pool", Title: "a server is killed and started again", Args: with(ackAny, "--pool", "per-server"), fault: kill, heal: start, counts: byVictim, Long: true, settings: plain},
		{Name: "kill-flush", Title: "a server is killed and started again; rejoin flush", Args: flushOnJoin, fault: kill, heal: start, counts: byVictim, Long: true, settings: plain},
		{Name: "kill-each", Title: "all servers are killed and started again", Args: ackAny, fault: each(kill1), heal: each(start1), reads: byAny, writes: byAny, Long: true, settings: plain},
		{Name: "restart", Title: "a server is restarted at once, five times", Args: ackQuorum, fault: restarts, reads: byAny, writes: byAny, Long: true, settings: plain},
		{Name: "freeze", Title: "a server is suspended (SIGSTOP)", Args: ackAny, fault: freeze, heal: thaw, counts: byVictim, settings: plain},
		{Name: "freeze-one", Title: "a server is suspended (SIGSTOP)", Args: oneReplica, fault: freeze, heal: thaw, reads: byVictim, writes: byVictim, groups: true, settings: plain},
		{Name: "freeze-soon", Title: "a server is suspended (SIGSTOP)", Args: with(oneReplica, "--stall-after", "10ms"), fault: freeze, heal: thaw, reads: byVictim, writes: byVictim, groups: true, Long: true, settings: plain},
		{Name: "freeze-pool", Title: "a server is suspended (SIGSTOP)", Args: with(oneReplica, "--pool", "per-server"), fault: freeze, heal: thaw, reads: byVictim, writes: byVictim, groups: true, Long: true, settings: plain},
		{Name: "freeze-short", Title: "a server is suspended for a little longer than the timeout of 200 ms, five times", Args: with(ackAny, "--timeout", "200ms"), fault: freezes(300*time.Millisecond, 5), counts: byVictim, settings: plain},
		{Name: "freeze-all", Title: "all servers are suspended", Args: ackAny, fault: each((*system).freeze), heal: each((*system).thaw), reads: byAny, writes: byAny, Long: true, settings: plain},
		{Name: "flap", Title: "a server is suspended and let go on, 100 ms each", Args: with(ackAny, "--timeout", "50ms"), fault: freezes(100*time.Millisecond, 15), reads: byAny, writes: byAny, Long: true, settings: plain},
		{Name: "reset", Title: "a server's connections are reset in the middle of replies", Args: ackAny, fault: inject(faulty.Fault{Cut: 3000, Reset: true}), heal: lift, counts: byVictim, settings: proxied},
		{Name: "reset-all", Title: "all servers' connections are reset in the middle of replies", Args: ackAny, fault: injectAll(faulty.Fault{Cut: 3000, Reset: true}), heal: liftAll, reads: byAny, writes: byAny, Long: true, settings: proxied},
		{Name: "truncate", Title: "a server's connections end in the middle of replies", Args: oneReplica, fault: inject(faulty.Fault{Cut: 2000}), heal: lift, reads: byVictim, writes: byVictim, Long: true, settings: proxied},
		{Name: "double", Title: "a server sends every reply twice", Args: twoOfThree, fault: inject(faulty.Fault{Double: true}), heal: lift, counts: byVictim, Long: true, settings: proxied},
		{Name: "bytewise", Title: "a server's replies come byte by byte", Args: oneReplica, fault: inject(faulty.Fault{Bytewise: true}), heal: lift, Long: true, settings: proxied},
		{Name: "slow", Title: "a server answers 100 ms late", Args: oneReplica, fault: inject(faulty.Fault{Delay: 100 * time.Millisecond}), heal: lift, reads: byVictim, writes: byVictim, groups: true, Long: true, settings: proxied},
		{Name: "refuse", Title: "a server ends every connection at once", Args: ackAny, fault: inject(faulty.Fault{Refuse: true, Cut: 1, Reset: true}), heal: lift, counts: byVictim, Long: true, settings: proxied},
		{Name: "kill-served", Title: "a server of which values are served from memory is killed and started again", Args: with(aloneOne, "--hot-keys", "serve"), fault: kill, heal: start, reads: byVictim, writes: byVictim, Long: true, settings: recent},
		{Name: "kill-live", Title: "a server behind two mcmw is killed and started again", Args: ackLive, fault: kill, heal: start, counts: byVictim, settings: fleet},
		{Name: "partition-one", Title: "one of two mcmw loses its way to a server", Args: ackLive, fault: inject(faulty.Fault{Lose: true, Refuse: true}), heal: lift, counts: byVictim, settings: apart},
		{Name: "large-values", Title: "a server is killed and started again; values are stored in chunks", Args: inChunks, fault: kill, heal: start, counts: byVictim, settings: chunked},
		{Name: "large-freeze", Title: "a server is suspended (SIGSTOP); values are stored in chunks", Args: inChunks, fault: freeze, heal: thaw, counts: byVictim, settings: chunked},
		{Name: "shadow", Title: "the shadow of the pool, which gets half of the keys, is suspended", Args: ackAny, fault: freezeShadow, heal: thawShadow, settings: doubled},
		{Name: "shadow-kill", Title: "the shadow of the pool is killed and started again", Args: ackAny, fault: killShadow, heal: startShadow, Long: true, settings: doubled},
		{Name: "gutter", Title: "a server whose pool has a gutter, behind two mcmw, is killed and started again", Args: severalOne, fault: kill, heal: start, then: untilSpent, reads: byVictim, writes: byVictim, settings: spared},
		{Name: "gutter-one", Title: "one of two mcmw loses its way to a server whose pool has a gutter", Args: severalOne, fault: inject(faulty.Fault{Lose: true, Refuse: true}), heal: lift, then: untilSpent, reads: byVictim, writes: byVictim, settings: spared},
		{Name: "gutter-alone", Title: "the only mcmw loses its way to a server whose pool has a gutter", Args: aloneOne, fault: inject(faulty.Fault{Lose: true, Refuse: true}), heal: lift, then: untilSpent, reads: byVictim, writes: byVictim, Long: true, settings: lonely},
		{Name: "gutter-freeze", Title: "a server whose pool has a gutter, behind two mcmw, is suspended (SIGSTOP)", Args: severalOne, fault: freeze, heal: thaw, then: untilSpent, reads: byVictim, writes: byVictim, Long: true, settings: spared},
		{Name: "pool-without-majority", Title: "two of the three servers of one of two pools, behind two mcmw, are killed and started again", Args: ackLive, fault: both(kill1), heal: both(start1), reads: byAny, writes: byAny, settings: routed},
		{Name: "routes", Title: "routes give keys to another pool, back, and there again, by files that two mcmw read a second apart", Args: severalTwo, fault: reroute, heal: rerouteAgain, settings: given},
		{Name: "gutter-change", Title: "a pool gets another gutter while a server is down, back, and again, by files that two mcmw read a second apart", Args: severalOne, fault: killAndReroute, heal: startAndRerouteAgain, reads: byVictim, writes: byVictim, settings: other},
		{Name: "gutter-routes", Title: "routes give keys to another pool with a gutter while a server is down, back, and there again, by files that two mcmw read a second apart", Args: severalOne, fault: killAndReroute, heal: startAndRerouteAgain, reads: byVictim, writes: byVictim, settings: spares},
		{Name: "migration", Title: "the keys of a pool, behind two mcmw, move to another pool", Args: severalTwo, fault: copies(0), heal: migrated(0), settings: moving},
		{Name: "migration-back", Title: "the keys of a pool, behind two mcmw, move to another pool and back", Args: severalTwo, fault: copies(1), heal: migrated(1), Long: true, settings: back},
		{Name: "warm-up", Title: "a server of each of two pools, behind two mcmw, is killed and started again while one pool is warmed up from the other", Args: severalTwo, fault: killBoth, heal: startBoth, writes: `^server-[25]: `, settings: warmed},
		{Name: "warm-up-server", Title: "a server that is filled from the other replicas, behind two mcmw, is killed and started again", Args: ackLive, fault: killFilled, heal: startFilled, counts: byVictim, settings: filled},
		{Name: "partition", Title: "packets to and from a server are lost", Args: ackAny, fault: partition, heal: heal, lasts: 4 * time.Second, then: 8 * time.Second, counts: byVictim, settings: spaced},
		{Name: "descriptors", Title: "more clients come than there are file descriptors", Args: ackAny, fault: exhaust, settings: scarce},
		{Name: "names", Title: "the name server fails, works again, and has another address for a server, which is killed 1 s later at its former one", Args: with(ackAny, "--resolve-interval", "200ms"), fault: move, counts: byVictim, Long: true, settings: named},
	}
	for _, lie := range faulty.Lies {
		// With ack any, one server's reply is enough: if the others have no count, the client gets the invented one.
		list = append(list, Scenario{
			Name: "lie-" + lie.Name, Title: "a server answers " + lie.Title, Args: with(ackQuorum, "--sharded", "--client-memory", "64m"), fault: lies(&lie), heal: lies(nil),
			reads: byVictim, writes: byVictim, Long: true, settings: lied,
		})
	}
	for _, a := range attacks {
		list = append(list, Scenario{
			Name: "hostile-" + a.name, Title: "clients " + a.title, Args: with(ackAny, "--client-memory", "64m", "--drain-timeout", "2s"), fault: a.begin, heal: endAttack, Long: true,
			settings: settings{servers: 3, memory: podMemory, logins: a.logins},
		})
	}
	for _, s := range list {
		list = append(list, s.withRestart("+term", "mcmw is told to end (SIGTERM)", syscall.SIGTERM), s.withRestart("+kill", "mcmw is killed (SIGKILL)", syscall.SIGKILL))
	}
	for i := range list {
		s := &list[i]
		s.settings.args, s.logsIn = s.Args, s.settings.logins
		s.lasts = cmp.Or(s.lasts, usually)
		s.then = cmp.Or(s.then, usually)
	}
	return list
}

// withRestart returns s with a middleware that ends by a signal during the fault, and is started again at once. It may begin to serve
// only when the fault has ended.
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
	s.Name, s.Title, s.Long = s.Name+name, s.Title+"; meanwhile "+what+" and started again", true
	s.manners = manners{resend: signal == syscall.SIGTERM, restarts: true, kills: signal == syscall.SIGKILL}
	if s.kills {
		s.reads, s.writes = orCut(s.reads), orCut(s.writes)
	}
	return s
}

// restartAfter is how long after the beginning of a fault mcmw is restarted.
const restartAfter = 700 * time.Millisecond

// orCut returns an expression for what errors expresses, and for ends of connections.
func orCut(errors string) string {
	if errors == "" {
		return "^" + textCut
	}
	return errors + "|^" + textCut
}

// with returns args with more behind them.
func with(args []string, more ...string) []string { return append(args[:len(args):len(args)], more...) }

func kill(_ context.Context, s *system) error { return kill1(s, victim) }

func kill1(s *system, i int) error {
	s.kill(i)
	return nil
}

func start(ctx context.Context, s *system) error { return s.startServer(ctx, victim) }

func start1(s *system, i int) error { return s.startServer(context.Background(), i) }

func freeze(_ context.Context, s *system) error { return s.freeze(victim) }

func thaw(_ context.Context, s *system) error { return s.thaw(victim) }

func freezeShadow(_ context.Context, s *system) error { return s.shadow.proc.Signal(syscall.SIGSTOP) }

func thawShadow(_ context.Context, s *system) error { return s.shadow.proc.Signal(syscall.SIGCONT) }

func killShadow(_ context.Context, s *system) error {
	s.shadow.proc.Stop(syscall.SIGKILL)
	s.shadow.proc = nil
	return nil
}

func startShadow(ctx context.Context, s *system) error { return s.launch(ctx, s.shadow) }

// each applies a function to every server.
func each(do func(s *system, i int) error) func(context.Context, *system) error {
	return func(_ context.Context, s *system) error {
		var errs []error
		for i := range s.servers {
			errs = append(errs, do(s, i))
		}
		return errors.Join(errs...)
	}
}

// both applies a function to the victim and the server before it.
func both(do func(s *system, i int) error) func(context.Context, *system) error {
	return func(_ context.Context, s *system) error { return errors.Join(do(s, victim-1), do(s, victim)) }
}

// restarts kills the victim and starts it again at once.
func restarts(ctx context.Context, s *system) error {
	for range 5 {
		s.kill(victim)
		if err := s.startServer(ctx, victim); err != nil {
			return err
		}
		if err := sleep(ctx, 300*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// freezes suspends and resumes the victim repeatedly, each for the given time.
func freezes(d time.Duration, times int) func(context.Context, *system) error {
	return func(ctx context.Context, s *system) error {
		for range times {
			if err := s.freeze(victim); err != nil {
				return err
			}
			err := sleep(ctx, d)
			if err := errors.Join(err, s.thaw(victim)); err != nil {
				return err
			}
			if err := sleep(ctx, d); err != nil {
				return err
			}
		}
		return nil
	}
}

// inject makes the victim's proxy inject a fault.
func inject(f faulty.Fault) func(context.Context, *system) error {
	return func(_ context.Context, s *system) error {
		s.servers[victim].proxy.Inject(f)
		return nil
	}
}

var lift = inject(faulty.Fault{})

// injectAll makes every proxy inject a fault.
func injectAll(f faulty.Fault) func(context.Context, *system) error {
	return func(_ context.Context, s *system) error {
		for _, server := range s.servers {
			server.proxy.Inject(f)
		}
		return nil
	}
}

var liftAll = injectAll(faulty.Fault{})

func partition(_ context.Context, s *system) error { return s.servers[victim].space.partition() }

func heal(_ context.Context, s *system) error { return s.servers[victim].space.heal() }

// lies makes the victim send false replies; with nil it stops.
func lies(l *faulty.Lie) func(context.Context, *system) error {
	return func(_ context.Context, s *system) error {
		s.servers[victim].liar.Tell(l)
		return nil
	}
}

// podMemory is mcmw's memory limit during attacks on its memory, bytes: half of what the chart's pod has.
const podMemory = 256 << 20

// fewFiles is how many files mcmw may open where they are short, and crowd how many clients then come besides those of the load.
const (
	fewFiles = 256
	crowd    = 400
)

// exhaust opens more connections than mcmw may open files, closes them, and then requires an answer on a new one.
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
	return s.mcmw.AwaitReady(ctx)
}

// move makes the name server fail for a while, moves the victim to another address, and later kills the server at the former one.
func move(ctx context.Context, s *system) error {
	s.dns.Fail("")
	if err := sleep(ctx, time.Second); err != nil {
		return err
	}
	s.dns.Heal()
	if err := errors.Join(sleep(ctx, 500*time.Millisecond), s.move(ctx), sleep(ctx, time.Second)); err != nil {
		return err
	}
	s.endFormer()
	return nil
}

// sleep waits, less if ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
