package marker

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"mcmw/internal/mctest"
)

func steps(parts ...[]string) []string { return slices.Concat(parts...) }

// looks are looks of middleware m at servers.
func looks(m int, servers ...int) (events []string) {
	for _, i := range servers {
		events = append(events, fmt.Sprintf("middleware %d looks at %d", m, i))
	}
	return events
}

// rounds are n looks of each of the middlewares at servers, with time between them.
func rounds(n int, middlewares []int, servers ...int) (all []string) {
	for range n {
		for _, m := range middlewares {
			all = append(all, looks(m, servers...)...)
		}
		all = append(all, "time passes")
	}
	return all
}

func do(events ...string) []string { return events }

var (
	everywhere = []int{0, 1, 2}
	// placing: server 0 missed a write, and its mark is on one server; marked: on both, and found there.
	placing = steps(do("middleware 0 loses 0", "middleware 0 writes"), looks(0, 1))
	marked  = steps(placing, looks(0, 2, 1, 2))
	// acknowledged: the other has acknowledged it, and the writer has found that; known: the writer has found the mark
	// once more.
	acknowledged = steps(marked, looks(1, 1, 2), looks(0, 1, 2))
	known        = steps(acknowledged, looks(0, 1, 2), do("the write is answered"))
	// cleaned: server 0 is clean, and its mark is removed.
	cleaned = steps(known, do("middleware 0 reaches 0 again", "middleware 0 cleans 0"), looks(0, 1, 2))
	// again: the other was not told by server 1, which still holds its acknowledgement. Server 0 is marked again.
	again = steps(cleaned, do("middleware 1 loses 1"), rounds(3, []int{0}, everywhere...), looks(1, 0, 2),
		looks(0, everywhere...),
		do("middleware 0 writes", "the write is answered", "middleware 0 loses 0", "middleware 0 writes"),
		looks(0, 1, 2, 1, 2))
	// turns: later the other marks it.
	turns = steps(cleaned, looks(1, everywhere...),
		do("middleware 0 writes", "the write is answered", "middleware 1 loses 0", "middleware 1 writes"),
		looks(1, 1, 2, 1, 2), looks(0, 1, 2), looks(1, 1, 2, 1, 2), do("the write is answered"))
	// lost: server 1 has the mark alone, loses it, and the other has noticed that.
	lost = steps(placing, looks(1, 1, 2), do("server 1 restarts", "middleware 1 asks 1", "middleware 1 hears 1"),
		looks(1, 0), looks(0, 1, 2, 1, 2))
	// replaced: a third middleware, which has not seen the mark, has restored server 1 without it; the second one looks
	// there, and not at server 2.
	replaced = steps(marked, looks(1, 1, 2), do("server 1 restarts"), looks(2, 1), do("middleware 1 loses 2"),
		rounds(3, []int{1}, 0, 1), looks(1, 0, 1),
		looks(0, 1, 2, 1, 2), looks(2, 1, 2), looks(0, 1, 2))
	// looked: another middleware has started and looked before the mark was placed, and not stored its registration.
	looked = steps(do("another middleware starts"), hears(2, 1, 2), acknowledged)
	// joined: the registration of another middleware was lost with two servers, which the second has restored without
	// it.
	joined = steps(do("another middleware starts"), looks(2, 0, 1, 2, 0, 1, 2),
		do("server 0 restarts", "server 1 restarts"), looks(1, 0, 1),
		do("middleware 0 loses 2", "middleware 0 writes"),
		looks(0, 0, 1, 0, 1), looks(1, 0, 1), looks(0, 0, 1))
	// stopped: the third middleware stopped for so long that it counts as gone, and looks again just before the others
	// notice that; removed: after it.
	stopped = steps(rounds(42, []int{0, 1}, everywhere...), hears(2, 1, 2), do("time passes"), looks(0, everywhere...),
		looks(1, everywhere...), acknowledged)
	removed = steps(rounds(45, []int{0, 1}, everywhere...), hears(2, 1, 2), acknowledged)
	// restored: server 1 restarts after the answer, and the other copies marks there. It does not look at server 2
	// again.
	restored = steps(known, do("server 1 restarts"), rounds(6, []int{1}, 1, 0))
	// single: server 2 alone answers both, who come to vouch for it; singly: server 0 and 1 are marked there, and a
	// write is answered.
	single = steps(do("middleware 0 loses 0", "middleware 0 loses 1", "middleware 1 loses 0", "middleware 1 loses 1"),
		rounds(1, []int{0, 1}, 2), looks(0, 2), looks(1, 2), do("time passes"), agree, agree, agree)
	agree = steps(looks(0, 2), looks(1, 2))
	// paired: of two servers, server 1 alone answers both, who come to vouch for it.
	paired = steps(do("middleware 0 loses 0", "middleware 1 loses 0"), rounds(1, []int{0, 1}, 1), looks(0, 1),
		looks(1, 1), do("time passes"), consent, consent, consent)
	consent = steps(looks(0, 1), looks(1, 1))
	// pairly: server 0 is marked there, and a write is answered; parted: each reaches one of the two.
	pairly = steps(paired, do("middleware 0 writes"), consent, consent, consent, consent, do("the write is answered"))
	parted = steps(do("middleware 0 loses 0", "middleware 1 loses 1"), beside, beside, beside)
	wrote  = steps(do("middleware 0 writes"), beside, beside, beside, beside)
	beside = steps(looks(0, 1, 1), looks(1, 0, 0), do("time passes"))
	singly = steps(single, do("middleware 0 writes"), agree, agree, agree, agree, do("the write is answered"))
	// returned: the others return, and one reaches them; shared: the marks are there, too, and it is bound to nothing.
	returned = steps(singly, do("middleware 1 reaches 0 again", "middleware 1 reaches 1 again", "time passes",
		"time passes", "time passes"))
	// apart: one reaches server 2, the other the others. halved: it has written, and nobody has forgotten the other;
	// silent: somebody would have.
	apart  = do("middleware 0 loses 0", "middleware 0 loses 1", "middleware 1 loses 2")
	aside  = steps(looks(0, 2, 2), looks(1, 0, 1), do("time passes"))
	writes = steps(do("middleware 1 writes"), looks(1, 0, 1, 0, 1), aside, aside, aside, looks(1, 0, 1),
		do("the write is answered"))
	halved = steps(apart, aside, aside, aside, writes)
	silent = steps(apart, slices.Concat(slices.Repeat([][]string{aside}, 53)...), writes)
	// left: one was bound, is no longer, and does the same.
	left = steps(single, do("middleware 1 reaches 0 again", "middleware 1 reaches 1 again"),
		slices.Concat(slices.Repeat([][]string{steps(looks(1, everywhere...), looks(0, 2), do("time passes"))}, 5)...),
		looks(1, everywhere...), do("middleware 1 loses 2"), writes)
	// late: another starts that reaches only the two servers that don't answer the others; whole: it reaches all.
	begins = steps(singly, do("another middleware starts"))
	late   = steps(begins, do("middleware 2 loses 2"), rounds(6, []int{2}, 0, 1))
	whole  = steps(begins, rounds(6, []int{2}, everywhere...), rounds(3, []int{2}, 0, 1))
	// hasty: it has looked there for so long that it may forget who is silent; patient: until nobody relies on one
	// server.
	hasty   = steps(late, slices.Concat(slices.Repeat([][]string{steps(agree, rounds(1, []int{2}, 0, 1))}, 55)...))
	patient = steps(late, do("much time passes"), agree, agree, agree, rounds(1, []int{2}, 0, 1), looks(2, 0, 1), agree)
	// The following are without acknowledgements. waited: the wait for the mark is over; waiting: the other restores
	// server 1 without it before that.
	waited  = steps(marked, rounds(3, []int{0}, 1, 2))
	waiting = steps(looks(0, everywhere...), looks(1, everywhere...), marked, do("time passes", "time passes"),
		looks(0, 1, 2), do("server 1 restarts"), looks(1, 1, 0, 1),
		do("time passes"))
	expired = steps(waited, looks(0, 1, 2), do("the write is answered", "server 1 restarts"), looks(1, 1, 0, 1, 0))
	lacked  = steps(looks(1, everywhere...), marked, do("time passes", "time passes", "server 1 restarts"),
		looks(1, 1, 0, 1), looks(0, 1, 2, 1, 2),
		do("time passes"), looks(0, 1, 2))
	partly = steps(placing, do("time passes", "time passes"), looks(0, 1), hears(0, 2), do("time passes"))
	dead   = steps(known, do("middleware 0 dies"), rounds(53, []int{1}, everywhere...),
		do("middleware 1 marks 0 for a dead one"), looks(1, everywhere...))
)

// hears are looks of middleware m at servers, without the stores that follow.
func hears(m int, servers ...int) (events []string) {
	for _, i := range servers {
		events = append(events, fmt.Sprintf("middleware %d asks %d", m, i), fmt.Sprintf("middleware %d hears %d", m, i))
	}
	return events
}

// fleets are explored. In each that has a rule, a stale value is read without that rule.
var fleets = map[string]struct {
	fleet
	rule    string
	without func(f *fleet)
}{
	"from the beginning": {fleet{writes: 1, cuts: 1, restarts: 1, times: 3}, "", nil},
	"a server restarts with a mark on it": {
		fleet{restarts: 1, times: 2, slow: 1, prefix: placing},
		"", nil,
	},
	"a server restarts when the mark is in force": {fleet{restarts: 1, times: 2, slow: 1, prefix: marked}, "", nil},
	"a server restarts when the mark is acknowledged": {
		fleet{restarts: 1, times: 2, slow: 1, prefix: acknowledged},
		"", nil,
	},
	"two servers restart": {
		fleet{restarts: 2, times: 2, slow: 1, prefix: known},
		"a reader looks at a majority", func(f *fleet) { f.single = true },
	},

	"a second mark": {
		fleet{times: 1, prefix: again},
		"an acknowledgement of an earlier mark does not count", func(f *fleet) { f.older = true },
	},
	"a server loses a mark": {
		fleet{times: 1, prefix: lost},
		"a mark is acknowledged when it is on a majority",
		func(f *fleet) { f.minor = true },
	},
	"a server is replaced": {
		fleet{members: 3, times: 1, prefix: replaced},
		"a mark that a server has lost is another one", func(f *fleet) { f.once = true },
	},
	"another looks": {
		fleet{times: 1, prefix: looked},
		"who reads is registered",
		func(f *fleet) { f.unregistered = true },
	},
	"another is registered": {
		fleet{times: 1, prefix: joined},
		"a registration counts when all know of it",
		func(f *fleet) { f.premature = true },
	},
	"another was stopped": {
		fleet{members: 3, times: 1, prefix: stopped},
		"a registration needs a recent beat",
		func(f *fleet) { f.dormant = true },
	},
	"another was removed": {
		fleet{members: 3, times: 1, prefix: removed},
		"a registration that was lost does not count", func(f *fleet) { f.kept = true },
	},
	"another does not acknowledge": {
		fleet{members: 3, elder: 2, times: 1, prefix: acknowledged},
		"who does not acknowledge is noticed", func(f *fleet) { f.unnoticed = true },
	},

	"one server is left": {
		fleet{times: 2, prefix: single},
		"", nil,
	},
	"and is marked alone": {
		fleet{times: 1, restarts: 1, prefix: singly},
		"", nil,
	},
	"the others return": {
		fleet{times: 1, prefix: returned},
		"who has vouched is bound until the marks are on most servers", func(f *fleet) { f.unbound = true },
	},
	"one of two leaves": {
		fleet{times: 1, prefix: left},
		"a vouch counts for a short time", func(f *fleet) { f.aged = true },
	},
	"two halves": {
		fleet{times: 1, prefix: halved},
		"all who are registered vouch", func(f *fleet) { f.halves = true },
	},
	"one half vouches for nothing": {
		fleet{former: 1, times: 1, prefix: halved},
		"all who are registered vouch", func(f *fleet) { f.halves = true },
	},
	"two halves for long": {
		fleet{times: 1, prefix: silent},
		"nobody is forgotten while one server counts", func(f *fleet) { f.forgetting = true },
	},
	"another starts apart": {
		fleet{times: 1, prefix: late},
		"who starts registers where all others look", func(f *fleet) { f.eager = true },
	},
	"another starts": {
		fleet{times: 1, prefix: whole},
		"who starts finds all marks on most servers", func(f *fleet) { f.eager = true },
	},

	"one of two servers is left": {
		fleet{pair: true, times: 1, restarts: 1, deaths: 1, starts: 1, prefix: pairly},
		"", nil,
	},
	"two servers apart": {
		fleet{pair: true, times: 2, prefix: steps(parted, wrote)},
		"with two servers, all who are registered vouch", func(f *fleet) { f.halves = true },
	},
	"two servers apart for long": {
		fleet{
			pair: true, times: 2,
			prefix: steps(parted, slices.Concat(slices.Repeat([][]string{beside}, 53)...), wrote),
		},
		"with two servers, who is silent and has not acknowledged a mark of the other one is not forgotten",
		func(f *fleet) { f.careless = true },
	},
	"another starts apart from the silent": {
		fleet{times: 1, prefix: hasty},
		"who starts does not take the silent for dead", func(f *fleet) { f.impatient = true },
	},
	"another has waited": {
		fleet{times: 1, prefix: patient},
		"one server counts for a while", func(f *fleet) { f.endless = true },
	},

	"a mark is in force": {
		fleet{alone: true, times: 4, prefix: marked},
		"a writer waits for readers",
		func(f *fleet) { f.hasty = true },
	},
	"a mark is on one server": {
		fleet{alone: true, times: 2, prefix: partly},
		"a mark is on a majority",
		func(f *fleet) { f.lone = true },
	},
	"the mark is lost in the wait": {
		fleet{alone: true, times: 2, prefix: waiting},
		"a writer finds its marks again, for those who copy", func(f *fleet) { f.short = true },
	},
	"and was found shortly before": {
		fleet{alone: true, times: 2, prefix: waiting},
		"it does so when the wait is over",
		func(f *fleet) { f.early = true },
	},
	"a witness lacks the mark": {
		fleet{alone: true, times: 2, prefix: lacked},
		"a mark that a witness lacks is not in force", func(f *fleet) { f.hopeful = true },
	},
	"who was away restores": {
		fleet{alone: true, times: 2, prefix: expired},
		"from a look that can be relied on",
		func(f *fleet) { f.late = true },
	},
	"marks are restored": {
		fleet{times: 2, prefix: restored},
		"marks are copied to a server that has restarted", func(f *fleet) { f.forgetful = true },
	},
	"a server that has restarted": {
		fleet{times: 2, prefix: restored},
		"is no witness",
		func(f *fleet) { f.trusting = true },
	},
	"both have marked it in turns": {
		fleet{times: 2, prefix: turns},
		"a middleware removes only its own marks",
		func(f *fleet) { f.sweeping = true },
	},
	"the writer cleans its server": {
		fleet{times: 2, cuts: 1, prefix: known},
		"a server is clean before its mark is removed", func(f *fleet) { f.dirty = true },
	},
	"the writer dies": {
		fleet{times: 2, prefix: dead},
		"a server is clean before a dead owner's mark is removed", func(f *fleet) { f.dirty = true },
	},
}

func TestNoMiddlewareOfAFleetReadsAValueThatAnAnsweredWriteReplaced(t *testing.T) {
	mctest.RaceSkips(t, mctest.Computes)
	t.Parallel()
	most := 2_000
	if mctest.Long() {
		most = 50_000
	}
	for name, e := range fleets {
		t.Run(name, func(t *testing.T) {
			e.members = max(e.members, 2)
			for _, e.lazy = range []bool{true, false} {
				path, states := e.explore(most)
				assert.Nil(t, path)
				t.Log(states, "states")
			}
			if e.rule == "" {
				return
			}
			e.without(&e.fleet)
			path, states := e.explore(5_000)
			assert.NotNil(t, path, e.rule)
			t.Log(states, path)
		})
	}
}
