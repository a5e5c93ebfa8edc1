package config

import (
	"fmt"
	"log/slog"
	"slices"
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

var logFormats = []string{logAuto, LogText, LogJSON}

// wordSystem means the system's name servers.
const wordSystem = "system"

// Options is the table of all options, in the order of the documentation.
var Options = slices.Concat(clientsOptions, serversOptions, workersOptions, timesOptions,
	limitsOptions, secureOptions, processOptions)

var clientsOptions = in("Clients",
	opt("listen", "127.0.0.1", local,
		addresses(&at.Listen, "host, host:port, [ipv6]:port or unix:/path", "", parseListen),
		"addresses to listen on for clients; without a port, listen-port is used; with tls-cert, TCP addresses use "+
			"TLS unless prefixed with notls:").letter("l"),
	opt("listen-port", "11311", local, count(&at.ListenPort, 0, 65535, "", ""),
		"port of listen addresses that have none; 0 picks a free port").letter("p"),
	opt("unix-mask", "0700", local, mode(&at.UnixMask),
		"mode of the unix sockets: who may connect").letter("a"),
	opt("announce", "none", local, addresses(&at.Announce, "host:port or [ipv6]:port, or none", "none", checkAnnounced),
		"addresses that `config get cluster` tells clients, of all instances or their load balancer; none: the one "+
			"the client reached"),
	opt("max-connections", "unlimited", 0, count(&at.MaxConnections, 1, 1<<20, "unlimited", ""),
		"maximum number of client connections; further ones get a SERVER_ERROR and are closed; unlimited means as "+
			"many as the limit on open files allows"),
	opt("idle-timeout", "0s", 0, duration(&at.IdleTimeout, 0, 24*maxTime),
		"close a client connection after this time without a request; 0s: never"),
	opt("max-connection-age", "0s", 0, duration(&at.MaxAge, 0, 24*maxTime),
		"maximum age of a client connection: it is closed between requests, at a random age from half of this to "+
			"all of this, so that clients also connect to mcmw instances added later; 0s: never"),
	opt("min-rate", middleware.DefaultMinRate, 0, size(&at.MinRate, 1, 1<<30),
		"minimum rate, in bytes per second, at which a client must send a request larger than 16k or one that takes "+
			"longer than idle-timeout; a client that is slower for 10s, or for 2s while others wait for "+
			"client-memory, is disconnected"),
	opt("max-output", middleware.DefaultMaxOutput, 0, size(&at.MaxOutput, 1<<10, 16<<30),
		"maximum size of the replies waiting to be read by one client; beyond that the client is disconnected"),
	opt("write-timeout", middleware.DefaultWriteTimeout, 0, duration(&at.WriteTimeout, time.Millisecond, maxTime),
		"maximum time for a client to read 64 KiB of the replies waiting for it, or all of them if they are "+
			"smaller; a slower client is disconnected"),
	opt("client-memory", middleware.DefaultClientMemory, 0, size(&at.ClientMemory, 1<<20, 1<<40),
		"maximum memory, over all clients, for requests larger than 16k, and the same amount for replies that "+
			"clients have not read"),
)

var serversOptions = in("Servers and placement",
	opt(optionServers, nil, perPool|live, servers,
		"memcached servers, in order; after -m and the first of them, more may follow as arguments").letter("m"),
	opt(optionPools, nil, live, poolsKind,
		"several pools of servers, each with options of its own"),
	opt(optionRoutes, nil, live, routesKind,
		"which pool a key belongs to, by the longest prefix of the key that has a route"),
	opt(optionShadows, nil, live, shadowsKind,
		"pools that receive copies of another pool's requests, for a share of the keys"),
	opt(optionMigrations, nil, live, migrationsKind,
		"keys that move from one pool to another between two points in time, and pools or servers that are warmed "+
			"up"),
	opt("replicas", "all", perPool|live, count(&at.Placement.Replicas, 1, maxReplicas, "all", ""),
		"number of servers that hold each key; 1 shards the keys, all replicates every key to every server"),
	opt("read", route.ReadDefault, perPool|live, named(route.ReadPolicyNames, &at.Placement.Read),
		"which replica serves a read; default is round-robin with replicas all, primary otherwise; nearest is "+
			"round-robin among the replicas in zone, or among all if none in zone can be read"),
	opt("zone", "none", local,
		text(&at.Placement.Zone, "ZONE", labelWords, "none", labelForm, isLabel("is not a zone")),
		"zone of this mcmw, for read nearest"),
	opt("ack", replica.AckLive, perPool|live, named(replica.AckNames, &at.Ack),
		"how many replicas must agree on the answer to a write before the client gets it; live is every replica "+
			"that answers, while no mcmw instance reads the others"),
	opt("writers", middleware.WritersAuto, perPool|live, named(middleware.WritersNames, &at.Writers),
		"how many mcmw instances write to these servers: one, or several, which keep the replicas equal and need "+
			"memcached 1.6.27; auto is several if the servers support it"),
	opt("change-step", middleware.DefaultChangeStep, live, duration(&at.ChangeStep, 0, maxTime),
		"least length of each of the two phases in which keys move when the servers change, the first a timeout "+
			"longer; must exceed the time between the first and the last mcmw instance learning of the new list; "+
			"with 0s, or with writers one, keys move at once"),
	opt("get-error", "error", live, choice(&at.GetErrorMiss, []string{"error", "miss"}, []bool{false, true}),
		"what a client gets for a read that no server could answer: a SERVER_ERROR that names a server, or a miss"),
	opt("ready", middleware.ReadyKeys, 0, named(middleware.ReadyNames, &at.Ready),
		"which servers must have been up once before /readyz answers 200: keys means one server for every key; "+
			"clients are served before that, too"),
	opt("failure-limit", middleware.DefaultFailureLimit, perPool|live, count(&at.FailureLimit, 1, 1000, "", ""),
		"number of consecutive failures after which a server is down: requests to it fail immediately, and it is "+
			"probed until it answers"),
	opt("rejoin", backend.RejoinInvalidate, live, named(backend.RejoinNames, &at.Rejoin),
		"what happens before a server that missed writes serves reads again: invalidate deletes those keys on it, "+
			"flush empties it, trust does nothing"),
	opt("missed-memory", middleware.DefaultMissedMemory, live, size(&at.MissedMemory, 1<<10, 16<<30),
		"maximum memory per server for the keys whose writes it missed; a server that missed more is flushed"),
	opt("sweep-every", middleware.DefaultSweepEvery, live, duration(&at.SweepEvery, 0, 24*maxTime),
		"interval at which one of the mcmw instances compares the replicas; with 0s, or with writers one, they are "+
			"compared only when mcmw starts after it was killed"),
	opt("sweep-rate", sweep.DefaultRate, live, count(&at.SweepRate, 1, maxSweepRate, "", ""),
		"maximum number of keys compared per second; where values are compared, 4 KiB of them count as a key"),
	opt("refill-rate", sweep.DefaultRate, live, count(&at.RefillRate, 0, maxSweepRate, "", ""),
		"maximum number of keys looked at per second to refill a server that returned without its keys, or to copy "+
			"keys that move; 4 KiB of values count as a key; with 0 neither is done"),
	opt("sharded", "false", live, toggle(&at.Sharded),
		"split a multi-get over all servers that hold its keys").letter("s"),
	opt("ring", route.RingRendezvous, perPool|live, named(route.RingNames, &at.Placement.Ring),
		"how keys are placed on the servers: evenly by rendezvous hashing, or on the ketama ring of another program"),
	opt("hash", route.HashDefault, perPool|live, named(route.HashNames, &at.Placement.Hash),
		"hash function for keys; default is fnv1a_64 on a ketama ring and XXH64 with ring rendezvous"),
	opt("hash-tag", "none", perPool|live,
		text(&at.Placement.HashTag, "XY", "two characters such as {}", "none", "..", checkHashTag),
		"hash only the part of a key between these two characters"),
	opt(optionGutter, nil, poolOnly|perPool,
		text(&at.Placement.Gutter, "POOL", "another pool", "none", labelForm, isLabel("is not the name of a pool")),
		"pool that serves the keys whose servers are all down"),
	opt(optionGutterTTL, nil, poolOnly|perPool, duration(&at.GutterTTL, time.Second, route.MaxGutterTTL*time.Second),
		"maximum lifetime of a value in the gutter, in whole seconds; "+formatDuration(defaultGutterTTL)+" if "+
			"not given"),
	opt(optionFollow, nil, poolOnly|perPool, followKind,
		"pools in which the keys that are written in this one are deleted, or copied, later"),
	opt("follow-memory", middleware.DefaultMissedMemory, poolOnly|perPool, size(&at.FollowMemory, 1<<10, 16<<30),
		"maximum memory for the keys owed to a server of a following pool; with more, it is in doubt"),
	opt("holds", "false", perPool|live, toggle(&at.Holds),
		"add, cas and the like do not bring back a key whose delete holds"),
	opt("resolve-interval", discover.DefaultInterval, live,
		duration(&at.ResolveInterval, 100*time.Millisecond, maxTime),
		"interval at which server names (dns+, srv+, cluster+, and k8s+ that cannot be watched) are looked up "+
			"again, plus or minus 10 %"),
	opt("remove-after", discover.DefaultRemoveAfter, live, count(&at.RemoveAfter, 1, 1_000_000, "", "lookups"),
		"number of consecutive lookups that must not find a server before it is removed"),
	opt("resolver", wordSystem, live, text(&at.Resolver, "ADDRESS", "ip:port", wordSystem, ".+:[0-9]+", parseResolver),
		"DNS server for the names of servers; system means the servers in /etc/resolv.conf"),
)

var workersOptions = in("Queue and workers",
	opt("workers", "auto", live, count(&at.Workers, 0, maxWorkers, "auto", ""),
		"number of workers (with pool per-server, of readers per server); each worker has its own connections to "+
			"the servers").letter("t"),
	opt("depth", middleware.DefaultDepth, live, count(&at.Depth, 1, maxDepth, "", "requests"),
		"maximum number of waiting requests a worker takes and pipelines at a time; 1: one request in service per "+
			"worker"),
	opt("queue", middleware.DefaultQueue, live, count(&at.Queue, 1, maxQueue, "", "batches"),
		"capacity of the queue in front of the workers; a batch is the requests from one read of a connection"),
	opt("queue-full", "block", 0, choice(&at.Shed, []string{"block", "shed"}, []bool{false, true}),
		"when the queue is full: block makes the client wait, shed answers each request of the batch with a "+
			"SERVER_ERROR without executing it"),
	opt("pool", middleware.WorkersShared, live, named(middleware.WorkerPoolNames, &at.WorkerPool),
		"how workers are organised: shared is one queue for all, per-server a read queue and a write queue for each "+
			"server"),
)

var timesOptions = in("Timeouts",
	opt("timeout", middleware.DefaultTimeout, perPool|live, duration(&at.Timeout, time.Millisecond, maxTime),
		"maximum time for a request; the servers have at least three quarters of it, however long the request was "+
			"queued"),
	opt("stall-after", middleware.DefaultStallAfter, live, duration(&at.StallAfter, 0, maxTime),
		"time without a reply after which a server is suspect: requests that do not need it stop waiting for it; at "+
			"most a quarter of timeout; 0s: never"),
	opt("connect-timeout", middleware.DefaultConnectTimeout, perPool|live,
		duration(&at.ConnectTimeout, time.Millisecond, maxTime),
		"maximum time to connect to a server"),
	opt("drain-timeout", middleware.DefaultDrainTimeout, live, duration(&at.DrainTimeout, time.Millisecond, maxTime),
		"maximum time for requests in flight to finish at shutdown"),
)

var limitsOptions = in("Limits",
	opt("max-key", protocol.DefaultMaxKey, 0, size(&at.Limits.MaxKey, 1, protocol.DefaultMaxKey),
		"maximum length of a key; memcached's is 250"),
	opt("max-value", protocol.DefaultMaxValue, 0, size(&at.Limits.MaxValue, 1<<10, 1<<30),
		"maximum size of a value, in requests and in the servers' replies; should equal the servers' -I"),
	opt(optionLarge, 0, perPool|live, size(&at.Large.Limit, 0, 1<<30),
		"maximum size of a value if values larger than item-size are stored in chunks; 0: off"),
	opt(optionItemSize, middleware.DefaultItemSize, perPool|live, size(&at.Large.Item, 16<<10, 1<<30),
		"the servers' -I; with large-values, values larger than this less 512 bytes are stored in chunks"),
	opt("max-line", protocol.DefaultMaxLine, 0, size(&at.Limits.MaxLine, 512, 1<<20),
		"maximum number of bytes without a line end before the connection is closed; get and gets are exempt"),
	opt("max-multiget-line", protocol.DefaultMaxMultiGetLine, 0, size(&at.Limits.MaxMultiGetLine, 2<<10, 1<<30),
		"maximum length of the line of a get or gets"),
)

var secureOptions = in("TLS and authentication",
	opt("tls-cert", "none", 0, file(&at.Security.TLS.Cert),
		"certificate chain (PEM); enables TLS on every TCP listen address without notls:"),
	opt("tls-key", "none", 0, file(&at.Security.TLS.Key),
		"private key (PEM) for tls-cert"),
	opt("tls-client-ca", "none", 0, file(&at.Security.TLS.ClientCA),
		"certificate authorities (PEM); every client must present a certificate signed by one of them"),
	opt("handshake-timeout", middleware.DefaultHandshakeTimeout, 0,
		duration(&at.Security.HandshakeTimeout, time.Millisecond, maxTime),
		"maximum time for a client's TLS handshake; after that the connection is closed"),
	opt("auth-file", "none", 0, file(&at.Security.AuthFile),
		"file with lines user:password; clients must authenticate with one of them, as with memcached's --auth-file; "+
			"after a blank, the prefixes of the user's keys may follow"),
	opt(optionServerTLS, "false", perPool, toggle(&at.Security.ServerTLS),
		"connect to the servers with TLS (except over unix sockets)"),
	opt("server-tls-ca", "none", 0, file(&at.Security.ServerFiles.CA),
		"certificate authorities (PEM) for the servers' certificates; none: those of the system"),
	opt("server-tls-cert", "none", 0, file(&at.Security.ServerFiles.Cert),
		"client certificate (PEM) for servers that request one"),
	opt("server-tls-key", "none", 0, file(&at.Security.ServerFiles.Key),
		"private key (PEM) for server-tls-cert"),
	opt("server-tls-name", "none", 0,
		text(&at.Security.ServerFiles.Name, "HOST", "a host name or an IP address", "none", "", checkServerTLSName),
		"host name that the servers' certificates must be valid for; none: the host in each server's address"),
	opt(optionServerAuth, "none", perPool, file(&at.Security.ServerAuthFile),
		"file with one line user:password, with which mcmw authenticates to the servers"),
)

var processOptions = in("Process, logs and administration",
	opt("admin", "127.0.0.1:9150", local, text(&at.Admin, "ADDRESS", "host:port", "off", "", parseAdmin),
		"address of the admin server: /livez, /readyz, /metrics and the live page"),
	opt("stats-file", "none", local, file(&at.StatsFile),
		"file to which the statistics log is appended: JSON lines, one per window and a summary at the end"),
	opt("stats-window", 5*time.Second, local, duration(&at.StatsWindow, 100*time.Millisecond, maxTime),
		"length of a window of the statistics log"),
	opt("sample", fractionOff, local, fraction(&at.Sample, maxSample),
		"log one of every N requests of each worker, with its timestamps"),
	opt("slow", "0s", local, duration(&at.Slow, 0, maxTime),
		"log requests whose response time is at least this; 0s: none"),
	opt("request-log", "none", local, file(&at.RequestLog),
		"file to which logged requests are appended as JSON lines; none: they go to the log"),
	opt("log-keys", "false", local, toggle(&at.LogKeys),
		"show keys: the first key of each logged request, and the names of hot keys"),
	opt("hot-keys", hotkeys.Detect, local, named(hotkeys.ModeNames, &at.HotKeys),
		"detect: find, by sampling, the keys that are requested most; their names are shown only with log-keys; "+
			"serve: also answer gets of them from memory"),
	opt("prefixes", "none", local, text(&at.Prefixes, "DELIMITER", "1 to 16 characters", "none", "", checkDelimiter),
		"count the use of the cache by the prefixes of keys up to this delimiter, such as :"),
	opt("hot-age", middleware.DefaultHotAge, local, duration(&at.HotAge, time.Millisecond, hotkeys.MaxAge),
		"maximum age of a value that hot-keys serve answers from memory, unless writers is one"),
	opt("hot-memory", middleware.DefaultHotMemory, local, size(&at.HotMemory, 1<<20, 1<<40),
		"maximum memory for the values of hot-keys serve"),
	opt("log-level", "info", live|local,
		choice(&at.LogLevel, []string{"debug", "info", "warn", "error"},
			[]slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}),
		"minimum level of log messages"),
	opt("log-format", logAuto, local,
		choice(&at.LogFormat, logFormats, logFormats),
		"format of the log; auto is text on a terminal and JSON otherwise"),
	opt("procs", "auto", local, count(&at.Procs, 0, 1024, "auto", ""),
		"number of processors to use (GOMAXPROCS); auto is half of those available"),
	opt("watch-interval", time.Second, live|local, duration(&at.WatchInterval, 0, maxTime),
		"interval at which the configuration file is checked for changes and reloaded; 0s: reload at SIGHUP only"),
	opt(optionConfig, "none", 0, file(&at.File),
		"YAML file to read options from"),
)

// checkDelimiter accepts what may end a prefix of a key.
func checkDelimiter(s string) error {
	if len(s) > 16 {
		return fmt.Errorf("has %d bytes", len(s))
	}
	return nil
}

// checkHashTag accepts the two characters around the part of a key that is hashed.
func checkHashTag(s string) error {
	if len(s) != 2 {
		return fmt.Errorf("has %d bytes", len(s))
	}
	return nil
}

const optionServers = "servers"

// optionConfig is the only option that cannot be set in the file.
const optionConfig = "config"
