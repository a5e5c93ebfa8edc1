package behaviour_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/follow"
	"mcmw/internal/mctest"
	"mcmw/internal/middleware"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/shadow"
	"mcmw/test/history"
)

// The pools of a reconfiguration. The first three have servers that move between them, and can have routes. One more is
// a shadow, and one follows.
var (
	routedPools = []string{"main", "aux", "spare"}
	copiedPools = []string{"copy", "tail"}
)

// changingPrefixes are prefixes of the keys of a load with the prefix "p-": those of two clients, all shared ones, and
// some of these.
var changingPrefixes = []string{"p-1", "p-3", "p-shared-", "p-shared-co"}

// configuration is what changes, in a form that a mutation can change and a test can print.
type configuration struct {
	Pools      map[string]*configuredPool
	Default    string
	Routes     map[string]string // pools by prefix
	Shadow     string            // the pool that "copy" is the shadow of; "": none
	Follow     string            // the pool that "tail" follows; "": none
	Migrations []middleware.Migration
}

type configuredPool struct {
	Servers  []int // indices of servers
	Replicas int
	Read     route.ReadPolicy
	Ack      replica.Ack
	Rejoin   backend.Rejoin
	Gutter   string
	Holds    bool
}

func (p *configuredPool) String() string { return fmt.Sprintf("%+v", *p) }

// clone returns a copy that shares nothing with c.
func (c *configuration) clone() *configuration {
	d := *c
	d.Pools, d.Routes = map[string]*configuredPool{}, map[string]string{}
	for name, p := range c.Pools {
		q := *p
		q.Servers = slices.Clone(p.Servers)
		d.Pools[name] = &q
	}
	for prefix, pool := range c.Routes {
		d.Routes[prefix] = pool
	}
	d.Migrations = slices.Clone(c.Migrations)
	return &d
}

func (c *configuration) String() string {
	text := fmt.Sprintf("default %s, routes %v, shadow of %q, follows %q, migrations %v", c.Default, c.Routes, c.Shadow,
		c.Follow, c.Migrations)
	for _, name := range routedPools {
		text += fmt.Sprintf(", %s %v", name, c.Pools[name])
	}
	return text
}

// reconfiguration changes the configuration of a fleet at random.
type reconfiguration struct {
	rng     *rand.Rand
	servers []*mctest.Server // those of routedPools, then one for each of copiedPools
	step    time.Duration
	kinds   []string // of mutations
	now     *configuration
	fleet   []*child
	listens []string
	apart   time.Duration        // the longest time in which a configuration reached the fleet
	gap     func() time.Duration // see longestGap
}

// options returns the options of a middleware with the configuration c.
func (r *reconfiguration) options(c *configuration) (o middleware.Options) {
	o.Timeout, o.ChangeStep, o.SweepEvery = 500*time.Millisecond, r.step, 10*time.Second
	o.RefillRate, o.StallAfter = 10_000, 100*time.Millisecond
	o.Writers = middleware.WritersSeveral
	pool := func(name string, p *configuredPool) middleware.PoolOptions {
		of := middleware.PoolOptions{Ack: p.Ack, Writers: middleware.WritersSeveral, Timeout: o.Timeout}
		of.Name, of.Options.Replicas, of.Options.Read, of.Rejoin = name, p.Replicas, p.Read, p.Rejoin
		of.Holds, of.ConnectTimeout, of.FailureLimit = p.Holds, o.Timeout, 2
		if of.Options.Gutter = p.Gutter; p.Gutter != "" {
			of.Options.GutterTTL = 10
		}
		for _, i := range p.Servers {
			of.Servers = append(of.Servers, route.Server{Name: fmt.Sprintf("s%d", i+1), Addr: r.servers[i].Addr()})
		}
		return of
	}
	for _, name := range routedPools {
		o.Pools = append(o.Pools, pool(name, c.Pools[name]))
	}
	o.Routes.Default = c.Default
	for _, prefix := range changingPrefixes {
		if to := c.Routes[prefix]; to != "" {
			o.Routes.Prefixes = append(o.Routes.Prefixes, route.Prefix{Prefix: prefix, Pool: to})
		}
	}
	if at := len(r.servers) - len(copiedPools); c.Shadow != "" {
		o.Shadows = []middleware.ShadowOptions{{
			Of: c.Shadow, To: pool(copiedPools[0], &configuredPool{Servers: []int{at}, Replicas: 1}),
			Options: shadow.Options{Share: 1, All: true, Within: time.Second},
		}}
	}
	if at := len(r.servers) - 1; c.Follow != "" {
		o.Follows = []middleware.FollowOptions{{
			Of: c.Follow, To: pool(copiedPools[1], &configuredPool{Servers: []int{at}, Replicas: 1}),
			Options: follow.Options{What: follow.Deletes},
		}}
	}
	o.Migrations = c.Migrations
	return o
}

// mutations change a configuration at random; servers are the indices of those that pools can have.
var mutations = map[string]func(r *reconfiguration, c *configuration){
	"servers": func(r *reconfiguration, c *configuration) {
		p := c.Pools[r.pool()]
		used := map[int]bool{}
		for _, q := range c.Pools {
			for _, i := range q.Servers {
				used[i] = true
			}
		}
		server := r.rng.IntN(len(r.servers) - len(copiedPools))
		switch at := slices.Index(p.Servers, server); {
		case at >= 0:
			p.Servers = slices.Delete(p.Servers, at, at+1)
		case !used[server]:
			p.Servers = append(p.Servers, server)
		default: // it is to move, and first leaves
			for _, q := range c.Pools {
				if at := slices.Index(q.Servers, server); at >= 0 {
					q.Servers = slices.Delete(q.Servers, at, at+1)
				}
			}
		}
	},
	"replicas": func(r *reconfiguration, c *configuration) { c.Pools[r.pool()].Replicas = r.rng.IntN(3) },
	"read": func(r *reconfiguration, c *configuration) {
		c.Pools[r.pool()].Read = route.ReadPolicy(r.rng.IntN(len(route.ReadPolicyNames.All())))
	},
	"ack": func(r *reconfiguration, c *configuration) {
		c.Pools[r.pool()].Ack = replica.Ack(r.rng.IntN(len(replica.AckNames.All())))
	},
	"rejoin": func(r *reconfiguration, c *configuration) {
		c.Pools[r.pool()].Rejoin = []backend.Rejoin{backend.RejoinInvalidate, backend.RejoinFlush}[r.rng.IntN(2)]
	},
	"routes": func(r *reconfiguration, c *configuration) {
		prefix := changingPrefixes[r.rng.IntN(len(changingPrefixes))]
		if to := r.pool(); to == c.Routes[prefix] {
			delete(c.Routes, prefix)
		} else {
			c.Routes[prefix] = to
		}
	},
	"default": func(r *reconfiguration, c *configuration) { c.Default = r.pool() },
	"gutter": func(r *reconfiguration, c *configuration) {
		p := c.Pools[r.pool()]
		p.Gutter = ""
		if r.rng.IntN(2) == 0 {
			p.Gutter = r.pool()
		}
	},
	"holds": func(r *reconfiguration, c *configuration) { p := c.Pools[r.pool()]; p.Holds = !p.Holds },
	"shadow": func(r *reconfiguration, c *configuration) {
		if c.Shadow != "" {
			c.Shadow = ""
		} else {
			c.Shadow = r.pool()
		}
	},
	"follow": func(r *reconfiguration, c *configuration) {
		if c.Follow != "" {
			c.Follow = ""
		} else {
			c.Follow = r.pool()
		}
	},
	"migration": func(r *reconfiguration, c *configuration) {
		if len(c.Migrations) > 0 {
			// It can be dropped until it copies, and when it has ended. Then its keys are routed to where they are.
			switch g, now := c.Migrations[0], time.Now(); {
			case now.After(g.End.Add(r.step)):
				for prefix, pool := range c.Routes {
					if pool == g.From {
						c.Routes[prefix] = g.To
					}
				}
				if c.Default == g.From {
					c.Default = g.To
				}
			case now.After(g.Start):
				return
			}
			c.Migrations = nil
			return
		}
		start := time.Now().Add(2 * r.step).Truncate(time.Second)
		c.Migrations = []middleware.Migration{{From: r.pool(), To: r.pool(), Start: start, End: start.Add(8 * r.step)}}
	},
}

// pool returns the name of a pool that can have routes.
func (r *reconfiguration) pool() string { return routedPools[r.rng.IntN(len(routedPools))] }

// change applies a changed configuration to the whole fleet, or to none of it. It returns false if the configuration
// that it has drawn is refused.
func (r *reconfiguration) change(t *testing.T) bool {
	t.Helper()
	next, what := r.now.clone(), ""
	for {
		kind := r.kinds[r.rng.IntN(len(r.kinds))]
		mutations[kind](r, next)
		what += " " + kind
		if r.rng.IntN(3) > 0 {
			break
		}
	}
	o := r.options(next)
	for _, m := range r.running() {
		if why := m.apply(t, o, true); why != "" {
			t.Logf("%s refused:%s: %s", stamp(), what, why)
			return false
		}
	}
	t.Logf("%s %s: %s", stamp(), what, next)
	if r.applyAll(t, next) {
		r.now = next
		return true
	}
	t.Logf("%s reverted", stamp())
	if !r.applyAll(t, r.now) {
		r.reaches(t)
		t.Fatal("it cannot be reverted")
	}
	return true
}

func stamp() string { return time.Now().Format("15:04:05.000") }

// maxSkew is the longest time between the middlewares that get a new configuration first and last.
const maxSkew = 800 * time.Millisecond

// applyAll applies c to all middlewares, at different times. One that refuses it as long as its step lasts makes it
// return false.
func (r *reconfiguration) applyAll(t *testing.T, c *configuration) bool {
	t.Helper()
	o, running := r.options(c), r.running()
	applied, begun := make([]bool, len(running)), time.Now()
	var all sync.WaitGroup
	for i, m := range running {
		after := time.NewTimer(time.Duration(r.rng.Int64N(int64(min(maxSkew, r.step/3)))))
		all.Go(func() {
			<-after.C
			for until := time.Now().Add(r.step / 3); ; <-time.After(r.step / 8) {
				why := m.apply(t, o, false)
				if applied[i] = why == ""; applied[i] || time.Now().After(until) {
					return
				}
				t.Logf("%s refused by %s: %s", stamp(), m.listen[0], why)
			}
		})
	}
	all.Wait()
	r.apart = max(r.apart, time.Since(begun))
	return !slices.Contains(applied, false)
}

// running returns the middlewares that have not been killed.
func (r *reconfiguration) running() []*child {
	return slices.DeleteFunc(slices.Clone(r.fleet), func(m *child) bool { return m == nil })
}

// start starts middleware i with the present configuration.
func (r *reconfiguration) start(t *testing.T, i int) {
	t.Helper()
	o := r.options(r.now)
	o.Listen = []string{r.listens[i]}
	r.fleet[i] = startChild(t, o)
}

// fault lets a server or a middleware fail, and returns what ends that.
func (r *reconfiguration) fault(t *testing.T) (end func()) {
	t.Helper()
	if i := r.rng.IntN(len(r.fleet)); r.rng.IntN(3) == 0 {
		t.Logf("%s middleware %d is killed", stamp(), i)
		r.fleet[i].kill(t)
		r.fleet[i] = nil
		return func() {
			t.Helper()
			r.start(t, i)
			t.Logf("%s middleware %d is started", stamp(), i)
		}
	}
	i := r.rng.IntN(len(r.servers) - len(copiedPools))
	fail, heal, how := r.servers[i].Stop, r.servers[i].Start, "is killed"
	if r.rng.IntN(2) == 0 {
		fail, heal, how = r.servers[i].Freeze, r.servers[i].Thaw, "stops"
	}
	t.Logf("%s server s%d %s", stamp(), i+1, how)
	fail()
	return func() {
		t.Helper()
		heal()
		t.Logf("%s server s%d runs", stamp(), i+1)
	}
}

// pause waits for a time up to most, in which changes go on.
func (r *reconfiguration) pause(most time.Duration) {
	<-time.After(time.Duration(r.rng.Int64N(int64(most))))
}

// A fleet gets configurations that change at random, at slightly different times, while servers and middlewares fail.
// To find out what a failure needs, MCMW_KINDS selects the kinds of mutations, as in "routes|default",
// MCMW_FAULTS=none leaves the faults out, and MCMW_SECONDS is how long it takes.
func TestHistoriesAreLegalWhileTheConfigurationChanges(t *testing.T) {
	if !mctest.Long() {
		t.Skip("configurations must reach a fleet within a step, which a busy machine may miss: MCMW_LONG=1 selects it")
	}
	seed := mctest.Seed(t)
	r := &reconfiguration{
		rng: rand.New(rand.NewPCG(seed, 0)), step: 2 * time.Second,
		servers: mctest.StartNewMemcacheds(t, 10), now: &configuration{
			Pools: map[string]*configuredPool{
				"main":  {Servers: []int{0, 1, 2, 3}},
				"aux":   {Servers: []int{4, 5}, Replicas: 1},
				"spare": {Servers: []int{6, 7}},
			},
			Default: "main", Routes: map[string]string{},
		},
	}
	for kind := range mutations {
		if regexp.MustCompile(os.Getenv("MCMW_KINDS")).MatchString(kind) {
			r.kinds = append(r.kinds, kind)
		}
	}
	slices.Sort(r.kinds)
	s := &scene{fails: true, stops: true}
	r.fleet = make([]*child, 3)
	for i := range r.fleet {
		r.listens = append(r.listens, mctest.Refusing(t))
		r.start(t, i)
	}
	s.addrs = r.listens
	load := history.Options{
		Clients: 6, Rate: 300, SharedClients: 4, SharedRate: 300, Contests: 2, Prefix: "p-", Seed: seed,
		Manners: history.Manners{Resend: true, Restarts: true, Kills: true},
	}
	duration := 5 * time.Minute
	if text := os.Getenv("MCMW_SECONDS"); text != "" {
		d, err := time.ParseDuration(text + "s")
		require.NoError(t, err)
		duration = d
	}
	r.gap = longestGap(t)
	v := s.played(t, load, func() {
		for end := time.Now().Add(duration); time.Now().Before(end); {
			heal := func() {}
			if os.Getenv("MCMW_FAULTS") != "none" && r.rng.IntN(2) == 0 {
				heal = r.fault(t)
				// Until all requests that the fault has met have failed: a server with the only copy of a lock may be
				// empty when it returns, and an add that still waited would win the lock again.
				<-time.After(r.step / 2)
				r.pause(r.step)
			}
			for tries := 0; !r.change(t) && tries < 10; tries++ {
			}
			r.pause(2 * r.step)
			heal()
			r.pause(r.step)
		}
	})
	require.Positive(t, v.Shared.Contests)
	r.reaches(t)
	judge(t, v)
}

// reaches skips the rest of the test unless every configuration has reached the fleet within a step. Histories need not
// be legal otherwise.
func (r *reconfiguration) reaches(t *testing.T) {
	t.Helper()
	t.Logf("configurations reached the fleet within %v, and nothing was due for longer than %v", r.apart, r.gap())
	if max(r.apart, r.gap()) > r.step {
		t.Skipf("the machine is too busy: a step is %v", r.step)
	}
}

// longestGap returns how to ask for the longest time between two steps of a goroutine that is due every 50 ms: much
// more than this is a machine that does not let processes run.
func longestGap(t *testing.T) func() time.Duration {
	t.Helper()
	var longest atomic.Int64
	tick, ended := time.NewTicker(50*time.Millisecond), make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for last := time.Now(); ; last = time.Now() {
			select {
			case <-tick.C:
				longest.Store(max(longest.Load(), int64(time.Since(last))))
			case <-ended:
				return
			}
		}
	})
	t.Cleanup(func() {
		tick.Stop()
		close(ended)
		watch.Wait()
	})
	return func() time.Duration { return time.Duration(longest.Load()) }
}
