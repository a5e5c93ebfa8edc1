package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/worker"
)

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
