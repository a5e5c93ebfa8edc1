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

// Options describe a load. Each field's comment says what its zero value means.
type Options struct {
	// Targets are the addresses to connect to: "host:port" or "unix:/path". Connection i uses Targets[i mod
	// len(Targets)].
	Targets []string
	// Threads is the number of epoll loops that run concurrently; 0 means 1.
	Threads int
	// Connections is the number of connections over all threads; 0 means one per thread.
	Connections int
	// Pipeline is the number of requests that each connection keeps outstanding; in an open loop, the most that it
	// sends without a reply. 0 means 1, or DefaultOpenPipeline with a Schedule.
	Pipeline int

	// Protocol is the targets' protocol; the zero value is memcached's text protocol.
	Protocol Protocol
	// User and Password are sent on every new connection, unless Password is empty.
	User, Password string
	// TLS returns the configuration for a target's host; nil: no TLS. Each TLS connection passes through two goroutines
	// of this process; their time counts in the latencies and in the generator's processor time.
	TLS func(host string) *tls.Config

	// ThinkTime is the time between a reply and the next request in each slot of a connection's pipeline: the mean of
	// an exponential distribution with ThinkRandom, otherwise constant. 0: no think time.
	ThinkTime   time.Duration
	ThinkRandom bool
	// Schedule makes an open loop: requests are due at its times, over all connections, whatever happens to earlier
	// requests. Latency then begins when a request is due. nil: a closed loop.
	Schedule *Schedule

	// Sets, Gets and MultiGets are the ratio of requests; all 0 means 1:9:0.
	Sets, Gets, MultiGets int
	// KeysPerGet is the number of keys of a multi-GET; with MultiGets 0, of a GET. 0 means 1, or 10 with MultiGets.
	KeysPerGet int
	// ValueSize is the size of the values, bytes; 0 means DefaultValueSize. Sizes gives values different sizes.
	ValueSize int
	Sizes     Sizes
	// ExpiryMin and ExpiryMax are the bounds of the values' expiry, seconds, drawn uniformly; both 0 means never.
	ExpiryMin, ExpiryMax int
	// KeyPrefix begins every key; a decimal number follows. "" means DefaultKeyPrefix.
	KeyPrefix string
	// KeyMin and KeyMax are the smallest and the largest number of a key; both 0 means 1 to DefaultKeys.
	KeyMin, KeyMax uint64
	// SetKeys and GetKeys are the patterns of keys; 0 means Uniform.
	SetKeys, GetKeys KeyPattern
	// KeyMedian and KeyStdDev are the parameters of Gaussian; 0 means the middle of the keys, and a sixth of their
	// number.
	KeyMedian, KeyStdDev float64
	// ZipfExponent is the parameter of Zipf; 0 means 1.
	ZipfExponent float64
	// CacheAside stores a key at once when a GET misses it, as a cache-aside application does. These SETs are in
	// addition to the ratio, the schedule and Requests. It requires GETs of one key.
	CacheAside bool
	// ReconnectAfter is the number of requests after which a connection is closed, once they are answered, and
	// reopened; 0: never.
	ReconnectAfter int
	// Seed selects the sequence of requests. With the same seed each connection's sequence is the same.
	Seed uint64

	// Populate stores every key once on every target before the load begins.
	Populate bool
	// Verify compares every returned value with the value stored under its key. A difference ends the run with an
	// error.
	Verify bool

	// WarmUp is how long the load runs before recording begins. It can't be combined with Requests.
	WarmUp time.Duration
	// Duration is the length of the recording; 0 means until Requests are sent or the context ends.
	Duration time.Duration
	// CoolDown is how long the load continues unrecorded after Duration, so that other load that began slightly later
	// is recorded under full load. Requests outstanding at the end of Duration then don't count. It requires a closed
	// loop with a Duration.
	CoolDown time.Duration
	// Requests is how many requests each connection sends; 0 means no limit.
	Requests int

	// Timeout is how long to wait for a reply before the run fails; 0 means DefaultTimeout.
	Timeout time.Duration
	// ConnectTimeout is how long connecting may take; 0 means DefaultConnectTimeout.
	ConnectTimeout time.Duration
}

// Defaults of Options.
const (
	DefaultValueSize    = 32
	DefaultKeyPrefix    = "memtier-"
	DefaultKeys         = 10_000
	DefaultOpenPipeline = 64
	DefaultMultiGetKeys = 10
	// MaxItem is the largest value that memcached stores by default: an item of 1 MiB, less room for the key and the
	// item's header.
	MaxItem               = 1<<20 - 1024
	DefaultTimeout        = 10 * time.Second
	DefaultConnectTimeout = 5 * time.Second
)

const (
	maxThreads = 1024
	// maxConnections catches typing errors; the limit on open files is reached much earlier.
	maxConnections = 1 << 20
	maxPipeline    = 1 << 16
	maxKeysPerGet  = 1 << 16
	maxRatio       = 1 << 20
	maxValueSize   = 1 << 30
	maxExpiry      = 1 << 31 // memcached treats numbers above 30 days as dates
	maxZipf        = 5       // as memtier's
)

// Complete returns o with its defaults filled in, or an error that lists everything that is wrong with o.
func (o Options) Complete() (Options, error) {
	o = o.withDefaults()
	return o, o.validate()
}

// withDefaults returns o with the meaning of every zero field filled in.
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

// validate returns an error that lists everything that is wrong with o, whose defaults are filled in.
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
	refuse(o.Connections < o.Threads, "connections %d: expected at least one for each of the %d threads", o.Connections,
		o.Threads)
	between("pipeline", o.Pipeline, 1, maxPipeline)
	between("SETs of the ratio", o.Sets, 0, maxRatio)
	between("GETs of the ratio", o.Gets, 0, maxRatio)
	between("multi-GETs of the ratio", o.MultiGets, 0, maxRatio)
	between("keys per GET", o.KeysPerGet, 1, maxKeysPerGet)
	between("largest expiry", o.ExpiryMax, 0, maxExpiry)
	between("smallest expiry", o.ExpiryMin, min(o.ExpiryMax, 1), o.ExpiryMax)
	between("value size", o.ValueSize, 1, maxValueSize)
	between("requests before a connection is reopened", o.ReconnectAfter, 0, 1<<62)
	between("requests per connection", o.Requests, 0, 1<<62)
	refuse(int(o.Protocol) >= len(protocolNames), "protocol %d: expected Classic, Meta or RESP", o.Protocol)
	refuse(strings.ContainsAny(o.User+o.Password, " \r\n") && o.Protocol != RESP,
		"user and password: they can't contain spaces or line ends, because memcached separates them by a space")

	refuse(o.KeyMax > math.MaxInt64, "largest key %d: expected at most %d", o.KeyMax, math.MaxInt64)
	refuse(o.KeyMax < o.KeyMin, "keys %d to %d: expected the smallest first", o.KeyMin, o.KeyMax)
	length := len(o.KeyPrefix) + len(strconv.FormatUint(o.KeyMax, 10))
	refuse(length > protocol.DefaultMaxKey,
		"key prefix of %d bytes: keys would have up to %d bytes; expected at most %d", len(o.KeyPrefix), length,
		protocol.DefaultMaxKey)
	refuse(strings.ContainsFunc(o.KeyPrefix, func(r rune) bool { return r <= ' ' || r == 0x7f }),
		"key prefix %q: a key can't contain spaces or control characters", o.KeyPrefix)
	for _, pattern := range []KeyPattern{o.SetKeys, o.GetKeys} {
		refuse(!pattern.valid(), "key pattern %q: expected R, S, P, G or Z", string(rune(pattern)))
	}
	refuse(o.KeyMedian != 0 && !(o.KeyMedian >= float64(o.KeyMin) && o.KeyMedian <= float64(o.KeyMax)),
		"median key %v: expected one of the keys %d to %d", o.KeyMedian, o.KeyMin, o.KeyMax)
	refuse(!(o.KeyStdDev >= 0 && o.KeyStdDev <= math.MaxInt64),
		"standard deviation of the keys %v: expected more than 0", o.KeyStdDev)
	refuse(!(o.ZipfExponent > 0 && o.ZipfExponent < maxZipf),
		"exponent of Zipf's distribution %v: expected more than 0 and less than %d", o.ZipfExponent, maxZipf)

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
		refuse(d.value < 0, "%s %v: expected at least 0", d.name, d.value)
	}
	refuse(o.CacheAside && (o.KeysPerGet > 1 || o.Gets == 0), "cache-aside: it requires GETs of one key each")
	refuse(o.Requests > 0 && o.WarmUp > 0,
		"a warm-up of %v with %d requests per connection: they could all be sent during the warm-up; set a duration "+
			"instead", o.WarmUp, o.Requests)
	refuse(o.CoolDown > 0 && (o.Duration == 0 || o.Requests > 0 || o.Schedule != nil),
		"a cool-down of %v: it requires a closed loop with a duration and without a number of requests", o.CoolDown)
	refuse(o.Schedule != nil && o.ThinkTime > 0,
		"a think time with a schedule: think times are for closed loops, schedules for open loops")
	for _, option := range []struct {
		isSet bool
		what  string
	}{
		{o.WarmUp > 0, "a warm-up"},
		{o.Verify, "verified values"},
		{o.KeysPerGet > 1, "several keys per GET"},
		{o.MultiGets > 0, "multi-GETs"},
		{o.ExpiryMax > 0, "an expiry"},
	} {
		refuse(o.trace() != nil && option.isSet,
			"a trace with %s: they can't be combined, because the trace defines the requests", option.what)
	}
	problems = append(problems, o.Sizes.validate())
	if o.Schedule != nil {
		problems = append(problems, o.Schedule.validate())
	}
	return errors.Join(problems...)
}

// paced reports whether requests are sent at certain times, not as soon as the pipeline has room.
func (o *Options) paced() bool { return o.Schedule != nil || o.ThinkTime > 0 }

// scheduled returns how many requests are due in the first part of the recording; none are due after its end.
func (o *Options) scheduled(elapsed time.Duration) float64 {
	if o.Duration > 0 {
		elapsed = min(elapsed, o.Duration)
	}
	return o.Schedule.Count(elapsed.Seconds())
}

// cycle returns the number of requests of a connection after which their kinds repeat.
func (o *Options) cycle() int { return o.Sets + o.Gets + o.MultiGets }

// keyCount returns how many different keys there are.
func (o Options) keyCount() uint64 { return o.KeyMax - o.KeyMin + 1 }
