package middleware_test

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/replica"
)

// One middleware doesn't reach a server while the list changes: another server joins, or this one leaves and returns.
// No middleware reads the values that the server missed.
func TestNoMiddlewareReadsAMarkedServerWhileServersJoinAndLeave(t *testing.T) {
	for name, lists := range map[string][][]int{
		"another joins":          {{0, 1, 2, 3}},
		"it leaves and returns":  {{0, 2, 3}, {0, 1, 2, 3}},
		"another leaves instead": {{1, 2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := mctest.StartNewMemcacheds(t, 4)
			path := mctest.StartProxy(t, servers[1].Addr())
			o := middleware.Options{
				Writers: middleware.WritersSeveral, ChangeStep: time.Hour,
				ServerOptions: backend.ServerOptions{FailureLimit: 1, ConnectTimeout: time.Second},
			}
			o.Ack, o.Timeout = replica.AckLive, 500*time.Millisecond
			list := func(m int, names []int) middleware.Options {
				next := o
				for _, s := range names {
					server := mwtest.Servers(servers...)[s]
					if m == 0 && s == 1 {
						server.Addr = path.Addr()
					}
					next.Servers = append(next.Servers, server)
				}
				return next
			}
			first := []int{0, 1, 2}
			fleet := []*mwtest.MW{mwtest.Start(t, list(0, first)), mwtest.Start(t, list(1, first))}
			set := func(value string) {
				c := fleet[0].Dial(t)
				defer c.Close()
				require.Eventually(t, func() bool {
					reply, err := c.Do(fmt.Sprintf("set key 0 0 %d\r\n%s\r\n", len(value), value))
					return err == nil && reply == "STORED\r\n"
				}, mctest.Patience, mctest.Tick)
			}
			fresh := func(value string) {
				for _, m := range fleet {
					c := m.Dial(t)
					for range 4 { // each from another replica
						if items, err := mctest.ParseValues(c.MustDo(t, "get key\r\n")); err == nil && len(items) > 0 {
							require.Equal(t, value, items[0].Value)
						}
					}
					c.Close()
				}
			}
			set("old")
			path.Inject(mctest.Fault{Lose: true, Refuse: true})
			n := 0
			write := func() {
				n++
				set(fmt.Sprintf("new-%d", n))
				fresh(fmt.Sprintf("new-%d", n))
			}
			write()
			for _, names := range lists {
				for i, m := range fleet {
					require.NoError(t, m.Apply(context.Background(), list(i, names)))
					write()
				}
				for phases := 0; fleet[0].EndPhase(); phases++ {
					write()
					fleet[1].EndPhase()
					write()
					require.Less(t, phases, 3)
				}
			}
			path.Inject(mctest.Fault{})
			for _, m := range fleet {
				require.Equal(t, "settled", m.Phase())
				require.Eventually(t, func() bool {
					fresh(fmt.Sprintf("new-%d", n))
					for _, s := range m.Stats().Snapshot().Servers {
						if s.Health.State != "up" {
							return false
						}
					}
					return true
				}, mctest.Patience, 50*time.Millisecond)
			}
			write()
		})
	}
}

func TestServersThatStallAreNamedInTheWarningThatNoneIsRead(t *testing.T) {
	servers := mctest.StartNewMemcacheds(t, 3)
	var out mctest.Output
	o := middleware.Options{
		Servers: mwtest.Servers(servers...), Writers: middleware.WritersSeveral,
		Log: slog.New(slog.NewTextHandler(&out, nil)),
	}
	o.Ack = replica.AckLive
	mwtest.Start(t, o)
	for _, s := range []*mctest.Server{servers[0], servers[2]} {
		s.Freeze()
		defer s.Thaw()
	}
	servers[1].Stop() // it alone would do
	named := regexp.MustCompile(`no server is read.*server-[13] has not answered for`)
	require.Eventually(t, func() bool { return named.MatchString(out.String()) }, mctest.Patience, mctest.Tick,
		"no such warning")
}
