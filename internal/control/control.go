// Package control keeps the configuration and the servers of a running middleware up to date: it reads the
// configuration again after a SIGHUP or when the file has changed, and looks up names again. A configuration, or a list
// of servers, that is wrong changes nothing.
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
	// findReport is the time between two progress messages during that.
	findReport = 2 * time.Second
	// gather is how long a watched list of servers must have stayed the same before the start continues, but at most
	// maxGather. The servers of a new installation appear one after the other, and keys would move with each.
	gather, maxGather = 2 * time.Second, 10 * time.Second
	// againAfter is the delay before a configuration that had to wait for another change is read again. It adds to the
	// time by which other mcmw may apply the configuration earlier or later, so it is at most the againParts-th part of
	// a change-step.
	againAfter, againParts = time.Second, 20
)

// Applier is the part of a middleware that a Control uses.
type Applier interface {
	// Apply applies all options while clients are served, or applies none and returns an error.
	Apply(ctx context.Context, o middleware.Options) error
	// Check returns the error with which Apply would refuse the options now, and changes nothing.
	Check(ctx context.Context, o middleware.Options) error
	// Elsewhere returns, for each pool whose list another middleware is changing from the one of this middleware to
	// another, that list.
	Elsewhere(ctx context.Context) []route.Server
	// Ready returns a channel that is closed when clients are served.
	Ready() <-chan struct{}
}

// Options are what a Control needs; all fields are required.
type Options struct {
	// Load reads the configuration, as at the start. Unless it is nil, text replaces the contents of the file.
	Load func(text []byte) (*config.Config, error)
	// Hangup: the runtime -> Run; one element per SIGHUP.
	Hangup <-chan os.Signal
	// NewLog returns the log that a configuration asks for, and its level, which the Control may change.
	NewLog func(*config.Config) (*slog.Logger, *slog.LevelVar)
	// InForce returns the servers, found by lookups, of the lists that other middlewares use or have used last. unread:
	// some lists are unknown, because none of their servers answers.
	InForce func(ctx context.Context, o middleware.Options) (servers []route.Server, unread bool)
	// Version is the version of the program.
	Version string
}

// Control controls one middleware.
type Control struct {
	// Static after construction. Log is the log of the program, Counts counts reloads and lookups.
	Log     *slog.Logger
	Counts  *stats.Control
	options Options
	finder  *discover.Finder
	level   *slog.LevelVar // of the log
	// questions: Check -> AwaitServers or Run; unbuffered, never closed.
	questions chan question

	// Owned by the goroutine that calls AwaitServers, then by the one that calls Run.
	config     *config.Config // the current one
	servers    []route.Server // the current ones
	file       fileWatch
	ready      <-chan struct{} // closed when clients are served; nil once that is known
	nextLook   time.Time       // when to check the file
	nextLookup time.Time       // when to look names up
	rejected   string          // why the last list from lookups is not used, "" if it is
	confirmed  time.Time       // when all names had answers for the last time
	doubtful   bool            // confirmed is too long ago, and the log says so
	followed   bool            // servers are those of another middleware, until all names have answers
	again      time.Time       // when to read again a configuration that can't be applied yet; zero: there is none
	pending    bool            // the configuration read last was refused or has to wait
	asked      question        // that of the last eventQuestion
}

// New returns a Control that begins with the present configuration.
func New(o Options) (*Control, error) {
	c, err := o.Load(nil)
	if err != nil {
		return nil, err
	}
	k := &Control{options: o, Counts: new(stats.Control), config: c, questions: make(chan question)}
	if c.File != "" { // read it again: what the watch knows of the file must not be newer than what was read
		k.file.read(c.File)
		if k.config, err = o.Load(nil); err != nil {
			return nil, err
		}
	}
	k.Log, k.level = o.NewLog(k.config)
	k.finder = discover.NewFinder(discover.Options{Cluster: discover.PodCluster(), Counts: k.Counts, Log: k.Log})
	return k, nil
}

// Config returns the current configuration. Only the goroutine that owns the Control, or a function that Run calls, may
// call it.
func (k *Control) Config() *config.Config { return k.config }

// Middleware returns the current options of the middleware, once AwaitServers has found the servers. The same
// goroutines may call it.
func (k *Control) Middleware() middleware.Options { return k.middleware(k.config, k.servers) }

// event is something that a Control waits for.
type event uint8

const (
	eventEnd      event = iota // the context is done
	eventHangup                // SIGHUP
	eventFile                  // the configuration file has changed
	eventLookup                // it is time to look up names
	eventWatch                 // the result of a watch has changed
	eventReady                 // clients are served
	eventAgain                 // it is time to read again a configuration that could not be applied yet
	eventQuestion              // somebody asks whether a configuration could be applied now
)

// reasons are the texts in the log for why the configuration was read again.
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
		case k.asked = <-k.questions:
			return eventQuestion
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

// find looks up the servers of c, and returns an error if they are not valid.
func (k *Control) find(ctx context.Context, c *config.Config) ([]route.Server, error) {
	servers, err := k.finder.Find(ctx, c.AllLookups())
	k.confirm()
	k.nextLookup = time.Now().Add(discover.Jitter(c.ResolveInterval))
	return k.checkFound(c, servers, err)
}

// checkFound returns servers, which were found for c, or those of another middleware that k follows. It returns err, or
// an error if they are not valid.
func (k *Control) checkFound(c *config.Config, servers []route.Server, err error) ([]route.Server, error) {
	if k.followed && slices.Equal(c.AllLookups().Specs, k.config.AllLookups().Specs) {
		servers = k.servers
	}
	if err == nil {
		err = c.CheckServers(servers)
	}
	return servers, err
}

// confirm records whether all names had answers. It logs when that has not been so for so long that other middlewares
// may have other servers.
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
		return // nothing has been found yet; awaitServers logs that
	}
	k.Counts.Unconfirmed(k.confirmed)
	if !k.doubtful && time.Since(k.confirmed) > k.config.ChangeStep {
		k.doubtful = true
		k.Log.Warn("the list of servers cannot be confirmed, because names have no answers; it stays, unless another "+
			"mcmw announces a change to a different list",
			"since", time.Since(k.confirmed).Round(time.Second))
	}
}

// follow returns servers, without those that the answers lack and that another middleware is removing. If some names
// have no answers, it returns the servers to which another middleware is changing.
func (k *Control) follow(ctx context.Context, m Applier, servers []route.Server) []route.Server {
	lacking := k.finder.Lacking(k.config.AllLookups())
	if k.finder.Confirmed() && len(lacking) == 0 {
		return servers
	}
	changed := m.Elsewhere(ctx)
	changes := func(s route.Server) bool {
		return slices.ContainsFunc(changed, func(o route.Server) bool { return o.Pool == s.Pool })
	}
	if k.finder.Confirmed() {
		stays := func(s route.Server) bool {
			return slices.ContainsFunc(changed, func(o route.Server) bool {
				return o.Name == s.Name && o.Pool == s.Pool
			})
		}
		gone := func(s route.Server) bool { return changes(s) && slices.Contains(lacking, s) && !stays(s) }
		k.finder.Drop(k.config.AllLookups(), gone)
		return slices.DeleteFunc(servers, gone)
	}
	others := append(slices.DeleteFunc(slices.Clone(k.servers), changes), changed...)
	if len(changed) == 0 || k.config.CheckServers(others) != nil {
		return servers
	}
	if !slices.Equal(others, k.servers) {
		k.Log.Warn("another mcmw is changing to a different list of servers; this one follows it, because it cannot " +
			"look up its own list")
	}
	k.followed = true
	return others
}

// errUnread: no server answers, so it is unknown which servers other middlewares use.
var errUnread = errors.New("no server that was found answers, and the answer would say which servers are in use")

// join returns servers, which were found for c, and those that other middlewares use, or have used last, although the
// answers lack them: a server that is away at the start is not removed. It returns errUnread if no server says which
// these are.
func (k *Control) join(ctx context.Context, c *config.Config, servers []route.Server) ([]route.Server, error) {
	if !c.AllLookups().Any() {
		return servers, nil
	}
	inForce, unread := k.options.InForce(ctx, k.middleware(c, servers))
	k.finder.Know(ctx, c.AllLookups(), inForce)
	joined, err := k.finder.Refresh(ctx, c.AllLookups())
	if err == nil {
		err = c.CheckServers(joined)
	}
	switch added := discover.Compare(servers, joined).Added; {
	case err != nil && k.servers == nil && ctx.Err() == nil:
		k.Log.Warn("servers that lookups do not show are not used, although other mcmw may use them, because the "+
			"list would be wrong",
			"problem", oneLine(err))
		k.finder.Drop(c.AllLookups(), func(route.Server) bool { return true })
		return servers, nil
	case err != nil:
		return servers, err
	case unread:
		return joined, errUnread
	case len(added) > 0:
		k.Log.Info("servers that lookups do not show are in the list in force, and stay", "servers", added)
	}
	return joined, nil
}

// refresh is find for the current configuration with what the watches know; nothing is looked up.
func (k *Control) refresh(ctx context.Context) ([]route.Server, error) {
	servers, err := k.finder.Refresh(ctx, k.config.AllLookups())
	return k.checkFound(k.config, servers, err)
}

// AwaitServers waits until all names of servers have been found, and logs from time to time which are missing. It
// returns false if ctx ends before that. A configuration that is read again during the wait replaces the old one.
func (k *Control) AwaitServers(ctx context.Context) (found bool) {
	defer func() {
		if !found {
			k.finder.Close()
		}
	}()
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
			servers, err = k.join(ctx, k.config, servers)
			named := k.middleware(k.config, servers).Pools[0].Name != ""
			if errors.Is(err, errUnread) && named && time.Since(begin) > maxGather {
				err = nil // a pool whose servers don't answer must not keep the others waiting
			}
		}
		if err == nil && !gathering {
			if !reported.IsZero() {
				k.Log.Info("all servers have been found", "after", time.Since(begin).Round(time.Millisecond))
			}
			k.hold(k.config, servers)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if err != nil && time.Since(reported) >= findReport {
			reported = time.Now()
			k.Log.Info("waiting for the names of servers", "error", oneLine(err), "waited",
				time.Since(begin).Round(time.Second))
		}
		k.nextLookup = time.Now().Add(findPause)
		switch e := k.await(ctx); e {
		case eventEnd:
			return false
		case eventHangup, eventFile:
			if c := k.read(e); c != nil {
				k.adopt(e, c, nil)
			}
		case eventQuestion:
			k.asked(ctx, nil)
		}
	}
}

// Run keeps m up to date until ctx is done, and calls ready when clients are served.
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
		case eventQuestion:
			k.asked(ctx, m)
		default:
			k.reload(ctx, m, e)
		}
	}
}

// read reads the configuration again, as at the start. It returns nil if the configuration is refused.
func (k *Control) read(e event) *config.Config {
	k.file.read(k.config.File)
	c, err := k.load(nil)
	if err != nil {
		k.refuse(e, err)
		return nil
	}
	return c
}

// load is options.Load with an error for a configuration that can't replace the current one.
func (k *Control) load(text []byte) (*config.Config, error) {
	c, err := k.options.Load(text)
	if err == nil {
		err = c.CheckReload(k.config)
	}
	return c, err
}

// refuse logs and counts that a configuration that was read again is refused, with each of its problems.
func (k *Control) refuse(e event, err error) {
	k.pending = true
	k.Counts.Reloaded(stats.ReloadRefused)
	for problem := range strings.Lines(err.Error()) {
		k.Log.Error("the new configuration is refused; mcmw keeps the current one", "why", reasons[e],
			"problem", strings.TrimSuffix(problem, "\n"))
	}
}

// reload reads the configuration again, looks up names, and applies both or neither.
func (k *Control) reload(ctx context.Context, m Applier, e event) {
	waits := !k.again.IsZero()
	k.again = time.Time{}
	c := k.read(e)
	if c == nil {
		return
	}
	servers, err := k.find(ctx, c)
	known := k.config.AllLookups().Specs
	isNew := func(s discover.Spec) bool { return !slices.Contains(known, s) }
	if err == nil && slices.ContainsFunc(c.AllLookups().Specs, isNew) {
		if servers, err = k.join(ctx, c, servers); errors.Is(err, errUnread) {
			err = nil
		}
	}
	if err == nil && k.differs(c, servers) {
		err = c.Locate(m.Apply(ctx, k.middleware(c, servers)))
	}
	_, later := errors.AsType[middleware.NotYet](err)
	if later {
		k.pending = true
		k.again = time.Now().Add(min(againAfter, c.ChangeStep/againParts))
	}
	switch {
	case ctx.Err() != nil:
	case later && waits:
	case later:
		k.Log.Warn("the new configuration has to wait, and mcmw tries it again; until then it keeps the current one",
			"why", reasons[e], "problem", oneLine(err))
	case err != nil:
		k.refuse(e, err)
	default:
		k.adopt(e, c, servers)
	}
}

// differs reports whether c or servers differ from the current ones.
func (k *Control) differs(c *config.Config, servers []route.Server) bool {
	return len(c.Changes(k.config)) > 0 || !slices.Equal(servers, k.servers)
}

// middleware returns the options of the middleware for c with servers.
func (k *Control) middleware(c *config.Config, servers []route.Server) middleware.Options {
	o := c.With(servers)
	o.Control, o.Version, o.Log = k.Counts, k.options.Version, k.Log
	return o
}

// changes returns how c differs from the current configuration, one line for each option.
func (k *Control) changes(c *config.Config) (lines []string) {
	for _, change := range c.Changes(k.config) {
		lines = append(lines, change.String())
	}
	return lines
}

// adopt makes c and servers the current ones, counts that, and logs the changes. servers is nil if they are not known
// yet.
func (k *Control) adopt(e event, c *config.Config, servers []route.Server) {
	changes := k.changes(c)
	moved := discover.Compare(k.servers, servers)
	corrected := k.pending
	k.pending = false
	k.hold(c, servers)
	switch {
	case len(changes) > 0 || moved.Any():
		k.Counts.Reloaded(stats.ReloadApplied)
		fields := []any{"why", reasons[e]}
		if len(changes) > 0 {
			fields = append(fields, "changes", changes)
		}
		k.Log.Info("the new configuration is applied", fields...)
	case e == eventHangup:
		k.Counts.Reloaded(stats.ReloadUnchanged)
		k.Log.Info("the configuration was read again and has not changed", "why", reasons[e])
	case corrected:
		k.Counts.Reloaded(stats.ReloadUnchanged)
		k.Log.Info("the file has the current configuration again", "why", reasons[e])
	}
	k.report(moved)
	for _, warning := range c.Warnings {
		k.Log.Warn(warning)
	}
	k.level.Set(c.LogLevel) // last, because the new level may suppress the messages above
}

// hold records c and servers as the current ones.
func (k *Control) hold(c *config.Config, servers []route.Server) {
	k.config, k.servers, k.rejected = c, servers, ""
	k.finder.Forget(c.AllLookups())
	sorted := slices.SortedFunc(slices.Values(servers), func(a, b route.Server) int {
		return cmp.Compare(a.Name, b.Name)
	})
	for i := range sorted {
		// the zone matters only for reads, and some middlewares may not know it
		sorted[i].Zone, sorted[i].Entry = "", ""
	}
	k.Counts.Holds(stats.Identity{Options: c.Fingerprint(), Servers: config.Fingerprint(sorted)})
}

// update applies servers, which were found, if they have changed. err is an error in finding them. An error is logged
// only once.
func (k *Control) update(ctx context.Context, m Applier, servers []route.Server, err error) {
	if err == nil && !slices.Equal(servers, k.servers) {
		err = m.Apply(ctx, k.middleware(k.config, servers))
	}
	switch {
	case ctx.Err() != nil:
	case err == nil:
		moved := discover.Compare(k.servers, servers)
		corrected := k.rejected != ""
		k.hold(k.config, servers)
		if moved.Any() {
			k.Counts.Updated(stats.ReloadApplied)
			k.report(moved)
		} else if corrected {
			k.Log.Info("the servers that are found are again the current ones")
		}
	case err.Error() != k.rejected:
		k.rejected = err.Error()
		k.Counts.Updated(stats.ReloadRefused)
		k.Log.Error("the servers that were found are refused; mcmw keeps the current ones", "problem", oneLine(err))
	}
}

// report logs how the servers have changed.
func (k *Control) report(c discover.Changes) {
	if fields := c.Fields(); fields != nil {
		k.Log.Info("the servers have changed", fields...)
	}
}

// oneLine returns the text of err without line ends.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
