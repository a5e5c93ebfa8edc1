package middleware

import (
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mcmw/internal/backend"
	"mcmw/internal/hotkeys"
	"mcmw/internal/netstage"
	"mcmw/internal/plan"
	"mcmw/internal/protocol"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/stats"
	"mcmw/internal/worker"
)

// Options are all settings of a Middleware. The zero value of a field means what its comment says.
type Options struct {
	// Listen are the addresses for clients: "host:port" (port 0: any free one) or "unix:/path". At least one. With
	// Security.TLS a TCP address speaks TLS unless "notls:" precedes it.
	Listen []string
	// UnixMask is the mode of the unix sockets in Listen: who may write there may connect. 0: as the process's umask
	// says.
	UnixMask fs.FileMode
	// Servers are the memcached servers, in order, if Pools is empty. They are one pool without a name then, with
	// Placement, Writers, Ack, ServerOptions, Timeout, Policy, and the settings for servers in Security.
	Servers []route.Server
	// Placement is the number of replicas and the hashing; see route.Options.
	Placement route.Options
	// Pools are the pools, each with settings of its own. Several have names, and Routes map keys to them.
	Pools  []PoolOptions
	Routes route.Routes
	// Shadows are pools that get copies of the requests of other pools.
	Shadows []ShadowOptions
	// Follows are pools that follow other pools.
	Follows []FollowOptions
	// Migrations move the keys of pools to other pools.
	Migrations []Migration
	// WorkerPool says how the workers are organised.
	WorkerPool WorkerPool
	// Writers says whether other middlewares write the same servers.
	Writers Writers
	// ChangeStep is how long each phase of a change of placement lasts. It must exceed the time between the first and
	// the last middleware that learns of a new list of servers. With 0, or with one writer, a new placement applies at
	// once.
	ChangeStep time.Duration
	// Workers is the number of workers, with WorkersPerServer that of each server's readers; 0 means DefaultWorkers().
	Workers int
	// Queue is the capacity of each bounded queue, in batches (all requests that one read of a connection brought);
	// 0 means DefaultQueue.
	Queue int
	// Ready says which servers must be up before the middleware is ready.
	Ready Ready
	// DrainTimeout is how long Run waits for requests in flight after its context is done; 0 means DefaultDrainTimeout.
	DrainTimeout time.Duration
	// SweepEvery is the time between two comparisons of the replicas, by any of the middlewares in front of the
	// servers. With 0, or with one writer, they are compared only after a middleware was killed.
	SweepEvery time.Duration
	// SweepRate is the largest number of keys compared per second; 0 means sweep.DefaultRate.
	SweepRate int
	// RefillRate is the largest number of keys looked at per second when a server that lacks keys is refilled from the
	// other holders, or when keys that move are copied; 0: neither is done.
	RefillRate int
	// ClientOptions are about clients. The zero values mean: MaxConnections, as many as the limit on open files allows;
	// IdleTimeout and MaxAge, never; MinRate, MaxOutput, WriteTimeout and ClientMemory, the defaults below; Limits,
	// memcached's. MinRate below 0: any rate.
	netstage.ClientOptions
	// ServerOptions are about servers. Zero values mean the defaults below.
	backend.ServerOptions
	// RequestOptions are about serving requests. The zero values of Depth, Timeout and StallAfter mean the defaults
	// below. StallAfter below 0 means never; at most a quarter of the shortest Timeout is used.
	worker.RequestOptions
	// Policy is about the requests of a pool. The zero values in Large mean: Limit, the size of the servers' items;
	// Item, DefaultItemSize.
	plan.Policy
	// Security is about TLS and passwords.
	Security Security
	// Control has the state of the configuration that `stats` reports; nil: it is not reported.
	Control *stats.Control
	// Version is the version in `stats`.
	Version string
	// HotKeys says whether the keys that are asked for most are counted, and whether they are served from memory.
	HotKeys hotkeys.Mode
	// Prefixes is the delimiter that ends a key's prefix, by which the use of the cache is counted; "": it is not.
	Prefixes string
	// HotAge is the greatest age of a value that is served from memory, up to hotkeys.MaxAge. It is ignored if this
	// middleware alone writes the servers.
	HotAge time.Duration
	// HotMemory is the most memory that such values may use, bytes.
	HotMemory int
	// Tap receives the requests for the request log; nil: there is no such log.
	Tap *stats.Tap
	// Log receives messages for operators; nil discards them.
	Log *slog.Logger

	copies bool // they are those of a shadow, whose servers hold copies
}

// PoolOptions are the settings of one of several pools. The zero value of a field means what it means in Options.
type PoolOptions struct {
	route.Pool
	Ack     replica.Ack
	Writers Writers
	// Timeout is RequestOptions.Timeout for the pool; 0 means that of Options.
	Timeout time.Duration
	plan.Policy
	// ServerTLS: connections to the pool's servers use TLS; Security.ServerTLS must be set as well.
	ServerTLS bool
	// ServerAuthFile is Security.ServerAuthFile for the pool's servers.
	ServerAuthFile string
	backend.ServerOptions
}

// OnlyPool returns the pool without a name that o has if Pools is empty.
func (o *Options) OnlyPool() PoolOptions {
	return PoolOptions{
		Pool: route.Pool{Servers: o.Servers, Options: o.Placement}, Ack: o.Ack, Writers: o.Writers, Timeout: o.Timeout,
		Policy: o.Policy, ServerTLS: o.Security.ServerTLS, ServerAuthFile: o.Security.ServerAuthFile,
		ServerOptions: o.ServerOptions,
	}
}

// routes returns the routes sorted by prefix, then the route of all other keys.
func (o *Options) routes() (routes []stats.Route) {
	all := o.Routes.All()
	slices.SortFunc(all[1:], func(a, b route.Prefix) int { return strings.Compare(a.Prefix, b.Prefix) })
	for i, p := range append(all[1:], all[0]) {
		routes = append(routes, stats.Route{
			Default: i == len(all)-1, Prefix: p.Prefix, Pool: p.Pool, Reads: p.Reads, Strip: p.Strip,
			Accepts: route.AcceptsNames.Of(p.Accepts),
		})
	}
	return routes
}

// names returns the names of the pools.
func (o *Options) names() []string {
	names := make([]string, len(o.Pools))
	for i, p := range o.Pools {
		names[i] = p.Name
	}
	return names
}

// Defaults of Options.
const (
	DefaultDepth          = 128
	DefaultFailureLimit   = 3
	DefaultMissedMemory   = 64 << 20
	DefaultQueue          = 1024
	DefaultItemSize       = protocol.DefaultMaxValue
	DefaultTimeout        = time.Second
	DefaultHotAge         = 100 * time.Millisecond
	DefaultHotMemory      = 32 << 20
	DefaultStallAfter     = 100 * time.Millisecond
	DefaultConnectTimeout = time.Second
	DefaultDrainTimeout   = 10 * time.Second
	DefaultSweepEvery     = 5 * time.Minute
	DefaultChangeStep     = 15 * time.Second
	DefaultMinRate        = 16 << 10
	DefaultMaxOutput      = 64 << 20
	DefaultWriteTimeout   = 30 * time.Second
	DefaultClientMemory   = 1 << 30
)

// stallAfter returns StallAfter as the workers expect it: 0 means never.
func (o *Options) stallAfter() time.Duration {
	after := o.StallAfter
	for _, p := range o.Pools {
		after = min(after, p.Timeout/4)
	}
	return max(0, after)
}

// longestTimeout returns the longest Timeout of a pool.
func (o *Options) longestTimeout() (longest time.Duration) {
	for _, p := range o.Pools {
		longest = max(longest, p.Timeout)
	}
	return longest
}

// hotAge returns the greatest age of a value that may be served from memory. With one writer no other middleware
// changes the value on the servers.
func (o *Options) hotAge() time.Duration {
	if !slices.ContainsFunc(o.Pools, func(p PoolOptions) bool { return p.Writers != WritersOne }) {
		return hotkeys.AgeAlone
	}
	return min(o.HotAge, hotkeys.MaxAge)
}

// recipients returns the options of the recipients.
func (o *Options) recipients() (all []recipientOptions) {
	for i := range o.Shadows {
		all = append(all, &o.Shadows[i])
	}
	for i := range o.Follows {
		all = append(all, &o.Follows[i])
	}
	return all
}

// all returns all pools: those that serve clients, and the recipients.
func (o *Options) all() (pools []PoolOptions) {
	pools = slices.Clone(o.Pools)
	for _, r := range o.recipients() {
		pools = append(pools, *r.to())
	}
	return pools
}

// EachPool lets change change the settings of all pools. Copies of o keep theirs.
func (o *Options) EachPool(change func(p *PoolOptions)) {
	o.Pools, o.Shadows, o.Follows = slices.Clone(o.Pools), slices.Clone(o.Shadows), slices.Clone(o.Follows)
	for i := range o.Pools {
		change(&o.Pools[i])
	}
	for _, r := range o.recipients() {
		change(r.to())
	}
}

// number returns the index of the pool called name; -1: there is none.
func (o *Options) number(name string) int {
	return slices.IndexFunc(o.Pools, func(p PoolOptions) bool { return p.Name == name })
}

// poolNamed returns the settings of the pool called name; the zero value if there is none.
func (o *Options) poolNamed(name string) (p PoolOptions) {
	if i := o.number(name); i >= 0 {
		p = o.Pools[i]
	}
	return p
}

// otherFiles is the number of open files that the process may need in addition to connections to clients and servers:
// listeners, the admin server, probes, and the runtime's own.
const otherFiles = 128

// maxRefused is the largest number of refused clients that stay connected until they have read the refusal.
const maxRefused = 128

// maxClients returns how many clients may be connected, and how many more may stay connected to read that they were
// refused. Without an explicit limit the first number is derived from the limit on open files: clients that used all
// files would leave none for new connections to servers.
func (o *Options) maxClients(c *core) (clients, refused int) {
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil {
		return o.MaxConnections, maxRefused
	}
	const most = 1 << 30 // "unlimited" is a number that does not fit into an int
	allowed := int(min(files.Cur, most))
	// Every worker connects to every server, and each server's prober to that server.
	connections := (len(c.members()) + 1) * len(c.servers)
	for _, s := range c.shadows() {
		of := s.inner.current.Load()
		connections += (len(of.members()) + 1) * len(of.servers)
	}
	clients, refused = shareFiles(allowed, connections)
	if o.MaxConnections > 0 {
		clients = o.MaxConnections
	}
	return clients, refused
}

// shareFiles returns how many of the allowed files clients and refused clients may use, given the number of connections
// to servers. Clients get at least half of the files.
func shareFiles(allowed, servers int) (clients, refused int) {
	refused = min(maxRefused, allowed/8)
	return max(allowed/2, allowed-servers-refused-otherFiles), refused
}
