package bench

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Options says what to compare and how long. The zero value of a field means what its comment says.
type Options struct {
	// Mcmw is the path of the mcmw binary that is measured.
	Mcmw string
	// Variants are further mcmw to compare with it.
	Variants []Variant
	// Systems are the names of the systems to measure; empty means all: direct, twemproxy, mcmw and the variants.
	Systems []string
	// Baseline is the system that ratios are taken to; "" means twemproxy, or the first system if that isn't measured.
	Baseline string
	// Workloads are the names of the workloads; empty means all, unless there are Curves alone.
	Workloads  []string
	CurvesOnly bool
	// Curves are the names of the curves; empty means none. They are measured in at most mostCurveRounds rounds.
	Curves []string

	// Rounds is how often everything is measured; 0 means DefaultRounds.
	Rounds int
	// WarmUp and Duration are of one measurement; 0 means DefaultWarmUp and DefaultDuration.
	WarmUp, Duration time.Duration
	// Threads is the number of threads of the load generator, at most one per connection; 0 means 1.
	Threads int

	// Command is the command line that runs the benchmark, for the report.
	Command string
	// Progress, when set, is told before every measurement and after the last.
	Progress func(Progress)
}

// Defaults of Options.
const (
	DefaultRounds   = 7
	DefaultWarmUp   = time.Second
	DefaultDuration = 3 * time.Second
)

// Variant is another build of mcmw, or the same with other settings.
type Variant struct {
	Name string
	Path string   // of the binary
	Args []string // added to the command line of `mcmw serve`
}

// ParseVariant reads "name=path[,flag...]"; without a path the binary at mcmw is meant.
func ParseVariant(text, mcmw string) (Variant, error) {
	name, rest, ok := strings.Cut(text, "=")
	if !ok || name == "" || rest == "" || strings.ContainsAny(name, " \t|") {
		return Variant{}, fmt.Errorf("variant %q: expected name=path[,flag...], or name=,flag... for the same binary", text)
	}
	parts := strings.Split(rest, ",")
	v := Variant{Name: name, Path: parts[0], Args: parts[1:]}
	if v.Path == "" {
		v.Path = mcmw
	}
	return v, nil
}

// The systems that are always known.
const (
	Direct    = "direct"    // the generator connected to the servers
	Twemproxy = "twemproxy" // nutcracker from PATH
	Mcmw      = "mcmw"
)

// kind says how a system is started.
type kind uint8

const (
	kindDirect kind = iota
	kindTwemproxy
	kindMcmw
)

// system is one of those compared.
type system struct {
	name string
	kind kind
	path string   // of its binary
	args []string // further ones for mcmw
}

// Benchmark is a comparison that can be made: its options are valid and its programs there.
type Benchmark struct {
	Options
	memcached string // path
	systems   []system
	workloads []Workload
	curves    []Curve
}

// New fills in defaults and finds the programs; the error says everything that is wrong.
func New(o Options) (*Benchmark, error) {
	if o.Rounds == 0 {
		o.Rounds = DefaultRounds
	}
	if o.WarmUp == 0 {
		o.WarmUp = DefaultWarmUp
	}
	if o.Duration == 0 {
		o.Duration = DefaultDuration
	}
	b := &Benchmark{Options: o}
	var problems []error
	fail := func(err error) {
		if err != nil {
			problems = append(problems, err)
		}
	}
	var err error
	if o.Rounds < 0 {
		fail(fmt.Errorf("rounds %d: expected at least 1", o.Rounds))
	}
	if o.WarmUp < 0 || o.Duration < 0 {
		fail(fmt.Errorf("warm-up %v, duration %v: they can't be negative", o.WarmUp, o.Duration))
	}
	if !o.CurvesOnly {
		b.workloads, err = selectWorkloads(o.Workloads)
		fail(err)
	}
	b.curves, err = selectCurves(o.Curves, o.Mcmw)
	fail(err)
	b.memcached, err = look("memcached", "memcached")
	fail(err)

	all := []system{{name: Direct, kind: kindDirect}, {name: Twemproxy, kind: kindTwemproxy}, {name: Mcmw, kind: kindMcmw, path: o.Mcmw}}
	for _, v := range o.Variants {
		if slices.ContainsFunc(all, func(s system) bool { return s.name == v.Name }) {
			fail(fmt.Errorf("variant %q: there is already a system of that name", v.Name))
		}
		all = append(all, system{name: v.Name, kind: kindMcmw, path: v.Path, args: v.Args})
	}
	for _, name := range o.Systems {
		if !slices.ContainsFunc(all, func(s system) bool { return s.name == name }) {
			fail(fmt.Errorf("system %q: expected one of %s", name, strings.Join(systemNames(all), ", ")))
		}
	}
	for _, s := range all {
		if len(o.Systems) > 0 && !slices.Contains(o.Systems, s.name) {
			continue
		}
		switch s.kind {
		case kindTwemproxy:
			s.path, err = look("nutcracker", "nutcracker")
		case kindMcmw:
			s.path, err = exec.LookPath(s.path)
			if err != nil {
				err = fmt.Errorf("system %s: %w (build it first, or give its path)", s.name, err)
			}
		}
		fail(err)
		b.systems = append(b.systems, s)
	}
	if b.Baseline == "" && len(b.systems) > 0 {
		b.Baseline = b.systems[0].name
		if slices.Contains(systemNames(b.systems), Twemproxy) {
			b.Baseline = Twemproxy
		}
	}
	if !slices.Contains(systemNames(b.systems), b.Baseline) {
		fail(fmt.Errorf("baseline %q: expected one of %s", b.Baseline, strings.Join(systemNames(b.systems), ", ")))
	}
	return b, errors.Join(problems...)
}

func systemNames(systems []system) []string {
	var names []string
	for _, s := range systems {
		names = append(names, s.name)
	}
	return names
}

// look finds a program in PATH.
func look(program, debianPackage string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("%w; install it, on Debian: apt-get install %s", err, debianPackage)
	}
	return path, nil
}

// systemsFor returns the systems that are measured under a workload. Without a middleware the replicated one would be
// another sharded one.
func (b *Benchmark) systemsFor(w Workload) []system {
	return slices.DeleteFunc(slices.Clone(b.systems), func(s system) bool {
		return s.kind == kindDirect && w.Replicas != "1"
	})
}

// measurements returns how many measurements there are to make.
func (b *Benchmark) measurements() int {
	n := 0
	for _, w := range b.workloads {
		n += b.Rounds * len(b.systemsFor(w))
	}
	for _, c := range b.curves {
		n += b.curveRounds() * len(b.linesOf(c)) * len(c.points(nil))
	}
	return n
}

// generatorThreads returns the number of threads of the load generator.
func (b *Benchmark) generatorThreads() int { return max(b.Threads, 1) }
