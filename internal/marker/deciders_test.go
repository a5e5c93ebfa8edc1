package marker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

// decidersModel lets middlewares look at servers in any order, mark them and remove their marks, with servers that
// restart and middlewares that stop for a while, and requires that no two of them may let different servers decide.
// Time is discrete.
type decidersModel struct {
	random  *rand.Rand
	now     time.Duration
	servers map[string]*deciderServer
	fleets  []*Fleet
	looks   []deciderLook
	stopped [3]time.Duration         // by fleet: until when
	away    map[string]time.Duration // by server: until when nobody reaches it
	steady  bool                     // no middleware starts again, so that nobody has to be forgotten
	decided map[string]bool          // what has been seen, so that a run that shows nothing fails

	// Faults put into the rules.
	atOnce   bool // another server decides as soon as the first one is marked
	returned bool // a server decides as soon as no mark of it is found
}

type deciderServer struct {
	marks   Marks
	witness bool
	version int
}

// deciderLook is a look that is under way: a question that is on its way to the server, or an answer on its way back.
type deciderLook struct {
	of      int
	server  string
	begun   time.Duration
	read    bool
	marks   Marks
	witness bool
	version int
}

var deciderNames = []string{"a", "b", "c"}

// member returns a middleware that registers as one that reads.
func (m *decidersModel) member(owner string) *Fleet {
	f := member(owner)
	f.Register(int64(m.now))
	return f
}

func (m *decidersModel) step() {
	m.now += time.Duration(m.random.IntN(8)) * time.Millisecond
	at := int64(m.now)
	f := m.random.IntN(len(m.fleets))
	server := deciderNames[m.random.IntN(len(deciderNames))]
	switch n := m.random.IntN(1000); {
	case n < 6:
		m.fleets[f].Mark("a", at)
	case n < 12:
		m.fleets[f].Unmark("a")
	case n < 13 && server != "a":
		m.servers[server] = &deciderServer{version: m.servers[server].version + 1}
	case n < 20: // it is stopped for a while
		m.stopped[f] = m.now + time.Duration(m.random.IntN(int(4*inForce)))
	case n < 22 && !m.steady: // it starts again
		m.fleets[f] = m.member(fmt.Sprint("started at ", m.now))
		m.looks = slices.DeleteFunc(m.looks, func(l deciderLook) bool { return l.of == f })
	case n < 23: // "c" alone answers, for a while
		for _, server := range deciderNames[:2] {
			m.away[server] = m.now + time.Duration(m.random.IntN(int(6*inForce)))
		}
	case n < 400:
		asked := func(l deciderLook) bool { return l.of == f && l.server == server }
		if m.now >= m.stopped[f] && m.now >= m.away[server] && !slices.ContainsFunc(m.looks, asked) {
			m.looks = append(m.looks, deciderLook{of: f, server: server, begun: m.now})
		}
	case len(m.looks) > 0:
		k := m.random.IntN(len(m.looks))
		switch l := &m.looks[k]; {
		case l.read && m.now >= m.stopped[l.of]:
			m.end(l)
			m.looks = slices.Delete(m.looks, k, k+1)
		case !l.read:
			s := m.servers[l.server]
			l.read, l.marks, l.witness, l.version = true, slices.Clone(s.marks), s.witness, s.version
		}
	}
}

// end gives the answer of a look to its middleware, and stores the marks that the server is to hold, unless somebody
// else has changed them.
func (m *decidersModel) end(l *deciderLook) {
	f, s, begun, now := m.fleets[l.of], m.servers[l.server], int64(l.begun), int64(m.now)
	want, changed := Marks(nil), false
	f.Beat(now)
	if l.witness {
		want, changed = f.Witness(l.server, l.marks, begun, now)
	} else {
		want, changed = f.Empty(l.server, begun, now, now)
	}
	if changed && l.version == s.version {
		s.marks, s.witness = slices.Clone(want), true
		s.version++
		if l.witness {
			f.Put(l.server, l.marks, want, now)
		}
	}
}

// decides and replaced are what a middleware does with a server.
func (m *decidersModel) decides(f *Fleet) bool {
	_, ok := f.Decides("a", int64(m.now))
	return ok || m.returned && int64(m.now) < f.Lease() && f.own["a"] == nil && f.MarkedBy("a") == ""
}

func (m *decidersModel) replaced(f *Fleet) bool {
	now := int64(m.now)
	return now < f.lease && (f.InForce("a", now) != 0 || f.RespectedByAll("a", now) || m.atOnce && f.own["a"] != nil)
}

// run returns an error if two middlewares would let different servers decide within so many steps.
func (m *decidersModel) run(seed uint64, steps int) error {
	m.random, m.now, m.looks = rand.New(rand.NewPCG(seed, 1)), start, nil
	m.away = map[string]time.Duration{}
	m.stopped, m.servers, m.fleets = [3]time.Duration{}, map[string]*deciderServer{}, nil
	for _, name := range deciderNames {
		m.servers[name] = &deciderServer{witness: true}
	}
	for _, name := range []string{"x", "y", "z"} {
		m.fleets = append(m.fleets, m.member(name))
	}
	for range steps {
		m.step()
		for i, f := range m.fleets {
			if f.Agrees() && int64(m.now) < f.Lease() {
				m.decided["while one server counts"] = true
			}
			for j, g := range m.fleets {
				if i != j && m.decides(f) && m.replaced(g) {
					return fmt.Errorf("at %v middleware %d lets it decide, and %d another server", m.now-start, i, j)
				}
			}
			switch {
			case m.decides(f):
				m.decided["itself"] = true
			case m.replaced(f) && f.own["a"] != nil:
				m.decided["another, by an own mark"] = true
			case m.replaced(f):
				m.decided["another, by marks of others"] = true
			}
		}
	}
	return nil
}

func TestNoTwoMiddlewaresLetDifferentServersDecide(t *testing.T) {
	mctest.RaceSkips(t, mctest.Computes)
	t.Parallel()
	seed, runs := mctest.Seed(t), 8
	if mctest.Long() {
		runs = 4000
	}
	m := decidersModel{decided: map[string]bool{}}
	for run := range runs {
		m.steady = run%2 == 0
		require.NoError(t, m.run(seed+uint64(run), 20_000), "run %d", run)
	}
	require.Len(t, m.decided, 4, "%v", m.decided)
}

func TestEveryRuleForDecidersIsNeeded(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]decidersModel{
		"another server decides once all know of the mark": {atOnce: true},
		"a server decides once all know that it is clean":  {returned: true},
	} {
		m.decided = map[string]bool{}
		found := false
		for seed := uint64(1); seed < 200 && !found; seed++ {
			err := m.run(seed, 20_000)
			if found = err != nil; found {
				t.Log(name, err)
			}
		}
		require.True(t, found, name)
	}
}
