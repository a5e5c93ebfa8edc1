package main

import (
	"cmp"
	"context"
	"syscall"
	"time"

	"mcmw/internal/faulty"
	"mcmw/test/history"
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
	// fault causes the fault and heal ends it, after lasts. heal is nil if the fault ends on its own.
	fault, heal action
	lasts       time.Duration
	// then is how long the load continues after the fault.
	then time.Duration
	// reads and writes are regular expressions that match the expected errors; "" if none is expected. counts matches
	// further errors of increments where one server decides them: when its connection ends, nobody knows whether it has
	// counted.
	reads, writes, counts string
	history.Manners
	// served says that clients are served during the fault: from goesOnAfter on at half the usual rate or more.
	served bool
	// keeps are the numbers of servers that must not be flushed.
	keeps []int
	// groups makes every second connection use only keys of the server that fails, and the others only keys of other
	// servers.
	groups bool
	// round is the number of a soak's round, from 0. It is added to the seed.
	round int
}

// action changes a running system.
type action func(context.Context, *system) error

// serverAction changes one server of a running system.
type serverAction func(context.Context, *system, *server) error

const (
	// calm is the time before the fault.
	calm = 1500 * time.Millisecond
	// untilSpent is how long the load continues after a fault until everything in a gutter has expired. Then the
	// servers can be compared.
	untilSpent = (gutterTTL + 4) * time.Second
	// goesOnAfter is the time from the beginning of a fault until clients are served as usual.
	goesOnAfter = 2 * time.Second
	// usually is the default duration of a fault, and of the load after it.
	usually = 3 * time.Second
)

// Errors of a system of three servers that name the victim, and errors that name any of them.
const (
	byVictim = `^server-2: `
	byAny    = `^server-[123]: `
)

// survivor is the server that is left when two of three fail.
var survivor = []int{2}

// The systems that scenarios use.
var (
	plain           = settings{servers: 3}
	proxied         = settings{servers: 3, proxies: true}
	namespaced      = settings{servers: 3, spaced: true}
	named           = settings{servers: 3, named: true}
	fewDescriptors  = settings{servers: 3, files: fewFiles}
	lying           = settings{servers: 3, liars: true, memory: podMemory}
	newMemcached    = settings{servers: 3, recent: true}
	fleet           = settings{servers: 3, fleet: true}
	pairOfServers   = settings{servers: 2, fleet: true}
	threeInstances  = settings{servers: 3, fleet: true, third: true}
	proxiedFleet    = settings{servers: 3, fleet: true, proxies: true}
	chunked         = settings{servers: 3, large: true}
	shadowed        = settings{servers: 3, shadow: true, pools: withShadow}
	farFollowed     = settings{servers: 3, fleet: true, follows: true, pools: withFollower}
	withGutter      = settings{servers: 6, fleet: true, proxies: true, pools: gutter}
	withGutterAlone = settings{servers: 6, proxies: true, pools: gutter}
	twoPoolFleet    = settings{servers: 6, fleet: true, pools: twoPools}
	routesMove      = settings{servers: 6, fleet: true, pools: movingRoutes, fixed: []string{"change-step"}}
	gutterMoves     = settings{servers: 9, fleet: true, pools: movingGutters, fixed: []string{"change-step"}}
	keysMove        = settings{servers: 9, fleet: true, pools: movingKeysOfGutters, fixed: []string{"change-step"}}
	migrating       = settings{servers: 6, fleet: true, pools: migrations(1), fixed: []string{"change-step"}}
	migratingBack   = settings{servers: 6, fleet: true, pools: migrations(2), fixed: []string{"change-step"}}
	warmedUp        = settings{servers: 6, fleet: true, pools: warmsUp, fixed: []string{"change-step"}}
	filled          = settings{servers: 3, fleet: true, pools: fillsVictim, fixed: []string{"change-step"}}
)

// Replication and acknowledgement, as flags of `mcmw serve`.
var (
	ackAny     = []string{"--replicas", "all", "--ack", "any", "--sharded"}
	ackQuorum  = []string{"--replicas", "all", "--ack", "quorum"}
	ackAll     = []string{"--replicas", "all", "--ack", "all"}
	twoOfThree = []string{"--replicas", "2", "--ack", "any", "--sharded"}
	oneReplica = []string{"--replicas", "1", "--sharded"}
	inChunks   = []string{
		"--replicas", "all", "--ack", "any", "--sharded", "--large-values", "256k",
		"--item-size", "16k",
	}
	ackLive    = []string{"--replicas", "all", "--ack", "live", "--writers", "several"}
	unfilled   = []string{"--replicas", "all", "--ack", "live", "--writers", "several", "--refill-rate", "0"}
	severalOne = []string{"--replicas", "1", "--writers", "several"}
	severalTwo = []string{
		"--replicas", "2", "--ack", "all", "--writers", "several", "--timeout", "5s",
		"--connect-timeout", "5s",
	}
	aloneOne    = []string{"--replicas", "1", "--writers", "one"}
	flushOnJoin = []string{"--replicas", "all", "--ack", "any", "--rejoin", "flush"}
)

// Scenarios returns all scenarios in their order.
func Scenarios() []Scenario {
	list := []Scenario{
		{
			Name: "kill-any", Title: "a server is killed and started again", Args: ackAny, fault: kill, heal: start,
			counts: byVictim, settings: plain,
		},
		{
			Name: "kill-quorum", Title: "a server is killed and started again", Args: ackQuorum, fault: kill,
			heal:   start,
			counts: byVictim, Long: true, settings: plain,
		},
		{
			Name: "kill-all", Title: "a server is killed and started again", Args: ackAll, fault: kill, heal: start,
			writes: byVictim, Long: true, settings: plain,
		},
		{
			Name: "kill-two", Title: "a server is killed and started again", Args: twoOfThree, fault: kill, heal: start,
			counts: byVictim, Long: true, settings: plain,
		},
		{
			Name: "kill-one", Title: "a server is killed and started again", Args: oneReplica, fault: kill, heal: start,
			reads: byVictim, writes: byVictim, groups: true, Long: true, settings: plain,
		},
		{
			Name: "kill-pool", Title: "a server is killed and started again",
			Args:  with(ackAny, "--pool", "per-server"),
			fault: kill, heal: start, counts: byVictim, Long: true, settings: plain,
		},
		{
			Name: "kill-flush", Title: "a server is killed and started again; rejoin flush", Args: flushOnJoin,
			fault: kill, heal: start, counts: byVictim, Long: true, settings: plain,
		},
		{
			Name: "kill-each", Title: "all servers are killed and started again", Args: ackAny, fault: each(killServer),
			heal: each(startServer), reads: byAny, writes: byAny, Long: true, settings: plain,
		},
		{
			Name: "restart", Title: "a server is restarted at once, five times", Args: ackQuorum, fault: restarts,
			reads: byAny, writes: byAny, Long: true, settings: plain,
		},
		{
			Name: "freeze", Title: "a server is suspended (SIGSTOP)", Args: ackAny, fault: freeze, heal: thaw,
			counts: byVictim, settings: plain,
		},
		{
			Name: "freeze-one", Title: "a server is suspended (SIGSTOP)", Args: oneReplica, fault: freeze, heal: thaw,
			reads: byVictim, writes: byVictim, groups: true, settings: plain,
		},
		{
			Name: "freeze-soon", Title: "a server is suspended (SIGSTOP)",
			Args:  with(oneReplica, "--stall-after", "10ms"),
			fault: freeze, heal: thaw, reads: byVictim, writes: byVictim, groups: true, Long: true, settings: plain,
		},
		{
			Name: "freeze-pool", Title: "a server is suspended (SIGSTOP)",
			Args:  with(oneReplica, "--pool", "per-server"),
			fault: freeze, heal: thaw, reads: byVictim, writes: byVictim, groups: true, Long: true, settings: plain,
		},
		{
			Name:  "freeze-short",
			Title: "a server is suspended for a little longer than the timeout of 200 ms, five times",
			Args:  with(ackAny, "--timeout", "200ms"), fault: freezes(300*time.Millisecond, 5), counts: byVictim,
			settings: plain,
		},
		{
			Name: "freeze-all", Title: "all servers are suspended", Args: ackAny, fault: each(freezeServer),
			heal: each(thawServer), reads: byAny, writes: byAny, Long: true, settings: plain,
		},
		{
			Name: "flap", Title: "a server is suspended and resumed repeatedly, every 100 ms",
			Args: with(ackAny, "--timeout", "50ms"), fault: freezes(100*time.Millisecond, 15), reads: byAny,
			writes: byAny, Long: true, settings: plain,
		},
		{
			Name: "reset", Title: "a server's connections are reset in the middle of replies", Args: ackAny,
			fault: inject(faulty.Fault{Cut: 3000, Reset: true}), heal: lift, counts: byVictim, settings: proxied,
		},
		{
			Name: "reset-all", Title: "all servers' connections are reset in the middle of replies", Args: ackAny,
			fault: each(injectInto(faulty.Fault{Cut: 3000, Reset: true})), heal: each(injectInto(faulty.Fault{})),
			reads: byAny, writes: byAny, Long: true, settings: proxied,
		},
		{
			Name: "truncate", Title: "a server's connections end in the middle of replies", Args: oneReplica,
			fault: inject(faulty.Fault{Cut: 2000}), heal: lift, reads: byVictim, writes: byVictim, Long: true,
			settings: proxied,
		},
		{
			Name: "double", Title: "a server sends every reply twice", Args: twoOfThree,
			fault: inject(faulty.Fault{Double: true}), heal: lift, counts: byVictim, Long: true, settings: proxied,
		},
		{
			Name: "bytewise", Title: "a server sends its replies byte by byte", Args: oneReplica,
			fault: inject(faulty.Fault{Bytewise: true}), heal: lift, Long: true, settings: proxied,
		},
		{
			Name: "slow", Title: "a server answers 100 ms late", Args: oneReplica,
			fault: inject(faulty.Fault{Delay: 100 * time.Millisecond}), heal: lift, reads: byVictim, writes: byVictim,
			groups: true, Long: true, settings: proxied,
		},
		{
			Name: "refuse", Title: "a server ends every connection at once", Args: ackAny,
			fault: inject(faulty.Fault{Refuse: true, Cut: 1, Reset: true}), heal: lift, counts: byVictim, Long: true,
			settings: proxied,
		},
		{
			Name: "kill-served", Title: "a server is killed and started again; mcmw serves hot keys from memory",
			Args: with(aloneOne, "--hot-keys", "serve"), fault: kill, heal: start, reads: byVictim, writes: byVictim,
			Long: true, settings: newMemcached,
		},
		{
			Name: "kill-live", Title: "a server is killed and started again; two mcmw instances", Args: ackLive,
			fault: kill, heal: start, counts: byVictim, settings: fleet,
		},
		{
			Name: "partition-one", Title: "one of two mcmw instances loses its connection to a server", Args: ackLive,
			fault: inject(faulty.Fault{Lose: true, Refuse: true}), heal: lift, counts: byVictim,
			settings: proxiedFleet,
		},
		{
			Name: "large-values", Title: "a server is killed and started again; values are stored in chunks",
			Args: inChunks, fault: kill, heal: start, counts: byVictim, settings: chunked,
		},
		{
			Name: "large-freeze", Title: "a server is suspended (SIGSTOP); values are stored in chunks", Args: inChunks,
			fault: freeze, heal: thaw, counts: byVictim, settings: chunked,
		},
		{
			Name: "shadow", Title: "the shadow of the pool, which gets half of the keys, is suspended", Args: ackAny,
			fault: atShadow(freezeServer), heal: atShadow(thawServer), settings: shadowed,
		},
		{
			Name: "shadow-kill", Title: "the shadow of the pool is killed and started again", Args: ackAny,
			fault: atShadow(killServer), heal: atShadow(startServer), Long: true, settings: shadowed,
		},
		{
			Name: "follow", Title: "a server of a pool that another one follows, 100 ms away, is killed and started " +
				"again; two mcmw instances", Args: ackLive, fault: kill, heal: start, counts: byVictim,
			settings: farFollowed,
		},
		{
			Name: "follow-cut", Title: "packets to and from a pool that follows, 100 ms away, are lost; two mcmw " +
				"instances", Args: ackLive, fault: cutFollower, heal: joinFollower, lasts: 30 * time.Second,
			settings: farFollowed,
		},
		{
			Name: "gutter", Title: "a server whose pool has a gutter is killed and started again; two mcmw instances",
			Args: severalOne, fault: kill, heal: start, then: untilSpent, reads: byVictim, writes: byVictim,
			settings: withGutter,
		},
		{
			Name:  "gutter-one",
			Title: "one of two mcmw instances loses its connection to a server whose pool has a gutter",
			Args:  severalOne, fault: inject(faulty.Fault{Lose: true, Refuse: true}), heal: lift, then: untilSpent,
			reads: byVictim, writes: byVictim, settings: withGutter,
		},
		{
			Name: "gutter-alone", Title: "the only mcmw instance loses its connection to a server whose pool has a " +
				"gutter",
			Args: aloneOne, fault: inject(faulty.Fault{Lose: true, Refuse: true}), heal: lift, then: untilSpent,
			reads: byVictim, writes: byVictim, Long: true, settings: withGutterAlone,
		},
		{
			Name: "gutter-freeze", Title: "a server whose pool has a gutter is suspended (SIGSTOP); two mcmw instances",
			Args: severalOne, fault: freeze, heal: thaw, then: untilSpent, reads: byVictim, writes: byVictim,
			Long: true, settings: withGutter,
		},
		{
			Name:  "pool-without-majority",
			Title: "two of the three servers of one of two pools are killed and started again; two mcmw instances",
			Args:  ackLive, fault: at(killServer, victim-1, victim), heal: at(startServer, victim-1, victim),
			reads: byAny, writes: byAny, settings: twoPoolFleet,
		},
		{
			Name: "two-of-three", Title: "two of three servers are killed and started again; two mcmw instances",
			Args: ackLive, fault: at(killServer, 0, victim), heal: at(startServer, 0, victim), reads: byAny,
			writes: byAny, served: true, keeps: survivor, settings: fleet,
		},
		{
			Name: "two-of-three-long", Title: "two of three servers are killed for 90 s; two mcmw instances",
			Args: ackLive, fault: at(killServer, 0, victim), heal: at(startServer, 0, victim), reads: byAny,
			writes: byAny, served: true, keeps: survivor, lasts: 90 * time.Second, Long: true, settings: fleet,
		},
		{
			Name: "two-of-three-freeze", Title: "two of three servers are suspended (SIGSTOP); two mcmw instances",
			Args: ackLive, fault: at(freezeServer, 0, victim), heal: at(thawServer, 0, victim), reads: byAny,
			writes: byAny, served: true, keeps: survivor, settings: fleet,
		},
		{
			Name: "two-of-three-restart", Title: "two of three servers are restarted at once; two mcmw instances",
			Args: ackLive, fault: atOnce(0, victim), reads: byAny, writes: byAny, keeps: survivor, settings: fleet,
		},
		{
			Name:  "two-of-three-thrice",
			Title: "two of three servers are killed and started again; three mcmw instances", Args: ackLive,
			fault: at(killServer, 0, victim), heal: at(startServer, 0, victim), reads: byAny, writes: byAny,
			served: true, keeps: survivor, Long: true, settings: threeInstances,
		},
		{
			Name: "one-of-two", Title: "one of two servers is killed and started again; two mcmw instances",
			Args: ackLive, fault: kill, heal: start, reads: byAny, writes: byAny, served: true, keeps: []int{0},
			settings: pairOfServers,
		},
		{
			Name: "one-of-two-freeze", Title: "one of two servers is suspended (SIGSTOP); two mcmw instances",
			Args: ackLive, fault: freeze, heal: thaw, reads: byAny, writes: byAny, served: true, keeps: []int{0},
			Long: true, settings: pairOfServers,
		},
		{
			Name: "one-of-two-restart", Title: "one of two servers is restarted at once; two mcmw instances",
			Args: ackLive, fault: atOnce(victim), reads: byAny, writes: byAny, keeps: []int{0}, Long: true,
			settings: pairOfServers,
		},
		{
			Name: "all-restart", Title: "all three servers are restarted at once; two mcmw instances", Args: ackLive,
			fault: atOnce(0, victim, 2), reads: byAny, writes: byAny, settings: fleet,
		},
		{
			Name: "routes",
			Title: "routes move keys to another pool, back, and there again; two mcmw instances read the files a " +
				"second apart", Args: severalTwo, fault: reroute, heal: rerouteAgain, settings: routesMove,
		},
		{
			Name: "gutter-change",
			Title: "a pool's gutter is changed while a server is down, changed back, and changed again; two mcmw " +
				"instances read the files a second apart", Args: severalOne, fault: killAndReroute,
			heal: startAndRerouteAgain, reads: byVictim, writes: byVictim, settings: gutterMoves,
		},
		{
			Name: "gutter-routes",
			Title: "routes move keys to another pool with a gutter while a server is down, back, and there again; " +
				"two mcmw instances read the files a second apart", Args: severalOne, fault: killAndReroute,
			heal: startAndRerouteAgain, reads: byVictim, writes: byVictim, settings: keysMove,
		},
		{
			Name: "migration", Title: "the keys of a pool move to another pool; two mcmw instances", Args: severalTwo,
			fault: copies(0), heal: migrated(0), settings: migrating,
		},
		{
			Name: "migration-back", Title: "the keys of a pool move to another pool and back; two mcmw instances",
			Args: severalTwo, fault: copies(1), heal: migrated(1), Long: true, settings: migratingBack,
		},
		{
			Name: "warm-up",
			Title: "a server of each of two pools is killed and started again while one pool is warmed up from the " +
				"other; two mcmw instances", Args: severalTwo, fault: whileCopying(at(killServer, victim, coldVictim)),
			heal: startBoth, writes: `^server-[25]: `, settings: warmedUp,
		},
		{
			Name: "warm-up-server",
			Title: "a server is killed and started again while it is filled from the other replicas; two mcmw " +
				"instances", Args: unfilled, fault: whileCopying(kill), heal: startFilled, counts: byVictim,
			settings: filled, // a refill would leave the warm-up nothing to copy
		},
		{
			Name: "partition", Title: "packets to and from a server are lost", Args: ackAny, fault: partition,
			heal:  heal,
			lasts: 4 * time.Second, then: 8 * time.Second, counts: byVictim, settings: namespaced,
		},
		{
			Name: "descriptors", Title: "more clients connect than mcmw has file descriptors", Args: ackAny,
			fault: exhaust, settings: fewDescriptors,
		},
		{
			Name: "names",
			Title: "the name server fails, recovers, and returns another address for a server; 1 s later the server " +
				"is killed at its previous address", Args: with(ackAny, "--resolve-interval", "200ms"), fault: move,
			counts: byVictim, Long: true, settings: named,
		},
	}
	for _, lie := range faulty.Lies {
		// With ack any one server's reply is enough: if the others have no count, the client gets the invented one.
		list = append(list, Scenario{
			Name: "lie-" + lie.Name, Title: "a server answers " + lie.Title,
			Args: with(ackQuorum, "--sharded", "--client-memory", "64m"), fault: lies(&lie), heal: lies(nil),
			reads: byVictim, writes: byVictim, Long: true, settings: lying,
		})
	}
	for _, a := range attacks {
		list = append(list, Scenario{
			Name: "hostile-" + a.name, Title: "clients " + a.title,
			Args: with(ackAny, "--client-memory", "64m", "--drain-timeout", "2s"), fault: a.begin, heal: endAttack,
			Long:     true,
			settings: settings{servers: 3, memory: podMemory, logins: a.logins},
		})
	}
	for _, s := range list {
		list = append(list, s.withRestart("+term", "mcmw is stopped (SIGTERM)", syscall.SIGTERM),
			s.withRestart("+kill", "mcmw is killed (SIGKILL)", syscall.SIGKILL))
	}
	for i := range list {
		s := &list[i]
		s.settings.args, s.LogsIn = s.Args, s.settings.logins
		s.lasts = cmp.Or(s.lasts, usually)
		s.then = cmp.Or(s.then, usually)
	}
	return list
}
