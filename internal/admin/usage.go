package admin

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"mcmw/internal/hotkeys"
	"mcmw/internal/spell"
	"mcmw/internal/stats"
)

const (
	// shownPrefixes is the number of prefixes that the live page, mcmw top and /api/prefixes show.
	shownPrefixes = 50
	// leastLookups is the number of sampled lookups below which nothing is said about a prefix.
	leastLookups = 100
	// leastEvicted is the number of tracked items that must have been evicted soon before that is said of a prefix.
	leastEvicted = 20
)

// Usage says who uses the cache. Rates are per second, times in ns.
type Usage struct {
	Seconds  float64   `json:"seconds"` // the time that the rates describe: about the last ten minutes
	Routes   []UseLoad `json:"routes"`  // none if there is only one
	Users    []UseLoad `json:"users"`
	Prefixes []UseLoad `json:"prefixes"`
	// Advice says what follows from the numbers of the prefixes.
	Advice []string `json:"advice"`
}

// UseLoad is the load of a route, a user or a prefix. Name is escaped as in a Go string literal, without the quotes.
type UseLoad struct {
	Name        string  `json:"name"`
	Share       float64 `json:"share"`      // of all requests, 0 to 1
	BytesShare  float64 `json:"bytesShare"` // of the bytes of all requests and replies, 0 to 1
	Requests    float64 `json:"requests"`
	Hits        float64 `json:"hits"`
	Misses      float64 `json:"misses"`
	Bytes       float64 `json:"bytes"`
	EvictedSoon float64 `json:"evictedSoon"` // misses of items that were stored less than 10 minutes before
	Mean        float64 `json:"mean"`        // response time
	Sampled     uint64  `json:"sampled"`     // requests that were counted
}

// unquoted escapes a name as in a Go string literal, without the quotes.
func unquoted(name string) string {
	quoted := strconv.Quote(name)
	return quoted[1 : len(quoted)-1]
}

// usageOf returns what of says.
func usageOf(of *stats.RecentUse) Usage {
	u := Usage{
		Seconds: of.Seconds, Routes: loadsOf(of, of.Routes), Users: loadsOf(of, of.Users),
		Prefixes: loadsOf(of, of.Prefixes), Advice: []string{},
	}
	for i := range u.Prefixes {
		u.Advice = append(u.Advice, prefixAdvice(&u.Prefixes[i], &of.Prefixes[i].Use, len(of.Prefixes) > 1)...)
	}
	return u
}

// loadsOf returns the loads of uses, which are of the same time as all.
func loadsOf(all *stats.RecentUse, uses []stats.NamedUse) []UseLoad {
	rate := func(n uint64) float64 { return float64(n) / max(all.Seconds, 1) }
	loads := []UseLoad{}
	for i := range uses {
		use := &uses[i]
		loads = append(loads, UseLoad{
			Name: unquoted(use.Name), Requests: rate(use.Requests), Hits: rate(use.Hits), Misses: rate(use.Misses),
			Bytes: rate(use.Bytes), EvictedSoon: rate(use.EvictedSoon),
			Mean:       float64(use.Time) / float64(max(use.Timed, 1)),
			Share:      float64(use.Requests) / float64(max(all.All.Requests, 1)),
			BytesShare: float64(use.Bytes) / float64(max(all.All.Bytes, 1)),
			Sampled:    use.Requests / hotkeys.SampleEvery,
		})
	}
	return loads
}

// prefixAdvice says what follows from the use of a prefix. others: there are other prefixes.
func prefixAdvice(load *UseLoad, use *stats.Use, others bool) (advice []string) {
	lookups := use.Hits + use.Misses
	say := func(format string, a ...any) {
		advice = append(advice, fmt.Sprintf("%q: ", load.Name)+fmt.Sprintf(format, a...))
	}
	switch enough := lookups >= leastLookups*hotkeys.SampleEvery; {
	case enough && use.EvictedSoon >= leastEvicted*stats.TrackEvery && 2*use.EvictedSoon > use.Misses:
		say("most misses (%.0f %%) are of items that were stored less than %.0f minutes before and were evicted: they "+
			"need more memory, smaller values, or a pool of their own",
			min(100, 100*float64(use.EvictedSoon)/float64(use.Misses)), stats.Soon.Minutes())
	case enough && use.Hits == 0:
		say("none of %s lookups per second hits: either nothing stores these keys, or readers and writers build them "+
			"differently", spell.Count(load.Misses))
	}
	if others && load.BytesShare >= 0.8 && load.Sampled >= leastLookups {
		say("brings %.0f %% of the bytes with %.0f %% of the requests: smaller or compressed values help most here",
			100*load.BytesShare, 100*load.Share)
	}
	return advice
}

// usage returns who uses the cache.
func (s *Server) usage() Usage {
	recent := s.options.Registry.Usage().Recent(shownPrefixes, stats.Now())
	return usageOf(&recent)
}

// servePrefixes answers with the routes, users and prefixes that use the cache most.
func (s *Server) servePrefixes(w http.ResponseWriter, _ *http.Request) { answerJSON(w, s.usage()) }

// The families of the metrics of who uses the cache.
var (
	perRoute = keyed(func(s stats.UsageSnapshot) map[string]stats.Used { return s.Routes }, "route", unquoted)
	perUser  = keyed(func(s stats.UsageSnapshot) map[string]stats.Used { return s.Users }, "user", unquoted)
)

// usageMetrics show who uses the cache, by route and by user. Prefixes are too many for labels.
var usageMetrics = append(slices.Concat(usesBy("route", perRoute), usesBy("user", perUser)),
	perRoute.value("route_request_duration_seconds", "Response time by route."+estimated,
		func(r stats.Used) any { return &r.Times }),
	perUser.value("user_request_seconds_total", "Sum of the response times by user."+estimated,
		func(u stats.Used) any { return float64(u.Time) / 1e9 }),
)

const estimated = " Estimated from one key in 64."

// usesBy returns the metrics of a family with this label.
func usesBy(label string, f family[stats.UsageSnapshot, stats.Used]) []metric[stats.UsageSnapshot] {
	by := " by " + label + "." + estimated
	return []metric[stats.UsageSnapshot]{
		f.value(label+"_requests_total", "Requests, one for each key,"+by,
			func(u stats.Used) any { return u.Requests }),
		f.by("result", label+"_lookups_total", "Keys that were found, or not,"+by, func(u stats.Used) values {
			return values{"hit": u.Hits, "miss": u.Misses}
		}),
		f.value(label+"_bytes_total", "Bytes of requests and replies"+by, func(u stats.Used) any { return u.Bytes }),
		f.value(label+"_evicted_soon_total", "Misses of items stored less than ten minutes before"+by,
			func(u stats.Used) any { return u.EvictedSoon }),
	}
}
