package explore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest/explore"
	"mcmw/internal/mctest/model"
)

// naive sends a command to all servers at once and gives its client the last answer.
type naive struct {
	out    []string
	waits  int
	answer string
}

func (n *naive) Locks(command string) ([]string, bool) { return strings.Fields(command)[1:2], true }

func (n *naive) Start(command string) {
	for s := range n.out {
		n.out[s] = command
	}
	n.waits, n.answer = len(n.out), ""
}

func (n *naive) Reply(_ int, reply string) {
	n.waits--
	n.answer = reply
}

func (n *naive) Lost(int) { n.Reply(0, "SERVER_ERROR\r\n") }

func (n *naive) Out(server int) string {
	out := n.out[server]
	n.out[server] = ""
	return out
}

func (n *naive) Answer() (string, bool) { return n.answer, n.waits == 0 }

func (n *naive) AppendState(dst []byte) []byte { return fmt.Appendf(dst, "%d %q", n.waits, n.answer) }

func (n *naive) Busy() bool { return n.waits > 0 }

// world returns a world with a number of servers, and a worker for each of the commands.
func world(servers int, middlewares []int, commands ...string) *explore.World {
	w := &explore.World{}
	for range servers {
		w.Servers = append(w.Servers, &model.Server{})
	}
	for i, command := range commands {
		w.Workers = append(w.Workers, &explore.Worker{
			Middleware: middlewares[i], Driver: &naive{out: make([]string, servers)}, Commands: []string{command},
		})
	}
	return w
}

// alike returns an error if the servers hold different values of k.
func alike(w *explore.World) error {
	a, _ := w.Servers[0].Get("k")
	b, _ := w.Servers[1].Get("k")
	if a.Value != b.Value {
		return errors.New("the servers differ")
	}
	return nil
}

const setX, setY = "set k 0 0 1\r\nx\r\n", "set k 0 0 1\r\ny\r\n"

func TestEveryOrderOfMessagesIsExplored(t *testing.T) {
	// One command to two servers: start, then two serves and two receives, each after its serve.
	r, failure := explore.All(func() *explore.World { return world(2, []int{0}, setX) }, 100,
		explore.Checks{AtEnd: alike})
	require.Nil(t, failure)
	// before the start, and 3 x 3: for each server, the request is sent, served, or answered
	assert.Equal(t, explore.Result{States: 10, Ends: 1}, r)

	outcomes := map[string]bool{}
	_, failure = explore.All(func() *explore.World { return world(1, []int{0, 1}, setX, setY) }, 1000,
		explore.Checks{AtEnd: func(w *explore.World) error {
			it, _ := w.Servers[0].Get("k")
			outcomes[it.Value] = true
			return nil
		}})
	require.Nil(t, failure)
	assert.Equal(t, map[string]bool{"x": true, "y": true}, outcomes)
}

func TestTwoIndependentMiddlewaresDivergeAndOneDoesNot(t *testing.T) {
	_, failure := explore.All(func() *explore.World { return world(2, []int{0, 1}, setX, setY) }, 10_000,
		explore.Checks{AtEnd: alike})
	require.NotNil(t, failure)
	assert.ErrorContains(t, failure, "the servers differ")
	assert.ErrorContains(t, failure, `"set k 0 0 1\r\ny\r\n" -> "STORED\r\n"`)

	r, failure := explore.All(func() *explore.World { return world(2, []int{0, 0}, setX, setY) }, 10_000,
		explore.Checks{AtEnd: alike})
	require.Nil(t, failure)
	assert.Positive(t, r.Ends)
}

func TestFaultsHappenAtEveryPoint(t *testing.T) {
	for _, tc := range []struct {
		name   string
		faults explore.Faults
		want   []string // what two servers can hold after one set
	}{
		{"none", explore.Faults{}, []string{"x x"}},
		{"an eviction", explore.Faults{Evictions: 1, Key: "k"}, []string{" x", "x ", "x x"}},
		{"a connection that breaks", explore.Faults{Breaks: 1}, []string{" x", "x ", "x x"}},
		{"a middleware that dies", explore.Faults{Deaths: 1}, []string{" ", " x", "x ", "x x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			seen := map[string]bool{}
			_, failure := explore.All(func() *explore.World {
				w := world(2, []int{0}, setX)
				w.Faults = tc.faults
				return w
			}, 10_000, explore.Checks{AtEnd: func(w *explore.World) error {
				a, _ := w.Servers[0].Get("k")
				b, _ := w.Servers[1].Get("k")
				seen[fmt.Sprint(a.Value, " ", b.Value)] = true
				return nil
			}})
			require.Nil(t, failure)
			assert.Len(t, seen, len(tc.want))
			for _, state := range tc.want {
				assert.Contains(t, seen, state)
			}
		})
	}
}

func TestMoreStatesThanTheLimitAreAFailure(t *testing.T) {
	_, failure := explore.All(func() *explore.World { return world(3, []int{0, 1}, setX, setY) }, 50,
		explore.Checks{AtEnd: alike})
	require.NotNil(t, failure)
	assert.ErrorContains(t, failure, "more than 50 states")
}

func TestAHistoryIsLinearIfSomeOrderExplainsItsAnswers(t *testing.T) {
	register := func(o explore.Operation, state string) (string, bool) {
		if o.Command == "get" {
			return state, o.Answer == state
		}
		return o.Command, true
	}
	set := explore.Operation{Command: "x", Began: 1, Ended: 3}
	for name, tc := range map[string]struct {
		get  explore.Operation
		want bool
	}{
		"a read meanwhile sees it": {
			explore.Operation{Command: "get", Answer: "x", Began: 2, Ended: 4},
			true,
		},
		"a read meanwhile does not see it": {
			explore.Operation{Command: "get", Answer: "", Began: 2, Ended: 4},
			true,
		},
		"a read after it sees it": {
			explore.Operation{Command: "get", Answer: "x", Began: 4, Ended: 5},
			true,
		},
		"a read after it does not see it": {
			explore.Operation{Command: "get", Answer: "", Began: 4, Ended: 5},
			false,
		},
		"a read sees what was written by none": {
			explore.Operation{Command: "get", Answer: "y", Began: 2, Ended: 4},
			false,
		},
	} {
		assert.Equal(t, tc.want, explore.Linear([]explore.Operation{set, tc.get}, "", register), name)
	}
}
