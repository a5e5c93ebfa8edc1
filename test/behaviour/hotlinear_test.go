package behaviour_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/hotkeys"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
)

// Few keys are requested so often that readers answer from memory, while clients change them with all kinds of
// commands.
func TestAnswersForHotKeysAreLinearizable(t *testing.T) {
	const histories = 60
	b := &historyBench{servers: mwtest.Servers(mctest.StartNewMemcacheds(t, 2)...)}
	o := middleware.Options{
		Servers: b.servers, Placement: route.Options{Replicas: 2}, Writers: middleware.WritersOne,
		HotKeys: hotkeys.Serve, HotAge: hotkeys.MaxAge, Workers: 3,
	}
	router, err := route.New(o.Servers, o.Placement)
	require.NoError(t, err)
	fleet := []*mwtest.MW{mwtest.Start(t, o)}
	for k := range historyKeys {
		b.keys = append(b.keys, fmt.Sprintf("hot-%d", k))
		require.Equal(t, "STORED\r\n", fleet[0].Dial(t).MustDo(t, "set "+b.keys[k]+" 0 0 1\r\nx\r\n"))
		heat(t, fleet[0], b.keys[k])
	}
	rng := rand.New(rand.NewPCG(1, 2))
	before := hotGets(fleet[0])
	served := func() uint64 { return hotGets(fleet[0]) - before }
	deadline := time.Now().Add(mctest.Patience)
	for n := 0; n < histories || served() < histories; n++ {
		require.True(t, time.Now().Before(deadline), "only %d gets were answered from memory", served())
		batches := make([][][]planned, 4)
		for i := range batches {
			for range 8 {
				p := planned{kind: "get", key: rng.IntN(historyKeys)}
				if i < 2 && rng.IntN(3) == 0 {
					p = requests().Example(rng.Int())
				}
				batches[i] = append(batches[i], []planned{p})
			}
		}
		_, history, err := b.record(t, fleet, router, batches)
		require.NoError(t, err)
		for k := range history {
			require.True(t, linearizable(history[k], false), "the answers for %s have no sequential order:\n%s",
				b.keys[k], describe(history[k]))
		}
	}
	t.Logf("%d gets were answered from memory", served())
}
