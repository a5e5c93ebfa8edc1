package behaviour_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/worker"
)

// The server sends endlessly, whatever the request. The request fails within its timeout, and the bytes sent use no
// memory.
func TestAnEndlessReplyUsesBoundedMemory(t *testing.T) {
	mctest.RaceSkips(t, mctest.Measures)
	// The last line of the sum in docs/overload.md, doubled because of Go's garbage collector.
	const most = 2 * workersOfChild * 3 * (4 << 20)
	block := strings.Repeat("x", 64<<10)
	for name, c := range map[string]struct{ request, begin, repeated string }{
		"a line":               {"get k\r\n", "", block},
		"the line of an error": {"set k 0 0 1\r\nx\r\n", "SERVER_ERROR ", block},
		"statistics":           {"stats items\r\n", "", strings.Repeat("STAT a b\r\n", 5000)},
		"lines of a crawler":   {"lru_crawler enable\r\n", "", strings.Repeat("OK\r\n", 10000)},
		"lines before a noop":  {"mg k v q\r\n", "", strings.Repeat("EN\r\n", 10000)},
		"a value of a gigabyte that does not come": {"get k\r\n", "VALUE k 0 1073741824\r\n", ""},
		"a value of a gigabyte":                    {"get k\r\n", "VALUE k 0 1073741824\r\n", block},
		"a value of a gigabyte to mg":              {"mg k v\r\n", "VA 1073741824\r\n", block},
		"a value of a gigabyte to a quiet mg":      {"mg k v q\r\n", "VA 1073741824\r\n", block},
		"a value of a gigabyte to set":             {"set k 0 0 1\r\nx\r\n", "VALUE k 0 1073741824\r\n", block},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var probes atomic.Int32
			server := mctest.StartScript(t, func(p *mctest.Peer) {
				if p.N == 0 { // the middleware's first connection to it
					p.Answer(nil)
					return
				}
				if line, ok := p.Line(); !ok {
					return
				} else if line == "version" { // the prober's
					probes.Add(1)
					p.Send("VERSION ")
					p.Flood(block)
				}
				p.Send(c.begin)
				if c.repeated == "" {
					p.Stall()
				}
				p.Flood(c.repeated)
			})
			child := startChild(t, middleware.Options{
				Servers:        mwtest.Named(server.Addr()),
				RequestOptions: worker.RequestOptions{Timeout: time.Second},
				ServerOptions:  backend.ServerOptions{FailureLimit: 1},
			})
			client := mctest.MustDial(t, child.addrs[0])
			before := child.memory(t)
			assert.Contains(t, client.MustDo(t, c.request), "SERVER_ERROR ")
			// The prober gets the same endless reply, and has handled it when it connects again.
			require.Eventually(t, func() bool {
				assert.Contains(t, client.MustDo(t, "get k\r\n"), "SERVER_ERROR ")
				return probes.Load() >= 2
			}, mctest.Patience, 50*time.Millisecond)
			took := child.mostMemory(t) - before
			t.Logf("%.1f MiB more than before", float64(took)/(1<<20))
			assert.Less(t, took, int64(most))
		})
	}
}
