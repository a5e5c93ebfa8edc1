package admin

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/stats"
)

func TestTheDescriptionOfServersThatAreFilledSaysWhatToDoNext(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 12, 1, hour, 0, 0, 0, time.UTC) }
	g := stats.Migration{
		From: "sessions", To: "cache1", Inside: true, WarmsUp: true, Phase: "warm-up", Start: at(10), CopyFrom: at(11),
		CopyUntil: at(20), Here: 3, Within: 0.01,
		Recent: stats.Warming{New: 1, Old: 2, Neither: 1},
	}
	for _, c := range []struct {
		change     func(g *stats.Migration)
		now        int
		text, next string
	}{
		{
			func(*stats.Migration) {}, 12,
			"cache1 of sessions: phase warm-up; hit ratio in the last minute: cache1 25.00 %, with the others 75.00 " +
				"%; 3 keys copied",
			"reads fill cache1 until its hit ratio is within 1.00 % of the ratio with the others; then, or to give " +
				"up, set an end in the file of every mcmw",
		},
		{
			func(g *stats.Migration) { g.Warm, g.Recent = true, stats.Warming{New: 1} }, 12,
			"cache1 of sessions: phase warm-up; hit ratio in the last minute: cache1 100.00 %, with the others " +
				"100.00 %; 3 keys copied",
			"cache1 is warm: set an end of the migration in the file of every mcmw",
		},
		{
			func(g *stats.Migration) { g.End, g.Until = at(23), at(20) }, 12,
			"cache1 of sessions: phase warm-up until 2026-12-01T20:00:00Z; hit ratio in the last minute: cache1 " +
				"25.00 %, with the others 75.00 %; 3 keys copied",
			"no keys are copied from 2026-12-01T20:00:00Z on; the migration ends at 2026-12-01T23:00:00Z",
		},
		{
			func(g *stats.Migration) { g.Phase, g.Until = "undecided", at(11) }, 10,
			"cache1 of sessions: phase undecided until 2026-12-01T11:00:00Z",
			"the warm-up starts at 2026-12-01T11:00:00Z",
		},
		{
			func(g *stats.Migration) { g.Phase, g.End, g.Until = "copy", at(23), at(22) }, 21,
			"cache1 of sessions: phase copy until 2026-12-01T22:00:00Z",
			"only the other servers are read until 2026-12-01T23:00:00Z",
		},
		{
			func(g *stats.Migration) { g.Phase, g.End, g.Until = "undecided", at(23), at(23) }, 22,
			"cache1 of sessions: phase undecided until 2026-12-01T23:00:00Z",
			"all servers are read again from 2026-12-01T23:00:00Z on",
		},
		{
			func(g *stats.Migration) { g.Phase, g.End = "done", at(23) }, 23, "cache1 of sessions: phase done",
			"all servers are read: remove the migration from the file of every mcmw",
		},
	} {
		h := g
		c.change(&h)
		described := migrations(&stats.Snapshot{Migrations: []stats.Migration{h}}, at(c.now))
		require.Equal(t, []Migration{{Migration: h, Text: c.text, Next: c.next}}, described)
		require.Equal(t, []string{"cache1 is filled: " + h.Phase},
			routes(&stats.Snapshot{Migrations: []stats.Migration{h}, Routes: []stats.Route{{Pool: "sessions"}}},
				1)[0].Migrations)
	}
}
