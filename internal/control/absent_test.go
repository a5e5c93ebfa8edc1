package control

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/middleware"
	"mcmw/internal/route"
)

// cached returns the server at addr, found by dns+cache.
func cached(addr string) route.Server {
	return route.Server{Name: addr, Addr: addr, Weight: 1, Entry: "dns+cache:11211"}
}

// names returns the names of the servers of the middleware, as it was last told.
func (r *rig) names() (names []string) {
	servers := r.Middleware().Pools[0].Servers
	if all := r.m.all(); len(all) > 0 {
		servers = all[len(all)-1].Pools[0].Servers
	}
	for _, s := range servers {
		names = append(names, s.Name)
	}
	return names
}

func TestAServerThatIsAwayAtTheStartStaysUntilItIsRemoved(t *testing.T) {
	there, away, static := cached("10.0.0.1:11211"), cached("10.0.0.2:11211"), cached("10.0.0.8:11211")
	static.Entry = ""
	fromOther := cached("10.0.0.9:11211")
	fromOther.Entry = "dns+removed:11211"
	started := func(t *testing.T) *rig {
		r := newRig(t, "servers: [dns+cache, fixed]\nreplicas: 1\nwatch-interval: 0s\n")
		r.dns.set(nil, "10.0.0.1")
		r.inForce = []route.Server{there, away, static, fromOther}
		r.run(t)
		require.Equal(t, []string{there.Name, away.Name, "fixed"}, r.names(),
			"an entry that is not in the file any more was removed by somebody")
		return r
	}
	for name, removed := range map[string]func(r *rig){
		"by many lookups that lack it": func(*rig) { pass(2 * time.Minute) },
		"by another middleware": func(r *rig) {
			pass(20 * time.Second)
			require.Empty(t, r.m.all())
			r.m.others(there, route.Server{Name: "fixed"})
			pass(6 * time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := started(t)
				removed(r)
				require.Equal(t, []string{there.Name, "fixed"}, r.names())
				r.m.others()
				r.dns.set(nil, "10.0.0.1", "10.0.0.2")
				pass(6 * time.Second)
				require.Equal(t, []string{there.Name, away.Name, "fixed"}, r.names(), "it is added again")
			})
		})
	}
}

func TestAStartWaitsUntilAServerSaysWhichServersAreInUseButForOnePoolOnlyForAWhile(t *testing.T) {
	for name, tc := range map[string]struct {
		text  string
		waits bool
	}{
		"one list": {"servers: [dns+cache]\n", true},
		"pools": {"pools:\n  a: {servers: [dns+cache]}\n  b: {servers: [b]}\nroutes:\n  - {default: b}\n  - " +
			"{prefix: x, pool: a}\n", false},
		"no names": {"servers: [a]\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, tc.text)
				r.dns.set(nil, "10.0.0.1")
				r.unread.Store(true)
				found := make(chan bool, 1)
				go func() { found <- r.AwaitServers(t.Context()) }()
				pass(20 * time.Second)
				if tc.waits {
					require.Empty(t, found)
					require.Contains(t, r.logged(t)[0], "no server that was found answers")
					r.unread.Store(false)
					pass(time.Second)
				}
				require.True(t, <-found)
			})
		})
	}
}

func TestANewEntryOfTheFileFindsTheServersThatOthersUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "servers: [fixed]\nreplicas: 1\nwatch-interval: 0s\n")
		r.run(t)
		r.dns.set(nil, "10.0.0.1")
		r.inForce = []route.Server{cached("10.0.0.1:11211"), cached("10.0.0.2:11211")}
		r.write(t, "servers: [fixed, dns+cache]\nreplicas: 1\nwatch-interval: 0s\n")
		r.sighup()
		require.Equal(t, []string{"fixed", "10.0.0.1:11211", "10.0.0.2:11211"}, r.names())
	})
}

func TestAListThatCannotBeConfirmedStaysUnlessAnotherMiddlewareChangesToADifferentOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "servers: [dns+cache]\nreplicas: 1\nwatch-interval: 0s\n")
		r.dns.set(nil, "10.0.0.1")
		r.run(t)
		first, second, third := cached("10.0.0.1:11211"), cached("10.0.0.2:11211"), cached("10.0.0.3:11211")
		r.m.others(first, third) // has no effect while names have answers
		pass(time.Minute)
		require.Empty(t, r.m.all())
		require.Zero(t, r.Counts.Snapshot().Unconfirmed)
		r.m.others()

		r.dns.set(errors.New("no answer"))
		pass(8 * time.Second) // the last answer is up to 14 seconds old
		require.Len(t, r.logged(t), 1, "the name cannot be looked up")
		pass(16 * time.Second)
		lines := r.logged(t)
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], "the list of servers cannot be confirmed")
		require.Greater(t, r.Counts.Snapshot().Unconfirmed, 20*time.Second)
		require.Empty(t, r.m.all())

		r.m.others(first, second)
		pass(6 * time.Second)
		require.Len(t, r.m.all(), 1)
		require.Equal(t, []route.Server{first, second}, r.m.all()[0].Pools[0].Servers)
		r.m.others()
		pass(time.Hour)
		r.sighup()
		require.Len(t, r.m.all(), 1, "the list of the other middleware stays until the names have answers")
		lines = r.logged(t)
		require.Contains(t, lines[0], "another mcmw is changing to a different list of servers")
		require.Contains(t, lines[1], "the servers have changed")

		r.dns.set(nil, "10.0.0.1", "10.0.0.3")
		pass(6 * time.Second)
		require.Len(t, r.m.all(), 2)
		require.Equal(t, []route.Server{first, third}, r.m.all()[1].Pools[0].Servers[:2])
		require.Zero(t, r.Counts.Snapshot().Unconfirmed)
		require.Contains(t, strings.Join(r.logged(t), "\n"), "the list of servers is confirmed again")
	})
}

func TestACheckSaysThatAConfigurationHasToWaitAndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "servers: [a]\ndepth: 1\nwatch-interval: 0s\n")
		r.run(t)
		before := r.Counts.Snapshot()
		changes, later, err := r.Check(t.Context(), []byte("servers: [a]\ndepth: 2\nwatch-interval: 0s\n"))
		require.NoError(t, err)
		require.False(t, later)
		require.Equal(t, []string{"depth: 1 -> 2"}, changes)
		r.m.fail(middleware.NotYet{Why: errors.New("another change has not ended")})
		_, later, err = r.Check(t.Context(), []byte("servers: [b]\nwatch-interval: 0s\n"))
		require.EqualError(t, err, "another change has not ended")
		require.True(t, later)
		pass(time.Hour)
		require.Equal(t, before, r.Counts.Snapshot())
		require.Equal(t, 1, r.Config().Depth)
		require.Empty(t, r.m.all())
		require.Empty(t, r.logged(t))
	})
}
