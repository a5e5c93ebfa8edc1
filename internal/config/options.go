package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/discover"
	"mcmw/internal/hotkeys"
	"mcmw/internal/middleware"
	"mcmw/internal/protocol"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/sweep"
)

// The groups of options, in the order of the documentation.
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
	// maxDepth is the depth at which a pipeline of small requests fills a socket buffer.
	maxDepth = 4096
	// maxQueue is longer than any useful queue: some seconds of work at a million requests per second.
	maxQueue = 1 << 20
	// maxReplicas is the largest number of servers that package route supports.
	maxReplicas = 500
	// maxSweepRate is more than a memcached can answer.
	maxSweepRate = 10_000_000
	// maxSample still logs some requests per day at a million requests per second.
	maxSample = 1_000_000_000
	// maxTime is longer than any useful timeout.
	maxTime = time.Hour
)

const (
	logAuto = "auto"
	// LogText and LogJSON are values of LogFormat; the third, "auto", chooses between them.
	LogText = "text"
	LogJSON = "json"
)

// wordSystem means the system's name servers.
const wordSystem = "system"

var logLevels = []string{"debug", "info", "warn", "error"}

// Options is the table of all options, in the order of the documentation.
var Options = []*Option{
	{
		Name: "listen", Short: "l", Default: "127.0.0.1", Group: groupClients,
		kind: addresses{
			field: func(c *Config) *[]string { return &c.Listen }, forms: "host, host:port, [ipv6]:port or unix:/path",
			check: parseListen,
		},
		Help: "addresses to listen on for clients; without a port, listen-port is used; with tls-cert, TCP addresses " +
			"use TLS unless prefixed with notls:",
	},
	{
		Name: "listen-port", Short: "p", Default: "11311", Group: groupClients,
		kind: count{field: func(c *Config) *int { return &c.ListenPort }, min: 0, max: 65535},
		Help: "port of listen addresses that have none; 0 picks a free port",
	},
	{
		Name: "announce", Default: "none", Group: groupClients,
		kind: addresses{
			field: func(c *Config) *[]string { return &c.Announce }, forms: "host:port or [ipv6]:port, or none",
			off: "none", check: checkAnnounced,
		},
		Help: "addresses that `config get cluster` tells clients, of all instances or their load balancer; none: the " +
			"one the client reached",
	},
	{
		Name: "max-connections", Default: "unlimited", Group: groupClients,
		kind: count{field: func(c *Config) *int { return &c.MaxConnections }, min: 1, max: 1 << 20, word: "unlimited"},
		Help: "maximum number of client connections; further ones get a SERVER_ERROR and are closed; unlimited means " +
			"as many as the limit on open files allows",
	},
	{
		Name: "idle-timeout", Default: formatDuration(0), Group: groupClients,
		kind: duration{func(c *Config) *time.Duration { return &c.IdleTimeout }, 0, 24 * maxTime},
		Help: "close a client connection after this time without a request; 0s: never",
	},
	{
		Name: "max-connection-age", Default: formatDuration(0), Group: groupClients,
		kind: duration{func(c *Config) *time.Duration { return &c.MaxAge }, 0, 24 * maxTime},
		Help: "maximum age of a client connection: it is closed between requests, at a random age from half of this " +
			"to all of this, so that clients also connect to mcmw instances added later; 0s: never",
	},
	{
		Name: "min-rate", Default: formatSize(middleware.DefaultMinRate), Group: groupClients,
		kind: size{func(c *Config) *int { return &c.MinRate }, 1, 1 << 30},
		Help: "minimum rate, in bytes per second, at which a client must send a request larger than 16k or one that " +
			"takes longer than idle-timeout; a client that is slower for 10s, or for 2s while others wait for " +
			"client-memory, is disconnected",
	},
	{
		Name: "max-output", Default: formatSize(middleware.DefaultMaxOutput), Group: groupClients,
		kind: size{func(c *Config) *int { return &c.MaxOutput }, 1 << 10, 16 << 30},
		Help: "maximum size of the replies waiting to be read by one client; beyond that the client is disconnected",
	},
	{
		Name: "write-timeout", Default: formatDuration(middleware.DefaultWriteTimeout), Group: groupClients,
		kind: duration{func(c *Config) *time.Duration { return &c.WriteTimeout }, time.Millisecond, maxTime},
		Help: "maximum time for a client to read 64 KiB of the replies waiting for it, or all of them if they are " +
			"smaller; a slower client is disconnected",
	},
	{
		Name: "client-memory", Default: formatSize(middleware.DefaultClientMemory), Group: groupClients,
		kind: size{func(c *Config) *int { return &c.ClientMemory }, 1 << 20, 1 << 40},
		Help: "maximum memory, over all clients, for requests larger than 16k, and the same amount for replies that " +
			"clients have not read",
	},

	{
		Name: optionServers, Short: "m", Group: groupServers, PerPool: true, kind: servers{},
		Help: "memcached servers, in order; after -m and the first of them, more may follow as arguments",
	},
	{
		Name: optionPools, Group: groupServers, kind: poolsKind{},
		Help: "several pools of servers, each with options of its own",
	},
	{
		Name: optionRoutes, Group: groupServers, kind: routesKind{},
		Help: "which pool a key belongs to, by the longest prefix of the key that has a route",
	},
	{
		Name: optionShadows, Group: groupServers, kind: shadowsKind{},
		Help: "pools that receive copies of another pool's requests, for a share of the keys",
	},
	{
		Name: optionMigrations, Group: groupServers, kind: migrationsKind{},
		Help: "keys that move from one pool to another between two points in time, and pools or servers that are " +
			"warmed up",
	},
	{
		Name: "replicas", Default: "all", Group: groupServers, PerPool: true,
		kind: count{
			field: func(c *Config) *int { return &c.Placement.Replicas }, min: 1, max: maxReplicas,
			word: "all",
		},
		Help: "number of servers that hold each key; 1 shards the keys, all replicates every key to every server",
	},
	{
		Name: "read", Default: route.ReadDefault.String(), Group: groupServers, PerPool: true,
		kind: named(route.ReadPolicyNames, func(c *Config) *route.ReadPolicy { return &c.Placement.Read }),
		Help: "which replica serves a read; default is round-robin with replicas all, primary otherwise; nearest is " +
			"round-robin among the replicas in zone, or among all if none in zone can be read",
	},
	{
		Name: "zone", Default: "none", Group: groupServers,
		kind: text{
			field: func(c *Config) *string { return &c.Placement.Zone }, name: "ZONE", what: labelWords, off: "none",
			form:  labelForm,
			check: func(s string) error { return checkLabel(s, "is not a zone") },
		},
		Help: "zone of this mcmw, for read nearest",
	},
	{
		Name: "ack", Default: replica.AckLive.String(), Group: groupServers, PerPool: true,
		kind: named(replica.AckNames, func(c *Config) *replica.Ack { return &c.Ack }),
		Help: "how many replicas must agree on the answer to a write before the client gets it; live is every " +
			"replica that answers, while no mcmw instance reads the others",
	},
	{
		Name: "writers", Default: middleware.WritersAuto.String(), Group: groupServers, PerPool: true,
		kind: named(middleware.WritersNames, func(c *Config) *middleware.Writers { return &c.Writers }),
		Help: "how many mcmw instances write to these servers: one, or several, which keep the replicas equal and " +
			"need memcached 1.6.27; auto is several if the servers support it",
	},
	{
		Name: "change-step", Default: formatDuration(middleware.DefaultChangeStep), Group: groupServers,
		kind: duration{func(c *Config) *time.Duration { return &c.ChangeStep }, 0, maxTime},
		Help: "least length of each of the two phases in which keys move when the servers change, the first a " +
			"timeout longer; must exceed the time between the first and the last mcmw instance learning of the new " +
			"list; with 0s, or with writers one, keys move at once",
	},
	{
		Name: "get-error", Default: "error", Group: groupServers,
		kind: either("error", "miss", func(c *Config) *bool { return &c.GetErrorMiss }),
		Help: "what a client gets for a read that no server could answer: a SERVER_ERROR that names a server, or a " +
			"miss",
	},
	{
		Name: "ready", Default: middleware.ReadyKeys.String(), Group: groupServers,
		kind: named(middleware.ReadyNames, func(c *Config) *middleware.Ready { return &c.Ready }),
		Help: "which servers must have been up once before /readyz answers 200: keys means one server for every key; " +
			"clients are served before that, too",
	},
	{
		Name: "failure-limit", Default: strconv.Itoa(middleware.DefaultFailureLimit), Group: groupServers,
		PerPool: true,
		kind:    count{field: func(c *Config) *int { return &c.FailureLimit }, min: 1, max: 1000},
		Help: "number of consecutive failures after which a server is down: requests to it fail immediately, and " +
			"it is probed until it answers",
	},
	{
		Name: "rejoin", Default: backend.RejoinInvalidate.String(), Group: groupServers,
		kind: named(backend.RejoinNames, func(c *Config) *backend.Rejoin { return &c.Rejoin }),
		Help: "what happens before a server that missed writes serves reads again: invalidate deletes those keys on " +
			"it, flush empties it, trust does nothing",
	},
	{
		Name: "missed-memory", Default: formatSize(middleware.DefaultMissedMemory), Group: groupServers,
		kind: size{func(c *Config) *int { return &c.MissedMemory }, 1 << 10, 16 << 30},
		Help: "maximum memory per server for the keys whose writes it missed; a server that missed more is flushed",
	},
	{
		Name: "sweep-every", Default: formatDuration(middleware.DefaultSweepEvery), Group: groupServers,
		kind: duration{func(c *Config) *time.Duration { return &c.SweepEvery }, 0, 24 * maxTime},
		Help: "interval at which one of the mcmw instances compares the replicas; with 0s, or with writers one, they " +
			"are compared only when mcmw starts after it was killed",
	},
	{
		Name: "sweep-rate", Default: strconv.Itoa(sweep.DefaultRate), Group: groupServers,
		kind: count{field: func(c *Config) *int { return &c.SweepRate }, min: 1, max: maxSweepRate},
		Help: "maximum number of keys compared per second; where values are compared, 4 KiB of them count as a key",
	},
	{
		Name: "sharded", Short: "s", Default: "false", Group: groupServers,
		kind: toggle{func(c *Config) *bool { return &c.Sharded }},
		Help: "split a multi-get over all servers that hold its keys",
	},
	{
		Name: "ring", Default: route.RingRendezvous.String(), Group: groupServers, PerPool: true,
		kind: named(route.RingNames, func(c *Config) *route.RingKind { return &c.Placement.Ring }),
		Help: "how keys are placed on the servers: evenly by rendezvous hashing, or on the ketama ring of another " +
			"program",
	},
	{
		Name: "hash", Default: route.HashDefault.String(), Group: groupServers, PerPool: true,
		kind: named(route.HashNames, func(c *Config) *route.HashKind { return &c.Placement.Hash }),
		Help: "hash function for keys; default is fnv1a_64 on a ketama ring and XXH64 with ring rendezvous",
	},
	{
		Name: "hash-tag", Default: "none", Group: groupServers, PerPool: true,
		kind: text{
			field: func(c *Config) *string { return &c.Placement.HashTag }, name: "XY",
			what: "two characters such as {}", off: "none", form: "..",
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
		Name: optionGutter, Group: groupServers, PerPool: true, PoolOnly: true,
		kind: text{
			field: func(c *Config) *string { return &c.Placement.Gutter }, name: "POOL",
			what: "another pool", off: "none", form: labelForm,
			check: func(s string) error { return checkLabel(s, "is not the name of a pool") },
		},
		Help: "pool that serves the keys whose servers are all down",
	},
	{
		Name: optionGutterTTL, Group: groupServers, PerPool: true, PoolOnly: true,
		kind: duration{
			func(c *Config) *time.Duration { return &c.GutterTTL }, time.Second,
			route.MaxGutterTTL * time.Second,
		},
		Help: "maximum lifetime of a value in the gutter, in whole seconds; " + formatDuration(defaultGutterTTL) +
			" if not given",
	},
	{
		Name: "resolve-interval", Default: formatDuration(discover.DefaultInterval), Group: groupServers,
		kind: duration{func(c *Config) *time.Duration { return &c.ResolveInterval }, 100 * time.Millisecond, maxTime},
		Help: "interval at which server names (dns+, srv+, cluster+, and k8s+ that cannot be watched) are looked up " +
			"again, plus or minus 10 %",
	},
	{
		Name: "remove-after", Default: strconv.Itoa(discover.DefaultRemoveAfter), Group: groupServers,
		kind: count{field: func(c *Config) *int { return &c.RemoveAfter }, min: 1, max: 1_000_000, unit: "lookups"},
		Help: "number of consecutive lookups that must not find a server before it is removed",
	},
	{
		Name: "resolver", Default: wordSystem, Group: groupServers,
		kind: text{
			field: func(c *Config) *string { return &c.Resolver }, name: "ADDRESS", what: "ip:port", off: wordSystem,
			form:  ".+:[0-9]+",
			check: parseResolver,
		},
		Help: "DNS server for the names of servers; system means the servers in /etc/resolv.conf",
	},

	{
		Name: "workers", Short: "t", Default: "auto", Group: groupWorkers,
		kind: count{field: func(c *Config) *int { return &c.Workers }, min: 0, max: maxWorkers, word: "auto"},
		Help: "number of workers (with pool per-server, of readers per server); each worker has its own connections " +
			"to the servers",
	},
	{
		Name: "depth", Default: strconv.Itoa(middleware.DefaultDepth), Group: groupWorkers,
		kind: count{field: func(c *Config) *int { return &c.Depth }, min: 1, max: maxDepth, unit: "requests"},
		Help: "maximum number of waiting requests a worker takes and pipelines at a time; 1: one request in service " +
			"per worker",
	},
	{
		Name: "queue", Default: strconv.Itoa(middleware.DefaultQueue), Group: groupWorkers,
		kind: count{field: func(c *Config) *int { return &c.Queue }, min: 1, max: maxQueue, unit: "batches"},
		Help: "capacity of the queue in front of the workers; a batch is the requests from one read of a connection",
	},
	{
		Name: "queue-full", Default: "block", Group: groupWorkers,
		kind: either("block", "shed", func(c *Config) *bool { return &c.Shed }),
		Help: "when the queue is full: block makes the client wait, shed answers each request of the batch with a " +
			"SERVER_ERROR without executing it",
	},
	{
		Name: "pool", Default: middleware.PoolShared.String(), Group: groupWorkers,
		kind: named(middleware.PoolNames, func(c *Config) *middleware.Pool { return &c.Pool }),
		Help: "how workers are organised: shared is one queue for all, per-server a read queue and a write queue for " +
			"each server",
	},

	{
		Name: "timeout", Default: formatDuration(middleware.DefaultTimeout), Group: groupTimes, PerPool: true,
		kind: duration{func(c *Config) *time.Duration { return &c.Timeout }, time.Millisecond, maxTime},
		Help: "maximum time for a request; the servers have at least three quarters of it, however long the request " +
			"was queued",
	},
	{
		Name: "stall-after", Default: formatDuration(middleware.DefaultStallAfter), Group: groupTimes,
		kind: duration{func(c *Config) *time.Duration { return &c.StallAfter }, 0, maxTime},
		Help: "time without a reply after which a server is suspect: requests that do not need it stop waiting for " +
			"it; at most a quarter of timeout; 0s: never",
	},
	{
		Name: "connect-timeout", Default: formatDuration(middleware.DefaultConnectTimeout), Group: groupTimes,
		PerPool: true,
		kind:    duration{func(c *Config) *time.Duration { return &c.ConnectTimeout }, time.Millisecond, maxTime},
		Help:    "maximum time to connect to a server",
	},
	{
		Name: "drain-timeout", Default: formatDuration(middleware.DefaultDrainTimeout), Group: groupTimes,
		kind: duration{func(c *Config) *time.Duration { return &c.DrainTimeout }, time.Millisecond, maxTime},
		Help: "maximum time for requests in flight to finish at shutdown",
	},

	{
		Name: "max-key", Default: formatSize(protocol.DefaultMaxKey), Group: groupLimits,
		kind: size{func(c *Config) *int { return &c.Limits.MaxKey }, 1, protocol.DefaultMaxKey},
		Help: "maximum length of a key; memcached's is 250",
	},
	{
		Name: "max-value", Default: formatSize(protocol.DefaultMaxValue), Group: groupLimits,
		kind: size{func(c *Config) *int { return &c.Limits.MaxValue }, 1 << 10, 1 << 30},
		Help: "maximum size of a value, in requests and in the servers' replies; should equal the servers' -I",
	},
	{
		Name: optionLarge, Default: formatSize(0), Group: groupLimits, PerPool: true,
		kind: size{func(c *Config) *int { return &c.Large.Limit }, 0, 1 << 30},
		Help: "maximum size of a value if values larger than item-size are stored in chunks; 0: off",
	},
	{
		Name: optionItemSize, Default: formatSize(middleware.DefaultItemSize), Group: groupLimits, PerPool: true,
		kind: size{func(c *Config) *int { return &c.Large.Item }, 16 << 10, 1 << 30},
		Help: "the servers' -I; with large-values, values larger than this less 512 bytes are stored in chunks",
	},
	{
		Name: "max-line", Default: formatSize(protocol.DefaultMaxLine), Group: groupLimits,
		kind: size{func(c *Config) *int { return &c.Limits.MaxLine }, 512, 1 << 20},
		Help: "maximum number of bytes without a line end before the connection is closed; get and gets are exempt",
	},
	{
		Name: "max-multiget-line", Default: formatSize(protocol.DefaultMaxMultiGetLine), Group: groupLimits,
		kind: size{func(c *Config) *int { return &c.Limits.MaxMultiGetLine }, 2 << 10, 1 << 30},
		Help: "maximum length of the line of a get or gets",
	},

	{
		Name: "tls-cert", Default: "none", Group: groupSecure,
		kind: file(func(c *Config) *string { return &c.Security.TLS.Cert }),
		Help: "certificate chain (PEM); enables TLS on every TCP listen address without notls:",
	},
	{
		Name: "tls-key", Default: "none", Group: groupSecure,
		kind: file(func(c *Config) *string { return &c.Security.TLS.Key }),
		Help: "private key (PEM) for tls-cert",
	},
	{
		Name: "tls-client-ca", Default: "none", Group: groupSecure,
		kind: file(func(c *Config) *string { return &c.Security.TLS.ClientCA }),
		Help: "certificate authorities (PEM); every client must present a certificate signed by one of them",
	},
	{
		Name: "handshake-timeout", Default: formatDuration(middleware.DefaultHandshakeTimeout), Group: groupSecure,
		kind: duration{
			func(c *Config) *time.Duration { return &c.Security.HandshakeTimeout }, time.Millisecond,
			maxTime,
		},
		Help: "maximum time for a client's TLS handshake; after that the connection is closed",
	},
	{
		Name: "auth-file", Default: "none", Group: groupSecure,
		kind: file(func(c *Config) *string { return &c.Security.AuthFile }),
		Help: "file with lines user:password; clients must authenticate with one of them, as with memcached's " +
			"--auth-file",
	},
	{
		Name: optionServerTLS, Default: "false", Group: groupSecure, PerPool: true,
		kind: toggle{func(c *Config) *bool { return &c.Security.ServerTLS }},
		Help: "connect to the servers with TLS (except over unix sockets)",
	},
	{
		Name: "server-tls-ca", Default: "none", Group: groupSecure,
		kind: file(func(c *Config) *string { return &c.Security.ServerFiles.CA }),
		Help: "certificate authorities (PEM) for the servers' certificates; none: those of the system",
	},
	{
		Name: "server-tls-cert", Default: "none", Group: groupSecure,
		kind: file(func(c *Config) *string { return &c.Security.ServerFiles.Cert }),
		Help: "client certificate (PEM) for servers that request one",
	},
	{
		Name: "server-tls-key", Default: "none", Group: groupSecure,
		kind: file(func(c *Config) *string { return &c.Security.ServerFiles.Key }),
		Help: "private key (PEM) for server-tls-cert",
	},
	{
		Name: "server-tls-name", Default: "none", Group: groupSecure,
		kind: text{
			field: func(c *Config) *string { return &c.Security.ServerFiles.Name }, name: "HOST",
			what: "a host name or an IP address", off: "none",
			check: checkServerTLSName,
		},
		Help: "host name that the servers' certificates must be valid for; none: the host in each server's address",
	},
	{
		Name: optionServerAuth, Default: "none", Group: groupSecure, PerPool: true,
		kind: file(func(c *Config) *string { return &c.Security.ServerAuthFile }),
		Help: "file with one line user:password, with which mcmw authenticates to the servers",
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
		Name: "stats-file", Default: "none", Group: groupProcess,
		kind: file(func(c *Config) *string { return &c.StatsFile }),
		Help: "file to which the statistics log is appended: JSON lines, one per window and a summary at the end",
	},
	{
		Name: "stats-window", Default: formatDuration(5 * time.Second), Group: groupProcess,
		kind: duration{func(c *Config) *time.Duration { return &c.StatsWindow }, 100 * time.Millisecond, maxTime},
		Help: "length of a window of the statistics log",
	},
	{
		Name: "sample", Default: fractionOff, Group: groupProcess,
		kind: fraction{func(c *Config) *int { return &c.Sample }, maxSample},
		Help: "log one of every N requests of each worker, with its timestamps",
	},
	{
		Name: "slow", Default: formatDuration(0), Group: groupProcess,
		kind: duration{func(c *Config) *time.Duration { return &c.Slow }, 0, maxTime},
		Help: "log requests whose response time is at least this; 0s: none",
	},
	{
		Name: "request-log", Default: "none", Group: groupProcess,
		kind: file(func(c *Config) *string { return &c.RequestLog }),
		Help: "file to which logged requests are appended as JSON lines; none: they go to the log",
	},
	{
		Name: "log-keys", Default: "false", Group: groupProcess,
		kind: toggle{func(c *Config) *bool { return &c.LogKeys }},
		Help: "show keys: the first key of each logged request, and the names of hot keys",
	},
	{
		Name: "hot-keys", Default: hotkeys.Detect.String(), Group: groupProcess,
		kind: named(hotkeys.ModeNames, func(c *Config) *hotkeys.Mode { return &c.HotKeys }),
		Help: "detect: find, by sampling, the keys that are requested most; their names are shown only with " +
			"log-keys; serve: also answer gets of them from memory",
	},
	{
		Name: "hot-age", Default: formatDuration(middleware.DefaultHotAge), Group: groupProcess,
		kind: duration{func(c *Config) *time.Duration { return &c.HotAge }, time.Millisecond, hotkeys.MaxAge},
		Help: "maximum age of a value that hot-keys serve answers from memory, unless writers is one",
	},
	{
		Name: "hot-memory", Default: formatSize(middleware.DefaultHotMemory), Group: groupProcess,
		kind: size{func(c *Config) *int { return &c.HotMemory }, 1 << 20, 1 << 40},
		Help: "maximum memory for the values of hot-keys serve",
	},
	{
		Name: "log-level", Default: "info", Group: groupProcess,
		kind: choice{
			words:  logLevels,
			choose: func(c *Config, w string) { _ = c.LogLevel.UnmarshalText([]byte(w)) },
			chosen: func(c *Config) string { return strings.ToLower(c.LogLevel.String()) },
		},
		Help: "minimum level of log messages",
	},
	{
		Name: "log-format", Default: logAuto, Group: groupProcess,
		kind: choice{
			words:  []string{logAuto, LogText, LogJSON},
			choose: func(c *Config, w string) { c.LogFormat = w },
			chosen: func(c *Config) string { return c.LogFormat },
		},
		Help: "format of the log; auto is text on a terminal and JSON otherwise",
	},
	{
		Name: "procs", Default: "auto", Group: groupProcess,
		kind: count{field: func(c *Config) *int { return &c.Procs }, min: 0, max: 1024, word: "auto"},
		Help: "number of processors to use (GOMAXPROCS); auto is half of those available",
	},
	{
		Name: "watch-interval", Default: formatDuration(time.Second), Group: groupProcess,
		kind: duration{func(c *Config) *time.Duration { return &c.WatchInterval }, 0, maxTime},
		Help: "interval at which the configuration file is checked for changes and reloaded; 0s: reload at SIGHUP only",
	},
	{
		Name: optionConfig, Default: "none", Group: groupProcess,
		kind: file(func(c *Config) *string { return &c.File }),
		Help: "YAML file to read options from",
	},
}

const optionServers = "servers"

// optionConfig is the only option that cannot be set in the file.
const optionConfig = "config"
