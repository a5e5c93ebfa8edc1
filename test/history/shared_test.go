package history

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
)

// sharing runs a verified load mostly on shared keys, through the middlewares at addrs.
func sharing(t *testing.T, addrs []string, duration time.Duration) *Verified {
	t.Helper()
	v, err := Verify(context.Background(), Options{
		Addrs: addrs, Clients: 2, Rate: 100, SharedClients: 8, SharedRate: 4000, Seed: 1,
	}, duration)
	require.NoError(t, err)
	return v
}

func TestOneMiddlewareKeepsEveryPromiseAboutSharedKeys(t *testing.T) {
	mw := mwtest.Start(t, middleware.Options{Servers: mwtest.Servers(mctest.StartMemcacheds(t, 3)...)})
	v := sharing(t, []string{mw.Addr(), mw.Addr()}, time.Second)
	require.NoError(t, v.Broken(), "%v", v.Examples)
	s := v.Shared
	for what, n := range map[string]uint64{
		"requests": s.Requests, "increments": s.Increments, "swaps": s.Swaps,
		"contests": s.Contests,
	} {
		assert.NotZero(t, n, what)
	}
	assert.EqualValues(t, registers+counters+swaps, s.Compared)
}

func TestMiddlewaresThatDoNotCoordinateAreCaught(t *testing.T) {
	// How many requests meet in a second depends on how busy the machine is.
	for duration := time.Second; ; duration *= 2 {
		servers := mwtest.Servers(mctest.StartMemcacheds(t, 3)...)
		var addrs []string
		for range 2 {
			addrs = append(addrs, mwtest.Start(t, middleware.Options{Servers: servers, Writers: middleware.WritersOne}).
				Addr())
		}
		v := sharing(t, addrs, duration)
		s := v.Shared
		increments, contests := s.Gone+s.Lost+s.Twice, s.WithoutWinner+s.SeveralWinners
		if increments > 0 && contests > 0 {
			require.Error(t, v.Broken())
			return
		}
		require.Less(t, duration, 16*time.Second, "wrong increments %d, wrong contests %d", increments, contests)
	}
}

func TestAReadOfASharedKeyIsJudgedByTheTimesOfWrites(t *testing.T) {
	for name, tc := range map[string]struct {
		ended, floor int64 // when the write that is read was answered; when the last answered write began
		held         uint64
		stale, wrong uint64
	}{
		"the latest":                                    {ended: 5, floor: 4, held: 1},
		"one concurrent with the latest":                {ended: 5, floor: 5, held: 1},
		"one that was answered before the latest began": {ended: 5, floor: 6, held: 1, stale: 1},
		"one without an answer":                         {floor: 6, held: 1},
		"one that was never written":                    {ended: 5, held: 2, wrong: 1},
	} {
		t.Run(name, func(t *testing.T) {
			script := mctest.StartScript(t, func(p *mctest.Peer) {
				value := appendValue(nil, "k", tc.held)
				for p.Expect("get k\r\n") {
					p.Send(fmt.Sprintf("VALUE k 7 %d\r\n%s\r\nEND\r\n", len(value), value))
				}
			})
			s := &shared{addrs: []string{script.Addr()}, start: time.Now()}
			u := s.user(0, 1)
			defer u.close()
			u.readRegister(&register{
				key: "k", ended: map[uint64]int64{1: tc.ended},
				acks: acks{list: []ack{{number: uint64(tc.floor)}}},
			})
			s.counts.Examples = nil
			assert.Equal(t, Shared{Requests: 1, Stale: tc.stale, Wrong: tc.wrong}, s.counts)
		})
	}
}
