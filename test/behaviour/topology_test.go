package behaviour_test

import (
	"testing"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
)

// topology is a number of servers with a number of replicas.
type topology struct {
	name     string
	servers  int
	replicas int // 0: all
	sharded  bool
}

// topologies are the topologies with which clients must work.
var topologies = []topology{
	{"one server", 1, 0, false},
	{"three servers, replicas all", 3, 0, false},
	{"three servers, replicas all, sharded", 3, 0, true},
	{"three servers, replicas 1", 3, 1, false},
	{"three servers, replicas 1, sharded", 3, 1, true},
	{"three servers, replicas 2", 3, 2, true},
}

// options starts the topology's servers, and returns o with them.
func (p topology) options(t testing.TB, o middleware.Options) (middleware.Options, []*mctest.Server) {
	t.Helper()
	servers := mctest.StartMemcacheds(t, p.servers)
	o.Servers = mwtest.Servers(servers...)
	o.Placement.Replicas = p.replicas
	o.Sharded = p.sharded
	return o, servers
}

// start runs a middleware in front of new servers.
func (p topology) start(t testing.TB) (*mwtest.MW, []*mctest.Server) {
	t.Helper()
	o, servers := p.options(t, middleware.Options{Workers: 4})
	return mwtest.Start(t, o), servers
}
