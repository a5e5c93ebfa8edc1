package behaviour_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
)

// What the pods of servers are told.
func TestAServerIsSaidToBeRefilledWhenItIsReadAndWithoutRefillAtOnce(t *testing.T) {
	servers := mctest.StartNewMemcacheds(t, 3)
	o := liveOptions()
	o.Servers, o.Listen = mwtest.Servers(servers...), []string{"127.0.0.1:0"}
	o.RefillRate, o.Timeout = 1_000_000, time.Second
	m := mwtest.Start(t, o)
	fleet := []*mwtest.MW{m}
	says := func(want ...bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			said := m.Refilled()
			for i, s := range o.Servers {
				if refilled, known := said[s]; !known || refilled != want[i] {
					return false
				}
			}
			return len(said) == len(want)
		}, mctest.Patience, pollPause)
	}
	for _, s := range servers {
		awaitRefilled(t, s, fleet)
	}
	says(true, true, true)
	keep(t, m.Dial(t))

	o.RefillRate = 1 // it would take half an hour
	require.NoError(t, m.Apply(context.Background(), o))
	servers[1].Stop()
	servers[1].Start()
	says(true, false, true)
	o.RefillRate = 0
	require.NoError(t, m.Apply(context.Background(), o))
	says(true, true, true)
}
