package middleware

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"mcmw/internal/backend"
	"mcmw/internal/marker"
	"mcmw/internal/route"
)

// routesChange is what is announced of a change of routes or gutters.
type routesChange struct {
	From    route.Routes             `json:"from"`
	Gutters map[string]route.Standin `json:"gutters,omitempty"` // as in rerouting
	To      string                   `json:"to"`                // names the routes and gutters after it
}

// named returns a short text that is equal for what is equal in JSON.
func named(v any) string {
	text, _ := json.Marshal(v) // it never fails for what is announced
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// routesName names o's routes and gutters.
func (o *Options) routesName() string {
	a := routesChange{Gutters: map[string]route.Standin{}}
	if table, err := route.NewTable(o.names(), o.Routes); err == nil { // it never fails: o has been validated
		a.From = table.Routes()
	}
	for _, p := range o.Pools {
		if gutter := p.Options.Standin(); gutter.Pool != "" {
			a.Gutters[p.Name] = gutter
		}
	}
	return named(a)
}

// routesBoard returns where changes to this middleware's routes and gutters are announced. A middleware that has
// started knows the routes before the change only from records, so the change is known by what it leads to. r may be
// nil.
func (m *Middleware) routesBoard(r *rerouting) *board {
	own := route.Announced{To: m.options.routesName()}
	b := &board{
		servers: m.phasedServers(), own: own,
		keys: [numNotices]string{noticeDeleting: marker.RoutesDeletingKey, noticeReading: marker.RoutesReadingKey},
		name: func(value []byte) (route.Announced, bool) {
			_, name, ok := decodeRoutesChange(value)
			return name, ok && name.To == own.To
		},
	}
	if r != nil {
		b.value, _ = json.Marshal(routesChange{r.from, r.gutters, own.To}) // it never fails
	}
	return b
}

// board returns nil in the last phase: nobody has to know of that.
func (r *rerouting) board(m *Middleware) *board {
	if r.alone || r.phase == route.Settled {
		return nil
	}
	return m.routesBoard(r)
}

// decodeRoutesChange returns what announces a change of routes, and the change's name.
func decodeRoutesChange(value []byte) (a routesChange, name route.Announced, ok bool) {
	err := json.Unmarshal(value, &a)
	name.To, a.To = a.To, ""
	name.From = named(a)
	return a, name, err == nil
}

// phasedServers returns the servers of the pools that change in phases.
func (m *Middleware) phasedServers() (servers []*backend.Server) {
	for _, p := range m.current.Load().pools {
		if p.records != nil && p.options.inPhases(p.step) {
			servers = append(servers, p.servers...)
		}
	}
	return servers
}

// joinRoutes returns the change to c's routes and gutters that other middlewares have announced, in the phase in which
// this middleware joins it; nil: none. applying is held.
func (m *Middleware) joinRoutes(ctx context.Context, c *core) (joined *rerouting) {
	enter := func(value []byte, phase route.Phase) driven {
		a, _, _ := decodeRoutesChange(value)
		if joined = c.reroutingOf(a, phase); joined == nil {
			return nil
		}
		return joined
	}
	if !c.router.Named() || !m.join(ctx, m.routesBoard(nil), enter) {
		return nil
	}
	return joined
}

// reroutingOf returns the change a in a phase; nil: c lacks a pool that it needs.
func (c *core) reroutingOf(a routesChange, phase route.Phase) *rerouting {
	before, err := route.NewTable(c.options.names(), a.From)
	if err != nil {
		return nil
	}
	r := &rerouting{course: course{phase: phase}, from: a.From, gutters: map[string]route.Standin{}}
	for pool, gutter := range a.Gutters {
		if c.options.number(pool) < 0 || gutter.Pool != "" && c.options.number(gutter.Pool) < 0 {
			return nil
		}
		r.gutters[pool] = gutter
	}
	r.gains = gains(route.MovedBetween(before, c.router.Table()))
	return r
}
