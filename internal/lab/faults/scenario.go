package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"mcmw/internal/faulty"
	"mcmw/internal/lab/process"
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

// gutterTTL is how long a value lives in the gutter of a system that has one, seconds.
const gutterTTL = 2

// halves returns the servers as two lists.
func halves(servers []string) (first, second string) {
	half := len(servers) / 2
	return strings.Join(servers[:half], ", "), strings.Join(servers[half:], ", ")
}

// withShadow is a pool, and its shadow.
func withShadow(s *system, servers []string) string {
	return fmt.Sprintf("pools:\n  live: {servers: [%s]}\n  test: {servers: [%s=%s], replicas: 1, ack: all}\nroutes:\n  - {default: live}\n"+
		"shadows:\n  - {of: live, to: test, share: 0.5, what: all}\n", strings.Join(servers, ", "), s.shadow.name, s.shadow.own())
}

// gutter is a pool, and another one that is its gutter.
func gutter(_ *system, servers []string) string {
	own, spare := halves(servers)
	return fmt.Sprintf("pools:\n  own: {servers: [%s], gutter: spare, gutter-ttl: %ds}\n  spare: {servers: [%s]}\nroutes: [{default: own}]\n", own, gutterTTL, spare)
}

// twoPools have the keys of some clients each, and the first one those that clients share.
func twoPools(_ *system, servers []string) string {
	first, second := halves(servers)
	return fmt.Sprintf("pools:\n  first: {servers: [%s]}\n  second: {servers: [%s]}\nroutes: [{prefix: f1-1, pool: second}, {prefix: f1-2, pool: second}, {default: first}]\n", first, second)
}

// movingRoutes are twoPools, of which the second has no keys any more while s is rerouted.
func movingRoutes(s *system, servers []string) string {
	text := fmt.Sprintf("change-step: %v\n", migrationStep) + twoPools(s, servers)
	if s.rerouted {
		text = strings.ReplaceAll(text, "pool: second", "pool: first")
	}
	return text
}

// thirds returns the servers as three lists.
func thirds(servers []string) (first, second, third string) {
	n := len(servers) / 3
	return strings.Join(servers[:n], ", "), strings.Join(servers[n:2*n], ", "), strings.Join(servers[2*n:], ", ")
}

// longGutterTTL is how long a value lives in a gutter that a pool has no more, and then again: longer than that takes.
const longGutterTTL = time.Minute

// movingGutters are a pool and two more, of which the second is its gutter while s is rerouted, otherwise the first.
func movingGutters(s *system, servers []string) string {
	own, spare, another := thirds(servers)
	gutter := map[bool]string{false: "spare", true: "another"}[s.rerouted]
	return fmt.Sprintf("change-step: %v\npools:\n  own: {servers: [%s], gutter: %s, gutter-ttl: %v}\n  spare: {servers: [%s]}\n  another: {servers: [%s]}\nroutes: [{default: own}]\n",
		migrationStep, own, gutter, longGutterTTL, spare, another)
}

// movingKeysOfGutters are two pools with one gutter, of which the second has no keys any more while s is rerouted.
func movingKeysOfGutters(s *system, servers []string) string {
	first, second, spare := thirds(servers)
	with := fmt.Sprintf("gutter: spare, gutter-ttl: %v", longGutterTTL)
	text := fmt.Sprintf("change-step: %v\npools:\n  first: {servers: [%s], %s}\n  second: {servers: [%s], %s}\n  spare: {servers: [%s]}\n"+
		"routes: [{prefix: f1-1, pool: second}, {prefix: f1-2, pool: second}, {default: first}]\n", migrationStep, first, with, second, with, spare)
	if s.rerouted {
		text = strings.ReplaceAll(text, "pool: second", "pool: first")
	}
	return text
}

// divertedFor is how long a server is down, so that its keys go to the gutter.
const divertedFor = 2 * time.Second

// killAndReroute makes the change while a server is down, whose keys are in the gutter.
func killAndReroute(ctx context.Context, s *system) error {
	return errors.Join(kill(ctx, s), sleep(ctx, divertedFor), reroute(ctx, s))
}

// startAndRerouteAgain starts the server while that goes on; then it makes the change the other way and once more, with the server down behind each. Then it empties the
// servers that nobody reads any more.
func startAndRerouteAgain(ctx context.Context, s *system) error {
	err := start(ctx, s)
	for range 2 {
		err = errors.Join(err, sleep(ctx, reroutes), reroute(ctx, s), sleep(ctx, reroutes), kill(ctx, s), sleep(ctx, divertedFor), start(ctx, s))
	}
	return errors.Join(err, s.leave(ctx, time.Now(), s.servers[len(s.servers)/3:]))
}

// reroutes is how long a middleware takes for a change of routes, one that starts meanwhile included, and fileLag how much later than the first one the second
// middleware reads its file.
const (
	reroutes = 4*migrationStep + time.Second
	fileLag  = time.Second
)

// reroute gives the keys of some clients to the first pool, or back to the second.
func reroute(ctx context.Context, s *system) error {
	s.rerouted = !s.rerouted
	text := s.settings.pools(s, s.names((*server).addr))
	write := func(of *process.Process, files ...string) (err error) {
		for _, file := range files {
			err = errors.Join(err, os.WriteFile(file, []byte(text), 0o600))
		}
		return errors.Join(err, of.Signal(syscall.SIGHUP))
	}
	first := slices.Delete(slices.Clone(s.files), 1, 2) // it has another one with each start
	return errors.Join(write(s.mcmw, first...), sleep(ctx, fileLag), write(s.second, s.files[1]))
}

// rerouteAgain waits until the change of routes is over, makes it the other way, and once more: the first pool gets keys of which it has held others. Then it empties
// the servers that nobody reads any more.
func rerouteAgain(ctx context.Context, s *system) error {
	for range 2 {
		if err := errors.Join(sleep(ctx, reroutes), reroute(ctx, s)); err != nil {
			return err
		}
	}
	return s.leave(ctx, time.Now().Add(reroutes), s.servers[len(s.servers)/2:])
}

// Migrations begin when all middlewares run and clients are served.
const (
	migrationStep  = 2 * time.Second
	untilMigration = 3 * migrationStep
	migrationTakes = 7 * migrationStep
)

// migrations are two pools whose keys move from the first to the second, and then from there, so many times.
func migrations(times int) func(s *system, servers []string) string {
	return func(s *system, servers []string) string {
		first, second := halves(servers)
		text := fmt.Sprintf("change-step: %v\npools:\n  old: {servers: [%s]}\n  new: {servers: [%s]}\nroutes: [{default: old}]\nmigrations:\n", migrationStep, first, second)
		from, to := "old", "new"
		for n := range times {
			start, end := s.migration(n)
			text += fmt.Sprintf("  - {from: %s, to: %s, start: %s, end: %s}\n", from, to, start.Format(time.RFC3339), end.Format(time.RFC3339))
			from, to = to, from
		}
		return text
	}
}

// warmUpTakes is how long a pool is warmed up, with the phases before and behind that.
const warmUpTakes = 12 * migrationStep

// warmsUp are two pools, of which the second is warmed up from the first, and gets its keys then.
func warmsUp(s *system, servers []string) string {
	first, second := halves(servers)
	start, _ := s.migration(0)
	return fmt.Sprintf("change-step: %v\npools:\n  old: {servers: [%s]}\n  new: {servers: [%s]}\nroutes: [{default: old}]\n"+
		"migrations:\n  - {from: old, to: new, copy: missed, start: %s, end: %s}\n",
		migrationStep, first, second, start.Format(time.RFC3339), start.Add(warmUpTakes).Format(time.RFC3339))
}

// fillsVictim is a pool of which one server is filled from the others.
func fillsVictim(s *system, servers []string) string {
	start, _ := s.migration(0)
	return fmt.Sprintf("change-step: %v\npools:\n  one: {servers: [%s]}\nroutes: [{default: one}]\nmigrations:\n  - {pool: one, cold: [%s], start: %s, end: %s}\n",
		migrationStep, strings.Join(servers, ", "), s.servers[victim].name, start.Format(time.RFC3339), start.Add(warmUpTakes).Format(time.RFC3339))
}

// killFilled kills the server that is filled.
func killFilled(ctx context.Context, s *system) error {
	if err := copies(0)(ctx, s); err != nil {
		return err
	}
	s.kill(victim)
	return nil
}

// startFilled starts it again, empty, and waits until it was filled and decides again.
func startFilled(ctx context.Context, s *system) error {
	start, _ := s.migration(0)
	if err := errors.Join(s.startServer(ctx, victim), s.leave(ctx, start.Add(warmUpTakes), nil)); err != nil {
		return err
	}
	for _, a := range s.admins {
		m, err := a.metrics(ctx)
		if err != nil {
			return err
		}
		for name, copied := range m {
			if strings.HasPrefix(name, "mcmw_migration_keys_copied_total{") && copied > 0 {
				return nil
			}
		}
	}
	return errors.New("no mcmw has copied a key to the server that came back")
}

// coldVictim is the server that fails of the pool that is warmed up; victim is one of the other.
const coldVictim = 4

// killBoth kills a server of each pool while one is warmed up.
func killBoth(ctx context.Context, s *system) error {
	if err := copies(0)(ctx, s); err != nil {
		return err
	}
	s.kill(victim)
	s.kill(coldVictim)
	return nil
}

// startBoth starts them again, and waits until the migration is done; then it empties the servers that nobody reads any more.
func startBoth(ctx context.Context, s *system) error {
	start, _ := s.migration(0)
	return errors.Join(s.startServer(ctx, victim), s.startServer(ctx, coldVictim), s.leave(ctx, start.Add(warmUpTakes), s.servers[:len(s.servers)/2]))
}

// migration returns when the n-th migration starts and ends.
func (s *system) migration(n int) (start, end time.Time) {
	start = s.began.Add(untilMigration + time.Duration(n)*(migrationTakes+2*migrationStep)).UTC().Truncate(time.Second)
	return start, start.Add(migrationTakes)
}

// copies waits until the keys of the n-th migration are being copied.
func copies(n int) func(context.Context, *system) error {
	return func(ctx context.Context, s *system) error {
		start, _ := s.migration(n)
		return sleep(ctx, time.Until(start.Add(2*migrationStep)))
	}
}

// migrated waits until the n-th migration is done, and empties the servers that nobody reads any more.
func migrated(n int) func(context.Context, *system) error {
	return func(ctx context.Context, s *system) error {
		_, end := s.migration(n)
		left := s.servers[:len(s.servers)/2]
		if n%2 == 1 {
			left = s.servers[len(s.servers)/2:]
		}
		return s.leave(ctx, end, left)
	}
}

// leave waits until a migration is done that ends at a moment, and empties the servers that are left.
func (s *system) leave(ctx context.Context, end time.Time, left []*server) error {
	if err := sleep(ctx, time.Until(end.Add(migrationStep))); err != nil {
		return err
	}
	for _, server := range left {
		if err := server.empty(); err != nil {
			return err
		}
	}
	return nil
}

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
