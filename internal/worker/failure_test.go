package worker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/worker"
)

// awaitState waits until server i of m is in state.
func awaitState(t *testing.T, m *mwtest.MW, i int, state backend.State) {
	t.Helper()
	require.Eventually(t, func() bool { return m.Stats().Snapshot().Servers[i].Health.State == state.String() },
		mctest.Patience, 5*time.Millisecond, "server %d never became %s", i, state)
}

// store repeats a set until it succeeds: on a busy machine even a healthy server may miss a short timeout.
func store(c *client, key, value string) {
	c.t.Helper()
	for range 100 {
		if c.ask("set %s 0 0 %d\r\n%s\r\n", 1, key, len(value), value) == "STORED\r\n" {
			return
		}
	}
	c.t.Fatalf("%s could not be stored", key)
}

func TestAServerServesNoValueWhoseReplacementItMissed(t *testing.T) {
	for name, tc := range map[string]struct {
		options middleware.Options
		outage  func(s *mctest.Server) (end func())
		flushed bool
	}{
		"frozen, its missed keys are deleted": {middleware.Options{}, func(s *mctest.Server) func() {
			s.Freeze()
			return s.Thaw
		}, false},
		"frozen, more missed than remembered": {
			middleware.Options{ServerOptions: backend.ServerOptions{MissedMemory: 200}},
			func(s *mctest.Server) func() { s.Freeze(); return s.Thaw }, true,
		},
		"frozen, to be flushed": {
			middleware.Options{ServerOptions: backend.ServerOptions{Rejoin: backend.RejoinFlush}},
			func(s *mctest.Server) func() { s.Freeze(); return s.Thaw }, true,
		},
		"restarted": {middleware.Options{}, func(s *mctest.Server) func() {
			s.Stop()
			return s.Start
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			tc.options.Ack, tc.options.Timeout = replica.AckAny, 500*time.Millisecond
			tc.options.ConnectTimeout = tc.options.Timeout
			m, servers := replicas(t, 3, tc.options)
			c := dial(t, m.Addr())
			for i := range 20 {
				store(c, fmt.Sprintf("key%d", i), "old")
			}
			end := tc.outage(servers[1])
			for i := range 10 {
				store(c, fmt.Sprintf("key%d", i), "new")
			}
			for reply := "SERVER_ERROR"; strings.HasPrefix(reply, "SERVER_ERROR"); {
				reply = c.ask("delete key10\r\n", 1)
			}
			awaitState(t, m, 1, backend.Down)
			end()
			awaitState(t, m, 1, backend.Up)
			for range 6 {
				for i := range 10 {
					// A miss or an error is allowed; an old value is not.
					reply := c.ask(fmt.Sprintf("get key%d\r\n", i), 1)
					if reply != "END\r\n" && !strings.HasPrefix(reply, "SERVER_ERROR") {
						assert.Equal(t, "new\r\nEND\r\n", c.ask("", 2))
					}
				}
				assert.Equal(t, "END\r\n", c.ask("get key10\r\n", 1))
			}
			if tc.flushed {
				assert.Empty(t, get(t, servers[1], "key15"))
			} else {
				assert.Equal(t, "old", get(t, servers[1], "key15"), "keys of which it missed no write are kept")
			}
		})
	}
}

func TestVersionNeedsNoParticularServer(t *testing.T) {
	for name, replicas := range map[string]int{"every server holds every key": 0, "one server holds a key": 1} {
		t.Run(name, func(t *testing.T) {
			servers := mctest.StartMemcacheds(t, 3)
			m := mwtest.Start(t, middleware.Options{
				Servers:   mwtest.Servers(servers...),
				Placement: route.Options{Replicas: replicas},
			})
			c := m.Dial(t)
			want := c.MustDo(t, "version\r\n")
			require.Contains(t, want, "VERSION 1.")
			servers[0].Stop()
			for range 5 { // before it is known to be down, and after
				assert.Equal(t, want, c.MustDo(t, "version\r\n"))
			}
			servers[1].Stop()
			assert.Equal(t, want, c.MustDo(t, "version\r\n"))
			servers[2].Stop()
			assert.Equal(t, want, c.MustDo(t, "version\r\n"), "the version that is known")
		})
	}
}

func TestVersionIsToldByAnotherServerIfTheFirstStalls(t *testing.T) {
	servers := mctest.StartMemcacheds(t, 2)
	m := mwtest.Start(t, middleware.Options{
		Servers: mwtest.Servers(servers...), Placement: route.Options{Replicas: 1},
		RequestOptions: worker.RequestOptions{StallAfter: 100 * time.Millisecond},
	})
	c := m.Dial(t)
	want := c.MustDo(t, "version\r\n")
	servers[0].Freeze()
	t.Cleanup(servers[0].Thaw)
	for range 3 {
		assert.Equal(t, want, c.MustDo(t, "version\r\n"))
	}
}
