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

	// Options are what the middleware is made from, with three differences that Middleware removes: Listen is as written,
	// Servers are those that needn't be looked up, and of StallAfter 0 means never.
	middleware.Options
	// Lookups has the servers as written, and how those with names are found.
	discover.Lookups

	ListenPort      int // of the addresses in Listen that have none
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

	// Warnings are what looks like a mistake but may be meant, one line each.
	Warnings []string

	complete bool // all servers are in Servers: none has to be looked up

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

// Middleware returns what the middleware is made from, but for the version and the log, which are the command's, and for the
// servers that have to be looked up.
func (c *Config) Middleware() middleware.Options {
	o := c.Options
	o.Listen = c.ListenAddrs()
	o.StallAfter = cmp.Or(o.StallAfter, -1) // never
	return o
}
