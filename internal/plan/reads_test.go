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
