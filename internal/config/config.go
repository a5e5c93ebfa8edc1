package config

import (
	"cmp"
	"log/slog"
	"time"

	"mcmw/internal/discover"
	"mcmw/internal/middleware"
)

// Config is the value of every option. The table in options.go says what each means and what it may be.
type Config struct {
	File string // the YAML file read, "" none

	// Options are those of the middleware, with three differences that the method Middleware removes: Listen is as written,
	// Servers are those that need no lookup, and StallAfter 0 means never.
	middleware.Options
	// Lookups has the servers as written, and the settings for looking them up.
	discover.Lookups

	GutterTTL       time.Duration // of a pool; 0: not given
	ListenPort      int           // of the addresses in Listen that have none
	ResolveInterval time.Duration
	Procs           int // GOMAXPROCS; 0: the Go runtime's choice

	StatsFile   string // "" none
	StatsWindow time.Duration
	Sample      int           // one of every so many requests is logged; 0: none
	Slow        time.Duration // 0: no request is slow
	RequestLog  string        // "" the log
	LogKeys     bool

	Admin     string // "" off
	LogLevel  slog.Level
	LogFormat string

	WatchInterval time.Duration // 0: never

	// Warnings are possible mistakes that may be intended, one line each.
	Warnings []string

	pools        []pool   // nil: Specs are the servers of the only one
	poolMapping  given    // where pools is from; nothing if not given
	routeOrigins []Origin // of Routes.Prefixes
	// defaultOrigin is that of Routes.Default.
	defaultOrigin Origin
	shadows       []shadowEntry
	// migrationOrigins are those of Migrations.
	migrationOrigins []Origin
	within           string // in a pool's Config, what its options begin with in messages: "pools.NAME."

	complete bool // all servers are in Servers: none has to be looked up

	origins map[string]Origin // by option name; an option without an entry has its default
	unread  bool              // the file could not be read at all: options that it may have set are not reported as missing
	refused map[string]bool   // options for which a source gave an invalid value
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

// Middleware returns the options of the middleware, without the version and the log, which are the command's, and without
// the servers that have to be looked up.
func (c *Config) Middleware() middleware.Options {
	o := c.Options
	o.Listen = c.ListenAddrs()
	o.StallAfter = cmp.Or(o.StallAfter, -1) // never
	return o
}
