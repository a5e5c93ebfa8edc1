package backend

import (
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/marker"
	"mcmw/internal/mctest"
	"mcmw/internal/route"
)

// Middlewares count the changes of the placement that they make themselves, and one may get to the same placement by more of them.
func TestAStartDoubtsNoServerBecauseTheOthersHaveMadeDifferentNumbersOfChanges(t *testing.T) {
	memcacheds := mctest.StartMemcacheds(t, 3)
	all, two := marker.Placement{Replicas: 1}, marker.Placement{Replicas: 1}
	for _, s := range memcacheds {
		all.Servers = append(all.Servers, route.Server{Name: s.Addr(), Weight: 1})
	}
	two.Servers = all.Servers[:2]
	type middleware struct {
		*Records
		servers []*Server
	}
	start := func() (m middleware) {
		m.Records = NewRecords(slog.New(slog.DiscardHandler), nil)
		for _, s := range memcacheds {
			o := Options{ServerOptions: ServerOptions{ConnectTimeout: mctest.Patience, FailureLimit: 1}, Changes: new(atomic.Uint32), Records: m.Records, Log: m.log}
			server := NewServer(route.Server{Name: s.Addr(), Addr: s.Addr()}, o)
			require.NoError(t, server.Reach(t.Context()))
			server.judged.Store(true)
			m.servers = append(m.servers, server)
		}
		return m
	}
	put := func(m middleware, servers ...*Server) {
		for _, s := range servers {
			require.True(t, m.put(t.Context(), s, m.copies[s]))
		}
	}
	steady, changed := start(), start()
	steady.Begin("", marker.Record{Placement: all}, steady.servers)
	put(steady, steady.servers...)
	changed.Begin("", marker.Record{Placement: two}, changed.servers)
	put(changed, changed.servers...)
	changed.Place(marker.Record{Placement: all}, changed.servers)
	put(changed, changed.servers...)

	refreshed := steady.servers[1] // as each is now and then
	steady.copies[refreshed].again = true
	put(steady, refreshed)
	put(steady, steady.servers...) // if its records have changed
	looks := start().Looks()
	require.Len(t, looks, 3)
	for server := range looks {
		require.Empty(t, looks.Doubt(server, true), server)
	}

	// A server that was away during a change, by whoever, has an older version.
	changed.Place(marker.Record{Placement: two}, changed.servers)
	put(changed, changed.servers[:2]...)
	steady.Place(marker.Record{Placement: two}, steady.servers)
	steady.Place(marker.Record{Placement: all}, steady.servers)
	put(steady, steady.servers[:2]...)
	looks = start().Looks()
	require.Empty(t, looks.Doubt(all.Servers[0].Name, true))
	require.Empty(t, looks.Doubt(all.Servers[1].Name, true))
	require.Equal(t, "the placement of keys changed while it was away", looks.Doubt(all.Servers[2].Name, true))
}
