package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"mcmw/internal/faulty"
)

const (
	// DefaultSoak is the default length of a soak.
	DefaultSoak = time.Hour
	// soakRounds is how many systems a soak starts, one after another, each with other options for replication.
	soakRounds = 4
	// longestFault is the longest fault of a soak, and longestPause the longest pause before the next.
	longestFault = 3 * time.Second
	longestPause = 2 * time.Second
)

// NewSoak checks the options, finds the programs, and returns a suite that makes random servers fail in random ways.
// Every round is a scenario.
func NewSoak(o Options, duration time.Duration) (*Suite, error) {
	programs, err := o.programs()
	if err != nil {
		return nil, err
	}
	if duration <= 0 {
		return nil, fmt.Errorf("duration %v: expected more than 0", duration)
	}
	s := &Suite{Options: o, programs: programs}
	for round := range soakRounds {
		args := [][]string{ackAny, twoOfThree, with(ackQuorum, "--pool", "per-server"), twoOfThree}[round]
		rng := rand.New(rand.NewPCG(o.Seed, uint64(round)))
		s.scenarios = append(s.scenarios, Scenario{
			Name: fmt.Sprintf("round %d", round+1), Title: "random faults", Args: args, round: round,
			settings: settings{servers: 3, proxies: true, args: with(args, "--timeout", "500ms")},
			then:     usually, reads: ".", writes: ".",
			fault: func(ctx context.Context, sys *system) error {
				for end := time.Now().Add(duration / soakRounds); time.Now().Before(end); {
					if err := s.strike(ctx, sys, rng, round); err != nil {
						return err
					}
				}
				return nil
			},
		})
	}
	return s, s.addGiven()
}

// failure is a kind of failure of a server, and its end.
type failure struct {
	name       string
	begin, end serverAction
}

// proxyFailure is a failure that the server's proxy causes.
func proxyFailure(name string, f faulty.Fault) failure {
	return failure{name, injectInto(f), injectInto(faulty.Fault{})}
}

var failures = []failure{
	{"is killed", killServer, startServer},
	{"is restarted", killServer, startServer},
	{"is suspended", freezeServer, thawServer},
	proxyFailure("stalls", faulty.Fault{Stall: true}),
	proxyFailure("answers late", faulty.Fault{Delay: 20 * time.Millisecond}),
	proxyFailure("resets its connections", faulty.Fault{Cut: 2000, Reset: true}),
	proxyFailure("cuts its replies", faulty.Fault{Cut: 1000}),
	proxyFailure("answers twice", faulty.Fault{Double: true}),
	proxyFailure("answers byte by byte", faulty.Fault{Bytewise: true}),
	proxyFailure("refuses", faulty.Fault{Refuse: true, Cut: 1, Reset: true}),
}

// strike makes a random server fail for a random time.
func (s *Suite) strike(ctx context.Context, sys *system, rng *rand.Rand, round int) error {
	f := failures[rng.IntN(len(failures))]
	server := sys.servers[rng.IntN(len(sys.servers))]
	lasts := time.Duration(rng.Int64N(int64(longestFault)))
	if f.name == "is restarted" {
		lasts = 0
	}
	s.tell("round %d of %d: %s %s for %v", round+1, soakRounds, server.name, f.name, lasts.Round(time.Millisecond))
	if err := f.begin(ctx, sys, server); err != nil {
		return err
	}
	err := sleep(ctx, lasts)
	if err := errors.Join(err, f.end(ctx, sys, server)); err != nil {
		return err
	}
	return sleep(ctx, time.Duration(rng.Int64N(int64(longestPause))))
}
