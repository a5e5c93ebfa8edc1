package experiment

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Setting is a property of the system or of its load that an experiment can vary or fix. docs/experiments.md says what
// each means.
type Setting struct {
	Name    string
	Default string
	Accepts string                 // description of the accepted values
	check   func(text string) bool // whether a value is accepted
	whole   bool                   // a value is a whole number, or AsDefault
	// Program has the Flag that the setting becomes; "": the testbeds know what to do. A flag that ends with = is
	// joined with its value.
	Program, Flag string
	// always: the flag is also given for the default, which may not be the program's.
	always bool
}

// flag returns the setting with the flag of a program that it becomes if it differs from its default.
func (s Setting) flag(program, flag string) Setting {
	s.Program, s.Flag = program, flag
	return s
}

// alwaysFlag is flag, but for all values.
func (s Setting) alwaysFlag(program, flag string) Setting {
	s.always = true
	return s.flag(program, flag)
}

// Value returns a value as a boolean, a whole number, or a text.
func (s Setting) Value(text string) any {
	if text == "true" || text == "false" {
		return text == "true"
	}
	if n, err := strconv.Atoi(text); s.whole && err == nil {
		return n
	}
	return text
}

// The settings' names.
const (
	Server            = "server"
	Servers           = "servers"
	ServerThreads     = "server_threads"
	ServerPinning     = "server_pinning"
	ServerCPUs        = "server_cpus"
	ServerMemory      = "server_memory"
	ServerPersistence = "server_persistence"
	GroupSize         = "group_size"
	ServerFlags       = "server_flags"
	ServerDelay       = "server_delay"

	Case            = "case"
	System          = "system"
	Middlewares     = "middlewares"
	Workers         = "workers"
	Depth           = "depth"
	Replicas        = "replicas"
	Sharded         = "sharded"
	Pool            = "pool"
	HotKeys         = "hot_keys"
	MiddlewareCPUs  = "middleware_cpus"
	MiddlewareFlags = "middleware_flags"
	Statistics      = "statistics"
	Profile         = "profile"

	Clients       = "clients"
	LoadProcesses = "load_processes"
	LoadThreads   = "load_threads"
	Pipeline      = "pipeline"
	Ratio         = "ratio"
	KeysPerGet    = "keys_per_get"
	ValueSize     = "value_size"
	Keys          = "keys"
	KeyPattern    = "key_pattern"
	ThinkTime     = "think_time"
	Rate          = "rate"
	LoadCPUs      = "load_cpus"
	LoadFlags     = "load_flags"
)

// Programs with flags of their own, in addition to Memcached and Mcmw.
const (
	Load     = "load"     // mcmwlab load, when it measures
	Populate = "populate" // mcmwlab load, also when it stores the keys before
)

// Settings has all settings.
var Settings = slices.Concat(DeploymentSettings, LoadSettings)

// DeploymentSettings are those of the servers and the middlewares.
var DeploymentSettings = []Setting{
	words(Server, Memcached, Memcached, Redis),
	whole(Servers, "1", 1, 256),
	whole(ServerThreads, "1", 1, 1024).alwaysFlag(Memcached, "-t"),
	words(ServerPinning, NotPinned, NotPinned, PinnedProcess, PinnedThread),
	processors(ServerCPUs),
	whole(ServerMemory, "256", 1, 1<<20).alwaysFlag(Memcached, "-m"),
	words(ServerPersistence, "none", "none", "snapshot", "append", "append-always"),
	whole(GroupSize, "20", 1, 1<<20).flag(Memcached, "-R"),
	flags(ServerFlags),
	{Name: ServerDelay, Default: "0s", Accepts: "a duration such as 5ms", check: isTime},
	{
		Name: System, Default: Mcmw,
		Accepts: "direct, mcmw, twemproxy, proxy, or a name under systems", check: systemForm.MatchString,
	},
	whole(Middlewares, "1", 0, 256),
	orDefault(whole(Workers, "64", 1, 1<<16)).alwaysFlag(Mcmw, "--workers"),
	orDefault(whole(Depth, "1", 1, 1<<16)).alwaysFlag(Mcmw, "--depth"),
	Setting{
		Name: Replicas, Default: "all", Accepts: "all, or a number from 1",
		check: func(text string) bool { return text == "all" || isWhole(text, 1, 256) },
	}.alwaysFlag(Mcmw, "--replicas"),
	words(Sharded, "false", "true", "false").alwaysFlag(Mcmw, "--sharded="),
	words(Pool, "shared", "shared", "per-server").alwaysFlag(Mcmw, "--pool"),
	words(HotKeys, "detect", "detect", "serve", "off").flag(Mcmw, "--hot-keys"), // older versions don't know it
	processors(MiddlewareCPUs),
	flags(MiddlewareFlags),
	words(Statistics, "true", "true", "false"),
	words(Profile, "false", "true", "false"),
	{
		Name: Case, Accepts: "a name under cases",
		check: func(text string) bool { return text == "" || systemForm.MatchString(text) },
	},
}

// LoadSettings are those of the load.
var LoadSettings = []Setting{
	whole(Clients, "8", 1, 1<<20),
	whole(LoadProcesses, "1", 1, 256),
	whole(LoadThreads, "1", 1, 1024),
	whole(Pipeline, "1", 1, 1<<16).flag(Load, "--pipeline"),
	Setting{
		Name: Ratio, Default: "1:9", check: isRatio,
		Accepts: "SETs:GETs such as 1:9 or SETs:GETs:MULTIGETs such as 1:8:1, not all 0",
	}.alwaysFlag(Load, "--ratio"),
	whole(KeysPerGet, "1", 1, 1<<16).alwaysFlag(Load, "--multi-key-get"),
	whole(ValueSize, "64", 1, 1<<30).alwaysFlag(Populate, "--data-size"),
	whole(Keys, "10000", 1, 1<<40).alwaysFlag(Populate, "--key-maximum"),
	Setting{
		Name: KeyPattern, Default: "R:R", Accepts: "two letters of R, S, P, G, Z such as R:Z, with numbers as in " +
			"R:Z0.99",
		check: patternForm.MatchString,
	}.flag(Load, "--key-pattern"),
	Setting{
		Name: ThinkTime, Default: "0s", Accepts: "a duration such as 5ms", check: isTime,
	}.flag(Load, "--think-time"),
	whole(Rate, "0", 0, 1<<40),
	processors(LoadCPUs),
	flags(LoadFlags),
}

// Find returns the setting called name; nil if there is none.
func Find(name string) *Setting {
	if i := slices.IndexFunc(Settings, func(s Setting) bool { return s.Name == name }); i >= 0 {
		return &Settings[i]
	}
	return nil
}

// Values are the values of all settings, by name.
type Values map[string]string

// Int returns the value of a setting that is a whole number, which has been checked.
func (v Values) Int(name string) int {
	n, _ := strconv.Atoi(v[name])
	return n
}

// Is reports whether a setting has a value other than its default.
func (v Values) Is(name string) bool { return v[name] != Find(name).Default }

// Args returns the flags that the settings of a program become.
func (v Values) Args(program string) (args []string) {
	for _, s := range Settings {
		switch value, joined := v[s.Name], strings.HasSuffix(s.Flag, "="); {
		case s.Program != program || value == AsDefault || !s.always && value == s.Default:
		case joined:
			args = append(args, s.Flag+value)
		default:
			args = append(args, s.Flag, value)
		}
	}
	return args
}

// Flags splits a setting that consists of flags.
func (v Values) Flags(name string) []string { return strings.Fields(v[name]) }

// check returns the contradictions between the values.
func (v Values) check() error {
	var problems []error
	fail := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if n := v.Int(Replicas); n > v.Int(Servers) {
		fail("replicas %d is more than the number of servers (%d)", n, v.Int(Servers))
	}
	if c, p, t := v.Int(Clients), v.Int(LoadProcesses), v.Int(LoadThreads); c%(p*t) != 0 {
		fail("clients %d: expected a multiple of the %d threads (load_processes %d, load_threads %d)", c, p*t, p, t)
	}
	if v.Int(KeysPerGet) > v.Int(Keys) {
		fail("keys_per_get %d is more than the number of keys (%d)", v.Int(KeysPerGet), v.Int(Keys))
	}
	if v[Server] == Redis {
		if n := v.Int(Middlewares); n > 0 {
			fail("server redis with middlewares %d: mcmw speaks only memcached's protocol; expected middlewares: 0, "+
				"or server: memcached", n)
		}
		if v.Is(GroupSize) {
			fail("server redis with group_size %s: only memcached has it; expected server: memcached, or no group_size",
				v[GroupSize])
		}
		if n := v.Int(ServerThreads); n > maxRedisThreads {
			fail("server redis with server_threads %d: expected at most %d", n, maxRedisThreads)
		}
	} else if v.Is(ServerPersistence) {
		fail("server_persistence %s with server %s: only Redis writes to disk; expected server: redis, or "+
			"server_persistence: none", v[ServerPersistence], v[Server])
	}
	return errors.Join(problems...)
}

func whole(name, standard string, low, high int) Setting {
	return Setting{
		Name: name, Default: standard, Accepts: fmt.Sprintf("a whole number from %d to %d", low, high),
		check: func(text string) bool { return isWhole(text, low, high) }, whole: true,
	}
}

// orDefault returns a setting that also accepts AsDefault.
func orDefault(s Setting) Setting {
	check := s.check
	s.Accepts += ", or " + AsDefault + ": the program's default"
	s.check = func(text string) bool { return text == AsDefault || check(text) }
	return s
}

func words(name, standard string, accepted ...string) Setting {
	return Setting{
		Name: name, Default: standard, Accepts: strings.Join(accepted, " or "),
		check: func(text string) bool { return slices.Contains(accepted, text) },
	}
}

func flags(name string) Setting {
	return Setting{
		Name: name, Accepts: "flags separated by spaces, such as --a=1 --b=2",
		check: func(text string) bool { return text == "" || strings.HasPrefix(text, "-") },
	}
}

func isWhole(text string, low, high int) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= low && n <= high
}

func isRatio(text string) bool {
	parts := strings.Split(text, ":")
	var sum uint64
	for _, part := range parts {
		n, err := strconv.ParseUint(part, 10, 20)
		if err != nil {
			return false
		}
		sum += n
	}
	return (len(parts) == 2 || len(parts) == 3) && sum > 0
}

// patternForm matches key patterns.
var patternForm = regexp.MustCompile(`^(?:[RSP]|[GZ][0-9.,]*):(?:[RSP]|[GZ][0-9.,]*)$`)

func isTime(text string) bool {
	_, ok := parseTime(text)
	return ok
}

// Duration returns the value of a setting that is a time, which has been checked.
func (v Values) Duration(name string) time.Duration {
	d, _ := parseTime(v[name])
	return d
}

// parseTime reads a duration or a number of seconds.
func parseTime(text string) (d time.Duration, ok bool) {
	d, err := time.ParseDuration(text)
	if seconds, numberErr := strconv.ParseFloat(text, 64); numberErr == nil && seconds < maxTime.Seconds() {
		d, err = time.Duration(seconds*float64(time.Second)), nil
	}
	return d, err == nil && d >= 0 && d <= maxTime
}

// maxTime is the longest accepted duration. A longer one is a typing error.
const maxTime = 7 * 24 * time.Hour

// The kinds of servers.
const (
	Memcached = "memcached"
	Redis     = "redis"
)

// Levels of ServerPinning.
const (
	NotPinned     = "none"
	PinnedProcess = "process"
	PinnedThread  = "thread"
)

const (
	// maxRedisThreads is the most io-threads that Redis 7 accepts.
	maxRedisThreads = 128
	// allProcessors stands for all processors that the testbed allows a role.
	allProcessors = "all"
	// maxProcessor is the largest processor number in a default CPU set of Linux.
	maxProcessor = 1023
)

// processors returns a setting for the processors that the programs of a role can use.
func processors(name string) Setting {
	return Setting{
		Name: name, Default: allProcessors, Accepts: "all, or numbers and ranges such as 0,2-3",
		check: func(text string) bool {
			_, ok := parseProcessors(text)
			return ok
		},
	}
}

// Processors returns the value of a setting for processors, which has been checked; nil for all.
func (v Values) Processors(name string) []int {
	cpus, _ := parseProcessors(v[name])
	return cpus
}

// parseProcessors reads "all" as nil, and "0,2-3" as 0, 2, 3.
func parseProcessors(text string) (cpus []int, ok bool) {
	if text == allProcessors {
		return nil, true
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		low, errLow := strconv.Atoi(from)
		high, errHigh := strconv.Atoi(to)
		if errLow != nil || errHigh != nil || low < 0 || high < low || high > maxProcessor {
			return nil, false
		}
		for cpu := low; cpu <= high; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, true
}
