package worker_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
)

// held are scripted servers that hold back their reply to `get wait` until they are told to send it.
type held struct {
	servers []route.Server
	waits   chan struct{} // a worker waits for the reply to "get wait"
	release chan struct{}
	// answer returns the reply to any other line: "" sends none; hangUp closes the connection. mu is held.
	answer func(line string) string

	mu    sync.Mutex
	lines []string // the lines for which answer was called
}

const hangUp = "hang up"

func startHeld(t *testing.T, n int, answer func(line string) string) *held {
	s := &held{waits: make(chan struct{}), release: make(chan struct{}), answer: answer}
	var addrs []string
	for range n {
		addrs = append(addrs, mctest.StartScript(t, s.serve).Addr())
	}
	s.servers = mwtest.Named(addrs...)
	return s
}

func (s *held) serve(p *mctest.Peer) {
	for {
		switch line, ok := p.Line(); {
		case !ok:
			return
		case p.Known(line):
		case line == "get wait":
			s.waits <- struct{}{}
			<-s.release
			p.Send("END\r\n")
		default:
			s.mu.Lock()
			s.lines = append(s.lines, line)
			reply := s.answer(line)
			s.mu.Unlock()
			if reply == hangUp {
				return
			}
			p.Send(reply)
		}
	}
}

// got returns the requests that arrived, except the one that is held.
func (s *held) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines
}

// inOneRound lets one client wait for a server. Meanwhile each of the others queues its requests, so that the only
// worker serves these in one round.
func (s *held) inOneRound(t *testing.T, m *mwtest.MW, requests ...string) (clients []*mctest.Client) {
	t.Helper()
	first := m.Dial(t)
	require.NoError(t, first.Send([]byte("get wait\r\n")))
	<-s.waits
	for _, r := range requests {
		c := m.Dial(t)
		require.NoError(t, c.Send([]byte(r)))
		clients = append(clients, c)
		require.Eventually(t, func() bool { return m.Stats().Snapshot().QueueLength == len(clients) }, mctest.Patience,
			mctest.Tick)
	}
	s.release <- struct{}{}
	require.Equal(t, "END\r\n", first.MustReply(t))
	return clients
}

func TestEqualGetsOfARoundAreOneRequestToAServer(t *testing.T) {
	for _, n := range []int{1, 3} {
		values := 0
		s := startHeld(t, n, func(string) string {
			values++
			return fmt.Sprintf("VALUE hot 0 1\r\n%d\r\nEND\r\n", values)
		})
		m := mwtest.Start(t, middleware.Options{Workers: 1, Servers: s.servers})
		for _, c := range s.inOneRound(t, m, slices.Repeat([]string{"get hot\r\nget hot\r\n"}, 16)...) {
			for range 2 {
				assert.Equal(t, "VALUE hot 0 1\r\n1\r\nEND\r\n", c.MustReply(t))
			}
		}
		assert.Equal(t, []string{"get hot"}, s.got())
		snapshot := m.Settled(t)
		assert.EqualValues(t, 31, snapshot.Joined)
		assert.EqualValues(t, 33, snapshot.Answered)
		assert.EqualValues(t, 33, snapshot.Keys)
		assert.EqualValues(t, 1, snapshot.Misses)
	}
}

func TestAGetAfterAWriteOfItsKeyDoesNotJoinAGetBeforeIt(t *testing.T) {
	for _, write := range []string{
		"set hot 0 0 3\r\nnew\r\n", "flush_all\r\n", "md hot\r\n", "ms aG90 3 b\r\nnew\r\n",
		"gat 0 cold hot\r\n",
	} {
		writes := 0
		s := startHeld(t, 1, func(line string) string {
			switch word, _, _ := strings.Cut(line, " "); word {
			case "get":
				return fmt.Sprintf("VALUE hot 0 1\r\n%d\r\nEND\r\n", writes)
			case "new":
				return ""
			case "set":
				writes++
				return "STORED\r\n"
			case "flush_all":
				writes++
				return "OK\r\n"
			case "gat":
				writes++
				return "END\r\n"
			}
			writes++
			return "HD\r\n"
		})
		m := mwtest.Start(t, middleware.Options{Workers: 1, Servers: s.servers})
		clients := s.inOneRound(t, m, "get hot\r\n", write+"get hot\r\n", "get hot\r\n")
		assert.Equal(t, "VALUE hot 0 1\r\n0\r\nEND\r\n", clients[0].MustReply(t))
		clients[1].MustReply(t)
		assert.Equal(t, "VALUE hot 0 1\r\n1\r\nEND\r\n", clients[1].MustReply(t), "after %q", write)
		assert.Equal(t, "VALUE hot 0 1\r\n1\r\nEND\r\n", clients[2].MustReply(t))
	}
}

func TestAFailedReadIsSentToAnotherServerOnceForAllThatJoinedIt(t *testing.T) {
	asked := 0
	s := startHeld(t, 2, func(string) string {
		asked++
		if asked == 1 {
			return hangUp
		}
		return "VALUE hot 0 1\r\nx\r\nEND\r\n"
	})
	m := mwtest.Start(t, middleware.Options{Workers: 1, Servers: s.servers})
	for _, c := range s.inOneRound(t, m, slices.Repeat([]string{"get hot\r\n"}, 16)...) {
		assert.Equal(t, "VALUE hot 0 1\r\nx\r\nEND\r\n", c.MustReply(t))
	}
	assert.Equal(t, []string{"get hot", "get hot"}, s.got())
}

func TestAnErrorIsTheAnswerToAllThatJoined(t *testing.T) {
	s := startHeld(t, 1, func(string) string { return "SERVER_ERROR busy\r\n" })
	m := mwtest.Start(t, middleware.Options{Workers: 1, Servers: s.servers})
	for _, c := range s.inOneRound(t, m, slices.Repeat([]string{"get hot\r\n"}, 3)...) {
		assert.Equal(t, "SERVER_ERROR busy\r\n", c.MustReply(t))
	}
	assert.Equal(t, []string{"get hot"}, s.got())
}

// A round holds a few MiB for clients, and a value that several clients share counts for each.
func TestAValueThatIsTooLargeForAllOfItsClientsTogetherIsAskedForAgain(t *testing.T) {
	value := fmt.Sprintf("VALUE hot 0 %d\r\n%s\r\nEND\r\n", 1<<20, strings.Repeat("x", 1<<20))
	s := startHeld(t, 1, func(string) string { return value })
	m := mwtest.Start(t, middleware.Options{Workers: 1, Servers: s.servers})
	for i, c := range s.inOneRound(t, m, slices.Repeat([]string{"get hot\r\n"}, 10)...) {
		got := c.MustReply(t)
		assert.True(t, got == value, "client %d: %.60q", i, got)
	}
	n := len(s.got())
	assert.Greater(t, n, 1)
	assert.Less(t, n, 10)
}

func TestASharedReplyIsKeptUntilTheLastOfItsClientsHasIt(t *testing.T) {
	s := startHeld(t, 1, func(string) string { return "VALUE hot 0 1\r\nx\r\nEND\r\n" })
	m := mwtest.Start(t, middleware.Options{Workers: 1, Servers: s.servers})
	clients := s.inOneRound(t, m, "get hot\r\n", "get hot\r\nget wait\r\n")
	assert.Equal(t, "VALUE hot 0 1\r\nx\r\nEND\r\n", clients[0].MustReply(t))
	<-s.waits
	s.release <- struct{}{}
	assert.Equal(t, "VALUE hot 0 1\r\nx\r\nEND\r\n", clients[1].MustReply(t))
	assert.Equal(t, "END\r\n", clients[1].MustReply(t))
}
