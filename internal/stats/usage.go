package stats

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"mcmw/internal/hotkeys"
)

// Use is what the requests for some keys came to. A request with several keys counts once for each of them.
type Use struct {
	Requests     uint64
	Hits, Misses uint64 // of those that look a key up
	Bytes        uint64 // of the requests and their replies
	EvictedSoon  uint64 // misses of items that were stored less than Soon before; see Soon
	Timed        uint64 // requests that have a response time: all but those answered from memory
	Time         uint64 // sum of these times, ns
}

// halfLife is the time in which the weight of a request falls to a half in the recent use.
const halfLife = 5 * time.Minute

// Usage counts who uses the cache: by route, by user, and by prefix of the keys up to a delimiter. Any goroutine may
// use it.
//
// All counts are estimates. Each key of a sample of one in hotkeys.SampleEvery counts as so many. The standard error of
// a count n is therefore about sqrt(hotkeys.SampleEvery*n).
type Usage struct {
	delimiter string // static; "": prefixes are not counted
	tracked

	mu      sync.Mutex
	routeOf func(key []byte) string // guarded by mu, as all below; nil: all keys have DefaultRoute
	routes  map[string]*tally       // by prefix; that of DefaultRoute is ""
	users   map[string]*tally
	recent  recent
}

// Used is the use of a route or a user since the start.
type Used struct {
	Use
	Times Histogram // response times; only of a route
}

// tally is the use of a route or a user: since the start, and recently.
type tally struct {
	Used
	recent Use
}

func (t *tally) add(use *Use) {
	add(&t.Use, use)
	add(&t.recent, use)
}

// recent is the use that is halved every halfLife, of prefixes only of those that a sketch finds to be used most.
type recent struct {
	sketch   *hotkeys.Sketch
	prefixes [hotkeys.Counters]Use // by counter of sketch
	all      Use
	// The uses describe the time until halved, weighted, for before ns, and the time from then on; ns as Now.
	halved, before int64
}

// NewUsage returns a Usage of prefixes that end with delimiter, the first one in a key; "": prefixes are not counted.
func NewUsage(delimiter string) *Usage {
	return &Usage{
		delimiter: delimiter, tracked: tracked{seed: maphash.MakeSeed()},
		users:  map[string]*tally{},
		recent: recent{sketch: hotkeys.NewSketch(halfLife), halved: Now()},
	}
}

// DefaultRoute is the name of the route of the keys that no other route has.
const DefaultRoute = "default"

// setRoutes makes u count the routes. of returns the prefix of a key's route.
func (u *Usage) setRoutes(routes []Route, of func(key []byte) string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.routes
	u.routes, u.routeOf = map[string]*tally{}, of
	for _, r := range append([]Route{{}}, routes...) {
		u.routes[r.Prefix] = cmp.Or(before[r.Prefix], &tally{})
	}
}

// routeName returns the name of the route with the prefix. Only the route without one is called DefaultRoute.
func routeName(prefix string) string {
	if prefix == DefaultRoute {
		return "prefix " + prefix
	}
	return cmp.Or(prefix, DefaultRoute)
}

// Add counts use, of one request for key by user, for all that the sample stands for. user is "" without a login. now
// is the time, as Now.
func (u *Usage) Add(key []byte, user string, use Use, now int64) {
	time := use.Time
	all := numbers(&use)
	for i := range all {
		all[i] *= hotkeys.SampleEvery
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.addOf(key, user, &use, now).Times.record(int64(time), use.Timed)
}

// Missed notes that a read of key by user, which began at since and has ended at now, as Now, did not find an item. It
// stands for n reads.
func (u *Usage) Missed(key []byte, user string, n uint64, since, now int64) {
	if !u.missed(key, since, now) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.addOf(key, user, &Use{EvictedSoon: n * TrackEvery}, now)
}

// addOf adds use to that of user, of the prefix of key, and of its route, which it returns; mu is held.
func (u *Usage) addOf(key []byte, user string, use *Use, now int64) *tally {
	u.halve(now)
	add(&u.recent.all, use)
	if user != "" {
		by := u.users[user]
		if by == nil {
			by = &tally{}
			u.users[user] = by
		}
		by.add(use)
	}
	if u.delimiter != "" {
		end := 0
		if at := bytes.Index(key, []byte(u.delimiter)); at >= 0 {
			end = at + len(u.delimiter)
		}
		u.recent.addPrefix(key[:end], use, now)
	}
	r := u.routes[""]
	if u.routeOf != nil {
		r = cmp.Or(u.routes[u.routeOf(key)], r)
	}
	r.add(use)
	return r
}

// addPrefix adds use to that of prefix, "" for keys without one.
func (p *recent) addPrefix(prefix []byte, use *Use, now int64) {
	var counter int
	var replaced bool
	if use.Requests > 0 {
		counter, replaced = p.sketch.Count(prefix, now)
	} else {
		counter = p.sketch.Find(prefix)
	}
	if counter < 0 {
		return
	}
	if replaced {
		p.prefixes[counter] = Use{}
	}
	add(&p.prefixes[counter], use)
}

// halve halves the recent uses once for each half-life that has passed at now, as Now.
func (u *Usage) halve(now int64) {
	p := &u.recent
	lives := (now - p.halved) / int64(halfLife)
	p.halved += lives * int64(halfLife)
	for range min(lives, 63) {
		p.before = (p.before + int64(halfLife)) / 2
		p.all.halve()
		for i := range p.prefixes {
			p.prefixes[i].halve()
		}
		for _, all := range []map[string]*tally{u.routes, u.users} {
			for _, t := range all {
				t.recent.halve()
			}
		}
	}
}

func (u *Use) halve() {
	all := numbers(u)
	for i := range all {
		all[i] /= 2
	}
}

// NamedUse is the use of what has the name.
type NamedUse struct {
	Name string
	Use
}

// RecentUse is the use of routes, users and prefixes, the most used first, and of all keys, in about the last Seconds.
type RecentUse struct {
	Seconds                 float64
	Routes, Users, Prefixes []NamedUse // Routes is nil unless there are several
	All                     Use
}

// Recent returns the recent use, of at most n prefixes, at the time now, as Now.
func (u *Usage) Recent(n int, now int64) RecentUse {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.halve(now)
	p := &u.recent
	r := RecentUse{Seconds: float64(p.before+now-p.halved) / float64(time.Second), All: p.all}
	for prefix, route := range u.routes {
		if len(u.routes) > 1 {
			r.Routes = append(r.Routes, NamedUse{routeName(prefix), route.recent})
		}
	}
	for name, by := range u.users {
		r.Users = append(r.Users, NamedUse{name, by.recent})
	}
	for counter, name := range p.sketch.Counted() {
		r.Prefixes = append(r.Prefixes, NamedUse{name, p.prefixes[counter]})
	}
	r.Routes, r.Users, r.Prefixes = mostUsed(r.Routes), mostUsed(r.Users), mostUsed(r.Prefixes)
	r.Prefixes = r.Prefixes[:min(n, len(r.Prefixes))]
	return r
}

// mostUsed returns the uses that have requests, those with the most first. It changes list.
func mostUsed(list []NamedUse) []NamedUse {
	list = slices.DeleteFunc(list, func(use NamedUse) bool { return use.Requests == 0 })
	slices.SortFunc(list, func(a, b NamedUse) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Name, b.Name))
	})
	return list
}

// UsageSnapshot is the use of routes and users since the start, by name. Without routes it is only that of users.
type UsageSnapshot struct{ Routes, Users map[string]Used }

// Snapshot returns the use of routes and users since the start.
func (u *Usage) Snapshot() UsageSnapshot {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := UsageSnapshot{map[string]Used{}, map[string]Used{}}
	for prefix, r := range u.routes {
		if len(u.routes) > 1 {
			s.Routes[routeName(prefix)] = Used{r.Use, r.Times.Plus(&Histogram{})}
		}
	}
	for name, by := range u.users {
		s.Users[name] = by.Used
	}
	return s
}
