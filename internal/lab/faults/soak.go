package faults

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
	// soakRounds is how many systems a soak starts, one after the other, with every second kind of replication.
	soakRounds = 4
	// longestFault bounds how long a fault of a soak lasts, and longestPause the time to the next.
	longestFault = 3 * time.Second
	longestPause = 2 * time.Second
)

// Soak makes random servers fail in random ways.
type Soak struct {
	Options
	programs Programs
	duration time.Duration
}

// NewSoak checks the options and finds the programs.
func NewSoak(o Options, duration time.Duration) (*Soak, error) {
	programs, err := o.programs()
	if err != nil {
		return nil, err
	}
	if duration <= 0 {
		return nil, fmt.Errorf("duration %v: expected more than 0", duration)
	}
	s := &Soak{Options: o, programs: programs, duration: duration}
	for round := range soakRounds {
		if _, err := s.suite(round); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// misfortune is a kind of failure of a server, and its end.
type misfortune struct {
	name   string
	strike func(s *system, i int) error
	mend   func(ctx context.Context, s *system, i int) error
}

// harm is a misfortune of the server's proxy.
func harm(name string, f faulty.Fault) misfortune {
	set := func(s *system, i int, f faulty.Fault) error {
		s.servers[i].proxy.Inject(f)
		return nil
	}
	return misfortune{
		name, func(s *system, i int) error { return set(s, i, f) },
		func(_ context.Context, s *system, i int) error { return set(s, i, faulty.Fault{}) },
	}
}

var misfortunes = []misfortune{
	{"is killed", kill1, func(ctx context.Context, s *system, i int) error { return s.startServer(ctx, i) }},
	{"is restarted", kill1, func(ctx context.Context, s *system, i int) error { return s.startServer(ctx, i) }},
	{"is suspended", (*system).freeze, func(_ context.Context, s *system, i int) error { return s.thaw(i) }},
	harm("stalls", faulty.Fault{Stall: true}),
	harm("answers late", faulty.Fault{Delay: 20 * time.Millisecond}),
	harm("resets its connections", faulty.Fault{Cut: 2000, Reset: true}),
	harm("cuts its replies", faulty.Fault{Cut: 1000}),
	harm("answers twice", faulty.Fault{Double: true}),
	harm("answers byte by byte", faulty.Fault{Bytewise: true}),
	harm("refuses", faulty.Fault{Refuse: true, Cut: 1, Reset: true}),
}

// Run runs rounds of random faults. When ctx ends, the report holds the rounds that ended before. No process is left when
// it returns.
func (s *Soak) Run(ctx context.Context) (*Report, error) {
	report := &Report{Command: s.Command, Given: s.Given, Started: time.Now()}
	defer func() { report.Ended = time.Now() }()
	for round := range soakRounds {
		result, err := s.round(ctx, round)
		if err != nil {
			return report, fmt.Errorf("round %d: %w", round+1, err)
		}
		report.Results = append(report.Results, result)
		s.tell("%s", result.line())
	}
	return report, nil
}

func (s *Soak) round(ctx context.Context, round int) (*Result, error) {
	suite, err := s.suite(round)
	if err != nil {
		return nil, err
	}
	return suite.run(ctx, suite.scenarios[0])
}

// suite returns a round as a suite of one scenario.
func (s *Soak) suite(round int) (*Suite, error) {
	args := [][]string{ackAny, twoOfThree, with(ackQuorum, "--pool", "per-server"), twoOfThree}[round]
	rng := rand.New(rand.NewPCG(s.Seed, uint64(round)))
	suite := &Suite{Options: s.Options, programs: s.programs}
	suite.Seed += uint64(round)
	suite.scenarios = []Scenario{{
		Name: fmt.Sprintf("round %d", round+1), Title: "random faults", Args: args,
		settings: settings{servers: 3, proxies: true, args: with(args, "--timeout", "500ms")},
		then:     usually, reads: ".", writes: ".",
		fault: func(ctx context.Context, sys *system) error {
			for end := time.Now().Add(s.duration / soakRounds); time.Now().Before(end); {
				if err := s.strike(ctx, sys, rng, round); err != nil {
					return err
				}
			}
			return nil
		},
	}}
	return suite, suite.give()
}

// strike makes a random server fail for a while.
func (s *Soak) strike(ctx context.Context, sys *system, rng *rand.Rand, round int) error {
	m := misfortunes[rng.IntN(len(misfortunes))]
	i := rng.IntN(len(sys.servers))
	lasts := time.Duration(rng.Int64N(int64(longestFault)))
	if m.name == "is restarted" {
		lasts = 0
	}
	s.tell("round %d of %d: %s %s for %v", round+1, soakRounds, sys.servers[i].name, m.name, lasts.Round(time.Millisecond))
	if err := m.strike(sys, i); err != nil {
		return err
	}
	err := sleep(ctx, lasts)
	if err := errors.Join(err, m.mend(ctx, sys, i)); err != nil {
		return err
	}
	return sleep(ctx, time.Duration(rng.Int64N(int64(longestPause))))
}
