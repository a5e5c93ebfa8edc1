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

// prefixHalfLife is the time in which the weight of a request falls to a half in the use of prefixes.
const prefixHalfLife = 5 * time.Minute

// Usage counts who uses the cache: by route, by user, and by prefix of the keys up to a delimiter. Any goroutine may
// use it.
//
// All counts are estimates. Each key of a sample of one in hotkeys.SampleEvery counts as so many. The standard error of
// a count n is therefore about sqrt(hotkeys.SampleEvery*n).
type Usage struct {
	delimiter string // static; "": prefixes are not counted
	tracked

	mu       sync.Mutex
	routeOf  func(key []byte) string // guarded by mu, as all below; nil: all keys have DefaultRoute
	routes   map[string]*RouteUse
	users    map[string]*Use
	prefixes prefixes
}

// RouteUse is the use of a route.
type RouteUse struct {
	Use
	Times Histogram // response times
}

// prefixes is the use of the prefixes that a sketch finds to be used most. It is halved every prefixHalfLife.
type prefixes struct {
	sketch *hotkeys.Sketch
	uses   [hotkeys.Counters]Use // by counter of sketch
	all    Use
	// The uses describe the time until halved, weighted, for before ns, and the time from then on; ns as Now.
	halved, before int64
}

// NewUsage returns a Usage of prefixes that end with delimiter, the first one in a key; "": prefixes are not counted.
func NewUsage(delimiter string) *Usage {
	return &Usage{
		delimiter: delimiter, tracked: tracked{seed: maphash.MakeSeed()},
		routes: map[string]*RouteUse{}, users: map[string]*Use{},
		prefixes: prefixes{sketch: hotkeys.NewSketch(prefixHalfLife), halved: Now()},
	}
}

// DefaultRoute is the name of the route of the keys that no other route has.
const DefaultRoute = "default"

// setRoutes makes u count the routes. of returns the prefix of a key's route.
func (u *Usage) setRoutes(routes []Route, of func(key []byte) string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.routes
	u.routes, u.routeOf = map[string]*RouteUse{}, of
	for _, r := range append([]Route{{}}, routes...) {
		name := cmp.Or(r.Prefix, DefaultRoute)
		if u.routes[name] = before[name]; u.routes[name] == nil {
			u.routes[name] = &RouteUse{}
		}
	}
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
	r := u.addOf(key, user, &use, now)
	if use.Timed > 0 {
		r.Times.record(int64(time), use.Timed)
	}
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
func (u *Usage) addOf(key []byte, user string, use *Use, now int64) *RouteUse {
	if user != "" {
		if u.users[user] == nil {
			u.users[user] = &Use{}
		}
		add(u.users[user], use)
	}
	if u.delimiter != "" {
		end := 0
		if at := bytes.Index(key, []byte(u.delimiter)); at >= 0 {
			end = at + len(u.delimiter)
		}
		u.prefixes.add(key[:end], use, now)
	}
	name := DefaultRoute
	if u.routeOf != nil {
		name = cmp.Or(u.routeOf(key), DefaultRoute)
	}
	r := u.routes[name]
	if r == nil {
		r = u.routes[DefaultRoute]
	}
	add(&r.Use, use)
	return r
}

// add adds use to that of prefix, "" for keys without one.
func (p *prefixes) add(prefix []byte, use *Use, now int64) {
	p.halve(now)
	add(&p.all, use)
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
		p.uses[counter] = Use{}
	}
	add(&p.uses[counter], use)
}

// halve halves the uses once for each half-life that has passed at now, as Now.
func (p *prefixes) halve(now int64) {
	lives := (now - p.halved) / int64(prefixHalfLife)
	if lives <= 0 {
		return
	}
	p.halved += lives * int64(prefixHalfLife)
	for range min(lives, 63) {
		p.before = (p.before + int64(prefixHalfLife)) / 2
		p.all.halve()
		for i := range p.uses {
			p.uses[i].halve()
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

// PrefixUse is the use of prefixes: the use of those with the most requests, and of all keys, with a prefix or without,
// in about the last Seconds.
type PrefixUse struct {
	Seconds  float64
	Prefixes []NamedUse
	All      Use
}

// Prefixes returns the use of at most n prefixes at the time now, as Now.
func (u *Usage) Prefixes(n int, now int64) PrefixUse {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := &u.prefixes
	p.halve(now)
	r := PrefixUse{Seconds: float64(p.before+now-p.halved) / float64(time.Second), All: p.all}
	for counter, name := range p.sketch.Counted() {
		if p.uses[counter].Requests > 0 {
			r.Prefixes = append(r.Prefixes, NamedUse{name, p.uses[counter]})
		}
	}
	slices.SortFunc(r.Prefixes, func(a, b NamedUse) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Name, b.Name))
	})
	r.Prefixes = r.Prefixes[:min(n, len(r.Prefixes))]
	return r
}

// UsageSnapshot is the use of routes and users since the start, by name. Without routes it is only that of users.
type UsageSnapshot struct {
	Routes map[string]RouteUse
	Users  map[string]Use
}

// Snapshot returns the use of routes and users since the start.
func (u *Usage) Snapshot() UsageSnapshot {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := UsageSnapshot{map[string]RouteUse{}, map[string]Use{}}
	for name, r := range u.routes {
		if len(u.routes) == 1 {
			break
		}
		s.Routes[name] = RouteUse{r.Use, r.Times.Plus(&Histogram{})}
	}
	for name, use := range u.users {
		s.Users[name] = *use
	}
	return s
}
