package behaviour_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
)

func TestServersAreAskedAtOnceAndThoseThatDoNotAnswerAreLeftOut(t *testing.T) {
	server, gone := mctest.StartMemcached(t), mctest.StartMemcached(t)
	stalled := mctest.StartProxy(t, server.Addr())
	m := mwtest.Start(t, middleware.Options{Servers: mwtest.Named(server.Addr(), stalled.Addr(), gone.Addr())})
	ask := func(timeout time.Duration) (names []string) {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		for name, answer := range m.AskServers(ctx) {
			require.EqualValues(t, 64<<20, answer.Limit)
			names = append(names, name)
		}
		return names
	}
	servers := m.Stats().Snapshot().Servers
	require.ElementsMatch(t, []string{servers[0].Name, servers[1].Name, servers[2].Name}, ask(mctest.Patience))
	stalled.Inject(mctest.Fault{Stall: true})
	gone.Stop()
	require.Eventually(t, func() bool {
		names := ask(100 * time.Millisecond)
		return len(names) == 1 && names[0] == servers[0].Name
	}, mctest.Patience, mctest.Tick)
	stalled.Inject(mctest.Fault{}) // so that the end does not wait for it
}
