package load

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"mcmw/internal/protocol"
)

// Options describe a load. The zero value of a field means what its comment says.
type Options struct {
	// Targets are the addresses to connect to: "host:port" or "unix:/path". Connection i uses Targets[i mod len(Targets)].
	Targets []string
	// Threads is the number of epoll loops that run at the same time; 0 means 1.
	Threads int
	// Connections is the number of connections over all threads; 0 means one per thread.
	Connections int
	// Pipeline is how many requests each connection keeps outstanding, in an open loop the most that it sends without a
	// reply; 0 means 1, with a Schedule DefaultOpenPipeline.
	Pipeline int

	// Protocol is the targets' protocol; the zero value is memcached's text protocol.
	Protocol Protocol
	// User and Password are sent on every new connection, if Password isn't empty.
	User, Password string
	// TLS returns the configuration for a target's host; nil: no TLS. Each TLS connection passes through two goroutines of this process, whose
	// time is in the latencies and in the generator's processor time.
	TLS func(host string) *tls.Config

	// ThinkTime is how long a connection waits between a reply and the next request, in each place of its pipeline: the mean of
	// an exponential distribution with ThinkRandom, else always the same. 0: it doesn't wait.
	ThinkTime   time.Duration
	ThinkRandom bool
	// Schedule makes an open loop: requests are due at its times, over all connections, whatever happens to those
	// before. Latency then counts from there. nil: a closed loop.
	Schedule *Schedule

	// Sets, Gets and MultiGets are the ratio of requests; all 0 means 1:9:0.
	Sets, Gets, MultiGets int
	// KeysPerGet is the number of keys of a multi-GET; with MultiGets 0, of a GET. 0 means 1, or 10 with MultiGets.
	KeysPerGet int
	// ValueSize is the size of the values, bytes; 0 means DefaultValueSize. Sizes makes values of different sizes.
	ValueSize int
	Sizes     Sizes
	// ExpiryMin and ExpiryMax bound the expiry of values, seconds, drawn evenly; both 0 means never.
	ExpiryMin, ExpiryMax int
	// KeyPrefix begins every key and is followed by a decimal number; "" means DefaultKeyPrefix.
	KeyPrefix string
	// KeyMin and KeyMax are the smallest and the greatest number of a key; both 0 means 1 to DefaultKeys.
	KeyMin, KeyMax uint64
	// SetKeys and GetKeys are the patterns of keys; 0 means Uniform.
	SetKeys, GetKeys KeyPattern
	// KeyMedian and KeyStdDev are the parameters of Gaussian; 0 means the middle of the keys, and a sixth of their number.
	KeyMedian, KeyStdDev float64
	// ZipfExponent is the parameter of Zipf; 0 means 1.
	ZipfExponent float64
	// CacheAside stores a key at once when a GET misses it, as a cache-aside application does: these SETs are in addition to the ratio, the
	// schedule, and of Requests. It is for GETs of one key.
	CacheAside bool
	// ReconnectAfter is the number of requests after which a connection is closed, once they are answered, and opened again; 0: never.
	ReconnectAfter int
	// Seed selects the sequence of requests. Each connection's sequence is the same for the same seed.
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
	// Duration is the length of the recording; 0 means until Requests are sent or the context ends.
	Duration time.Duration
	// CoolDown is how long the load continues after Duration without being recorded, for other load that has begun a little later and is
	// still recorded. What is outstanding at the end of Duration is then not counted. It is for closed loops of a Duration.
	CoolDown time.Duration
	// Requests is how many requests each connection sends; 0 means no limit.
	Requests int

	// Timeout is how long a request may stay without its reply before the run fails; 0 means DefaultTimeout.
	Timeout time.Duration
	// ConnectTimeout is how long connecting may take; 0 means DefaultConnectTimeout.
	ConnectTimeout time.Duration

	// OnBegin, when set, is called once as recording begins and OnEnd once when it ends: when the last reply is there, or at a cool-down, while the
	// connections are still open. They are for measuring other processes over the same time; the load continues meanwhile.
	OnBegin, OnEnd func()
}

// Defaults of Options.
const (
	DefaultValueSize    = 32
	DefaultKeyPrefix    = "memtier-"
	DefaultKeys         = 10_000
	DefaultOpenPipeline = 64
	DefaultMultiGetKeys = 10
	// MaxItem is what memcached stores by default: an item of 1 MiB, less a key and memcached's own part of it.
	MaxItem               = 1<<20 - 1024
	DefaultTimeout        = 10 * time.Second
	DefaultConnectTimeout = 5 * time.Second
)

const (
	maxThreads = 1024
	// maxConnections bounds a typing mistake, not the machine: the limit on open files is met long before.
	maxConnections = 1 << 20
	maxPipeline    = 1 << 16
	maxKeysPerGet  = 1 << 16
	maxRatio       = 1 << 20
	maxValueSize   = 1 << 30
	maxExpiry      = 1 << 31 // memcached takes numbers above 30 days for a date
	maxZipf        = 5       // as memtier's
)

// Complete returns o with its defaults filled in, or everything that is wrong with it.
func (o Options) Complete() (Options, error) {
	o = o.withDefaults()
	return o, o.validate()
}

// withDefaults returns o with every zero field set to what it means.
func (o Options) withDefaults() Options {
	pipeline, keys := 1, 1
	if o.Schedule != nil {
		pipeline = DefaultOpenPipeline
	}
	if o.MultiGets > 0 {
		keys = DefaultMultiGetKeys
	}
	o.Threads = cmp.Or(o.Threads, 1)
	o.Connections = cmp.Or(o.Connections, o.Threads)
	o.Pipeline = cmp.Or(o.Pipeline, pipeline)
	if t := o.trace(); t != nil {
		o.KeyMin, o.KeyMax = 1, uint64(len(t.keys)-1)
		o.Sets, o.Gets = t.ratio()
	}
	if o.cycle() == 0 {
		o.Sets, o.Gets = 1, 9
	}
	if o.KeyMin == 0 && o.KeyMax == 0 {
		o.KeyMin, o.KeyMax = 1, DefaultKeys
	}
	o.KeysPerGet = cmp.Or(o.KeysPerGet, keys)
	o.SetKeys = cmp.Or(o.SetKeys, Uniform)
	o.GetKeys = cmp.Or(o.GetKeys, Uniform)
	o.ZipfExponent = cmp.Or(o.ZipfExponent, 1)
	o.ValueSize = cmp.Or(o.ValueSize, DefaultValueSize)
	o.KeyPrefix = cmp.Or(o.KeyPrefix, DefaultKeyPrefix)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, DefaultConnectTimeout)
	return o
}

// validate reports everything that is wrong with o, whose defaults are filled in.
func (o Options) validate() error {
	var problems []error
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	between := func(name string, value, low, high int) {
		refuse(value < low || value > high, "%s %d: expected %d to %d", name, value, low, high)
	}
	refuse(len(o.Targets) == 0, "no target: expected at least one host:port or unix:/path")
	for _, target := range o.Targets {
		refuse(target == "" || target == "unix:", "target %q: expected host:port or unix:/path", target)
	}
	between("threads", o.Threads, 1, maxThreads)
	between("connections", o.Connections, 1, maxConnections)
	refuse(o.Connections < o.Threads, "connections %d: expected at least one for each of the %d threads", o.Connections, o.Threads)
	between("pipeline", o.Pipeline, 1, maxPipeline)
	between("SETs of the ratio", o.Sets, 0, maxRatio)
	between("GETs of the ratio", o.Gets, 0, maxRatio)
	between("multi-GETs of the ratio", o.MultiGets, 0, maxRatio)
	between("keys per GET", o.KeysPerGet, 1, maxKeysPerGet)
	between("greatest expiry", o.ExpiryMax, 0, maxExpiry)
	between("smallest expiry", o.ExpiryMin, min(o.ExpiryMax, 1), o.ExpiryMax)
	between("value size", o.ValueSize, 1, maxValueSize)
	between("requests until a connection is made anew", o.ReconnectAfter, 0, 1<<62)
	between("requests per connection", o.Requests, 0, 1<<62)
	refuse(int(o.Protocol) >= len(protocolNames), "protocol %d: expected Classic, Meta or RESP", o.Protocol)
	refuse(strings.ContainsAny(o.User+o.Password, " \r\n") && o.Protocol != RESP,
		"user and password: memcached separates them by a space, so they can hold no spaces or line ends")

	refuse(o.KeyMax > math.MaxInt64, "greatest key %d: expected at most %d", o.KeyMax, math.MaxInt64)
	refuse(o.KeyMax < o.KeyMin, "keys %d to %d: the greatest is less than the smallest", o.KeyMin, o.KeyMax)
	length := len(o.KeyPrefix) + len(strconv.FormatUint(o.KeyMax, 10))
	refuse(length > protocol.DefaultMaxKey, "key prefix of %d bytes: a key would be %d bytes, memcached takes %d", len(o.KeyPrefix), length, protocol.DefaultMaxKey)
	refuse(strings.ContainsFunc(o.KeyPrefix, func(r rune) bool { return r <= ' ' || r == 0x7f }),
		"key prefix %q: a key can hold neither spaces nor control characters", o.KeyPrefix)
	for _, pattern := range []KeyPattern{o.SetKeys, o.GetKeys} {
		refuse(!pattern.valid(), "key pattern %q: expected R, S, P, G or Z", string(rune(pattern)))
	}
	refuse(o.KeyMedian != 0 && !(o.KeyMedian >= float64(o.KeyMin) && o.KeyMedian <= float64(o.KeyMax)),
		"median key %v: expected one of the keys %d to %d", o.KeyMedian, o.KeyMin, o.KeyMax)
	refuse(!(o.KeyStdDev >= 0 && o.KeyStdDev <= math.MaxInt64), "standard deviation of the keys %v: expected more than 0", o.KeyStdDev)
	refuse(!(o.ZipfExponent > 0 && o.ZipfExponent < maxZipf), "exponent of Zipf's distribution %v: expected more than 0 and less than %d", o.ZipfExponent, maxZipf)

	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"warm-up", o.WarmUp},
		{"cool-down", o.CoolDown},
		{"duration", o.Duration},
		{"timeout", o.Timeout},
		{"connect timeout", o.ConnectTimeout},
		{"think time", o.ThinkTime},
	} {
		refuse(d.value < 0, "%s %v: it can't be negative", d.name, d.value)
	}
	refuse(o.CacheAside && (o.KeysPerGet > 1 || o.Gets == 0), "cache-aside: it needs GETs of one key each")
	refuse(o.Requests > 0 && o.WarmUp > 0, "a warm-up of %v with %d requests per connection: they could be sent before it is over; give a duration instead", o.WarmUp, o.Requests)
	refuse(o.CoolDown > 0 && (o.Duration == 0 || o.Requests > 0 || o.Schedule != nil),
		"a cool-down of %v: it needs a closed loop with a duration, without a number of requests", o.CoolDown)
	refuse(o.Schedule != nil && o.ThinkTime > 0, "a think time and a schedule: the one is for closed loops, the other for open ones")
	problems = append(problems, o.Sizes.validate())
	if o.Schedule != nil {
		problems = append(problems, o.Schedule.validate())
	}
	return errors.Join(append(problems, o.validateTrace()...)...)
}

// paced reports whether requests are sent at times, not as soon as there is room in the pipeline.
func (o *Options) paced() bool { return o.Schedule != nil || o.ThinkTime > 0 }

// scheduled returns how many requests are due in so much of the recording; none are after its end.
func (o *Options) scheduled(elapsed time.Duration) float64 {
	if o.Duration > 0 {
		elapsed = min(elapsed, o.Duration)
	}
	return o.Schedule.Count(elapsed.Seconds())
}

// cycle returns after how many requests of a connection their kinds repeat.
func (o *Options) cycle() int { return o.Sets + o.Gets + o.MultiGets }

// keyCount returns how many different keys there are.
func (o Options) keyCount() uint64 { return o.KeyMax - o.KeyMin + 1 }
