package middleware

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

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

// routesBoard returns where changes to this middleware's routes and gutters are announced.
func (m *Middleware) routesBoard() *board[routesChange] {
	own := m.options.routesName()
	return &board[routesChange]{
		m.phasedServers(),
		[numNotices]string{noticeDeleting: marker.RoutesDeletingKey, noticeReading: marker.RoutesReadingKey},
		func(value []byte) (a announced[routesChange], ok bool) {
			err := json.Unmarshal(value, &a.change)
			a.To, a.change.To = a.change.To, ""
			a.From = named(a.change)
			return a, err == nil && a.To == own
		},
	}
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

// announcement returns what m announces of its change of routes r.
func (m *Middleware) announcement(r *rerouting) []byte {
	value, _ := json.Marshal(routesChange{r.from, r.gutters, m.options.routesName()}) // it never fails
	return value
}

// announceRoutes is announce for the change of routes r. It returns what is announced for the other one of the phases
// delete-new and read-new; in phase late for delete-new. applying is held.
func (m *Middleware) announceRoutes(ctx context.Context, r *rerouting, phase route.Phase) []announced[routesChange] {
	seen := m.routesBoard().announce(ctx, phase, m.announcement(r), m.announcementLasts())
	if phase == route.DeleteNew {
		return seen[noticeReading]
	}
	return seen[noticeDeleting]
}

// lookAtRoutes is look for the change of routes that is under way. Phase late lasts as read-new does, because the phase
// after it is the same. applying is held.
func (m *Middleware) lookAtRoutes(ctx context.Context) {
	r := m.routing
	if !r.phased || r.phase == route.Settled {
		return
	}
	others := m.announceRoutes(ctx, r, r.phase)
	for _, p := range m.current.Load().pools {
		if p.had != nil && r.gains[p.name] {
			mark := m.routesMark(p)
			p.each(func(s *backend.Server) { _ = s.Talk(ctx, mark.Keep) })
		}
	}
	switch soon := time.Now().Add(m.lookEvery()); {
	case len(others) == 0:
	case r.phase == route.DeleteNew:
		r.due = time.Now()
	case r.due.Before(soon):
		r.due = soon
	}
}

// joinRoutes returns the change to c's routes and gutters that other middlewares have announced, in the phase in which
// this middleware joins it; nil: none. See join. applying is held.
func (m *Middleware) joinRoutes(ctx context.Context, c *core) (joined *rerouting) {
	if !c.router.Named() {
		return nil
	}
	phase := m.routesBoard().join(ctx, m.lookEvery(), m.announcementLasts(),
		func(a announced[routesChange], phase route.Phase) []byte {
			if joined = c.reroutingOf(a.change, phase); joined == nil {
				return nil
			}
			return m.announcement(joined)
		})
	if phase == route.Settled {
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
	r := &rerouting{course: course{phase: phase}, from: a.From, gutters: map[string]route.Standin{}, phased: true}
	for pool, gutter := range a.Gutters {
		if c.options.number(pool) < 0 || gutter.Pool != "" && c.options.number(gutter.Pool) < 0 {
			return nil
		}
		r.gutters[pool] = gutter
	}
	r.gains = gains(route.MovedBetween(before, c.router.Table()))
	return r
}
