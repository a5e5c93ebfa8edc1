package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"mcmw/internal/route"
	"mcmw/test/history"
)

// Options select what to run. Each field's comment says what its zero value means.
type Options struct {
	// Mcmw is the path of the binary.
	Mcmw string
	// Only lists the scenarios to run; empty means all.
	Only []string
	// Quick leaves out long scenarios. It has no effect with Only.
	Quick bool
	// Given are options for every mcmw instance, each as name=value.
	Given []string
	// Seed selects the sequence of requests, and the faults of a soak.
	Seed uint64
	// Command is the command line, for the report.
	Command string
	// Progress, if set, is called with a message when something starts or ends.
	Progress func(string)
}

const (
	// clients and rate are the load: connections, and requests per second of all connections together. On two
	// processors it leaves half of the time idle.
	clients = 32
	rate    = 3000
	// sharers and sharedRate are the clients that share keys and their rate, with two mcmw instances.
	sharers    = 8
	sharedRate = 400
	// warmUp is how long the load runs before anything is measured, so that all buffers exist.
	warmUp = 700 * time.Millisecond
	// heapSlack is how much the heap may grow, bytes: the garbage collector empties the pools of buffers at times of
	// its own choice.
	heapSlack = 32 << 20
)

// Result is the result of a scenario. Durations are nanoseconds in JSON.
type Result struct {
	Scenario string   `json:"scenario"`
	Title    string   `json:"title"`
	Args     []string `json:"args"`
	// Skipped is the reason why the scenario was not run; "" if it was.
	Skipped string `json:"skipped,omitempty"`

	Reads  history.Counts       `json:"reads"`
	Writes history.Counts       `json:"writes"`
	Errors []history.ErrorCount `json:"errors"`
	Misses uint64               `json:"misses"`
	// Audited is how many values were read at the end: every key, through the middleware and from each server.
	Audited uint64 `json:"audited"`
	Wrong   uint64 `json:"wrong_values"`
	// Stale counts all stale values; StaleAfterRecovery those read after the fault had ended.
	Stale              uint64 `json:"stale_values"`
	StaleAfterRecovery uint64 `json:"stale_values_after_recovery"`
	// Withdrawn counts values that were older than one read before, but not older than the last acknowledged write:
	// until a sweep, only some servers have the write that a killed mcmw was making.
	Withdrawn uint64 `json:"withdrawn_values,omitempty"`
	// Detected is the time from the fault until a server was no longer up; nil if it stayed up.
	Detected *time.Duration `json:"detected_after_ns"`
	// Recovered is the time from the end of the fault until all servers were up and no request failed any more.
	Recovered time.Duration `json:"recovered_after_ns"`
	// FromMemory is how many gets the middlewares answered from memory since their last start; nil if they answer
	// nothing from memory.
	FromMemory *uint64 `json:"from_memory,omitempty"`
	// Followed is the time after the load until nothing was owed to the following pool; nil: there is none.
	Followed *time.Duration `json:"followed_after_ns,omitempty"`
	// Kept are the keys of a fleet with one pool that were stored before the fault; nil: there are none.
	Kept *Kept `json:"kept,omitempty"`
	// Rates are successes per second before the fault, and from goesOnAfter to its end; nil if clients need not be
	// served meanwhile.
	Rates  *[2]float64 `json:"successes_per_s,omitempty"`
	Before Footprint   `json:"before"`
	After  Footprint   `json:"after"`
	Groups []Group     `json:"groups,omitempty"`
	// Shared are the results for the keys that clients of two mcmw instances share.
	Shared *history.Shared `json:"shared,omitempty"`
	// Broken are the broken promises: a wrong or stale value, a lost answer, a leak, a server that did not come back.
	Broken []string `json:"broken,omitempty"`
	// Unexpected are errors that the scenario does not explain.
	Unexpected []string `json:"unexpected,omitempty"`
}

// Group has the results of the connections that use the failing server, or of those that do not.
type Group struct {
	Name   string              `json:"name"`
	Before history.Performance `json:"before"`
	During history.Performance `json:"during"`
}

// Suite runs scenarios.
type Suite struct {
	Options
	programs  Programs
	scenarios []Scenario
}

// New checks the options and finds the programs.
func New(o Options) (*Suite, error) {
	programs, err := o.programs()
	if err != nil {
		return nil, err
	}
	s := &Suite{Options: o, programs: programs}
	all := Scenarios()
	for _, name := range o.Only {
		i := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == name })
		if i < 0 {
			var names []string
			for _, s := range all {
				names = append(names, s.Name)
			}
			return nil, fmt.Errorf("scenario %q: expected one of %s", name, strings.Join(names, ", "))
		}
		s.scenarios = append(s.scenarios, all[i])
	}
	if len(o.Only) == 0 {
		s.scenarios = slices.DeleteFunc(all, func(s Scenario) bool { return o.Quick && s.Long })
	}
	return s, s.addGiven()
}

func (o Options) programs() (p Programs, err error) {
	if p.Mcmw, err = exec.LookPath(o.Mcmw); err != nil {
		return p, fmt.Errorf("mcmw %q: %w; build it first (make build)", o.Mcmw, err)
	}
	if p.Memcached, err = exec.LookPath("memcached"); err != nil {
		return p, fmt.Errorf("%w; install it, on Debian: apt-get install memcached", err)
	}
	return p, nil
}

// tell reports progress.
func (o Options) tell(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

// Run runs all scenarios. If one cannot be run or ctx ends, the report has the results so far. No process is left when
// it returns.
func (s *Suite) Run(ctx context.Context) (*Report, error) {
	report := &Report{Command: s.Command, Given: s.Given, Started: time.Now()}
	defer func() { report.Ended = time.Now() }()
	for i, scenario := range s.scenarios {
		s.tell("%d of %d: %s: %s", i+1, len(s.scenarios), scenario.Name, scenario.Title)
		result, err := s.run(ctx, scenario)
		if err != nil {
			return report, fmt.Errorf("scenario %s: %w", scenario.Name, err)
		}
		report.Results = append(report.Results, result)
		s.tell("  %s", result.line())
	}
	return report, nil
}

// run runs one scenario.
func (s *Suite) run(ctx context.Context, c Scenario) (result *Result, err error) {
	c.settings = c.settings.withHotKeys()
	seed := s.Seed + uint64(c.round)
	result = &Result{Scenario: c.Name, Title: c.Title, Args: c.Args}
	sys, err := startSystem(ctx, s.programs, c.settings)
	if skip := (errNotHere{}); errors.As(err, &skip) {
		result.Skipped = skip.Error()
		return result, nil
	}
	if err != nil {
		return nil, err
	}
	stop := sync.OnceValue(sys.stop)
	defer stop()
	if result.Before, err = s.warm(ctx, sys, seed); err != nil {
		return nil, err
	}
	o := sys.load(sys.entrances(), seed)
	o.Hot, o.Age, o.Manners = c.settings.age > 0, c.settings.age, c.Manners
	if c.settings.fleet {
		o.SharedClients, o.SharedRate = sharers, sharedRate
	}
	if c.groups {
		if o.Grouped, err = sys.onVictim(); err != nil {
			return nil, err
		}
	}
	keeps := c.settings.fleet && c.settings.pools == nil
	if keeps {
		if err := keep(sys.mcmw.Addr); err != nil {
			return nil, err
		}
	}
	l := history.Start(o)
	began, healed, err := c.play(ctx, sys, l)
	l.Stop()
	if err != nil {
		return nil, errors.Join(err, sys.mcmw.Ended())
	}
	if m, err := sys.admin.metrics(ctx); err != nil || m["mcmw_several_writers"] != 1 {
		c.counts = "" // no single server decides increments
	}
	if o.Hot {
		result.countFromMemory(ctx, sys)
	}
	if c.settings.fleet {
		if err := sleep(ctx, o.Age); err != nil { // answers from memory may be as old
			return nil, err
		}
	}
	result.finish(ctx, sys, l, began, healed)
	if sys.shadow != nil {
		result.checkShadow(ctx, sys, c.Restarts)
	}
	if sys.follower != nil {
		result.checkFollower(ctx, sys, l)
	}
	if result.Shared = l.AuditShared(); result.Shared != nil {
		result.judgeShared(c)
	}
	if c.served {
		result.judgeRates(l)
	}
	if keeps {
		result.countKept(sys.entrances(), len(c.keeps) > 0)
	}
	result.judgeFlushed(ctx, sys, c.keeps)
	if c.groups {
		for g, name := range []string{"none", "only"} {
			result.Groups = append(result.Groups, Group{
				Name: name, Before: l.Performance(g, history.Before), During: l.Performance(g, history.During),
			})
		}
	}
	if err := stop(); err != nil {
		result.breaks("%v", err)
	}
	result.judge(l.Verified(), c)
	result.Broken = append(result.Broken, sys.broken...)
	return result, ctx.Err()
}

// play runs the timeline. It returns when the fault began and when it had ended.
func (c *Scenario) play(ctx context.Context, sys *system, l *history.Load) (began, healed time.Time, err error) {
	if err := sleep(ctx, calm); err != nil {
		return began, healed, err
	}
	began = l.Begin(history.During)
	if err := c.fault(ctx, sys); err != nil {
		return began, healed, err
	}
	if c.heal != nil {
		lasts := c.lasts
		if c.served {
			if err := sleep(ctx, goesOnAfter-time.Since(began)); err != nil {
				return began, healed, err
			}
			lasts -= time.Since(began)
			l.Begin(history.Steady)
		}
		if err := sleep(ctx, lasts); err != nil {
			return began, healed, err
		}
		if err := c.heal(ctx, sys); err != nil {
			return began, healed, err
		}
	}
	healed = l.Begin(history.After)
	return began, healed, sleep(ctx, c.then)
}

// warm runs the load for warmUp, and then measures the middleware's footprint without clients.
func (s *Suite) warm(ctx context.Context, sys *system, seed uint64) (Footprint, error) {
	o := sys.load([]string{sys.mcmw.Addr}, seed)
	o.LogsIn = sys.settings.logins
	l := history.Start(o)
	err := sleep(ctx, warmUp)
	l.Stop()
	if err != nil {
		return Footprint{}, err
	}
	return sys.admin.idle(ctx)
}

// load returns the load of all clients, with new keys.
func (s *system) load(addrs []string, seed uint64) history.Options {
	s.spaces++
	return history.Options{
		Addrs: addrs, Clients: clients, Rate: rate, Seed: seed, Large: s.settings.large,
		Prefix: fmt.Sprintf("f%d-", s.spaces-1),
	}
}

// onVictim returns a function that reports whether the victim holds a key.
func (s *system) onVictim() (func(key string) bool, error) {
	var servers []route.Server
	for _, server := range s.servers {
		servers = append(servers, route.Server{Name: server.name, Addr: server.addr(), Weight: 1})
	}
	router, err := route.New(servers, route.Options{Replicas: 1})
	return func(key string) bool { return router.Primary([]byte(key)) == victim }, err
}

// breaks notes a broken promise.
func (r *Result) breaks(format string, args ...any) {
	r.Broken = append(r.Broken, fmt.Sprintf(format, args...))
}

// finish checks the system after the load has ended: whether it has recovered, what can be read, and its footprint.
func (r *Result) finish(ctx context.Context, sys *system, l *history.Load, began, healed time.Time) {
	if err := sys.awaitUp(ctx); err != nil {
		r.breaks("%v", err)
		return
	}
	// Read everything through each middleware and from each server.
	for _, addr := range sys.entrances() {
		r.audit(ctx, l, "reading every key at the end", addr, 2*len(sys.servers))
	}
	for _, server := range sys.servers {
		if sys.settings.large {
			break // the servers hold heads and chunks
		}
		r.audit(ctx, l, fmt.Sprintf("reading every key from %s at the end", server.name), server.own(), 1)
	}
	var err error
	if r.After, err = sys.admin.settled(ctx, r.Before.Goroutines); err != nil {
		r.breaks("%v", err)
	}
	if left := sys.events.times(false, began); len(left) > 0 {
		d := left[0].Sub(began)
		r.Detected = &d
	}
	if returned := sys.events.times(true, healed); len(returned) > 0 {
		r.Recovered = returned[len(returned)-1].Sub(healed)
	}
	r.Recovered = max(r.Recovered, l.Verified().LastFailure.Sub(healed), 0)
}

// audit reads every key from addr, rounds times, which what describes in a message. An error line is unexpected;
// without an answer, a promise is broken.
func (r *Result) audit(ctx context.Context, l *history.Load, what, addr string, rounds int) {
	err := l.Audit(ctx, addr, rounds)
	if failed := new(history.FailedRead); errors.As(err, &failed) {
		r.Unexpected = append(r.Unexpected, fmt.Sprintf("%s: %v", what, failed))
	} else if err != nil {
		r.breaks("%s: %v", what, err)
	}
}

// checkShadow reads the middleware's metrics of the shadow. The shadow must have the same values, unless the middleware
// knows why not: a restarted one has forgotten which writes it had dropped.
func (r *Result) checkShadow(ctx context.Context, sys *system, restarted bool) {
	m, err := sys.admin.metrics(ctx)
	if err != nil {
		r.breaks("%v", err)
		return
	}
	answers := func(result string) float64 {
		return m[fmt.Sprintf("mcmw_shadow_answers_total{pool=\"live\",result=%q,shadow=\"test\"}", result)]
	}
	if answers("same") == 0 {
		r.breaks("no answer of the shadow was found to be the same")
	}
	if different := answers("different"); different > 0 && !restarted {
		r.breaks("%v answers of the shadow were different", different)
	}
}

// judgeRates notes if clients were served at less than half the usual rate during the fault. On an overloaded machine
// that can happen.
func (r *Result) judgeRates(l *history.Load) {
	before := l.Performance(0, history.Before).PerSecond
	r.Rates = &[2]float64{before, l.Performance(0, history.Steady).PerSecond}
	if r.Rates[1] < before/2 {
		r.Unexpected = append(r.Unexpected, "clients were served at less than half the usual rate during the fault")
	}
}

// judgeFlushed notes which of the servers with the given numbers were flushed.
func (r *Result) judgeFlushed(ctx context.Context, sys *system, numbers []int) {
	for _, a := range sys.admins {
		m, err := a.metrics(ctx)
		for _, i := range numbers {
			name := sys.servers[i].name
			flushes, ok := m[fmt.Sprintf("mcmw_server_flushes_total{server=%q}", name)]
			if err != nil || !ok || flushes > 0 {
				r.breaks("%s was flushed %v times by %s (%v), though it held everything", name, flushes, a.addr, err)
			}
		}
	}
}

// countFromMemory counts the answers from memory. Without any, the scenario has not tested them.
func (r *Result) countFromMemory(ctx context.Context, sys *system) {
	r.FromMemory = new(uint64)
	for _, a := range sys.admins {
		m, err := a.metrics(ctx)
		if err != nil {
			r.breaks("%v", err)
			return
		}
		*r.FromMemory += uint64(m[`mcmw_requests_total{command="get",result="hot"}`])
	}
	if *r.FromMemory == 0 {
		r.breaks("no get was answered from memory")
	}
}

// judge copies the counts, and notes the broken promises and the unexpected errors.
func (r *Result) judge(v *history.Verified, c Scenario) {
	r.Reads, r.Writes, r.Misses, r.Audited, r.Errors = v.Reads, v.Writes, v.Misses, v.Audited, v.Errors
	r.Wrong, r.Stale, r.StaleAfterRecovery, r.Withdrawn = v.Wrong, v.Stale, v.StaleAfter, v.Withdrawn
	r.breaksIfAny("connections were refused", v.Refused)
	r.invariants(v.Examples)
	for class, allowed := range [history.NumClasses][]string{{c.reads}, {c.writes}, {c.writes, c.counts}} {
		for _, text := range slices.Sorted(maps.Keys(v.Failures[class])) {
			expected := func(form string) bool { return form != "" && regexp.MustCompile(form).MatchString(text) }
			if e := v.Failures[class][text]; !slices.ContainsFunc(allowed, expected) {
				r.Unexpected = append(r.Unexpected,
					fmt.Sprintf("%d %v failed with %q, first %s", e.Count, history.Class(class), text, e.First))
			}
		}
	}
}

// judgeShared judges the results for the keys that clients of both middlewares share. While the middlewares see
// different servers up, increments can be lost and adds won twice; everything else is promised whatever fails.
func (r *Result) judgeShared(c Scenario) {
	before := len(r.Broken)
	r.breaksIfAny("wrong values of shared keys were read", r.Shared.Wrong)
	r.breaksIfAny("stale values of shared keys were read", r.Shared.Stale)
	if !c.Kills { // a sweep removes what a killed middleware leaves
		r.breaksIfAny(fmt.Sprintf("of %d shared keys differ between replicas", r.Shared.Compared), r.Shared.Differing)
	}
	if len(r.Broken) > before {
		r.Broken = append(r.Broken, r.Shared.Examples...)
	}
}

// breaksIfAny notes a broken promise unless n is 0.
func (r *Result) breaksIfAny(what string, n uint64) {
	if n > 0 {
		r.breaks("%d %s", n, what)
	}
}

// invariants notes the violations that no fault excuses.
func (r *Result) invariants(examples []string) {
	r.breaksIfAny("requests were not answered", r.Reads.Lost+r.Writes.Lost)
	r.breaksIfAny("wrong values were read", r.Wrong)
	r.breaksIfAny("stale values were read", r.Stale)
	r.Broken = append(r.Broken, examples...)
	if r.After.Goroutines > r.Before.Goroutines {
		r.breaks("goroutines: %d before, %d after; new: %s", r.Before.Goroutines, r.After.Goroutines,
			r.After.grownSince(r.Before))
	}
	if r.After.Heap > r.Before.Heap+heapSlack {
		r.breaks("heap: %d bytes before, %d after", r.Before.Heap, r.After.Heap)
	}
}
