package config

import (
	"cmp"
	"log/slog"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/discover"
	"mcmw/internal/middleware"
	"mcmw/internal/netstage"
	"mcmw/internal/route"
	"mcmw/internal/worker"
)

// Config is the value of every option. The table in options.go says what each means and what it may be.
type Config struct {
	File string // the YAML file read, "" none

	netstage.ClientOptions
	backend.ServerOptions
	worker.RequestOptions

	Listen     []string // as written; ListenAddrs completes them
	ListenPort int

	Servers  []discover.Spec
	Replicas int // 0: all
	Read     route.ReadPolicy

	Ready middleware.Ready

	Ring    route.RingKind
	Hash    route.HashKind
	HashTag string

	ResolveInterval time.Duration
	RemoveAfter     int    // answers
	Resolver        string // "" the system's

	Workers int // 0: chosen at start
	Queue   int // batches
	Pool    string
	Procs   int // GOMAXPROCS; 0: the Go runtime's choice

	DrainTimeout time.Duration

	StatsFile   string // "" none
	StatsWindow time.Duration
	Sample      int           // one of every so many requests is logged; 0: none
	Slow        time.Duration // 0: no request is slow
	RequestLog  string        // "" the log
	LogKeys     bool

	Security middleware.Security

	Admin     string // "" off
	LogLevel  slog.Level
	LogFormat string

	WatchInterval time.Duration // 0: never

	// Warnings are what looks like a mistake but may be meant, one line each.
	Warnings []string

	// known are the servers that are known, all of them if complete: the rest are names that have not been looked up.
	known    []route.Server
	complete bool

	origins map[string]Origin // by option name; an option that is not in it has its default
	unread  bool              // nothing in the file could be read: what it would have given is not missing
	refused map[string]bool   // options of which a source gave a value that was refused
}

// Origin says where the value of the option called name came from.
func (c *Config) Origin(name string) Origin { return c.origins[name] }

// ListenAddrs returns the addresses to listen on, each with its port.
func (c *Config) ListenAddrs() []string {
	addrs := make([]string, len(c.Listen))
	for i, a := range c.Listen {
		addrs[i] = completeListen(a, c.ListenPort)
	}
	return addrs
}

// Placement returns what the router is made from.
func (c *Config) Placement() route.Options {
	return route.Options{Replicas: c.Replicas, Ring: c.Ring, Hash: c.Hash, HashTag: c.HashTag, Read: c.Read}
}

// Lookups returns what servers are found from.
func (c *Config) Lookups() discover.Lookups {
	return discover.Lookups{Specs: c.Servers, Resolver: c.Resolver, RemoveAfter: c.RemoveAfter}
}

// Middleware returns what the middleware is made from, but for the version and the log, which are the command's, and for the
// servers that have to be looked up.
func (c *Config) Middleware() middleware.Options {
	requests := c.RequestOptions
	requests.StallAfter = cmp.Or(c.StallAfter, -1) // never
	return middleware.Options{
		ClientOptions: c.ClientOptions, ServerOptions: c.ServerOptions, RequestOptions: requests,
		Listen:       c.ListenAddrs(),
		Servers:      c.known,
		Placement:    c.Placement(),
		Ready:        c.Ready,
		Pool:         pools[c.Pool],
		Workers:      c.Workers,
		Queue:        c.Queue,
		DrainTimeout: c.DrainTimeout,
		Security:     c.Security,
	}
}
