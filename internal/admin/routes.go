package admin

import (
	"net/http"

	"mcmw/internal/stats"
)

// shownRoutes is the number of routes that the live page shows. /api/routes has all.
const shownRoutes = 50

// Route is a route as it is shown. Its prefix is escaped as in a Go string literal, without the quotes. While its keys
// move to another pool, Pool is that one.
type Route struct {
	stats.Route
	// Gutter and Shadow are those of Pool. Migrations are the migrations from and to Pool, with their phases.
	Gutter     string   `json:"gutter,omitempty"`
	Shadow     string   `json:"shadow,omitempty"`
	Migrations []string `json:"migrations,omitempty"`
}

// routes returns the first routes, at most most of them.
func routes(s *stats.Snapshot, most int) []Route {
	list := []Route{}
	for _, r := range s.Routes[:min(len(s.Routes), most)] {
		route := Route{Route: r}
		route.Prefix = unquoted(r.Prefix)
		for _, g := range s.Gutters {
			if g.Pool == r.Pool {
				route.Gutter = g.Gutter
			}
		}
		for _, shadow := range s.Shadows {
			if shadow.Of == r.Pool {
				route.Shadow = shadow.To
			}
		}
		for _, m := range s.Migrations {
			switch {
			case m.Inside && r.Pool == m.From:
				route.Migrations = append(route.Migrations, m.To+" is filled: "+m.Phase)
			case r.Pool == m.From:
				route.Migrations = append(route.Migrations, "to "+m.To+": "+m.Phase)
			case r.Pool == m.To && !m.Inside:
				route.Migrations = append(route.Migrations, "from "+m.From+": "+m.Phase)
			}
		}
		list = append(list, route)
	}
	return list
}

// serveRoutes answers with all routes.
func (s *Server) serveRoutes(w http.ResponseWriter, _ *http.Request) {
	latest := s.history.now.Load().latest()
	answerJSON(w, map[string][]Route{"routes": routes(latest, len(latest.Routes))})
}
