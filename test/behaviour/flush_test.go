package behaviour_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/link"
	"mcmw/internal/marker"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
)

// A flush_all removes the marks of all servers. A delayed one takes effect at one of the servers' seconds, and what
// they store in that second is lost.
func TestAFlushLeavesAFleetReadable(t *testing.T) {
	delayed := "flush_all 2\r\n" // the servers need it before a tick, and the second after that tick is whole
	for name, flush := range map[string]func(t *testing.T, servers []*mctest.Server, m *mwtest.MW){
		"delayed, through a middleware": func(t *testing.T, _ []*mctest.Server, m *mwtest.MW) {
			require.Equal(t, "OK\r\n", m.Dial(t).MustDo(t, delayed))
		},
		"delayed, on the servers themselves": func(t *testing.T, servers []*mctest.Server, _ *mwtest.MW) {
			flushEach(t, servers, delayed)
		},
		"immediate, on the servers themselves": func(t *testing.T, servers []*mctest.Server, _ *mwtest.MW) {
			flushEach(t, servers, "flush_all\r\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			servers := mctest.StartNewMemcacheds(t, 3)
			var log mctest.Output
			o := liveOptions()
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			fleet := fleetOf(t, 2, o, false, servers)
			const lapsed = "no server is read"
			// On a busy machine a middleware may be too late to look at the marks, and reads nothing for a moment.
			// Without that the flush does not show.
			for try := 1; ; try++ {
				insist(t, fleet[0].Addr(), []string{"old"}, "old")
				before := strings.Count(log.String(), lapsed)
				flush(t, servers, fleet[1])
				for _, s := range servers {
					require.Eventually(t, func() bool { _, has := s.Get("old"); return !has }, mctest.Patience,
						mctest.Tick)
				}
				for _, s := range servers {
					require.Eventually(t, func() bool { return holdsMarks(t, s) }, mctest.Patience, mctest.Tick)
				}
				insist(t, fleet[0].Addr(), []string{"new"}, "new")
				if strings.Count(log.String(), lapsed) == before {
					break
				}
				require.Less(t, try, 5, log.String())
				for _, m := range fleet {
					for n := range servers {
						awaitState(t, m.Dial(t), fmt.Sprintf("server-%d", n+1), "up")
					}
				}
			}
			for _, m := range fleet {
				require.Equal(t, "VALUE new 0 3\r\nnew\r\nEND\r\n", m.Dial(t).MustDo(t, "get new\r\n"))
			}
		})
	}
}

// flushEach sends flush, a flush_all, to each of servers.
func flushEach(t *testing.T, servers []*mctest.Server, flush string) {
	t.Helper()
	for _, s := range servers {
		c := mctest.MustDial(t, s.Addr())
		require.Equal(t, "OK\r\n", c.MustDo(t, flush))
		c.Close()
	}
}

// holdsMarks reports whether s holds marks, and keeps what it is told to store.
func holdsMarks(t *testing.T, s *mctest.Server) bool {
	t.Helper()
	c := mctest.MustDial(t, s.Addr())
	defer c.Close()
	return c.MustDo(t, fmt.Sprintf("mg %s b\r\n", link.Key(marker.MarksKey).Text)) == "HD\r\n"
}
