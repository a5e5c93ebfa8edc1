package load

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"mcmw/internal/protocol"
)

// Options says what load to make. The zero value of a field means what its comment says.
type Options struct {
	// Targets are where to connect: "host:port" or "unix:/path". Connection i uses Targets[i mod len(Targets)].
	Targets []string
	// Threads is the number of epoll loops that run at the same time; 0 means 1.
	Threads int
	// Connections is the number of connections over all threads; 0 means one per thread.
	Connections int
	// Pipeline is how many requests each connection keeps outstanding; 0 means 1.
	Pipeline int

	// Sets and Gets are the ratio of SET to GET requests; both 0 means 1:9.
	Sets, Gets int
	// KeysPerGet is the number of keys of a GET; 0 means 1.
	KeysPerGet int
	// ValueSize is the size of the values, bytes; 0 means DefaultValueSize.
	ValueSize int
	// KeyPrefix is what every key begins with, followed by a decimal number; "" means DefaultKeyPrefix.
	KeyPrefix string
	// KeyMin and KeyMax are the smallest and the greatest number of a key; both 0 means 1 to DefaultKeys.
	KeyMin, KeyMax uint64
	// Seed makes another sequence of requests. Each connection's own sequence is the same for the same seed.
	Seed uint64

	// HoldProcessors has every thread keep its processor of the Go scheduler while it waits for replies, which costs
	// less. Run then raises GOMAXPROCS so that there is one for every thread and two to spare. It is for a process that
	// does nothing but make load: without it, the threads leave the processors to others while they wait.
	HoldProcessors bool

	// Populate stores every key once on every target before the load begins.
	Populate bool
	// Verify compares every returned value with what was stored under its key; a difference ends the run.
	Verify bool

	// WarmUp is how long the load runs before recording begins. It can't be combined with Requests.
	WarmUp time.Duration
	// Duration is how long is recorded; 0 means until Requests are sent or the context ends.
	Duration time.Duration
	// Requests is how many requests each connection sends; 0 means no limit.
	Requests int

	// Timeout is how long a request may stay without its reply before the run fails; 0 means DefaultTimeout.
	Timeout time.Duration
	// ConnectTimeout is how long connecting may take; 0 means DefaultConnectTimeout.
	ConnectTimeout time.Duration

	// OnBegin, when set, is called once as recording begins and OnEnd once when the last reply is there, while the
	// connections are still open. They are for measuring other processes over the same time; the load goes on meanwhile.
	OnBegin, OnEnd func()
}

// Defaults of Options.
const (
	DefaultValueSize      = 32
	DefaultKeyPrefix      = "memtier-"
	DefaultKeys           = 10_000
	DefaultTimeout        = 10 * time.Second
	DefaultConnectTimeout = 5 * time.Second
)

const (
	maxThreads = 1024
	// maxConnections bounds a typing mistake, not the machine: the limit on open files is met long before.
	maxConnections = 1 << 20
	maxPipeline    = 1 << 16
	maxKeysPerGet  = 1 << 16
	maxValueSize   = 1 << 30
)

// withDefaults returns o with every zero field set to what it means.
func (o Options) withDefaults() Options {
	if o.Threads == 0 {
		o.Threads = 1
	}
	if o.Connections == 0 {
		o.Connections = o.Threads
	}
	if o.Pipeline == 0 {
		o.Pipeline = 1
	}
	if o.Sets == 0 && o.Gets == 0 {
		o.Sets, o.Gets = 1, 9
	}
	if o.KeysPerGet == 0 {
		o.KeysPerGet = 1
	}
	if o.ValueSize == 0 {
		o.ValueSize = DefaultValueSize
	}
	if o.KeyPrefix == "" {
		o.KeyPrefix = DefaultKeyPrefix
	}
	if o.KeyMin == 0 && o.KeyMax == 0 {
		o.KeyMin, o.KeyMax = 1, DefaultKeys
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = DefaultConnectTimeout
	}
	return o
}

// validate reports everything that is wrong with o, whose defaults are filled in.
func (o Options) validate() error {
	var problems []error
	between := func(name string, value, low, high int) {
		if value < low || value > high {
			problems = append(problems, fmt.Errorf("%s %d: expected %d to %d", name, value, low, high))
		}
	}
	if len(o.Targets) == 0 {
		problems = append(problems, errors.New("no target: expected at least one host:port or unix:/path"))
	}
	for _, target := range o.Targets {
		if path, isUnix := strings.CutPrefix(target, "unix:"); isUnix && path == "" || target == "" {
			problems = append(problems, fmt.Errorf("target %q: expected host:port or unix:/path", target))
		}
	}
	between("threads", o.Threads, 1, maxThreads)
	between("connections", o.Connections, 1, maxConnections)
	if o.Connections < o.Threads {
		problems = append(problems, fmt.Errorf("connections %d: expected at least one for each of the %d threads",
			o.Connections, o.Threads))
	}
	between("pipeline", o.Pipeline, 1, maxPipeline)
	between("SETs of the ratio", o.Sets, 0, 1<<20)
	between("GETs of the ratio", o.Gets, 0, 1<<20)
	between("keys per GET", o.KeysPerGet, 1, maxKeysPerGet)
	between("value size", o.ValueSize, 1, maxValueSize)
	between("requests per connection", o.Requests, 0, 1<<62)
	if o.KeyMax > math.MaxInt64 {
		problems = append(problems, fmt.Errorf("greatest key %d: expected at most %d", o.KeyMax, math.MaxInt64))
	}
	if o.KeyMax < o.KeyMin {
		problems = append(problems, fmt.Errorf("keys %d to %d: the greatest is less than the smallest", o.KeyMin, o.KeyMax))
	}
	if length := len(o.KeyPrefix) + len(strconv.FormatUint(o.KeyMax, 10)); length > protocol.DefaultMaxKey {
		problems = append(problems, fmt.Errorf("key prefix of %d bytes: a key would be %d bytes, memcached takes %d",
			len(o.KeyPrefix), length, protocol.DefaultMaxKey))
	}
	if at := strings.IndexFunc(o.KeyPrefix, func(r rune) bool { return r <= ' ' || r == 0x7f }); at >= 0 {
		problems = append(problems, fmt.Errorf("key prefix %q: a key can hold neither spaces nor control characters", o.KeyPrefix))
	}
	if o.Requests > 0 && o.WarmUp > 0 {
		problems = append(problems, fmt.Errorf("a warm-up of %v with %d requests per connection: they could be sent before it is "+
			"over; give a duration instead", o.WarmUp, o.Requests))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"warm-up", o.WarmUp},
		{"duration", o.Duration},
		{"timeout", o.Timeout},
		{"connect timeout", o.ConnectTimeout},
	} {
		if d.value < 0 {
			problems = append(problems, fmt.Errorf("%s %v: it can't be negative", d.name, d.value))
		}
	}
	return errors.Join(problems...)
}

// keyCount returns how many different keys there are.
func (o Options) keyCount() uint64 { return o.KeyMax - o.KeyMin + 1 }
