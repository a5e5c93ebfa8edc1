package behaviour_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/hotkeys"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
)

func TestTheHottestKeyIsShownWithItsServers(t *testing.T) {
	servers := mwtest.Servers(mctest.StartMemcacheds(t, 3)...)
	for _, mode := range []hotkeys.Mode{hotkeys.Off, hotkeys.Detect} {
		mw := mwtest.Start(t, middleware.Options{
			Servers: servers, Placement: route.Options{Replicas: 2},
			HotKeys: mode,
		})
		c := mw.Dial(t)
		for i := range 10_000 {
			key := "hot"
			switch i % 4 {
			case 1:
				key = fmt.Sprintf("cold-%d other-%d", i, i)
			case 2:
				key = "aG90" // in base64
			}
			request := "get " + key
			if i%4 == 2 {
				request = "mg " + key + " b v"
			}
			require.Contains(t, []string{"END\r\n", "EN\r\n"}, c.MustDo(t, request+"\r\n"))
		}
		r := mw.HotKeys(3, true)
		if mode == hotkeys.Off {
			assert.Empty(t, r.Keys)
			continue
		}
		require.NotEmpty(t, r.Keys)
		assert.Equal(t, "hot", r.Keys[0].Name)
		assert.InDelta(t, 0.6, r.Keys[0].Share, 0.1)
		assert.Len(t, r.Keys[0].Servers, 2)
		assert.NotEqual(t, "hot", mw.HotKeys(1, false).Keys[0].Name)
	}
}
