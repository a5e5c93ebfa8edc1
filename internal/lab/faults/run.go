package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"mcmw/internal/route"
)

// Options say what to run. The zero value of a field means what its comment says.
type Options struct {
	// Mcmw is the path of the binary.
	Mcmw string
	// Only lists the scenarios to run; empty means all.
	Only []string
	// Quick leaves out the long ones, unless they are named in Only.
	Quick bool
	// Given are options of every mcmw, each as name=value.
	Given []string
	// Seed selects the sequence of requests, and of faults in a soak.
	Seed uint64
	// Command is the command line that runs this, for the report.
	Command string
	// Progress, if set, is called with messages about what starts and ends.
	Progress func(string)
}

const (
	// clients and rate are the load: connections, and requests a second of all together. It leaves a machine of two
	// processors half idle.
	clients = 32
	rate    = 3000
	// sharers and sharedRate are those that share keys, before two middlewares.
	sharers    = 8
	sharedRate = 400
	// warmUp is for how long the load runs once before anything is measured, so that all buffers exist.
	warmUp = 700 * time.Millisecond
	// heapSlack is how much more the heap may hold afterwards than before, bytes: the pools of buffers, which the garbage
	// collector empties in its own time.
	heapSlack = 32 << 20
)

// Result is the result of a scenario. Durations are nanoseconds in JSON.
type Result struct {
	Scenario string   `json:"scenario"`
	Title    string   `json:"title"`
	Args     []string `json:"args"`
	// Skipped is why it was not run, "" if it was.
	Skipped string `json:"skipped,omitempty"`

	Reads  Counts       `json:"reads"`
	Writes Counts       `json:"writes"`
	Errors []ErrorCount `json:"errors"`
	Misses uint64       `json:"misses"`
	// Audited is how many values were read at the end, key by key, through the middleware and from each server.
	Audited uint64 `json:"audited"`
	Wrong   uint64 `json:"wrong_values"`
	// Stale values over all, and of those the ones that were read after the fault had ended.
	Stale              uint64 `json:"stale_values"`
	StaleAfterRecovery uint64 `json:"stale_values_after_recovery"`
	// Withdrawn values were older than what was read before, but not than what was acknowledged: a write under way when mcmw was killed is on a part of the
	// servers until a sweep.
	Withdrawn uint64 `json:"withdrawn_values,omitempty"`
	// Detected is the time from the fault until a server was not up any more; nil if it stayed up.
	Detected *time.Duration `json:"detected_after_ns"`
	// Recovered is the time from the end of the fault until all servers were up and no request failed any more.
	Recovered time.Duration `json:"recovered_after_ns"`
	// FromMemory is how many gets the middlewares answered from memory since they were started last; nil: they were not to.
	FromMemory *uint64   `json:"from_memory,omitempty"`
	Before     Footprint `json:"before"`
	After      Footprint `json:"after"`
	Groups     []Group   `json:"groups,omitempty"`
	// Shared is what became of the keys that clients of two middlewares shared.
	Shared *Shared `json:"shared,omitempty"`
	// Broken are the promises that were broken: a wrong or stale value, a lost answer, a leak, a server that did not come back.
	Broken []string `json:"broken,omitempty"`
	// Unexpected are errors that the scenario does not explain.
	Unexpected []string `json:"unexpected,omitempty"`
}

// Group has the results of connections that need the failing server, or of those that don't.
type Group struct {
	Name   string      `json:"name"`
	Before Performance `json:"before"`
	During Performance `json:"during"`
}

// Performance is that of one phase.
type Performance struct {
	PerSecond float64       `json:"successes_per_s"` // that came in it
	P99       time.Duration `json:"p99_ns"`          // of the answers that were due in it
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
	return s, s.give()
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

// Run runs all scenarios. When one can't be run or ctx ends, the report holds those before. No process is left when it
// returns.
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
	c.settings = c.settings.served()
	result = &Result{Scenario: c.Name, Title: c.Title, Args: c.Args}
	sys, err := startSystem(ctx, s.programs, c.settings)
	if skip := (errNotHere{}); errors.As(err, &skip) {
		result.Skipped = skip.Error()
		return result, nil
	}
	if err != nil {
		return nil, err
	}
	stopped := false
	defer func() {
		if !stopped {
			_ = sys.stop()
		}
	}()
	if result.Before, err = s.warm(ctx, sys); err != nil {
		return nil, err
	}
	keys, err := s.keys(sys, c.groups)
	if err != nil {
		return nil, err
	}
	keys.fleet, keys.hot = c.settings.fleet, c.settings.age > 0
	if keys.fleet {
		keys.age = c.settings.age
	}
	l := startLoad(sys.entrances(), rate, keys, s.Seed, c.manners)
	var common *shared
	if c.settings.fleet {
		common = startShared(sys.entrances(), keys, sharers, sharedRate, s.Seed, newTally(time.Now()))
	}
	began, healed, err := s.happen(ctx, sys, c, l)
	l.stop()
	if common != nil {
		common.stop()
	}
	if err != nil {
		return nil, errors.Join(err, sys.mcmw.Ended())
	}
	if m, err := sys.admin.metrics(ctx); err != nil || m["mcmw_several_writers"] != 1 {
		c.counts = "" // every server is asked
	}
	if keys.hot {
		result.remember(ctx, sys)
	}
	if err := sleep(ctx, keys.age); err != nil {
		return nil, err
	}
	result.finish(ctx, sys, l, began, healed)
	if sys.shadow != nil {
		result.compare(ctx, sys, c.restarts)
	}
	if common != nil {
		result.share(common, c)
	}
	if c.groups {
		result.Groups = l.tally.groupsOf(began, healed)
	}
	stopped = true
	if err := sys.stop(); err != nil {
		result.breaks("%v", err)
	}
	result.judge(l.tally, c)
	result.Broken = append(result.Broken, sys.broken...)
	return result, ctx.Err()
}

// happen runs the timeline, and returns when the fault began and when it had ended.
func (s *Suite) happen(ctx context.Context, sys *system, c Scenario, l *load) (began, healed time.Time, err error) {
	if err := sleep(ctx, calm); err != nil {
		return began, healed, err
	}
	began = l.tally.begin(during)
	if err := c.fault(ctx, sys); err != nil {
		return began, healed, err
	}
	if c.heal != nil {
		if err := sleep(ctx, c.lasts); err != nil {
			return began, healed, err
		}
		if err := c.heal(ctx, sys); err != nil {
			return began, healed, err
		}
	}
	healed = l.tally.begin(after)
	return began, healed, sleep(ctx, c.then)
}

// warm puts the load on the system for a moment, and measures what the middleware occupies without clients then.
func (s *Suite) warm(ctx context.Context, sys *system) (Footprint, error) {
	keys, err := s.keys(sys, false)
	if err != nil {
		return Footprint{}, err
	}
	l := startLoad([]string{sys.mcmw.Addr}, rate, keys, s.Seed, manners{logsIn: sys.settings.logins})
	err = sleep(ctx, warmUp)
	l.stop()
	if err != nil {
		return Footprint{}, err
	}
	return sys.admin.idle(ctx)
}

// keys returns new keys for all clients; with groups, every second client has keys of the victim alone, and the others
// have none of those.
func (s *Suite) keys(sys *system, grouped bool) (*keyspace, error) {
	groups := make([]int, clients)
	prefix := fmt.Sprintf("f%d-", sys.spaces)
	sys.spaces++
	if sys.settings.large {
		prefix = largeKeys + prefix
	}
	if !grouped {
		return newKeyspace(prefix, groups, func(string) int { return -1 }, func(int, int) bool { return true }), nil
	}
	var servers []route.Server
	for _, server := range sys.servers {
		servers = append(servers, route.Server{Name: server.name, Addr: server.addr(), Weight: 1})
	}
	router, err := route.New(servers, route.Options{Replicas: 1})
	if err != nil {
		return nil, err
	}
	for i := range groups {
		groups[i] = i % 2
	}
	return newKeyspace(prefix, groups, func(key string) int { return router.Primary([]byte(key)) },
		func(group, server int) bool { return (group == 1) == (server == victim) }), nil
}

// breaks notes a promise that was broken.
func (r *Result) breaks(format string, args ...any) {
	r.Broken = append(r.Broken, fmt.Sprintf(format, args...))
}

// finish looks at the system after the load has ended: whether it has recovered, what can be read now, and what it occupies.
func (r *Result) finish(ctx context.Context, sys *system, l *load, began, healed time.Time) {
	if err := sys.awaitUp(ctx); err != nil {
		r.breaks("%v", err)
		return
	}
	// The values that the middleware and each server would return now.
	for _, addr := range sys.entrances() {
		if err := l.audit(ctx, addr, 2*len(sys.servers)); err != nil {
			r.breaks("reading everything at the end: %v", err)
		}
	}
	for _, server := range sys.servers {
		if sys.settings.large {
			break // what they hold are heads and chunks
		}
		if err := l.audit(ctx, server.own(), 1); err != nil {
			r.breaks("reading everything from %s at the end: %v", server.name, err)
		}
	}
	var err error
	if r.After, err = sys.admin.settled(ctx, r.Before.Goroutines); err != nil {
		r.breaks("%v", err)
	}
	if at, ok := sys.events.left(began); ok {
		d := at.Sub(began)
		r.Detected = &d
	}
	if at, ok := sys.events.returned(healed); ok {
		r.Recovered = at.Sub(healed)
	}
	l.tally.mu.Lock()
	defer l.tally.mu.Unlock()
	r.Recovered = max(r.Recovered, l.tally.lastFault.Sub(healed), 0)
}

// compare looks at what the middleware says of the shadow: it has the same values, or the middleware knows why not; one that was restarted does not
// know what it had dropped before.
func (r *Result) compare(ctx context.Context, sys *system, restarted bool) {
	m, err := sys.admin.metrics(ctx)
	if err != nil {
		r.breaks("%v", err)
		return
	}
	answers := func(result string) float64 {
		return m[fmt.Sprintf("mcmw_shadow_answers_total{pool=\"live\",result=%q,shadow=\"test\"}", result)]
	}
	if answers("same") == 0 {
		r.breaks("no answer of the shadow was compared and found the same")
	}
	if different := answers("different"); different > 0 && !restarted {
		r.breaks("%v answers of the shadow differed", different)
	}
}

// remember counts the answers from memory: without any, nothing is known about them.
func (r *Result) remember(ctx context.Context, sys *system) {
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
		r.breaks("nothing was answered from memory")
	}
}

// judge takes over the counts, and says which promises were broken.
func (r *Result) judge(t *tally, c Scenario) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p := range numPhases {
		r.Reads.add(t.reads[p])
		r.Writes.add(t.writes[p])
		r.Stale += t.stale[p]
	}
	if t.refused > 0 {
		r.breaks("%d connections were refused", t.refused)
	}
	r.StaleAfterRecovery, r.Withdrawn = t.stale[after], t.withdrawn
	r.Misses, r.Audited, r.Wrong, r.Errors = t.misses, t.audited, t.wrong, t.errorCounts()
	r.invariants(t.examples)
	for class, allowed := range [classes][]string{{c.reads}, {c.writes}, {c.writes, c.counts}} {
		for _, text := range slices.Sorted(maps.Keys(t.failed[class])) {
			expected := func(form string) bool { return form != "" && regexp.MustCompile(form).MatchString(text) }
			if e := t.failed[class][text]; !slices.ContainsFunc(allowed, expected) {
				r.Unexpected = append(r.Unexpected, fmt.Sprintf("%d %s failed with %q, first %s", e.Count, classNames[class], text, e.First))
			}
		}
	}
}

// share takes over what became of the keys that several clients wrote through both middlewares. Increments and adds may be lost or won twice
// where the middlewares see different servers up; the rest is promised whatever fails.
func (r *Result) share(s *shared, c Scenario) {
	counts := s.audit()
	r.Shared = &counts
	before := len(r.Broken)
	if counts.Wrong > 0 {
		r.breaks("%d wrong values of shared keys were read", counts.Wrong)
	}
	if counts.Stale > 0 {
		r.breaks("%d stale values of shared keys were read", counts.Stale)
	}
	if counts.Differing > 0 && !c.kills { // what a killed middleware leaves is for a sweep
		r.breaks("%d of %d shared keys differ between replicas", counts.Differing, counts.Compared)
	}
	if len(r.Broken) > before {
		r.Broken = append(r.Broken, s.tally.examples...)
	}
}

// invariants returns the violations that no fault excuses.
func (r *Result) invariants(examples []string) {
	if lost := r.Reads.Lost + r.Writes.Lost; lost > 0 {
		r.breaks("%d requests were not answered", lost)
	}
	if r.Wrong > 0 {
		r.breaks("%d wrong values were read", r.Wrong)
	}
	if r.Stale > 0 {
		r.breaks("%d stale values were read", r.Stale)
	}
	r.Broken = append(r.Broken, examples...)
	if r.After.Goroutines > r.Before.Goroutines {
		r.breaks("goroutines: %d before, %d after", r.Before.Goroutines, r.After.Goroutines)
	}
	if r.After.Heap > r.Before.Heap+heapSlack {
		r.breaks("heap: %d bytes before, %d after", r.Before.Heap, r.After.Heap)
	}
}

// groupsOf returns what the groups of connections had.
func (t *tally) groupsOf(began, healed time.Time) []Group {
	t.mu.Lock()
	defer t.mu.Unlock()
	performance := func(group int, p phase, d time.Duration) Performance {
		h := t.groups[group][p]
		return Performance{
			PerSecond: float64(t.answered[group][p]) / d.Seconds(),
			P99:       time.Duration(h.ValueAtQuantile(99)) * time.Microsecond,
		}
	}
	var groups []Group
	for g, name := range []string{"none", "only"} {
		groups = append(groups, Group{
			Name:   name,
			Before: performance(g, before, began.Sub(t.phases[0].from)),
			During: performance(g, during, healed.Sub(began)),
		})
	}
	return groups
}
