package backend

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/link"
	"mcmw/internal/marker"
	"mcmw/internal/mctest"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// middleware is one that keeps records on servers.
type middleware struct {
	*Records
	servers []*Server
}

// reached returns a middleware that has reached servers.
func reached(t *testing.T, servers []*mctest.Server) (m middleware) {
	t.Helper()
	m.Records = NewRecords(slog.New(slog.DiscardHandler), nil)
	for _, s := range servers {
		o := Options{
			ServerOptions: ServerOptions{ConnectTimeout: mctest.Patience, FailureLimit: 1},
			Changes:       new(atomic.Uint32), Records: m.Records, Log: m.log,
		}
		server := NewServer(route.Server{Name: s.Addr(), Addr: s.Addr()}, o)
		require.NoError(t, server.Reach(t.Context()))
		server.judged.Store(true)
		m.servers = append(m.servers, server)
	}
	return m
}

// update brings the records on servers up to date.
func (m middleware) update(t *testing.T, servers ...*Server) {
	t.Helper()
	for _, s := range servers {
		m.copies[s].again = true
		require.True(t, m.put(t.Context(), s, m.copies[s], s.Talk))
	}
}

// looks looks at the marks on servers, often enough for what the servers hold to count.
func (m middleware) looks(t *testing.T, servers ...*Server) {
	t.Helper()
	for range 6 {
		for _, s := range servers {
			l, err := s.Link(t.Context())
			require.NoError(t, err)
			_, err = m.lookAt(s, m.copies[s], l)
			require.NoError(t, err)
			l.Close()
		}
	}
}

func TestAMarkCountsSoonUnlessAMiddlewareThatDoesNotAcknowledgeItRuns(t *testing.T) {
	memcacheds := mctest.StartMemcacheds(t, 3)
	m := reached(t, memcacheds)
	m.RespectMarks(true)
	m.Runs("this")
	m.Begin(marker.Record{Placement: marker.Placement{Replicas: 3, Servers: []route.Server{{Name: "a"}}}},
		m.servers)
	marked, others := m.servers[0], m.servers[1:]
	counts := func() bool {
		for {
			began := stats.Now()
			m.fleet.Unmark(marked.Name)
			m.looks(t, others...)
			m.fleet.Mark(marked.Name, stats.Now())
			m.looks(t, others...)
			counts := m.fleet.InForce(marked.Name, stats.Now()) != 0
			if stats.Now()-began < int64(250*time.Millisecond) { // otherwise it may count because of the time
				return counts
			}
		}
	}
	talk := func(what func(l *link.Link) error) { require.NoError(t, others[0].Talk(t.Context(), what)) }
	store := func() { talk(func(l *link.Link) error { return l.Set(marker.RunningKey, []byte("another"), 0) }) }
	name := func() (name string) {
		talk(func(l *link.Link) error {
			value, _, err := l.Get(marker.RunningKey)
			name = string(value)
			return err
		})
		return name
	}
	m.looks(t, m.servers...)
	m.update(t, m.servers...)
	require.Equal(t, "this"+marker.Acknowledging, name())
	require.True(t, counts())
	store()
	require.False(t, counts())
	m.update(t, others...)
	require.Equal(t, "another", name(), "its name is kept, for others to notice")

	last := m.copies[others[0]].silent
	store()
	m.looks(t, others...)
	require.Greater(t, m.copies[others[0]].silent.until, last.until, "it stores its name again and again")
	m.copies[others[0]].silent.until = stats.Now()
	m.update(t, others...)
	require.Equal(t, "this"+marker.Acknowledging, name(), "it has stopped storing its name")
}

// Middlewares count the changes of the placement that they make themselves, and one may get to the same placement by
// more of them.
func TestAStartDoubtsNoServerBecauseTheOthersHaveMadeDifferentNumbersOfChanges(t *testing.T) {
	memcacheds := mctest.StartMemcacheds(t, 3)
	all, two := marker.Placement{Replicas: 1}, marker.Placement{Replicas: 1}
	for _, s := range memcacheds {
		all.Servers = append(all.Servers, route.Server{Name: s.Addr(), Weight: 1})
	}
	two.Servers = all.Servers[:2]
	start := func() middleware { return reached(t, memcacheds) }
	put := func(m middleware, servers ...*Server) { m.update(t, servers...) }
	steady, changed := start(), start()
	steady.Begin(marker.Record{Placement: all}, steady.servers)
	put(steady, steady.servers...)
	changed.Begin(marker.Record{Placement: two}, changed.servers)
	put(changed, changed.servers...)
	changed.Place(marker.Record{Placement: all}, changed.servers)
	put(changed, changed.servers...)

	refreshed := steady.servers[1] // as each is now and then
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
