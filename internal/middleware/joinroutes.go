package middleware

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/link"
	"mcmw/internal/marker"
	"mcmw/internal/route"
)

// routesAnnouncement is a change of routes or gutters that a middleware has announced on the servers, like an
// announcement.
type routesAnnouncement struct {
	From    route.Routes             `json:"from"`
	Gutters map[string]route.Standin `json:"gutters,omitempty"` // as in rerouting
	To      string                   `json:"to"`                // names the routes and gutters after it
}

// announced returns the names of the changes.
func announced(all []routesAnnouncement) (names []route.Announced) {
	for _, a := range all {
		to := a.To
		a.To = ""
		names = append(names, route.Announced{From: named(a), To: to})
	}
	return names
}

// named returns a short text that is equal for what is equal in JSON.
func named(v any) string {
	text, _ := json.Marshal(v) // it never fails for what is announced
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// routesName names o's routes and gutters.
func (o *Options) routesName() string {
	a := routesAnnouncement{Gutters: map[string]route.Standin{}}
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

// routesSightings returns the changes to this middleware's routes and gutters that are announced under key on the
// servers of pools that change in phases, after first has been done there.
func (m *Middleware) routesSightings(
	ctx context.Context, key string, first func(*link.Link) error,
) (found []routesAnnouncement) {
	own := m.options.routesName()
	found = findOn(m.phasedServers(), func(s *backend.Server) (a routesAnnouncement, ok bool) {
		err := s.Talk(ctx, func(l *link.Link) error {
			if err := first(l); err != nil {
				return err
			}
			value, _, err := l.Get(key)
			if err != nil {
				return err
			}
			return json.Unmarshal(value, &a)
		})
		return a, err == nil
	})
	return slices.DeleteFunc(found, func(a routesAnnouncement) bool { return a.To != own })
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

// announceRoutes is announce for the change of routes r. In phase late, too, nothing is written, and the announcements
// for delete-new are returned. applying is held.
func (m *Middleware) announceRoutes(ctx context.Context, r *rerouting, phase route.Phase) []routesAnnouncement {
	value, err := json.Marshal(routesAnnouncement{r.from, r.gutters, m.options.routesName()})
	if err != nil {
		return nil
	}
	key, theirs := marker.RoutesDeletingKey, marker.RoutesReadingKey
	if phase != route.DeleteNew {
		key, theirs = theirs, key
	}
	return m.routesSightings(ctx, theirs, func(l *link.Link) error {
		if phase != route.DeleteNew && phase != route.ReadNew {
			return nil
		}
		return l.Set(key, value, m.announcementLasts())
	})
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
func (m *Middleware) joinRoutes(ctx context.Context, c *core) *rerouting {
	if !c.router.Named() {
		return nil
	}
	nothing := func(*link.Link) error { return nil }
	look := func() (deleting, reading []routesAnnouncement) {
		deleting = m.routesSightings(ctx, marker.RoutesDeletingKey, nothing)
		return deleting, m.routesSightings(ctx, marker.RoutesReadingKey, nothing)
	}
	begun := time.Now()
	deleting, reading := look()
	for {
		a, phase := route.Join(announced(deleting), nil, announced(reading))
		if phase == route.Settled {
			return nil
		}
		all := slices.Concat(deleting, reading)
		joins := all[slices.Index(announced(all), a)]
		r := c.reroutingOf(joins, phase)
		if r == nil {
			return nil
		}
		others := m.announceRoutes(ctx, r, phase)
		if phase == route.ReadNew {
			return r
		}
		deleting, reading = []routesAnnouncement{joins}, others
		switch {
		case time.Since(begun) > m.lookEvery():
			each(m.phasedServers(), func(s *backend.Server) {
				_ = s.Talk(ctx, func(l *link.Link) error { return l.Delete(marker.RoutesDeletingKey) })
			})
			begun = time.Now()
			deleting, reading = look()
		case len(others) == 0:
			return r
		}
	}
}

// reroutingOf returns the change a in a phase; nil: c lacks a pool that it needs.
func (c *core) reroutingOf(a routesAnnouncement, phase route.Phase) *rerouting {
	before, err := route.NewTable(c.options.names(), a.From)
	if err != nil {
		return nil
	}
	r := &rerouting{course: course{phase: phase}, from: a.From, gutters: map[string]route.Standin{}, phased: true}
	for pool, gutter := range a.Gutters {
		if c.named(pool) < 0 || gutter.Pool != "" && c.named(gutter.Pool) < 0 {
			return nil
		}
		r.gutters[pool] = gutter
	}
	r.gains = gains(route.MovedBetween(before, c.router.Table()))
	return r
}
