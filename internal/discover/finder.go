package discover

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"mcmw/internal/route"
	"mcmw/internal/secret"
	"mcmw/internal/stats"
)

// Defaults of Lookups and of the time between two of them.
const (
	// DefaultInterval is how long the address of a server may be out of date. The records' TTLs are unknown, because
	// the resolver of the net package does not return them.
	DefaultInterval = 5 * time.Second
	// DefaultRemoveAfter makes a minute at the default interval, longer than a pod takes to restart.
	DefaultRemoveAfter = 12
)

// Lookups are what a Finder looks up.
type Lookups struct {
	// Specs are the entries of the configured list, in order.
	Specs []Spec
	// Resolver is the address of the DNS server to ask; "": the system's DNS servers.
	Resolver string
	// RemoveAfter is how many answers in a row must lack a server before it is removed; 0 means DefaultRemoveAfter.
	RemoveAfter int
	// Certificates are the files for lookups that need TLS; see Spec.
	Certificates secret.ClientFiles
}

// Any reports whether there is anything to look up.
func (l Lookups) Any() bool {
	return slices.ContainsFunc(l.Specs, func(s Spec) bool { return s.Lookup != Static })
}

// Options are the settings of a Finder.
type Options struct {
	// NewResolver creates the Resolver for the DNS server at addr; nil means the package's NewResolver.
	NewResolver func(addr string) Resolver
	// Cluster is the cluster in which the endpoints of Services are watched.
	Cluster Cluster
	// Counts counts lookups; nil means that they are not counted.
	Counts *stats.Control
	// Log receives messages for operators; nil discards them.
	Log *slog.Logger
}

// Finder finds the servers of a list, and remembers the last good answer for each name. It is used by one goroutine,
// except for Changed.
type Finder struct {
	options Options
	answers map[string]*answer // by Spec.entry
	unsure  bool               // some name had no answer at the last Find
	changed chan struct{}      // see watch

	// certificates are the contents of the files, once a lookup has needed them.
	certificates func(host string) *tls.Config
	files        secret.ClientFiles
}

// answer is the latest answer for an entry.
type answer struct {
	watch   *watch   // of Endpoints, otherwise nil
	targets []target // of the last good answers, sorted by name; includes targets that the latest answers lacked
	trouble string   // the problem of the last lookup, as in the log; "": none
	version uint64   // of the last good answer; see reply
	older   int      // how many answers in a row have had an older version
}

// NewFinder returns a Finder without answers.
func NewFinder(o Options) *Finder {
	if o.NewResolver == nil {
		o.NewResolver = NewResolver
	}
	o.Counts, o.Log = cmp.Or(o.Counts, new(stats.Control)), cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &Finder{
		options: o, answers: make(map[string]*answer), changed: make(chan struct{}, 1),
	}
}

// Know adds servers of the lists in force to the answers for the entries that have found them, in the pools of
// Server.Pool. Those that the last answers lack count as lacking in one answer. A list with a version says itself who
// was removed. Where no list is in force, the pods that a StatefulSet is to have are added.
func (f *Finder) Know(ctx context.Context, l Lookups, inForce []route.Server) {
	for _, s := range l.Specs {
		a := f.answers[s.entry()]
		found := func(i route.Server) bool { return i.Entry == s.entry() && i.Pool == s.Server.Pool }
		if a == nil || !a.watch.live() || slices.ContainsFunc(inForce, found) {
			continue
		}
		for _, t := range a.watch.wanted(ctx, a.targets) {
			t.absent = 1
			a.add(t)
		}
	}
	for _, server := range inForce {
		for _, s := range l.Specs {
			name, ok := server.Name, true
			if s.Server.Name != "" {
				name, ok = strings.CutPrefix(name, s.Server.Name+"/")
			}
			a := f.answers[s.entry()]
			if ok && a != nil && a.version == 0 && s.entry() == server.Entry && s.Server.Pool == server.Pool {
				a.add(target{name: name, addr: server.Addr, weight: server.Weight, absent: 1})
			}
		}
	}
}

// add adds t unless there is a target of its name.
func (a *answer) add(t target) {
	if !slices.ContainsFunc(a.targets, func(o target) bool { return o.name == t.name }) {
		a.targets = append(a.targets, t)
		slices.SortFunc(a.targets, func(a, b target) int { return strings.Compare(a.name, b.name) })
	}
}

// Lacking returns the servers that stay although the last answers lack them.
func (f *Finder) Lacking(l Lookups) (servers []route.Server) {
	for _, s := range l.Specs {
		if a := f.answers[s.entry()]; a != nil {
			there := func(t target) bool { return t.absent == 0 }
			servers = append(servers, s.servers(slices.DeleteFunc(slices.Clone(a.targets), there))...)
		}
	}
	return servers
}

// Drop removes those of Lacking that gone is true for.
func (f *Finder) Drop(l Lookups, gone func(route.Server) bool) {
	for _, s := range l.Specs {
		if a := f.answers[s.entry()]; a != nil {
			a.targets = slices.DeleteFunc(a.targets,
				func(t target) bool { return t.absent > 0 && gone(s.servers([]target{t})[0]) })
		}
	}
}

// Changed returns a channel that receives an element when Refresh may return other servers than before.
func (f *Finder) Changed() <-chan struct{} { return f.changed }

// Confirmed reports whether the last Find had an answer for every name.
func (f *Finder) Confirmed() bool { return !f.unsure }

// Watches reports whether a part of the servers comes from a watch that is up to date.
func (f *Finder) Watches() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(f.answers)), func(a *answer) bool { return a.watch.live() })
}

// Close ends the watches.
func (f *Finder) Close() { f.Forget(Lookups{}) }

// Jitter returns d changed at random by up to a tenth, so that many middlewares do not ask at the same time.
func Jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

// Find looks up everything and returns the servers, in the order of the entries, and those of one entry by name. An
// entry without an answer keeps its last one. Find fails if an entry has no answer at all, or if, at the entry's first
// lookup, one of its records has no address.
func (f *Finder) Find(ctx context.Context, l Lookups) ([]route.Server, error) {
	return f.find(ctx, l, false)
}

// Refresh is Find with the present results of the watches; no name is looked up. However often it is called between two
// calls of Find, a server that a watch lacks counts as lacking in one answer.
func (f *Finder) Refresh(ctx context.Context, l Lookups) ([]route.Server, error) {
	return f.find(ctx, l, true)
}

func (f *Finder) find(ctx context.Context, l Lookups, early bool) ([]route.Server, error) {
	l.RemoveAfter = cmp.Or(l.RemoveAfter, DefaultRemoveAfter)
	failed := f.ask(ctx, l, early)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !early {
		f.unsure = slices.ContainsFunc(slices.Collect(maps.Values(failed)), func(err error) bool { return err != nil })
	}
	f.release(l)

	var servers []route.Server
	var errs []error
	for _, s := range l.Specs {
		found := []route.Server{s.Server}
		if a := f.answers[s.entry()]; a != nil {
			if len(a.targets) == 0 {
				errs = append(errs, fmt.Errorf("%s: %w", s.entry(), cmp.Or(failed[s.entry()], errEmpty)))
			}
			found = s.servers(a.targets)
		}
		for _, server := range found {
			if !slices.ContainsFunc(servers, func(o route.Server) bool {
				return o.Name == server.Name && o.Addr == server.Addr && o.Pool == server.Pool
			}) {
				servers = append(servers, server)
			}
		}
	}
	return servers, errors.Join(errs...)
}

// Forget drops the answers of entries that are not in l, and ends their watches.
func (f *Finder) Forget(l Lookups) {
	maps.DeleteFunc(f.answers, func(entry string, a *answer) bool {
		forgotten := !slices.ContainsFunc(l.Specs, func(s Spec) bool { return s.entry() == entry })
		if forgotten && a.watch != nil {
			a.watch.stop()
		}
		return forgotten
	})
}

// ask looks up the names of l concurrently, updates the answers, and returns the errors of lookups that failed. early:
// it asks only the watches.
func (f *Finder) ask(ctx context.Context, l Lookups, early bool) map[string]error {
	type result struct {
		reply
		err error
	}
	resolver := f.options.NewResolver(l.Resolver)
	secure := sync.OnceValues(func() (func(host string) *tls.Config, error) { return f.secure(l.Certificates) })
	results := make(map[string]*result)
	var asking sync.WaitGroup
	for _, s := range l.Specs {
		entry := s.entry()
		if s.Lookup == Static || results[entry] != nil {
			continue
		}
		a := f.answers[entry]
		if a == nil {
			a = new(answer)
			f.answers[entry] = a
			if s.Lookup == Endpoints {
				a.watch = f.startWatch(s.Server.Addr)
			}
		}
		if early && !a.watch.live() {
			continue
		}
		r := new(result)
		results[entry] = r
		asking.Go(func() {
			by := asker{resolver: resolver, server: l.Resolver}
			if s.TLS {
				by.secure, r.err = secure()
			}
			if r.err == nil {
				r.reply, r.err = lookUp(ctx, by, s, a)
			}
		})
	}
	asking.Wait()
	failed := make(map[string]error)
	if ctx.Err() != nil {
		return failed // the results of lookups that were cancelled mean nothing
	}
	for entry, r := range results {
		a := f.answers[entry]
		if r.err == nil {
			r.err = a.judge(r.version, l.RemoveAfter)
		}
		failed[entry] = r.err
		if r.err == nil && len(r.unresolved) > 0 && len(a.targets) == 0 {
			failed[entry] = joinHosts(r.unresolved)
		}
		f.options.Counts.LookedUp(outcome(failed[entry]))
		f.report(entry, a, r.err, r.unresolved)
		if failed[entry] == nil {
			a.update(r.reply, l.RemoveAfter, early)
		}
	}
	return failed
}

// secure returns the TLS configurations with the certificates in files.
func (f *Finder) secure(files secret.ClientFiles) (func(host string) *tls.Config, error) {
	if f.certificates != nil && f.files == files {
		return f.certificates, nil
	}
	certificates, err := secret.ClientTLS(files, f.options.Log)
	if err == nil {
		f.certificates, f.files = certificates, files
	}
	return certificates, err
}

func outcome(err error) stats.LookupResult {
	switch {
	case err == nil:
		return stats.LookupOK
	case errors.Is(err, errEmpty):
		return stats.LookupEmpty
	}
	return stats.LookupFailed
}

// joinHosts joins the errors of hosts into one.
func joinHosts(errs map[string]error) error {
	var all []error
	for _, host := range slices.Sorted(maps.Keys(errs)) {
		all = append(all, errs[host])
	}
	return errors.Join(all...)
}

// report logs that a lookup failed, or succeeded again, when that has changed. As long as the entry has no servers,
// Find returns the error instead.
func (f *Finder) report(name string, a *answer, err error, unresolved map[string]error) {
	trouble := ""
	switch {
	case err != nil:
		trouble = "a name cannot be looked up; its servers stay"
		if errors.Is(err, errEmpty) {
			trouble = "a name has no records any more; its servers stay"
		}
	case len(unresolved) > 0:
		err = joinHosts(unresolved)
		trouble = "some records have no address; their servers keep the last one, and new servers are not used yet: " +
			strings.Join(slices.Sorted(maps.Keys(unresolved)), ", ")
	}
	if len(a.targets) == 0 || trouble == a.trouble {
		return
	}
	a.trouble = trouble
	if trouble == "" {
		f.options.Log.Info("a name is found again", "name", name)
		return
	}
	f.options.Log.Warn(trouble, "name", name, "servers", len(a.targets), "error", err)
}

// judge returns an error if an answer with this version is older than the last one: its sender does not know yet what
// another has said. After removeAfter such answers in a row the list counts as a new one, whose versions began again.
func (a *answer) judge(version uint64, removeAfter int) error {
	if version >= a.version {
		a.older = 0
		return nil
	}
	if a.older++; a.older < removeAfter {
		return fmt.Errorf("the list has version %d, which is older than version %d of an earlier answer", version,
			a.version)
	}
	a.version, a.older = 0, 0
	return nil
}

// update applies a good answer. Servers that it lacks stay until removeAfter answers in a row have lacked them and do
// not want them; early answers in a row count as one. A list with a newer version says itself which servers are gone.
// An answer from the DNS has no zones, so the known zones stay.
func (a *answer) update(found reply, removeAfter int, early bool) {
	newer := a.version != 0 && found.version > a.version
	a.version = found.version
	next := slices.DeleteFunc(found.targets, func(t target) bool { return t.addr == "" })
	for _, old := range a.targets {
		if i := slices.IndexFunc(next, func(t target) bool { return t.name == old.name }); i >= 0 {
			next[i].zone = cmp.Or(next[i].zone, old.zone)
			continue
		}
		if !early || old.absent == 0 {
			old.absent++
		}
		wanted := slices.ContainsFunc(found.wanted, func(t target) bool { return t.name == old.name })
		if wanted {
			old.absent = 1
		}
		if wanted || old.absent < removeAfter && !newer {
			next = append(next, old)
		}
	}
	slices.SortFunc(next, func(a, b target) int { return strings.Compare(a.name, b.name) })
	a.targets = next
}

// release removes servers that the last answers lack if another server has their address now.
func (f *Finder) release(l Lookups) {
	taken := make(map[string]bool)
	for _, s := range l.Specs {
		a := f.answers[s.entry()]
		if a == nil {
			taken[s.Server.Addr] = true
			continue
		}
		for _, t := range a.targets {
			if t.absent == 0 {
				taken[t.addr] = true
			}
		}
	}
	for _, a := range f.answers {
		a.targets = slices.DeleteFunc(a.targets, func(t target) bool { return t.absent > 0 && taken[t.addr] })
	}
}
