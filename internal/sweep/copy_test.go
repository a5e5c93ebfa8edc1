package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/route"
	"mcmw/internal/sweep"
)

func TestKeysThatMoveAreNotLeftOutWhileAServerThatHoldsThemIsStaleForAMoment(t *testing.T) {
	for name, of := range map[string]struct {
		replicas      int
		stale, awaits bool
		copied        bool
		fails         bool
	}{
		"all are read":                 {1, false, true, true, false},
		"the only holder is stale":     {1, true, true, false, true},
		"one of two holders is stale":  {2, true, true, false, true},
		"the only holder is given up":  {1, true, false, false, false},
		"one of two holders, given up": {2, true, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, servers := newSweep(t, mctest.StartNewMemcached, 3, of.replicas)
			olds, err := route.New(mwtest.Servers(servers[:2]...), route.Options{Replicas: of.replicas})
			require.NoError(t, err)
			for i := range 100 {
				for _, s := range olds.Replicas(fmt.Appendf(nil, "k%d", i), nil) {
					c := mctest.MustDial(t, servers[s].Addr())
					require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("set k%d 0 0 1\r\nv\r\n", i)))
				}
			}
			if of.stale {
				w.Servers[0].MissedAll(errors.New("for a moment"))
			}
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			copied := 0
			copier := sweep.Copier{
				Name: "2 -> 3", From: route.Change(olds, w.Router, route.Copy), Servers: w.Servers, Rate: w.Rate,
				Hold: time.Minute, Pause: time.Hour, Awaits: func(int) bool { return of.awaits },
				Copied: func(keys int) { copied += keys }, Log: slog.New(slog.DiscardHandler),
				Report: func(p sweep.CopyProgress) {
					if p.Complete {
						stop()
					}
				},
			}
			err = copier.Run(ctx, func() time.Duration { return 0 })
			require.Equal(t, of.fails, errors.Is(err, sweep.ErrNotUp), "%v", err)
			gained := 0
			for i := range 100 {
				for _, s := range w.Router.Replicas(fmt.Appendf(nil, "k%d", i), nil) {
					if s == 2 {
						gained++
					}
				}
			}
			require.Equal(t, of.copied, copied == gained, "%d of %d keys that move were copied", copied, gained)
		})
	}
}
