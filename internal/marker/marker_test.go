package marker

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/route"
)

func placed(replicas int, servers ...string) Placement {
	p := Placement{Replicas: replicas, Ring: route.RingTwemproxy.String(), Hash: route.HashFNV1a64.String()}
	for _, s := range servers {
		p.Servers = append(p.Servers, route.Server{Name: s, Weight: 1})
	}
	return p
}

func record(version int64, server string, p Placement) *Record {
	return &Record{Version: version, Server: server, Placement: p}
}

func TestAServerIsTrustedOnlyIfEnoughServersKnowItsState(t *testing.T) {
	all := placed(3, "a", "b", "c")
	one := placed(1, "a", "b", "c")
	pair := placed(2, "a", "b")
	for _, tc := range []struct {
		name    string
		looks   Looks
		doubted map[string]string
	}{
		{"no middleware was here", Looks{"a": {}, "b": {}}, nil},
		{"all agree", Looks{
			"a": {Record: record(1, "a", all)}, "b": {Record: record(1, "b", all)},
			"c": {Record: record(1, "c", all)},
		}, nil},
		{"two of three are enough", Looks{"a": {Record: record(1, "a", all)}, "b": {Record: record(1, "b", all)}}, nil},
		{
			"one of three is not enough",
			Looks{"a": {Record: record(1, "a", all)}},
			map[string]string{"a": "only 1 of 3 servers know"},
		},
		{
			"a server that has lost everything is no witness",
			Looks{"a": {Record: record(1, "a", all)}, "b": {}},
			map[string]string{"a": "only 1 of 3", "b": "no record"},
		},
		{
			"one of a pair is not enough",
			Looks{"a": {Record: record(1, "a", pair)}},
			map[string]string{"a": "only 1 of 2"},
		},
		{
			"a mark counts on any server",
			Looks{"a": {Record: record(1, "a", all)}, "b": {Record: record(1, "b", all), Marks: &Marks{{Server: "a"}}}},
			map[string]string{"a": "by a mark on b"},
		},
		{"one is enough if each key has one server", Looks{"a": {Record: record(1, "a", one)}}, nil},
		{
			"its record is older than another's",
			Looks{"a": {Record: record(1, "a", one)}, "b": {Record: record(2, "b", one)}},
			map[string]string{"a": "changed while it was away"},
		},
		{
			"it was no server by the newest record",
			Looks{"a": {Record: record(1, "a", one)}, "d": {Record: record(1, "d", one)}},
			map[string]string{"d": "not in the newest record"},
		},
		{
			"addresses were exchanged",
			Looks{"a": {Record: record(1, "b", one)}},
			map[string]string{"a": "it was called b"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for server := range tc.looks {
				why := tc.looks.Doubt(server, false)
				if want := tc.doubted[server]; want == "" {
					assert.Empty(t, why, server)
				} else {
					assert.Contains(t, why, want, server)
				}
			}
		})
	}
}

func TestARecordIsReadAsItWasWritten(t *testing.T) {
	r := record(7, "a", placed(2, "a", "b"))
	r.Previous = []Placement{placed(1, "a")}
	b, err := r.Encode()
	require.NoError(t, err)
	decoded, err := Decode(b)
	require.NoError(t, err)
	assert.Equal(t, r, decoded)
	router, err := decoded.Placement.Router()
	require.NoError(t, err)
	back := Of(router, route.Options{Replicas: 2, Ring: route.RingTwemproxy, Hash: route.HashFNV1a64})
	assert.True(t, back.Equal(&r.Placement))
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"version":1,"server":"a","placement":{"servers":[{"Name":"a"}],"replicas":1,"ring":"twemproxy","hash":"md5"}}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := Decode(b); err == nil {
			_, _ = r.Placement.Router()
			_ = Looks{"a": {Record: r}}.Doubt("a", false)
		}
	})
}

func TestNamesAreUnique(t *testing.T) {
	keys := []string{RecordKey, RunningKey, MarksKey, SweepKey, SweptKey}
	assert.Len(t, slices.Compact(slices.Sorted(slices.Values(keys))), len(keys))
}

// The model: n servers, which all hold the one key; a middleware that writes it, marks servers that miss a write,
// cleans servers that return, and dies at any point; servers that go away, return, and restart empty. A server's value
// is the number of a write.

type modelServer struct {
	up     bool
	value  int // 0: none
	record bool
	stale  [3]bool // the marks it holds
}

type modelState struct {
	n       int
	servers [3]modelServer
	// State of the middleware.
	running  bool
	readable [3]bool // serves reads
	judged   [3]bool // read since the start
	marked   [3]bool // to be marked on every server that can be reached
	writing  bool
	missed   [3]bool // by the write in progress
	next     int     // number of the next write
	answered int     // number of the last write that was answered
}

func (s *modelState) looks() Looks {
	names := []string{"a", "b", "c"}[:s.n]
	looks := Looks{}
	for i, name := range names {
		if !s.servers[i].up {
			continue
		}
		look := Look{Marks: &Marks{}}
		if s.servers[i].record {
			look.Record = record(1, name, placed(s.n, names...))
		}
		for k := range s.n {
			if s.servers[i].stale[k] {
				*look.Marks = append(*look.Marks, Mark{Server: names[k]})
			}
		}
		looks[name] = look
	}
	return looks
}

// put stores marks and the record on server i. A running middleware does this whenever it reaches a server that it has
// judged.
func (s *modelState) put(i int) {
	if s.running && s.servers[i].up && s.judged[i] {
		s.servers[i].stale = s.marked
		s.servers[i].record = true
	}
}

// copies counts the servers that hold the mark of server k.
func (s *modelState) copies(k int) (n int) {
	for i := range s.n {
		if s.servers[i].up && s.servers[i].stale[k] {
			n++
		}
	}
	return n
}

// successors returns the states that can follow s, by the name of the event. witnesses is the mutant: nil, or how many
// servers are read at a start.
func (s modelState) successors(witnesses func(int) int) map[string]modelState {
	next := map[string]modelState{}
	add := func(what string, change func(s *modelState)) {
		c := s
		change(&c)
		next[what] = c
	}
	if s.running {
		add("middleware dies", func(c *modelState) {
			c.running, c.writing = false, false
			c.readable, c.judged, c.marked, c.missed = [3]bool{}, [3]bool{}, [3]bool{}, [3]bool{}
		})
	} else {
		add("middleware starts", func(c *modelState) { c.start(witnesses) })
	}
	for i := range s.n {
		if s.servers[i].up {
			add(fmt.Sprint(i, " goes away"), func(c *modelState) { c.servers[i].up = false; c.readable[i] = false })
			add(fmt.Sprint(i, " restarts"), func(c *modelState) { c.servers[i] = modelServer{up: true}; c.put(i) })
		} else {
			add(fmt.Sprint(i, " returns"), func(c *modelState) { c.servers[i].up = true })
		}
		if s.running && s.servers[i].up && !s.readable[i] && !s.writing {
			add(fmt.Sprint(i, " rejoins"), func(c *modelState) { c.rejoin(i) })
		}
	}
	if s.running && !s.writing && s.next < 3 {
		add("write is sent", func(c *modelState) {
			c.writing = true
			for i := range c.n {
				if c.servers[i].up {
					c.servers[i].value = c.next
				} else {
					c.missed[i] = true
				}
			}
		})
	}
	if s.writing {
		add("write is answered", func(c *modelState) {
			reached := false
			for i := range c.n {
				reached = reached || !c.missed[i]
				c.marked[i] = c.marked[i] || c.missed[i]
				c.readable[i] = c.readable[i] && !c.missed[i]
			}
			for i := range c.n {
				c.put(i)
			}
			c.writing = false
			for i := range c.n {
				if c.missed[i] && c.copies(i) < Copies(c.n) {
					reached = false // too few copies of the mark: the answer is an error, which promises nothing
				}
			}
			if reached {
				c.answered = c.next
			}
			c.missed = [3]bool{}
			c.next++
		})
	}
	return next
}

func (s *modelState) start(witnesses func(int) int) {
	looks := s.looks()
	names := []string{"a", "b", "c"}
	s.running = true
	for i := range s.n {
		suspicion := looks.Suspicion(names[i]) != ""
		if witnesses != nil {
			suspicion = false
		}
		s.marked[i] = suspicion
		if s.servers[i].up {
			s.judged[i] = true
			doubt := looks.Doubt(names[i], false)
			if witnesses != nil && doubt != "" && len(looks) >= witnesses(s.n) &&
				!slices.ContainsFunc(slices.Collect(maps.Values(looks)),
					func(l Look) bool { return l.stale(names[i]) }) {
				doubt = ""
			}
			s.marked[i] = doubt != ""
			s.readable[i] = doubt == ""
		}
	}
	for i := range s.n {
		s.put(i)
	}
}

// rejoin cleans a server that is not readable, as the prober does. A server that is reached for the first time since
// the start is judged.
func (s *modelState) rejoin(i int) {
	// A server that is doubted, or missed writes, becomes empty, because the model has one key.
	if s.marked[i] || !s.judged[i] {
		s.servers[i].value = 0
	}
	s.judged[i], s.readable[i], s.marked[i] = true, true, false
	for k := range s.n {
		s.put(k)
	}
}

// explore returns a path of events to a stale read; nil if there is none.
func explore(n, depth int, witnesses func(int) int) []string {
	first := modelState{n: n, next: 2, answered: 1, running: true}
	for i := range n {
		first.servers[i] = modelServer{up: true, value: 1, record: true}
		first.readable[i], first.judged[i] = true, true
	}
	type step struct {
		state modelState
		path  []string
	}
	seen := map[modelState]bool{first: true}
	for level, queue := 0, []step{{state: first}}; len(queue) > 0 && level < depth; level++ {
		var next []step
		for _, at := range queue {
			for what, s := range at.state.successors(witnesses) {
				if seen[s] {
					continue
				}
				seen[s] = true
				path := append(slices.Clone(at.path), what)
				for i := range n {
					if v := s.servers[i].value; s.running && !s.writing && s.readable[i] && s.servers[i].up && v != 0 &&
						v < s.answered {
						return path
					}
				}
				next = append(next, step{s, path})
			}
		}
		queue = next
	}
	return nil
}

func TestNoRestartAtAnyPointReadsAValueThatAnAnsweredWriteReplaced(t *testing.T) {
	mctest.RaceSkips(t, mctest.Computes)
	for n := 2; n <= 3; n++ {
		assert.Nil(t, explore(n, 12, nil), "%d servers", n)
	}
}

func TestTheModelNoticesAStartThatReadsTooFewServers(t *testing.T) {
	for n := 2; n <= 3; n++ {
		assert.NotNil(t, explore(n, 12, func(n int) int { return Witnesses(n) - 1 }), "%d servers", n)
	}
}

// BenchmarkLook is what a look at one of the servers costs apart from the exchange with it, when nothing happens.
func BenchmarkLook(b *testing.B) {
	for _, n := range []int{3, 60, 200} {
		b.Run(fmt.Sprintf("servers=%d", n), func(b *testing.B) {
			f, now := NewFleet("owner 1"), int64(time.Hour)
			var servers []string
			for i := range n {
				servers = append(servers, fmt.Sprintf("192.0.2.%d:11211", i))
			}
			f.Place(servers)
			f.Alone()
			f.Register(now)
			held, judged := map[string]Marks{}, int64(0)
			look := func(server string) {
				now += int64(LookEvery) / int64(n)
				f.Beat(now)
				marks := held[server]
				if marks == nil {
					held[server], _ = f.Empty(server, now, 0, now)
					return
				}
				if now-judged < int64(JudgeEvery) && f.Again(server, marks, now, now) {
					return
				}
				judged = now
				if want, changed := f.Witness(server, marks, now, now); changed {
					f.Put(server, marks, want, now)
					held[server] = want
				}
			}
			for range 100 {
				for _, server := range servers {
					look(server)
					held[server] = held[server].merge(Marks{{reads, "owner 2", 1}, {reads, "owner 3", 1}})
				}
			}
			require.Less(b, now, f.Lease())
			b.ReportAllocs()
			for i := range b.N {
				look(servers[i%n])
			}
		})
	}
}
