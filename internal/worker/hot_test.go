package worker_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/hotkeys"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

// startTelling starts a server of that version, and a middleware that answers from memory. Every item of the server is
// x, except bad, whose reply is about another key. It replies told to every me. got returns the requests that the
// server got.
func startTelling(t *testing.T, version, told string) (m *mwtest.MW, got func() []string) {
	var mu sync.Mutex
	var lines []string
	server := mctest.StartScript(t, func(p *mctest.Peer) {
		for {
			line, ok := p.Line()
			switch {
			case !ok:
				return
			case line == "version":
				p.Send("VERSION " + version + "\r\n")
				continue
			case p.Known(line):
				continue
			}
			mu.Lock()
			lines = append(lines, line)
			mu.Unlock()
			switch verb, key, _ := strings.Cut(line, " "); {
			case verb == "me":
				p.Send(told)
			case key == "bad":
				p.Send("VALUE other 7 1\r\nx\r\nEND\r\n")
			default:
				p.Send("VALUE " + key + " 7 1\r\nx\r\nEND\r\n")
			}
		}
	})
	m = mwtest.Start(t, middleware.Options{
		Workers: 1, Servers: mwtest.Named(server.Addr()), HotKeys: hotkeys.Serve, Writers: middleware.WritersOne,
	})
	return m, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return lines
	}
}

// inOneHalf repeats do until it runs within one half of the time for which a value is served. The gets of a key within
// such a half are counted together.
func inOneHalf(do func()) {
	half := func() int64 { return stats.Now() / int64(hotkeys.AgeAlone/2) }
	for begun := int64(-1); begun != half(); {
		begun = half()
		do()
	}
}

func TestTheReplyToTheThirdGetOfAKeyIsServedFromMemory(t *testing.T) {
	for _, c := range []struct {
		name, told string
		asked      []string // of the server, by five gets
		hot        uint64
	}{
		{
			"a value", "ME k exp=-1 la=0 cas=1 fetch=no cls=1 size=60\r\n",
			[]string{"get k", "get k", "get k", "me k"},
			2,
		},
		{
			"an error", "SERVER_ERROR out of memory\r\n",
			[]string{"get k", "get k", "get k", "me k", "get k", "me k", "get k", "me k"},
			0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m *mwtest.MW
			var got func() []string
			inOneHalf(func() {
				m, got = startTelling(t, "1.6.24", c.told)
				client := m.Dial(t)
				for range 5 {
					require.Equal(t, "VALUE k 7 1\r\nx\r\nEND\r\n", client.MustDo(t, "get k\r\n"))
				}
			})
			assert.Equal(t, c.asked, got())
			assert.Equal(t, c.hot, m.Stats().Snapshot().Requests[protocol.Get][stats.ResultHot])
		})
	}
}

func TestNothingIsServedFromMemoryIfTheServerDoesNotTellWhenItemsExpire(t *testing.T) {
	m, got := startTelling(t, "1.6.23", "ME k exp=-1\r\n")
	c := m.Dial(t)
	for range 3 {
		require.Equal(t, "VALUE k 7 1\r\nx\r\nEND\r\n", c.MustDo(t, "get k\r\n"))
	}
	assert.Equal(t, []string{"get k", "get k", "get k"}, got())
}

// Earlier replies of a server that breaks the protocol may belong to other keys.
func TestValuesInMemoryAreForgottenWhenAServerBreaksTheProtocol(t *testing.T) {
	var c *mctest.Client
	var got func() []string
	inOneHalf(func() {
		var m *mwtest.MW
		m, got = startTelling(t, "1.6.24", "ME k exp=-1\r\n")
		c = m.Dial(t)
		for range 4 {
			c.MustDo(t, "get k\r\n")
		}
	})
	require.Equal(t, []string{"get k", "get k", "get k", "me k"}, got())
	assert.Contains(t, c.MustDo(t, "get bad\r\n"), "SERVER_ERROR")
	c.MustDo(t, "get k\r\n")
	asked := got()
	assert.Equal(t, []string{"get k", "me k"}, asked[len(asked)-2:], "it was served before, so it is wanted again")
}

// A cas through one middleware makes the tokens in the memory of another old: they are refused there, and not served
// again.
func TestTokensFromMemoryWinOnlyOverTheirItem(t *testing.T) {
	list, _ := fleet(t, 2, middleware.Options{HotKeys: hotkeys.Serve, HotAge: hotkeys.MaxAge, Workers: 1})
	a, b := list[0].Dial(t), list[1].Dial(t)
	require.Equal(t, "STORED\r\n", a.MustDo(t, "set k 5 0 1\r\n1\r\n"))
	token := func(c *mctest.Client) string {
		reply := c.MustDo(t, "gets k\r\n")
		require.Regexp(t, `^VALUE k 5 1 \d{19}\r\n.\r\nEND\r\n$`, reply)
		return strings.Fields(reply)[4]
	}
	hot := func() uint64 { return list[0].Stats().Snapshot().Requests[protocol.Gets][stats.ResultHot] }
	for hot() == 0 {
		token(a)
	}
	old := token(a)
	require.Equal(t, "STORED\r\n", b.MustDo(t, "cas k 5 0 1 "+token(b)+"\r\n2\r\n"))
	before := hot()
	for known := token(a); hot() > before; known = token(a) { // from memory, until it is too old
		require.Equal(t, old, known)
		before = hot()
	}
	require.Equal(t, "EXISTS\r\n", a.MustDo(t, "cas k 5 0 1 "+old+"\r\n3\r\n"))
	for range 5 {
		require.NotEqual(t, old, token(a))
	}
	require.Equal(t, "STORED\r\n", a.MustDo(t, "cas k 5 0 1 "+token(a)+"\r\n4\r\n"))
}
