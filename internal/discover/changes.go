package discover

import (
	"fmt"
	"slices"

	"mcmw/internal/route"
)

// Changes are the differences between two lists of servers, by the servers' names.
type Changes struct {
	Added, Removed []string
	Renamed        []string // "old -> new": another name with the same address; keys move as to a new server
	Moved          []string // "name: old -> new": another address with the same name; no key moves
	Reweighted     []string // "name: old -> new"
}

// Compare returns the changes from old to now. The order of servers does not matter.
func Compare(old, now []route.Server) Changes {
	var c Changes
	named := func(name string) func(route.Server) bool {
		return func(s route.Server) bool { return s.Name == name }
	}
	for _, s := range now {
		i := slices.IndexFunc(old, named(s.Name))
		if i < 0 {
			// The server at its address may have been removed from the list.
			i = slices.IndexFunc(old, func(o route.Server) bool {
				return o.Addr == s.Addr && !slices.ContainsFunc(now, named(o.Name))
			})
			if i < 0 {
				c.Added = append(c.Added, s.Name)
				continue
			}
			c.Renamed = append(c.Renamed, old[i].Name+" -> "+s.Name)
		}
		before := old[i]
		if before.Addr != s.Addr {
			c.Moved = append(c.Moved, s.Name+": "+before.Addr+" -> "+s.Addr)
		}
		if from, to := max(1, before.Weight), max(1, s.Weight); from != to {
			c.Reweighted = append(c.Reweighted, fmt.Sprintf("%s: %d -> %d", s.Name, from, to))
		}
	}
	for _, s := range old {
		renamed := slices.ContainsFunc(now, func(o route.Server) bool {
			return o.Addr == s.Addr && !slices.ContainsFunc(old, named(o.Name))
		})
		if !renamed && !slices.ContainsFunc(now, named(s.Name)) {
			c.Removed = append(c.Removed, s.Name)
		}
	}
	return c
}

// Fields returns the changes as fields of a message in the log; none if nothing has changed.
func (c Changes) Fields() (fields []any) {
	for _, list := range []struct {
		what    string
		servers []string
	}{
		{"added", c.Added},
		{"removed", c.Removed},
		{"renamed", c.Renamed},
		{"moved", c.Moved},
		{"reweighted", c.Reweighted},
	} {
		if len(list.servers) > 0 {
			fields = append(fields, list.what, list.servers)
		}
	}
	return fields
}

// Any reports whether there are any changes.
func (c Changes) Any() bool { return c.Fields() != nil }
