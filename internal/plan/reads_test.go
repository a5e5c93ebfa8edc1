package plan_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/plan"
	"mcmw/internal/replica"
	"mcmw/internal/request"
	"mcmw/internal/route"
)

// The servers of the pools main and copy of newSplit.
var mainServers, copyServers = []int{0, 1}, []int{2, 3}

// newSplit returns a router whose keys are read from the pool copy, except for keys that begin with m:.
func newSplit(t testing.TB) *route.Router {
	t.Helper()
	pool := func(name string, n int, o route.Options) route.Pool {
		p := route.Pool{Name: name, Options: o}
		for s := range n {
			p.Servers = append(p.Servers, route.Server{Name: fmt.Sprintf("%s-%d", name, s+1)})
		}
		return p
	}
	r, err := route.NewPools([]route.Pool{
		pool("main", 2, route.Options{Gutter: "spare", GutterTTL: 60}),
		pool("copy", 2, route.Options{Replicas: 1, Gutter: "other", GutterTTL: 60}), pool("spare", 1, route.Options{}),
		pool("other", 1, route.Options{}),
	}, route.Routes{Default: "main", Reads: "copy", Prefixes: []route.Prefix{{Prefix: "m:", Pool: "main"}}})
	require.NoError(t, err)
	return r
}

// sentTo returns what command sends to each server first.
func sentTo(d *driver, command string) map[int]string {
	d.Start(command)
	all := map[int]string{}
	for s := range d.planner.Servers {
		if out := d.Out(s); out != "" {
			all[s] = out
		}
	}
	return all
}

func TestOnlyReadsGoToThePoolForReads(t *testing.T) {
	reads := []string{
		"get k\r\n", "get k l\r\n", "mg k\r\n", "mg k v t f s h l k q\r\n", "mg aw== b v\r\n",
		"mg k C7 v\r\n",
	}
	others := []string{
		"gets k\r\n", "gets k l\r\n", "gat 9 k\r\n", "gat 9 k l\r\n", "gats 9 k\r\n", "mg k v c\r\n", "mg k v T9\r\n",
		"mg k N9 v\r\n", "mg k R9 v\r\n", "me k\r\n",
		"set k 0 0 1\r\nx\r\n", "set k 0 0 1 noreply\r\nx\r\n", "add k 0 0 1\r\nx\r\n", "replace k 0 0 1\r\nx\r\n",
		"append k 0 0 1\r\nx\r\n", "prepend k 0 0 1\r\nx\r\n", "cas k 0 0 1 7\r\nx\r\n",
		"delete k\r\n", "incr k 1\r\n", "decr k 1\r\n", "touch k 9\r\n", "ms k 1\r\nx\r\n", "ms k 1 q MA\r\nx\r\n",
		"ms k 1 C7\r\nx\r\n", "md k\r\n", "md k q\r\n", "md k I T9\r\n", "ma k N0\r\n",
	}
	for _, versions := range []*plan.Versions{nil, plan.NewVersions(0, 1)} {
		for pool, commands := range map[*[]int][]string{&copyServers: reads, &mainServers: others} {
			for _, command := range commands {
				sent := sentTo(drive(t, newSplit(t), replica.AckAll, versions), command)
				require.NotEmpty(t, sent, command)
				for s := range sent {
					require.Contains(t, *pool, s, command)
				}
			}
		}
	}
	d := drive(t, newSplit(t), replica.AckAll, nil)
	sent := sentTo(d, "get m:1 k m:2 l\r\n")
	inMain, inCopy := sent[0]+sent[1], sent[2]+sent[3]
	require.Equal(t, "get m:1 m:2\r\n", inMain)
	require.Contains(t, []string{"get k l\r\n", "get k\r\nget l\r\n", "get l\r\nget k\r\n"}, inCopy)
	require.Len(t, sentTo(drive(t, newSplit(t), replica.AckAll, nil), "flush_all\r\n"), 6, "all servers of all pools")
}

func TestEachRequestWaitsInALaneOfThePoolThatItGoesTo(t *testing.T) {
	c := plan.NewLaneChooser(newSplit(t), func(int) int64 { return 0 }, func(int) bool { return false })
	d := drive(t, newSplit(t), replica.AckAll, nil)
	for command, pool := range map[string][]int{
		"get k\r\n": copyServers, "gets k\r\n": mainServers,
		"delete k\r\n": mainServers, "get m:1\r\n": mainServers,
	} {
		b := &request.Batch{Requests: []request.Request{d.decode(command)}}
		c.Choose(b)
		require.Contains(t, pool, int(b.Requests[0].Lane)/2, command)
	}
}
