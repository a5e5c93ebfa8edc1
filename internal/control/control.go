// Package control keeps the configuration and the servers of a running middleware up to date: it reads the configuration
// again at a SIGHUP or when its file changes, and looks names up again. What is not accepted changes nothing.
package control

import (
	"cmp"
	"context"
	"errors"
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
	// gather is how long servers that are watched must have been the same at the start, where those of a new installation come one after the other: keys
	// would move with each. No longer than maxGather is waited for that.
	gather, maxGather = 2 * time.Second, 10 * time.Second
	// againAfter is after how long a configuration that had to wait for another change is read again: so long other mcmw may put it in force
	// apart besides. It is a small part of a change's step.
	againAfter, againParts = time.Second, 20
)

// Applier is the middleware, as a Control uses it.
type Applier interface {
	// Apply puts all options in force under load, or, with an error, none.
	Apply(ctx context.Context, o middleware.Options) error
	// Elsewhere returns the servers to which another middleware changes from those of this one; nil: none does.
	Elsewhere(ctx context.Context) []route.Server
	// Ready returns a channel that is closed when clients are served.
	Ready() <-chan struct{}
}

// Options are what a Control needs; all fields are required.
type Options struct {
	// Load reads the configuration, as at the start.
	Load func() (*config.Config, error)
	// Hangup: the runtime -> Run; one element per SIGHUP.
	Hangup <-chan os.Signal
	// NewLog returns the log that a configuration asks for, and its level, which a Control changes.
	NewLog func(*config.Config) (*slog.Logger, *slog.LevelVar)
	// Version is the program's.
	Version string
}

// Control is the control of one middleware.
type Control struct {
	// Log is the log of the program, Counts counts what the Control does. Static after construction, as the fields up to the next
	// group.
	Log     *slog.Logger
	Counts  *stats.Control
	options Options
	finder  *discover.Finder
	level   *slog.LevelVar // of the log

	// Owned by the goroutine that calls AwaitServers, then by that which calls Run.
	config     *config.Config // in force
	servers    []route.Server // in force
	file       fileWatch
	ready      <-chan struct{} // closed when clients are served; nil once that is known
	nextLook   time.Time       // when to check the file
	nextLookup time.Time       // when to look names up
	rejected   string          // why the last list from lookups is not used, "" if it is
	confirmed  time.Time       // when all names had answers for the last time
	doubtful   bool            // that was too long ago, which the log says
	followed   bool            // servers are those of another middleware, until all names have answers
	again      time.Time       // when to read a configuration again that is to be accepted later; zero: there is none
}

// New returns a Control of the configuration that is there now.
func New(o Options) (*Control, error) {
	c, err := o.Load()
	if err != nil {
		return nil, err
	}
	k := &Control{options: o, Counts: new(stats.Control), config: c}
	if c.File != "" { // again, because the watch must not be newer than what was read
		k.file.read(c.File)
		if k.config, err = o.Load(); err != nil {
			return nil, err
		}
	}
	k.Log, k.level = o.NewLog(k.config)
	k.finder = discover.NewFinder(discover.Options{Cluster: discover.PodCluster(), Counts: k.Counts, Log: k.Log})
	return k, nil
}

// Config returns the configuration in force. It is for the owner of the Control, or for what Run calls.
func (k *Control) Config() *config.Config { return k.config }

// Middleware returns the options of the middleware in force, once AwaitServers has found the servers; likewise.
func (k *Control) Middleware() middleware.Options { return k.middleware(k.config, k.servers) }

// event is something that control waits for.
type event uint8

const (
	eventEnd    event = iota // the context is done
	eventHangup              // SIGHUP
	eventFile                // the configuration file has changed
	eventLookup              // it is time to look names up
	eventWatch               // what is watched has changed
	eventReady               // clients are served
	eventAgain               // a configuration may be accepted now that was not yet
)

// reasons are the log's texts for why the configuration is read again.
var reasons = map[event]string{eventHangup: "SIGHUP", eventFile: "the file has changed", eventAgain: "it had to wait"}

// await returns the next event.
func (k *Control) await(ctx context.Context) event {
	for {
		var look, lookup, again <-chan time.Time
		if k.config.File != "" && k.config.WatchInterval > 0 {
			look = time.After(time.Until(k.nextLook))
		}
		if k.config.AllLookups().Any() || k.servers == nil {
			lookup = time.After(time.Until(k.nextLookup))
		}
		if !k.again.IsZero() {
			again = time.After(time.Until(k.again))
		}
		select {
		case <-ctx.Done():
			return eventEnd
		case <-again:
			return eventAgain
		case <-k.ready:
			k.ready = nil
			return eventReady
		case <-k.options.Hangup:
			return eventHangup
		case now := <-look:
			k.nextLook = now.Add(k.config.WatchInterval)
			if k.file.changed(k.config.File) {
				return eventFile
			}
		case <-lookup:
			return eventLookup
		case <-k.finder.Changed():
			return eventWatch
		}
	}
}

// find looks up the servers of c, and returns them if they are valid.
func (k *Control) find(ctx context.Context, c *config.Config) ([]route.Server, error) {
	servers, err := k.finder.Find(ctx, c.AllLookups())
	k.confirm()
	if k.followed && slices.Equal(c.AllLookups().Specs, k.config.AllLookups().Specs) {
		servers = k.servers
	}
	if err == nil {
		err = c.CheckServers(servers)
	}
	k.nextLookup = time.Now().Add(discover.Jitter(c.ResolveInterval))
	return servers, err
}

// confirm records whether all names had answers, and logs when they had none for so long that other middlewares may have other servers.
func (k *Control) confirm() {
	if k.finder.Confirmed() {
		if k.doubtful {
			k.Log.Info("the list of servers is confirmed again", "after", time.Since(k.confirmed).Round(time.Second))
		}
		k.confirmed, k.doubtful, k.followed = time.Now(), false, false
		k.Counts.Confirmed()
		return
	}
	if k.confirmed.IsZero() {
		return // nothing was found yet, which is said elsewhere
	}
	k.Counts.Unconfirmed(k.confirmed)
	if !k.doubtful && time.Since(k.confirmed) > k.config.ChangeStep {
		k.doubtful = true
		k.Log.Warn("the list of servers cannot be confirmed: it stays, unless another mcmw says on the servers that it changes to another one",
			"since", time.Since(k.confirmed).Round(time.Second))
	}
}

// follow returns servers, or those to which another middleware changes, if the names have no answers.
func (k *Control) follow(ctx context.Context, m Applier, servers []route.Server) []route.Server {
	if k.finder.Confirmed() {
		return servers
	}
	others := m.Elsewhere(ctx)
	if others == nil || k.config.CheckServers(others) != nil {
		return servers
	}
	if !slices.Equal(others, k.servers) {
		k.Log.Warn("another mcmw changes to another list of servers; this one follows, because it cannot look its own up")
	}
	k.followed = true
	return others
}

// refresh returns the servers of the configuration in force by what is watched, if they are valid.
func (k *Control) refresh(ctx context.Context) ([]route.Server, error) {
	servers, err := k.finder.Refresh(ctx, k.config.AllLookups())
	if k.followed {
		servers = k.servers
	}
	if err == nil {
		err = k.config.CheckServers(servers)
	}
	return servers, err
}

// AwaitServers waits until all names of servers have been found, and says from time to time what is missing. It returns false if
// ctx ends before. A configuration that is read again meanwhile takes the old one's place.
func (k *Control) AwaitServers(ctx context.Context) bool {
	found := k.awaitServers(ctx)
	if !found {
		k.finder.Close()
	}
	return found
}

func (k *Control) awaitServers(ctx context.Context) bool {
	begin := time.Now()
	var reported, gathered time.Time
	var last []route.Server
	for {
		servers, err := k.find(ctx, k.config)
		if err == nil && !slices.Equal(servers, last) {
			last, gathered = servers, time.Now().Add(gather)
		}
		gathering := err == nil && k.finder.Watches() && time.Now().Before(gathered) && time.Since(begin) < maxGather
		if err == nil && !gathering {
			if !reported.IsZero() {
				k.Log.Info("the servers are found", "after", time.Since(begin).Round(time.Millisecond))
			}
			k.hold(k.config, servers)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if err != nil && time.Since(reported) >= findReport {
			reported = time.Now()
			k.Log.Info("waiting for the names of servers", "error", oneLine(err), "waited", time.Since(begin).Round(time.Second))
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

// Run keeps m up to date until ctx is done, and calls ready once clients are served.
func (k *Control) Run(ctx context.Context, m Applier, ready func()) {
	defer k.finder.Close()
	k.ready = m.Ready()
	for {
		switch e := k.await(ctx); e {
		case eventEnd:
			return
		case eventReady:
			ready()
		case eventLookup:
			servers, err := k.find(ctx, k.config)
			k.update(ctx, m, k.follow(ctx, m, servers), err)
		case eventWatch:
			servers, err := k.refresh(ctx)
			k.update(ctx, m, servers, err)
		default:
			k.reload(ctx, m, e)
		}
	}
}

// read reads the configuration again, as at the start. It returns nil when it is not accepted.
func (k *Control) read(e event) *config.Config {
	k.file.read(k.config.File)
	c, err := k.options.Load()
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
func (k *Control) refuse(e event, err error) {
	k.Counts.Reloaded(stats.ReloadRefused)
	for problem := range strings.Lines(err.Error()) {
		k.Log.Error("the configuration that was read again is refused; the old one holds", "why", reasons[e],
			"problem", strings.TrimSuffix(problem, "\n"))
	}
}

// reload reads the configuration again, looks names up and puts both in force, or neither.
func (k *Control) reload(ctx context.Context, m Applier, e event) {
	waits := !k.again.IsZero()
	k.again = time.Time{}
	c := k.read(e)
	if c == nil {
		return
	}
	servers, err := k.find(ctx, c)
	if err == nil && (len(c.Changes(k.config)) > 0 || !slices.Equal(servers, k.servers)) {
		err = c.Locate(m.Apply(ctx, k.middleware(c, servers)))
	}
	_, later := errors.AsType[middleware.NotYet](err)
	if later {
		k.again = time.Now().Add(min(againAfter, c.ChangeStep/againParts))
	}
	switch {
	case ctx.Err() != nil:
	case later && waits:
	case later:
		k.Log.Warn("the configuration that was read again has to wait; the old one holds until then", "why", reasons[e], "problem", oneLine(err))
	case err != nil:
		k.refuse(e, err)
	default:
		k.adopt(e, c, servers)
	}
}

// middleware returns the options of the middleware, without those that belong to the command.
func (k *Control) middleware(c *config.Config, servers []route.Server) middleware.Options {
	o := c.With(servers)
	o.Control, o.Version, o.Log = k.Counts, k.options.Version, k.Log
	return o
}

// adopt puts c and servers in force, counts that, and logs the changes. servers is nil when they are not known yet.
func (k *Control) adopt(e event, c *config.Config, servers []route.Server) {
	var changes []string
	for _, change := range c.Changes(k.config) {
		changes = append(changes, change.String())
	}
	moved := discover.Compare(k.servers, servers)
	k.hold(c, servers)
	switch {
	case len(changes) > 0 || moved.Any():
		k.Counts.Reloaded(stats.ReloadApplied)
		fields := []any{"why", reasons[e]}
		if len(changes) > 0 {
			fields = append(fields, "changes", changes)
		}
		k.Log.Info("the configuration was read again", fields...)
	case e == eventHangup:
		k.Counts.Reloaded(stats.ReloadUnchanged)
		k.Log.Info("the configuration was read again and says what holds already", "why", reasons[e])
	}
	k.report(moved)
	for _, warning := range c.Warnings {
		k.Log.Warn(warning)
	}
	k.level.Set(c.LogLevel) // last, because the new level may suppress the messages above
}

// hold records c and servers as those in force.
func (k *Control) hold(c *config.Config, servers []route.Server) {
	k.config, k.servers, k.rejected = c, servers, ""
	k.finder.Forget(c.AllLookups())
	sorted := slices.SortedFunc(slices.Values(servers), func(a, b route.Server) int { return cmp.Compare(a.Name, b.Name) })
	for i := range sorted {
		sorted[i].Zone = "" // only reads depend on it, and not every middleware may know it
	}
	k.Counts.Holds(stats.Identity{Options: c.Fingerprint(), Servers: config.Fingerprint(sorted)})
}

// update puts the servers that were found in force if they have changed; err is why they can't be. That is logged once.
func (k *Control) update(ctx context.Context, m Applier, servers []route.Server, err error) {
	if err == nil && !slices.Equal(servers, k.servers) {
		err = m.Apply(ctx, k.middleware(k.config, servers))
	}
	switch {
	case ctx.Err() != nil:
	case err == nil:
		moved := discover.Compare(k.servers, servers)
		k.hold(k.config, servers)
		if moved.Any() {
			k.Counts.Updated(stats.ReloadApplied)
			k.report(moved)
		}
	case err.Error() != k.rejected:
		k.rejected = err.Error()
		k.Counts.Updated(stats.ReloadRefused)
		k.Log.Error("the servers that were found are refused; those there are stay", "problem", oneLine(err))
	}
}

// report logs how the servers have changed.
func (k *Control) report(c discover.Changes) {
	if !c.Any() {
		return
	}
	var fields []any
	for _, list := range c.Lists() {
		if len(list.Servers) > 0 {
			fields = append(fields, list.What, list.Servers)
		}
	}
	k.Log.Info("the servers have changed", fields...)
}

// oneLine returns the text of err without line ends.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
