package behaviour_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/model"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/mctest/strict"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// awaitSweeps waits until the middlewares of fleet have started and ended a comparison of the replicas. The second
// comparison that ends from now on has started since.
func awaitSweeps(t *testing.T, fleet ...*mwtest.MW) {
	t.Helper()
	ended := func() (n uint64) {
		for _, m := range fleet {
			n += m.Stats().Snapshot().Sweep.Outcomes[stats.SweepComplete]
		}
		return n
	}
	before := ended()
	require.Eventually(t, func() bool { return ended() >= before+2 }, mctest.Patience, pollPause,
		"the replicas are not compared")
}

// timeToLive is the part of a state on which replicas need not agree.
var timeToLive = regexp.MustCompile(`^(f\d+ (?:X )?)t-?\d+ `)

// disagreeing returns a line for each key that two servers hold with different flags or values, and the number of keys
// that any server holds. A missing key is not a difference.
func disagreeing(t *testing.T, servers []*mctest.Server, keys []string) (lines []string, present int) {
	t.Helper()
	held := make([]map[string]bool, len(keys))
	for s, server := range servers {
		for k, state := range stateOf(t, server.Addr(), keys) {
			if s == 0 {
				held[k] = map[string]bool{}
			}
			if state != "" {
				held[k][timeToLive.ReplaceAllString(state, "$1")] = true
			}
		}
	}
	for k, key := range keys {
		held := held[k]
		present += min(len(held), 1)
		if len(held) > 1 {
			lines = append(lines, fmt.Sprintf("%s: %q", key, slices.Sorted(maps.Keys(held))))
		}
	}
	return lines, present
}

// fleetOf starts n middlewares with o in front of servers. If jittery, messages between them and the servers have a
// random delay, another one on each connection.
func fleetOf(t *testing.T, n int, o middleware.Options, jittery bool, servers []*mctest.Server) []*mwtest.MW {
	t.Helper()
	var fleet []*mwtest.MW
	for range n {
		var addrs []string
		for _, s := range servers {
			addr := s.Addr()
			if jittery {
				proxy := mctest.StartProxy(t, addr)
				proxy.Inject(mctest.Fault{Jitter: 5 * time.Millisecond})
				addr = proxy.Addr()
			}
			addrs = append(addrs, addr)
		}
		o.Servers = mwtest.Named(addrs...)
		fleet = append(fleet, mwtest.Start(t, o))
	}
	return fleet
}

// agreementOptions allow a crowd's writes to be in flight at the same time.
func agreementOptions(writers middleware.Writers) middleware.Options {
	return middleware.Options{Writers: writers, Workers: 8}
}

func justSets(w *writer, key string) (write, error) { return w.set(key), nil }

func TestReplicasAgreeBehindAnyNumberOfMiddlewares(t *testing.T) {
	seed := mctest.Seed(t)
	for name, kind := range map[string]struct {
		compose func(w *writer, key string) (write, error)
		keys    int
	}{"sets": {justSets, 16}, "anything": {(*writer).any, 10}} {
		for n := 1; n <= 3; n++ {
			t.Run(fmt.Sprintf("%d mcmw, %s", n, name), func(t *testing.T) {
				t.Parallel()
				rounds := []int{kind.keys} // the number of keys in each round
				if mctest.Long() {
					rounds = append(slices.Repeat(rounds, 16), 400) // a hundred rounds, together with the other cases
				} else if n == 1 {
					rounds[0] = 6 // here all writes of a key wait for each other
				}
				servers := mctest.StartNewMemcacheds(t, 3)
				for round, keys := range rounds {
					keys := numbered(keys)
					fleet := fleetOf(t, n, agreementOptions(middleware.WritersSeveral), true, servers)
					writeAtOnce(t, fleet, seed+uint64(round), keys, kind.compose)
					for _, m := range fleet { // checks must finish before a middleware ends
						require.NoError(t, m.Stop())
					}
					lines, present := disagreeing(t, servers, keys)
					require.Empty(t, lines, "round %d", round)
					require.NotZero(t, present)
				}
			})
		}
	}
}

// The control: with the same crowd and servers, replicas differ if each middleware assumes that it is the only writer.
func TestReplicasDifferBehindMiddlewaresWithOneWriter(t *testing.T) {
	seed := mctest.Seed(t)
	for n := 2; n <= 3; n++ {
		t.Run(fmt.Sprintf("%d mcmw", n), func(t *testing.T) {
			t.Parallel()
			const rounds = 100 // one or two are enough
			servers := mctest.StartNewMemcacheds(t, 3)
			fleet := fleetOf(t, n, agreementOptions(middleware.WritersOne), true, servers)
			var lines []string
			for some := range slices.Chunk(numbered(rounds*20), 20) {
				writeAtOnce(t, fleet, seed, some, justSets)
				if lines, _ = disagreeing(t, servers, some); len(lines) > 0 {
					break
				}
			}
			require.NotEmpty(t, lines)
		})
	}
}

func TestDifferencesThatAKilledMiddlewareLeavesAreSweptUpByTheOthers(t *testing.T) {
	for name, cold := range map[string]bool{"all servers are warm": false, "the third server is filled": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rounds := 2
			if mctest.Long() {
				rounds = 50
			}
			servers := mctest.StartNewMemcacheds(t, 3)
			keys, start := numbered(200), time.Now().Add(-3*time.Hour/2).UTC().Truncate(time.Second)
			// options are those of a middleware that reaches the third server at an address.
			options := func(third string) (o middleware.Options) {
				o.Writers = middleware.WritersSeveral
				o.Servers = mwtest.Named(servers[0].Addr(), servers[1].Addr(), third)
				if cold {
					o.Pools = []middleware.PoolOptions{{
						Pool:    route.Pool{Name: "one", Servers: o.Servers},
						Writers: o.Writers,
					}}
					o.Routes.Default, o.Servers, o.ChangeStep = "one", nil, time.Hour
					o.Migrations = []middleware.Migration{{
						From: "one", To: "one", Cold: o.Pools[0].Servers[2].Name, WarmsUp: true, Within: 0.01,
						Start: start, // as after a restart
					}}
				}
				return o
			}
			o := options(servers[2].Addr())
			o.SweepEvery = 100 * time.Millisecond
			others := mwtest.Start(t, o)
			for round := range rounds {
				c := others.Dial(t)
				for _, key := range keys { // a missing key is not a difference
					require.Equal(t, "STORED\r\n", c.MustDo(t, "set "+key+" 0 0 5\r\nfirst\r\n"))
				}
				// Requests in flight when the middleware is killed reach two of the three servers.
				lossy := mctest.StartProxy(t, servers[2].Addr())
				o := options(lossy.Addr())
				o.Timeout = time.Second // requests after those in flight do not reach the third server in time
				killed := startChild(t, o)
				// a sweep that dies keeps others from sweeping for a while
				awaitStat(t, mctest.MustDial(t, killed.addrs[0]), "mcmw_sweep_running", 0)
				var ended sync.WaitGroup
				var written atomic.Int64
				if cold {
					c, third := mctest.MustDial(t, killed.addrs[0]), mctest.MustDial(t, servers[2].Addr())
					third.MustDo(t, "delete "+keys[0]+"\r\n")
					require.Eventually(t, func() bool {
						c.MustDo(t, "get "+keys[0]+"\r\n")
						_, there := servers[2].Get(keys[0])
						return there
					}, mctest.Patience, mctest.Tick, "the middleware does not fill the server")
					ended.Go(func() {
						for i := 0; ; i++ {
							_, err := third.Do("delete " + keys[i%len(keys)] + "\r\n")
							if err == nil {
								_, err = c.Do("get " + keys[i%len(keys)] + "\r\n")
							}
							if err != nil {
								return
							}
						}
					})
				}
				for n := range 16 {
					c := mctest.MustDial(t, killed.addrs[0])
					ended.Go(func() {
						for i := n; ; i += 7 {
							if _, err := c.Do(fmt.Sprintf("set %s %d 0 12\r\n%04d-%02d-%04d\r\n", keys[i%len(keys)], n,
								round, n, i%10000)); err != nil {
								return
							}
							written.Add(1)
						}
					})
				}
				require.Eventually(t, func() bool { return written.Load() > 100 }, mctest.Patience, mctest.Tick)
				found := func() uint64 { return others.Stats().Snapshot().Sweep.Disagreements }
				before := found()
				lossy.Inject(mctest.Fault{Lose: true})
				require.Eventually(t, func() bool {
					lines, _ := disagreeing(t, servers, keys)
					return len(lines) > 0 || found() > before // a sweep may have been faster
				}, mctest.Patience, pollPause)
				killed.kill(t)
				ended.Wait()
				awaitSweeps(t, others)
				lines, present := disagreeing(t, servers, keys)
				require.Empty(t, lines, "round %d", round)
				require.NotZero(t, present)
			}
		})
	}
}

func TestOneMiddlewareOfManyComparesReplicasRepeatedly(t *testing.T) {
	t.Parallel()
	servers := mctest.StartNewMemcacheds(t, 3)
	o := middleware.Options{SweepEvery: 100 * time.Millisecond}
	fleet := fleetOf(t, 2, o, false, servers)
	for round := range 2 {
		// Like after the death of a middleware, each server has another value with another version.
		keys := numbered(50)
		for s, server := range servers {
			c := mctest.MustDial(t, server.Addr())
			for k, key := range keys {
				require.Equal(t, "HD\r\n", c.MustDo(t,
					fmt.Sprintf("ms %s 1 E%d\r\n%d\r\n", key, uint64(1)<<62+uint64(1000*round+3*k+s), s)))
			}
		}
		awaitSweeps(t, fleet...)
		lines, present := disagreeing(t, servers, keys)
		require.Empty(t, lines)
		require.Equal(t, len(keys), present)
	}
	for _, m := range fleet {
		require.Eventually(t, func() bool { return !m.Stats().Snapshot().Sweep.Last.IsZero() }, mctest.Patience,
			pollPause,
			"all middlewares know of the last comparison, whichever made it")
		s := m.Stats().Snapshot().Sweep
		require.Zero(t, s.Outcomes[stats.SweepFailed], s.Why)
	}
}

// noting is a server that answers like the model of memcached, and records the requests of the middleware.
type noting struct {
	mu    sync.Mutex // guards what follows
	model model.Server
	asked []string
}

// startNoting starts a noting server, and returns it with its address.
func startNoting(t *testing.T) (s *noting, addr string) {
	s = &noting{}
	return s, mctest.StartScript(t, func(p *mctest.Peer) {
		for {
			q, err := strict.Read(p.Reader())
			if q.Line == "" { // the middleware has closed the connection
				return
			}
			p.Send(s.reply(&q, err))
		}
	}).Addr()
}

func (s *noting) reply(q *strict.Request, err error) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil: // such as the crawler's commands
		return "ERROR\r\n"
	case q.Name() == "stats":
		return "END\r\n"
	case len(q.Keys) > 0 && !strings.HasPrefix(q.Keys[0], "mcmw "):
		s.asked = append(s.asked, "`"+q.Line+"`")
	}
	return s.model.Do(q)
}

// begin forgets the requests, and stores the items that the table's requests find.
func (s *noting) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = nil
	s.model.Evict("o")
	s.model.Put("k", model.Item{Value: "5", CAS: 1 << 62})
	s.model.Put("n", model.Item{Value: "9", CAS: 1 << 62})
}

// told returns the requests since begin.
func (s *noting) told() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// tripsIn returns the rows of the table of trips in page, each with its cells.
func tripsIn(t *testing.T, page string) (rows [][]string) {
	_, rest, found := strings.Cut(page, "<!-- trips -->\n")
	require.True(t, found)
	table, _, _ := strings.Cut(rest, "<!-- end -->")
	for _, line := range strings.Split(strings.TrimSpace(table), "\n")[2:] {
		var cells []string
		for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		rows = append(rows, cells)
	}
	return rows
}

// casFlag matches a flag with a version, or with a cas that a server chose.
var casFlag = regexp.MustCompile(`\b([EC])(\d+)\b`)

// named returns the lines with versions replaced: the version known by T, the others by V and W in their order, and a
// server's own cas by 2.
func named(lines []string, known string) string {
	names := map[string]string{known: "T"}
	return casFlag.ReplaceAllStringFunc(strings.Join(lines, ", "), func(flag string) string {
		version := flag[1:]
		if len(version) < len(known) {
			return flag[:1] + "2"
		}
		if names[version] == "" {
			names[version] = [...]string{"V", "W", "X"}[len(names)-1]
		}
		return flag[:1] + names[version]
	})
}

// askedOf returns the requests of row to the h-th of a key's servers. Only the first server sees the version before W.
func askedOf(row []string, h int) string {
	var lines []string
	for _, cell := range row[1:] {
		who, some, only := strings.Cut(cell, ": ")
		switch {
		case cell == "":
		case !only:
			lines = append(lines, cell)
		case (who == "1st") == (h == 0):
			lines = append(lines, some)
		}
	}
	text := strings.Join(lines, ", ")
	if h > 0 {
		text = strings.ReplaceAll(text, "EW", "EV")
	}
	return text
}

func TestServersReceiveTheRequestsInTheTableOfTrips(t *testing.T) {
	page, err := os.ReadFile("../../docs/replication.md")
	require.NoError(t, err)
	var servers []*noting
	var addrs []string
	for range 3 {
		s, addr := startNoting(t)
		servers, addrs = append(servers, s), append(addrs, addr)
	}
	o := middleware.Options{Servers: mwtest.Named(addrs...), Writers: middleware.WritersSeveral}
	c := mwtest.Start(t, o).Dial(t)
	router, err := route.New(o.Servers, route.Options{})
	require.NoError(t, err)
	const known = "4611686018427387904"
	for _, row := range tripsIn(t, string(page)) {
		for _, s := range servers {
			s.begin()
		}
		command := strings.ReplaceAll(strings.Trim(row[0], "`"), " T", " "+known)
		if words := strings.Fields(command); len(words) > 4 {
			command += "\r\nx"
		}
		c.MustDo(t, command+"\r\n")
		holders := router.Replicas([]byte(strings.Fields(command)[1]), nil)
		require.EventuallyWithT(t, func(t *assert.CollectT) { // the client's answer does not wait for the check
			for h, s := range holders {
				assert.Equal(t, askedOf(row, h), named(servers[s].told(), known), "%s: server %d of the key's",
					row[0], h+1)
			}
		}, mctest.Patience, pollPause)
	}
}
