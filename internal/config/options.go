package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/discover"
	"mcmw/internal/middleware"
	"mcmw/internal/protocol"
	"mcmw/internal/replica"
	"mcmw/internal/route"
)

// Option describes one option: its names, default, range and meaning.
type Option struct {
	// Name is the long flag and the file's key. The environment variable is made from it, too: see Env.
	Name string
	// Short is the one-letter flag, "" none.
	Short string
	// Default is the value no source gave, in the form the operator would write it.
	Default string
	// Help says in one sentence what the option is for.
	Help string
	// Group is the heading under which the documentation lists the option.
	Group string

	kind kind
}

// The groups, in the order of the documentation.
const (
	groupClients = "Clients"
	groupServers = "Servers and placement"
	groupWorkers = "Queue and workers"
	groupTimes   = "Timeouts"
	groupLimits  = "Limits"
	groupSecure  = "TLS and authentication"
	groupProcess = "Process, logs and administration"
)

// Bounds that several options share, or that need a reason.
const (
	// maxWorkers times maxServers of package route is far beyond the files a process may open.
	maxWorkers = 1024
	// maxDepth is where a pipeline of small requests fills a socket buffer.
	maxDepth = 4096
	// maxQueue is a queue nobody would wait through: some seconds of work at a million requests per second.
	maxQueue = 1 << 20
	// maxReplicas is the most servers package route takes.
	maxReplicas = 500
	// maxSample leaves some requests a day of a million per second.
	maxSample = 1_000_000_000
	// maxTime is beyond any wait that still makes sense.
	maxTime = time.Hour
)

const (
	logAuto = "auto"
	// LogText and LogJSON are the formats of LogFormat but for "auto", which chooses between them.
	LogText = "text"
	LogJSON = "json"
)

// wordSystem stands for the system's name servers.
const wordSystem = "system"

const poolShared = "shared"

const (
	queueBlock = "block"
	queueShed  = "shed"
)

// pools are the values of the option pool.
var pools = map[string]middleware.Pool{poolShared: middleware.PoolShared, "per-server": middleware.PoolPerServer}

var logLevels = []string{"debug", "info", "warn", "error"}

// Options is the table of all options, in the order of the documentation.
var Options = []Option{
	{
		Name: "listen", Short: "l", Default: "127.0.0.1", Group: groupClients, kind: addresses{},
		Help: "addresses on which clients connect; one without a port has listen-port; with tls-cert one without notls: in front has TLS",
	},
	{
		Name: "listen-port", Short: "p", Default: "11311", Group: groupClients,
		kind: count{field: func(c *Config) *int { return &c.ListenPort }, min: 0, max: 65535},
		Help: "port of every listen address that names none; 0 takes a free one",
	},
	{
		Name: "max-connections", Default: "unlimited", Group: groupClients,
		kind: count{field: func(c *Config) *int { return &c.MaxConnections }, min: 1, max: 1 << 20, word: "unlimited"},
		Help: "how many clients may be connected; one more gets a SERVER_ERROR and is closed; unlimited is what the limit on open files leaves beside the servers",
	},
	{
		Name: "idle-timeout", Default: formatDuration(0), Group: groupClients,
		kind: duration{func(c *Config) *time.Duration { return &c.IdleTimeout }, 0, 24 * maxTime},
		Help: "after how long without a request a client is closed; 0s is never",
	},
	{
		Name: "min-rate", Default: formatSize(middleware.DefaultMinRate), Group: groupClients,
		kind: size{func(c *Config) *int { return &c.MinRate }, 1, 1 << 30},
		Help: "bytes per second that a client must send of a request larger than 16k, or of one that takes longer than idle-timeout; one that is slower for ten seconds is closed, for two while others wait for the memory",
	},
	{
		Name: "max-output", Default: formatSize(middleware.DefaultMaxOutput), Group: groupClients,
		kind: size{func(c *Config) *int { return &c.MaxOutput }, 1 << 10, 16 << 30},
		Help: "replies that may wait for one client that does not read them, before it is closed",
	},
	{
		Name: "write-timeout", Default: formatDuration(middleware.DefaultWriteTimeout), Group: groupClients,
		kind: duration{func(c *Config) *time.Duration { return &c.WriteTimeout }, time.Millisecond, maxTime},
		Help: "how long a client may take to read replies that wait for it, before it is closed",
	},
	{
		Name: "client-memory", Default: formatSize(middleware.DefaultClientMemory), Group: groupClients,
		kind: size{func(c *Config) *int { return &c.ClientMemory }, 1 << 20, 1 << 40},
		Help: "memory, over all clients, for requests larger than 16k, and as much again for replies that clients do not read",
	},

	{
		Name: optionServers, Short: "m", Group: groupServers, kind: servers{},
		Help: "memcached servers, in order; after -m further ones may follow as arguments",
	},
	{
		Name: "replicas", Default: "all", Group: groupServers,
		kind: count{field: func(c *Config) *int { return &c.Replicas }, min: 1, max: maxReplicas, word: "all"},
		Help: "how many servers hold a key; 1 shards, all replicates everything",
	},
	{
		Name: "read", Default: route.ReadDefault.String(), Group: groupServers,
		kind: choice{
			words:  route.ReadPolicyNames(),
			choose: func(c *Config, w string) { c.Read, _ = route.ParseReadPolicy(w) },
			chosen: func(c *Config) string { return c.Read.String() },
		},
		Help: "which replica serves a read; default is round-robin with replicas all, else primary",
	},
	{
		Name: "ack", Default: replica.AckAll.String(), Group: groupServers,
		kind: choice{
			words:  replica.AckNames(),
			choose: func(c *Config, w string) { c.Ack, _ = replica.ParseAck(w) },
			chosen: func(c *Config) string { return c.Ack.String() },
		},
		Help: "how many replicas must have given an answer to a write for it to be the client's",
	},
	{
		Name: "get-error", Default: "error", Group: groupServers,
		kind: choice{
			words:  []string{"error", "miss"},
			choose: func(c *Config, w string) { c.GetErrorMiss = w == "miss" },
			chosen: func(c *Config) string { return map[bool]string{false: "error", true: "miss"}[c.GetErrorMiss] },
		},
		Help: "what a read is answered with when no server could answer it: a SERVER_ERROR that names one, or a miss",
	},
	{
		Name: "ready", Default: middleware.ReadyKeys.String(), Group: groupServers,
		kind: choice{
			words:  middleware.ReadyNames(),
			choose: func(c *Config, w string) { c.Ready, _ = middleware.ParseReady(w) },
			chosen: func(c *Config) string { return c.Ready.String() },
		},
		Help: "which servers have to be up once before /readyz says so: one for every key, all, or any; clients are served before, too",
	},
	{
		Name: "failure-limit", Default: strconv.Itoa(middleware.DefaultFailureLimit), Group: groupServers,
		kind: count{field: func(c *Config) *int { return &c.FailureLimit }, min: 1, max: 1000},
		Help: "consecutive failures after which a server is down: it fails at once, and is probed until it answers again",
	},
	{
		Name: "rejoin", Default: backend.RejoinInvalidate.String(), Group: groupServers,
		kind: choice{
			words:  backend.RejoinNames(),
			choose: func(c *Config, w string) { c.Rejoin, _ = backend.ParseRejoin(w) },
			chosen: func(c *Config) string { return c.Rejoin.String() },
		},
		Help: "what happens to the keys a server missed writes of before it serves reads again: deleted, all flushed, or trusted",
	},
	{
		Name: "missed-memory", Default: formatSize(middleware.DefaultMissedMemory), Group: groupServers,
		kind: size{func(c *Config) *int { return &c.MissedMemory }, 1 << 10, 16 << 30},
		Help: "memory for the keys that one server missed writes of; a server that missed more is flushed",
	},
	{
		Name: "sharded", Short: "s", Default: "false", Group: groupServers,
		kind: toggle{func(c *Config) *bool { return &c.Sharded }},
		Help: "split a multi-get over all servers that hold its keys",
	},
	{
		Name: "ring", Default: route.RingRendezvous.String(), Group: groupServers,
		kind: choice{
			words:  route.RingKindNames(),
			choose: func(c *Config, w string) { c.Ring, _ = route.ParseRingKind(w) },
			chosen: func(c *Config) string { return c.Ring.String() },
		},
		Help: "how keys are placed on the servers: evenly, by rendezvous hashing, or on the ring of points (ketama) of another program",
	},
	{
		Name: "hash", Default: route.HashDefault.String(), Group: groupServers,
		kind: choice{
			words:  route.HashKindNames(),
			choose: func(c *Config, w string) { c.Hash, _ = route.ParseHashKind(w) },
			chosen: func(c *Config) string { return c.Hash.String() },
		},
		Help: "hash of the keys on a ring; default is fnv1a_64, and XXH64 with ring rendezvous",
	},
	{
		Name: "hash-tag", Default: "none", Group: groupServers,
		kind: text{
			field: func(c *Config) *string { return &c.HashTag }, name: "XY", what: "two characters such as {}", off: "none",
			check: func(s string) error {
				if len(s) != 2 {
					return fmt.Errorf("has %d bytes", len(s))
				}
				return nil
			},
		},
		Help: "hash only the part of a key between these two characters",
	},
	{
		Name: "resolve-interval", Default: formatDuration(discover.DefaultInterval), Group: groupServers,
		kind: duration{func(c *Config) *time.Duration { return &c.ResolveInterval }, 100 * time.Millisecond, maxTime},
		Help: "how often names of servers (dns+ and srv+) are looked up again, give or take a tenth",
	},
	{
		Name: "remove-after", Default: strconv.Itoa(discover.DefaultRemoveAfter), Group: groupServers,
		kind: count{field: func(c *Config) *int { return &c.RemoveAfter }, min: 1, max: 1_000_000, unit: "answers"},
		Help: "how many answers of the DNS in a row must lack a server before it is removed",
	},
	{
		Name: "resolver", Default: wordSystem, Group: groupServers,
		kind: text{
			field: func(c *Config) *string { return &c.Resolver }, name: "ADDRESS", what: "ip:port", off: wordSystem,
			check: parseResolver,
		},
		Help: "DNS server that is asked for dns+ and srv+ names; system is those of /etc/resolv.conf",
	},

	{
		Name: "workers", Short: "t", Default: "auto", Group: groupWorkers,
		kind: count{field: func(c *Config) *int { return &c.Workers }, min: 0, max: maxWorkers, word: "auto"},
		Help: "size of the worker pool (with pool per-server, of every server's readers); each worker has its own connections to the servers",
	},
	{
		Name: "depth", Default: strconv.Itoa(middleware.DefaultDepth), Group: groupWorkers,
		kind: count{field: func(c *Config) *int { return &c.Depth }, min: 1, max: maxDepth, unit: "requests"},
		Help: "waiting requests a worker takes at a time and pipelines; 1 is the synchronous worker",
	},
	{
		Name: "queue", Default: strconv.Itoa(middleware.DefaultQueue), Group: groupWorkers,
		kind: count{field: func(c *Config) *int { return &c.Queue }, min: 1, max: maxQueue, unit: "batches"},
		Help: "capacity of the queue before the workers; a batch is what one read of a connection brought",
	},
	{
		Name: "queue-full", Default: queueBlock, Group: groupWorkers,
		kind: choice{
			words:  []string{queueBlock, queueShed},
			choose: func(c *Config, w string) { c.Shed = w == queueShed },
			chosen: func(c *Config) string { return map[bool]string{false: queueBlock, true: queueShed}[c.Shed] },
		},
		Help: "what happens to a batch for which the queue has no room: its client waits, or gets a SERVER_ERROR for each request, of which nothing is done",
	},
	{
		Name: "pool", Default: poolShared, Group: groupWorkers,
		kind: choice{
			words:  []string{poolShared, "per-server"},
			choose: func(c *Config, w string) { c.Pool = w },
			chosen: func(c *Config) string { return c.Pool },
		},
		Help: "how workers are organised: one queue for all, or a read and a write queue for every server",
	},

	{
		Name: "timeout", Default: formatDuration(middleware.DefaultTimeout), Group: groupTimes,
		kind: duration{func(c *Config) *time.Duration { return &c.Timeout }, time.Millisecond, maxTime},
		Help: "how long a request may take; the servers get at least three quarters of it, whatever it waited in the queue",
	},
	{
		Name: "stall-after", Default: formatDuration(middleware.DefaultStallAfter), Group: groupTimes,
		kind: duration{func(c *Config) *time.Duration { return &c.StallAfter }, 0, maxTime},
		Help: "how long a server may owe a reply before only what needs it waits for it, at most a quarter of timeout; 0s: never",
	},
	{
		Name: "connect-timeout", Default: formatDuration(middleware.DefaultConnectTimeout), Group: groupTimes,
		kind: duration{func(c *Config) *time.Duration { return &c.ConnectTimeout }, time.Millisecond, maxTime},
		Help: "how long connecting to a server may take",
	},
	{
		Name: "drain-timeout", Default: formatDuration(middleware.DefaultDrainTimeout), Group: groupTimes,
		kind: duration{func(c *Config) *time.Duration { return &c.DrainTimeout }, time.Millisecond, maxTime},
		Help: "how long requests in flight may take to finish at shutdown",
	},

	{
		Name: "max-key", Default: formatSize(protocol.DefaultMaxKey), Group: groupLimits,
		kind: size{func(c *Config) *int { return &c.Limits.MaxKey }, 1, protocol.DefaultMaxKey},
		Help: "longest key; no memcached takes a longer one than 250",
	},
	{
		Name: "max-value", Default: formatSize(protocol.DefaultMaxValue), Group: groupLimits,
		kind: size{func(c *Config) *int { return &c.Limits.MaxValue }, 1 << 10, 1 << 30},
		Help: "largest value; should equal the servers' -I",
	},
	{
		Name: "max-line", Default: formatSize(protocol.DefaultMaxLine), Group: groupLimits,
		kind: size{func(c *Config) *int { return &c.Limits.MaxLine }, 512, 1 << 20},
		Help: "bytes that may arrive without a line end before the connection is closed; get and gets are exempt",
	},
	{
		Name: "max-multiget-line", Default: formatSize(protocol.DefaultMaxMultiGetLine), Group: groupLimits,
		kind: size{func(c *Config) *int { return &c.Limits.MaxMultiGetLine }, 2 << 10, 1 << 30},
		Help: "longest line of a get or gets",
	},

	{
		Name: "tls-cert", Default: "none", Group: groupSecure, kind: file(func(c *Config) *string { return &c.Security.TLS.Cert }),
		Help: "certificate chain in PEM form; clients then speak TLS on every TCP listen address without notls:",
	},
	{
		Name: "tls-key", Default: "none", Group: groupSecure, kind: file(func(c *Config) *string { return &c.Security.TLS.Key }),
		Help: "private key of tls-cert",
	},
	{
		Name: "tls-client-ca", Default: "none", Group: groupSecure, kind: file(func(c *Config) *string { return &c.Security.TLS.ClientCA }),
		Help: "authorities, one of which must have signed the certificate that every client then has to show",
	},
	{
		Name: "handshake-timeout", Default: formatDuration(middleware.DefaultHandshakeTimeout), Group: groupSecure,
		kind: duration{func(c *Config) *time.Duration { return &c.Security.HandshakeTimeout }, time.Millisecond, maxTime},
		Help: "how long a client may take to make a TLS session, before it is closed",
	},
	{
		Name: "auth-file", Default: "none", Group: groupSecure, kind: file(func(c *Config) *string { return &c.Security.AuthFile }),
		Help: "lines user:password; clients are served once they have given one, as by memcached with --auth-file",
	},
	{
		Name: optionServerTLS, Default: "false", Group: groupSecure, kind: toggle{func(c *Config) *bool { return &c.Security.ServerTLS }},
		Help: "speak TLS to the servers (but for unix sockets)",
	},
	{
		Name: "server-tls-ca", Default: "none", Group: groupSecure, kind: file(func(c *Config) *string { return &c.Security.ServerFiles.CA }),
		Help: "authorities, one of which must have signed a server's certificate; none: those of the system",
	},
	{
		Name: "server-tls-cert", Default: "none", Group: groupSecure, kind: file(func(c *Config) *string { return &c.Security.ServerFiles.Cert }),
		Help: "certificate to show to servers that ask for one",
	},
	{
		Name: "server-tls-key", Default: "none", Group: groupSecure, kind: file(func(c *Config) *string { return &c.Security.ServerFiles.Key }),
		Help: "private key of server-tls-cert",
	},
	{
		Name: "server-tls-name", Default: "none", Group: groupSecure,
		kind: text{
			field: func(c *Config) *string { return &c.Security.ServerFiles.Name }, name: "HOST", what: "a host name or an IP address", off: "none",
			check: checkServerTLSName,
		},
		Help: "what the servers' certificates must be for; none: the host of each server's address",
	},
	{
		Name: "server-auth-file", Default: "none", Group: groupSecure, kind: file(func(c *Config) *string { return &c.Security.ServerAuthFile }),
		Help: "one line user:password, to give to the servers",
	},

	{
		Name: "admin", Default: "127.0.0.1:9150", Group: groupProcess,
		kind: text{
			field: func(c *Config) *string { return &c.Admin }, name: "ADDRESS", what: "host:port", off: "off",
			check: parseAdmin,
		},
		Help: "address of the admin server: /livez, /readyz, /metrics and the live page",
	},
	{
		Name: "stats-file", Default: "none", Group: groupProcess, kind: file(func(c *Config) *string { return &c.StatsFile }),
		Help: "file to append the statistics log to: JSON lines, one per window and a summary at the end",
	},
	{
		Name: "stats-window", Default: formatDuration(5 * time.Second), Group: groupProcess,
		kind: duration{func(c *Config) *time.Duration { return &c.StatsWindow }, 100 * time.Millisecond, maxTime},
		Help: "length of the statistics log's windows",
	},
	{
		Name: "sample", Default: fractionOff, Group: groupProcess,
		kind: fraction{func(c *Config) *int { return &c.Sample }, maxSample},
		Help: "log one of every N requests of each worker, with all its moments",
	},
	{
		Name: "slow", Default: formatDuration(0), Group: groupProcess,
		kind: duration{func(c *Config) *time.Duration { return &c.Slow }, 0, maxTime},
		Help: "log requests whose response time is at least this; 0s: none",
	},
	{
		Name: "request-log", Default: "none", Group: groupProcess, kind: file(func(c *Config) *string { return &c.RequestLog }),
		Help: "file to append logged requests to, as JSON lines; with none they go to the log",
	},
	{
		Name: "log-keys", Default: "false", Group: groupProcess,
		kind: toggle{func(c *Config) *bool { return &c.LogKeys }},
		Help: "log the first key of logged requests, too",
	},
	{
		Name: "log-level", Default: "info", Group: groupProcess,
		kind: choice{
			words:  logLevels,
			choose: func(c *Config, w string) { _ = c.LogLevel.UnmarshalText([]byte(w)) },
			chosen: func(c *Config) string { return strings.ToLower(c.LogLevel.String()) },
		},
		Help: "least level that is logged",
	},
	{
		Name: "log-format", Default: logAuto, Group: groupProcess,
		kind: choice{
			words:  []string{logAuto, LogText, LogJSON},
			choose: func(c *Config, w string) { c.LogFormat = w },
			chosen: func(c *Config) string { return c.LogFormat },
		},
		Help: "form of the log; auto is text on a terminal and JSON elsewhere",
	},
	{
		Name: "procs", Default: "auto", Group: groupProcess,
		kind: count{field: func(c *Config) *int { return &c.Procs }, min: 0, max: 1024, word: "auto"},
		Help: "how many processors to use at a time (GOMAXPROCS); auto is half of those there are",
	},
	{
		Name: "watch-interval", Default: formatDuration(time.Second), Group: groupProcess,
		kind: duration{func(c *Config) *time.Duration { return &c.WatchInterval }, 0, maxTime},
		Help: "how often the configuration file is looked at, to read it again when it has changed; 0s is only at SIGHUP",
	},
	{
		Name: optionConfig, Default: "none", Group: groupProcess,
		kind: file(func(c *Config) *string { return &c.File }),
		Help: "YAML file to read options from",
	},
}

const optionServers = "servers"

// optionConfig is the one option that cannot stand in the file.
const optionConfig = "config"

// Env returns the name of the option's environment variable.
func (o *Option) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(o.Name, "-", "_"))
}

// Accepts says which values are accepted.
func (o *Option) Accepts() string { return o.kind.accepts() }

// usage returns the help of the option's flag: what it is for and, where the placeholder does not show it, what is
// accepted.
func (o *Option) usage() string {
	placeholder := o.kind.placeholder()
	if words := o.Words(); words != nil && placeholder == strings.Join(words, "|") {
		return o.Help
	}
	return o.Help + " [" + o.Accepts() + "]"
}

// Words returns the closed list of values, nil where there is none. It serves shell completion.
func (o *Option) Words() []string {
	switch k := o.kind.(type) {
	case choice:
		return k.words
	case toggle:
		return toggleWords[:2]
	}
	return nil
}

// TakesFile says whether the value is the path of a file. It serves shell completion.
func (o *Option) TakesFile() bool {
	t, ok := o.kind.(text)
	return ok && t.name == filePlaceholder
}

// inFile says whether the option may stand in the file.
func (o *Option) inFile() bool { return o.Name != optionConfig }

// flags returns the option's flags, the short one first.
func (o *Option) flags() string {
	if o.Short != "" {
		return "-" + o.Short + ", --" + o.Name
	}
	return "--" + o.Name
}

// isList says whether the option takes several values.
func (o *Option) isList() bool {
	_, ok := o.kind.(list)
	return ok
}

// split returns the values that text holds: a list has them between commas.
func (o *Option) split(s string, origin Origin) []given {
	if !o.isList() {
		return []given{{text: s, origin: origin}}
	}
	var values []given
	for part := range strings.SplitSeq(s, ",") {
		values = append(values, given{text: strings.TrimSpace(part), origin: origin})
	}
	return values
}

// set reads the values that one source gave into c, in place of those of the sources before, and returns what was
// wrong with them. The option keeps its old value then.
func (o *Option) set(c *Config, values []given, origin Origin) Problems {
	var problems Problems
	next := *c
	if l, ok := o.kind.(list); ok {
		l.reset(&next)
	}
	for _, v := range values {
		if err := o.setOne(&next, v); err != nil {
			problems = append(problems, Problem{Origin: v.origin, Option: o.Name, Text: err.Error()})
		}
	}
	if problems != nil {
		c.refused[o.Name] = true
		return problems
	}
	*c = next
	c.origins[o.Name] = origin
	return nil
}

// setOne reads one value into c. The error quotes the value and ends with what is accepted.
func (o *Option) setOne(c *Config, v given) error {
	err := o.kind.set(c, v)
	switch {
	case err == nil:
		return nil
	case v.mapping != nil:
		return fmt.Errorf("the mapping %w; accepted: %s", err, o.Accepts())
	case v.text == "":
		return errors.New("the value is empty; accepted: " + o.Accepts())
	}
	return fmt.Errorf("%q %w; accepted: %s", v.text, err, o.Accepts())
}

// Find returns the option called name, nil if there is none.
func Find(name string) *Option {
	for i := range Options {
		if Options[i].Name == name {
			return &Options[i]
		}
	}
	return nil
}
