package admin

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"mcmw/internal/hotkeys"
	"mcmw/internal/model"
	"mcmw/internal/stats"
)

// modelLength is the number of points that the model uses: 10 s.
const modelLength = 10

// historyLength is the number of points that are kept: two minutes.
const historyLength = 120

// history keeps the last two minutes as one point per tick.
type history struct{ now atomic.Pointer[past] }

// past is what the history says at one tick. It is never changed.
type past struct {
	points []Point           // oldest first; those before the newest historyLength are out of date
	recent []*stats.Snapshot // cumulative: at the beginning of the model's time, and at each point in it
	model  *model.Report     // of the points in recent
}

// Point is the summary of one tick.
type Point struct {
	Sequence int64  `json:"seq"`
	Time     int64  `json:"time"` // its end, ms since 1970
	Open     uint64 `json:"open"` // client connections at its end
	Summary
}

func newHistory(first *stats.Snapshot) *history {
	h := &history{}
	h.now.Store(&past{[]Point{}, []*stats.Snapshot{first}, model.Analyse(modelWindow(first.Sub(first), first))})
	return h
}

// add appends the point between the latest snapshot and s, which was taken at now. Only one goroutine calls it.
func (h *history) add(now time.Time, s *stats.Snapshot) {
	was := h.now.Load()
	points := append(was.points, Point{ // readers of was do not look beyond its end
		Sequence: was.sequence() + 1, Time: now.UnixMilli(), Open: s.Open(), Summary: Summarize(s.Sub(was.latest())),
	})
	if len(points) > 2*historyLength {
		points = slices.Clone(points[historyLength:])
	}
	recent := append(slices.Clip(was.recent[max(0, len(was.recent)-modelLength):]), s)
	h.now.Store(&past{points, recent, model.Analyse(modelWindow(s.Sub(recent[0]), s))})
}

// latest returns the cumulative snapshot at the newest point.
func (p *past) latest() *stats.Snapshot { return p.recent[len(p.recent)-1] }

// sequence returns the sequence number of the newest point; 0 if there is none.
func (p *past) sequence() int64 {
	if len(p.points) == 0 {
		return 0
	}
	return p.points[len(p.points)-1].Sequence
}

// after returns the points with sequence numbers above n, oldest first.
func (p *past) after(n int64) []Point {
	count := min(max(p.sequence()-n, 0), historyLength, int64(len(p.points)))
	return p.points[int64(len(p.points))-count:]
}

// Report is the answer of /api/stats.
type Report struct {
	Version string `json:"version"`
	Ready   bool   `json:"ready"`
	// ms since 1970; identifies the process: another one has its own sequence numbers
	Started  int64    `json:"started"`
	Uptime   float64  `json:"uptime"` // seconds
	Tick     float64  `json:"tick"`   // seconds between points
	Length   int      `json:"length"` // points kept
	Workers  int      `json:"workers"`
	Capacity int      `json:"queueCapacity"` // batches
	Requests uint64   `json:"requests"`      // since the start
	Opened   uint64   `json:"opened"`        // client connections since the start
	Stages   []string `json:"stages"`        // names for the arrays of points, as are Classes
	Classes  []string `json:"classes"`
	Servers  []string `json:"servers"`         // now; points name theirs
	Pools    []string `json:"pools,omitempty"` // by server; none: there is one pool, without a name
	// Routes are the first routes. RoutesLeft is the number of the others, which are in /api/routes.
	Routes     []Route `json:"routes"`
	RoutesLeft int     `json:"routesLeft"`
	// Gutters describes, by the name of a pool, how its gutter is used now.
	Gutters map[string]string `json:"gutters,omitempty"`
	Health  []ServerHealth    `json:"health"` // by server
	Recipients
	// Memcached holds the servers' own statistics, by server; null for one that did not answer.
	Memcached []*stats.Memcached `json:"memcached"`
	Agreement Agreement          `json:"agreement"` // of the replicas
	// Phase is the phase of the change of placement; "settled": there is no change.
	Phase string `json:"phase"`
	// Migrations are the migrations of keys to other pools.
	Migrations []Migration `json:"migrations"`

	Queues []stats.QueueSnapshot `json:"queues"`
	// HotKeys are the keys that are requested most.
	HotKeys hotkeys.Report `json:"hotKeys"`
	// Usage says who uses the cache.
	Usage  Usage         `json:"usage"`
	Bounds []int64       `json:"bounds"` // ns; of the points' hist
	Model  *model.Report `json:"model"`
	Points []Point       `json:"points"`
}

// ServerHealth is the state of a server at the last tick.
type ServerHealth struct {
	State  string  `json:"state"`
	For    float64 `json:"for"` // seconds
	Why    string  `json:"why"`
	Missed int     `json:"missed"` // keys
}

// serveStats answers with a Report with the points of the last two minutes, or, with ?after=N, with the points after
// point N.
func (s *Server) serveStats(w http.ResponseWriter, r *http.Request) {
	var after int64
	if v := r.FormValue("after"); v != "" {
		var err error
		if after, err = strconv.ParseInt(v, 10, 64); err != nil || after < 0 {
			http.Error(w, fmt.Sprintf("after=%.40q: want the sequence number of a point, 0 or more", v),
				http.StatusBadRequest)
			return
		}
	}
	past := s.history.now.Load()
	latest := past.latest()
	answer := Report{
		Version:    s.options.Version,
		Ready:      s.options.Ready(),
		Started:    s.started.UnixMilli(),
		Uptime:     float64(latest.Uptime) / float64(time.Second),
		Tick:       tick.Seconds(),
		Length:     historyLength,
		Workers:    latest.Workers,
		Capacity:   latest.QueueCapacity,
		Requests:   latest.Total(),
		Opened:     latest.Opened,
		Stages:     names[stats.Stage](int(stats.NumStages)),
		Classes:    names[stats.Class](int(stats.NumClasses)),
		Servers:    make([]string, len(latest.Servers)),
		Health:     make([]ServerHealth, len(latest.Servers)),
		Memcached:  make([]*stats.Memcached, len(latest.Servers)),
		Agreement:  agreement(latest, time.Now()),
		Phase:      latest.Phase,
		Migrations: migrations(latest, time.Now()),
		Recipients: recipients(latest),
		Routes:     routes(latest, shownRoutes),
		RoutesLeft: max(0, len(latest.Routes)-shownRoutes),
		Queues:     latest.Queues,
		HotKeys:    s.hotKeys(shownHotKeys),
		Usage:      s.usage(),
		Bounds:     HistBounds(),
		Model:      past.model,
		Points:     past.after(after),
	}
	answer.Gutters = gutters(latest)
	memcached := s.memcached.get()
	for i := range latest.Servers {
		if m, ok := memcached[latest.Servers[i].Name]; ok {
			answer.Memcached[i] = &m
		}
		answer.Servers[i] = latest.Servers[i].Name
		if pool := latest.Servers[i].Pool; pool != "" {
			answer.Pools = append(answer.Pools, pool)
		}
		h := latest.Servers[i].Health
		answer.Health[i] = ServerHealth{
			State: h.State, For: time.Since(h.Since).Seconds(), Why: h.Why,
			Missed: h.Missed,
		}
	}
	answerJSON(w, answer)
}

// gutters returns Report.Gutters.
func gutters(s *stats.Snapshot) map[string]string {
	texts := map[string]string{}
	for _, g := range s.Gutters {
		switch {
		case g.Away > 0:
			texts[g.Pool] = "keys of servers that are down are in " + g.Gutter
		case g.Open > 0:
			texts[g.Pool] = "writes delete keys in " + g.Gutter + ", which may still hold some"
		}
	}
	return texts
}

// names returns the names of the first n values of T.
func names[T named](n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = T(i).String()
	}
	return list
}
