package main

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"mcmw/internal/config"
	"mcmw/internal/discover"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

const (
	// findPause is the time between two lookups at the start, until all servers have been found.
	findPause = 500 * time.Millisecond
	// findReport is the time between two progress messages meanwhile.
	findReport = 2 * time.Second
)

// applier is the middleware, as control uses it.
type applier interface {
	// Apply puts all options in force under load, or, with an error, none.
	Apply(ctx context.Context, o middleware.Options) error
	// Ready returns a channel that is closed when clients are served.
	Ready() <-chan struct{}
}

// control keeps the configuration and the servers of a middleware up to date: it reads the configuration again at a SIGHUP
// or when its file changes, and looks names up again. What is not accepted changes nothing.
type control struct {
	// Static after construction.
	load   func() (*config.Config, error)
	hangup <-chan os.Signal // SIGHUP; from the runtime -> await
	finder *discover.Finder
	counts *stats.Control
	level  *slog.LevelVar // of the log
	log    *slog.Logger

	// Owned by the goroutine that calls awaitServers, then by that which calls run.
	config     *config.Config // in force
	servers    []route.Server // in force
	file       fileWatch
	ready      <-chan struct{} // closed when clients are served; nil once that is known
	nextLook   time.Time       // when to check the file
	nextLookup time.Time       // when to look names up
	rejected   string          // why the last list from lookups is not used, "" if it is
}

// newControl returns a control of what load returns now. Signals arrive on hangup; the log is written to w.
func newControl(load func() (*config.Config, error), hangup <-chan os.Signal, w io.Writer) (*control, error) {
	c, err := load()
	if err != nil {
		return nil, err
	}
	k := &control{load: load, hangup: hangup, counts: new(stats.Control), config: c}
	if c.File != "" { // again, because the watch must not be newer than what was read
		k.file.read(c.File)
		if k.config, err = load(); err != nil {
			return nil, err
		}
	}
	k.log, k.level = newLogger(w, k.config)
	k.finder = discover.NewFinder(discover.Options{Counts: k.counts, Log: k.log})
	return k, nil
}

// event is something that control waits for.
type event uint8

const (
	eventEnd    event = iota // the context is done
	eventHangup              // SIGHUP
	eventFile                // the configuration file has changed
	eventLookup              // it is time to look names up
	eventReady               // clients are served
)

// reasons are the log's texts for why the configuration is read again.
var reasons = map[event]string{eventHangup: "SIGHUP", eventFile: "the file has changed"}

// await returns the next event.
func (k *control) await(ctx context.Context) event {
	for {
		var look, lookup <-chan time.Time
		if k.config.File != "" && k.config.WatchInterval > 0 {
			look = time.After(time.Until(k.nextLook))
		}
		if k.config.Lookups.Any() || k.servers == nil {
			lookup = time.After(time.Until(k.nextLookup))
		}
		select {
		case <-ctx.Done():
			return eventEnd
		case <-k.ready:
			k.ready = nil
			return eventReady
		case <-k.hangup:
			return eventHangup
		case now := <-look:
			k.nextLook = now.Add(k.config.WatchInterval)
			if k.file.changed(k.config.File) {
				return eventFile
			}
		case <-lookup:
			return eventLookup
		}
	}
}

// find returns the current servers of c, if they are valid.
func (k *control) find(ctx context.Context, c *config.Config) ([]route.Server, error) {
	servers, err := k.finder.Find(ctx, c.Lookups)
	if err == nil {
		err = c.CheckServers(servers)
	}
	k.nextLookup = time.Now().Add(discover.Jitter(c.ResolveInterval))
	return servers, err
}

// awaitServers waits until all names of servers have been found, and says from time to time what is missing. It returns false if
// ctx ends before. A configuration that is read again meanwhile takes the old one's place.
func (k *control) awaitServers(ctx context.Context) bool {
	begin := time.Now()
	var reported time.Time
	for {
		servers, err := k.find(ctx, k.config)
		if err == nil {
			if !reported.IsZero() {
				k.log.Info("the servers are found", "after", time.Since(begin).Round(time.Millisecond))
			}
			k.hold(k.config, servers)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if time.Since(reported) >= findReport {
			reported = time.Now()
			k.log.Info("waiting for the names of servers", "error", oneLine(err), "waited", time.Since(begin).Round(time.Second))
		}
		k.nextLookup = time.Now().Add(findPause)
		switch e := k.await(ctx); e {
		case eventEnd:
			return false
		case eventHangup, eventFile:
			if c := k.read(e); c != nil {
				k.adopt(e, c, nil)
			}
		}
	}
}

// run keeps m up to date until ctx is done, and calls ready once clients are served.
func (k *control) run(ctx context.Context, m applier, ready func()) {
	k.ready = m.Ready()
	for {
		switch e := k.await(ctx); e {
		case eventEnd:
			return
		case eventReady:
			ready()
		case eventLookup:
			k.update(ctx, m)
		default:
			k.reload(ctx, m, e)
		}
	}
}

// read reads the configuration again, as at the start. It returns nil when it is not accepted.
func (k *control) read(e event) *config.Config {
	k.file.read(k.config.File)
	c, err := k.load()
	if err == nil {
		err = c.CheckReload(k.config)
	}
	if err != nil {
		k.refuse(e, err)
		return nil
	}
	return c
}

// refuse logs what is wrong with a configuration that was read again.
func (k *control) refuse(e event, err error) {
	k.counts.Reloaded(stats.ReloadRefused)
	for problem := range strings.Lines(err.Error()) {
		k.log.Error("the configuration that was read again is refused; the old one holds", "why", reasons[e],
			"problem", strings.TrimSuffix(problem, "\n"))
	}
}

// reload reads the configuration again, looks names up and puts both in force, or neither.
func (k *control) reload(ctx context.Context, m applier, e event) {
	c := k.read(e)
	if c == nil {
		return
	}
	servers, err := k.find(ctx, c)
	if err == nil && (len(c.Changes(k.config)) > 0 || !slices.Equal(servers, k.servers)) {
		err = m.Apply(ctx, k.options(c, servers))
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		k.refuse(e, err)
	default:
		k.adopt(e, c, servers)
	}
}

// options returns the middleware's options, without those that belong to the command.
func (k *control) options(c *config.Config, servers []route.Server) middleware.Options {
	o := c.Middleware()
	o.Servers, o.Control, o.Version, o.Log = servers, k.counts, build.Version, k.log
	return o
}

// adopt puts c and servers in force, counts that, and logs the changes. servers is nil when they are not known yet.
func (k *control) adopt(e event, c *config.Config, servers []route.Server) {
	var changes []string
	for _, change := range c.Changes(k.config) {
		changes = append(changes, change.String())
	}
	moved := discover.Compare(k.servers, servers)
	k.hold(c, servers)
	switch {
	case len(changes) > 0 || moved.Any():
		k.counts.Reloaded(stats.ReloadApplied)
		fields := []any{"why", reasons[e]}
		if len(changes) > 0 {
			fields = append(fields, "changes", changes)
		}
		k.log.Info("the configuration was read again", fields...)
	case e == eventHangup:
		k.counts.Reloaded(stats.ReloadUnchanged)
		k.log.Info("the configuration was read again and says what holds already", "why", reasons[e])
	}
	k.report(moved)
	for _, warning := range c.Warnings {
		k.log.Warn(warning)
	}
	k.level.Set(c.LogLevel) // last, because the new level may suppress the messages above
}

// hold records c and servers as those in force.
func (k *control) hold(c *config.Config, servers []route.Server) {
	k.config, k.servers, k.rejected = c, servers, ""
	k.finder.Forget(c.Lookups)
	sorted := slices.SortedFunc(slices.Values(servers), func(a, b route.Server) int { return cmp.Compare(a.Name, b.Name) })
	k.counts.Holds(stats.Identity{Options: c.Fingerprint(), Servers: config.Fingerprint(sorted)})
}

// update looks names up, and puts the servers found in force if they have changed. An invalid list is logged once.
func (k *control) update(ctx context.Context, m applier) {
	servers, err := k.find(ctx, k.config)
	if err == nil && !slices.Equal(servers, k.servers) {
		err = m.Apply(ctx, k.options(k.config, servers))
	}
	switch {
	case ctx.Err() != nil:
	case err == nil:
		moved := discover.Compare(k.servers, servers)
		k.hold(k.config, servers)
		if moved.Any() {
			k.counts.Updated(stats.ReloadApplied)
			k.report(moved)
		}
	case err.Error() != k.rejected:
		k.rejected = err.Error()
		k.counts.Updated(stats.ReloadRefused)
		k.log.Error("the servers that were found are refused; those there are stay", "problem", oneLine(err))
	}
}

// report logs how the servers have changed.
func (k *control) report(c discover.Changes) {
	if !c.Any() {
		return
	}
	var fields []any
	for _, list := range c.Lists() {
		if len(list.Servers) > 0 {
			fields = append(fields, list.What, list.Servers)
		}
	}
	k.log.Info("the servers have changed", fields...)
}

// oneLine returns the text of err without line ends.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
