package worker_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/netstage"
	"mcmw/internal/protocol"
	"mcmw/internal/stats"
	"mcmw/internal/worker"
)

// The values that servers accept but mcmw does not are stored on the servers directly.
func TestAValueLargerThanMaxValueIsAnErrorAndNoFailureOfItsServer(t *testing.T) {
	for _, maxValue := range []int{1 << 10, 1 << 20} {
		for _, n := range []int{1, 3} {
			pools(t, func(t *testing.T, o middleware.Options) {
				o.ClientOptions = netstage.ClientOptions{Limits: protocol.Limits{MaxValue: maxValue}}
				o.RequestOptions = worker.RequestOptions{Sharded: true}
				var servers []*mctest.Server
				for range n {
					s := mctest.StartMemcached(t, "-I", "4m")
					servers = append(servers, s)
					direct := mctest.MustDial(t, s.Addr())
					for key, size := range map[string]int{
						"large": 3 * maxValue, "more": maxValue + 1,
						"most": maxValue,
					} {
						require.Equal(t, "STORED\r\n",
							direct.MustDo(t, fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", key, size,
								strings.Repeat("x", size))))
					}
				}
				o.Servers = mwtest.Servers(servers...)
				m := mwtest.Start(t, o)
				c := m.Dial(t)
				failure := func(size int) string {
					return fmt.Sprintf("SERVER_ERROR a value of %d bytes; accepted: up to %d (--max-value)\r\n", size,
						maxValue)
				}
				most := strings.Repeat("x", maxValue)
				require.Equal(t, "STORED\r\n", c.MustDo(t, "set small 0 0 1\r\nx\r\n"))
				for _, x := range []struct{ request, want string }{
					{"get most\r\n", fmt.Sprintf("VALUE most 0 %d\r\n%s\r\nEND\r\n", maxValue, most)},
					{"get large\r\n", failure(3 * maxValue)},
					{"get more\r\n", failure(maxValue + 1)},
					{"gat 0 large\r\n", failure(3 * maxValue)},
					{"mg large v f\r\n", failure(3 * maxValue)},
					{"mg large v T0\r\n", failure(3 * maxValue)},
					{"mg most v\r\n", fmt.Sprintf("VA %d\r\n%s\r\n", maxValue, most)},
				} {
					got := c.MustDo(t, x.request)
					assert.True(t, x.want == got, "%q: %.100q", x.request, got)
				}
				require.NoError(t,
					c.Send([]byte("mg large v q\r\nmg small v q\r\nmn\r\nget small\r\nget small large small\r\nget "+
						"small\r\nget more\r\n")))
				for _, want := range []string{
					failure(3 * maxValue), "VA 1\r\nx\r\n", "MN\r\n",
					"VALUE small 0 1\r\nx\r\nEND\r\n",
				} {
					assert.Equal(t, want, c.MustReply(t))
				}
				assert.Contains(t, c.MustReply(t), failure(3*maxValue))
				assert.Equal(t, "VALUE small 0 1\r\nx\r\nEND\r\n", c.MustReply(t))
				assert.Equal(t, failure(maxValue+1), c.MustReply(t))
				for _, s := range m.Stats().Snapshot().Servers {
					assert.Zero(t, s.Errors[stats.ReasonProtocol], "%s", s.Name)
				}
			})
		}
	}
}
