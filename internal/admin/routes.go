package admin

import (
	"encoding/json"
	"net/http"
	"strconv"

	"mcmw/internal/stats"
)

// shownRoutes is how many routes the live page shows. /api/routes has all.
const shownRoutes = 50

// Route says where the keys of a prefix go. While keys move to other pools it says where to.
type Route struct {
	// Prefix is as in a Go string, without the quotes; that of the keys that begin with no other prefix is "".
	Prefix  string `json:"prefix"`
	Default bool   `json:"default,omitempty"`
	Pool    string `json:"pool"`
	Reads   string `json:"reads,omitempty"` // the pool that reads go to, if that is another one
	Strip   bool   `json:"strip,omitempty"` // the servers know the keys without the prefix
	// Gutter and Shadow are Pool's, and Migrations those from and to Pool, with their phases.
	Gutter     string   `json:"gutter,omitempty"`
	Shadow     string   `json:"shadow,omitempty"`
	Migrations []string `json:"migrations,omitempty"`
}

// routes returns the first of the routes, at most so many.
func routes(s *stats.Snapshot, most int) []Route {
	list := []Route{}
	for _, r := range s.Routes[:min(len(s.Routes), most)] {
		quoted := strconv.Quote(r.Prefix)
		route := Route{Prefix: quoted[1 : len(quoted)-1], Default: r.Default, Pool: r.Pool, Reads: r.Reads, Strip: r.Strip}
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
	latest := s.history.newest()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(map[string][]Route{"routes": routes(latest, len(latest.Routes))}) // an error means that the client has gone
}
