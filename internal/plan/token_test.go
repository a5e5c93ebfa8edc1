package plan_test

import (
	"bufio"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/explore"
	"mcmw/internal/mctest/model"
	"mcmw/internal/mctest/strict"
	"mcmw/internal/plan"
	"mcmw/internal/protocol"
	"mcmw/internal/replica"
	"mcmw/internal/route"
)

// named returns command with the token that the client has read last in place of $.
func (d *driver) named(command string) string { return strings.Replace(command, "$", d.token, 1) }

var shownValue = regexp.MustCompile(`VALUE k 0 \d+ (\d+)\r\n(.*)\r\n`)

// disguise returns reply with the server's own cas looking like a version, if that is the driver's fault.
func (d *driver) disguise(reply string) string {
	if m := shownValue.FindStringSubmatchIndex(reply); m != nil && d.mutant == ownTokens {
		if cas, _ := strconv.ParseUint(reply[m[2]:m[3]], 10, 64); cas < protocol.FirstVersion {
			return fmt.Sprintf("%s%d%s", reply[:m[2]], cas+protocol.FirstVersion, reply[m[3]:])
		}
	}
	return reply
}

// shownToken returns the token in the answer to a gets, and a number that is nobody's token if there is none.
func shownToken(answer string) string {
	if m := shownValue.FindStringSubmatch(answer); m != nil {
		return m[1]
	}
	return "1"
}

// tokensHold returns an error if two cas with the same token have stored, or if one has stored although another write
// has replaced the item meanwhile: that write began when the item was there, and was answered before the cas began.
func tokensHold(w *explore.World) error {
	history := w.History()
	won := map[string]bool{}
	for n, cas := range history {
		if !strings.HasPrefix(cas.Command, "cas") || cas.Answer != "STORED\r\n" {
			continue
		}
		var shown string // what the client has read before
		for _, o := range history[:n] {
			if o.Worker == cas.Worker && strings.HasPrefix(o.Command, "gets") {
				shown = o.Answer
			}
		}
		token, item := shownToken(shown), ""
		if m := shownValue.FindStringSubmatch(shown); m != nil {
			item = m[2]
		}
		if won[token] {
			return fmt.Errorf("two cas have stored with the token %s", token)
		}
		won[token] = true
		stored := cas.Began // when the item's write was answered, if that was before
		if item == before {
			stored = 0
		}
		for _, o := range history {
			if written(o) == item && o.Ended > 0 {
				stored = min(stored, o.Ended)
			}
		}
		for _, o := range history {
			if to := written(o); to != "" && to != item && o.Began > stored && o.Ended > 0 && o.Ended < cas.Began {
				return fmt.Errorf("%q has stored with the token of %s, which %q had replaced", cas.Command, item,
					o.Command)
			}
		}
	}
	return nil
}

// written returns the value that o has written; "nothing" if it has deleted the key, "" if it has written nothing, or
// if that is not known.
func written(o explore.Operation) string {
	switch verb, _, _ := strings.Cut(o.Command, " "); {
	case verb == "incr" && !strings.ContainsFunc(o.Answer, unicode.IsLetter):
		return strings.TrimSuffix(o.Answer, "\r\n")
	case o.Answer == "DELETED\r\n":
		return "nothing"
	case o.Answer == "STORED\r\n":
		return value(o.Command)
	}
	return ""
}

// tokenWorld is a world of two servers and several clients, each with a middleware of its own. All reads that may go to
// any server go to the one that is not the key's first.
type tokenWorld struct {
	empty   bool // the servers hold nothing at first; otherwise they hold the value before
	bare    bool // it has no version: each server has given it a cas of its own
	faults  explore.Faults
	mutant  mutant // of the first middleware
	checks  bool   // rounds may have only checks
	clients [][]string
}

func (a *tokenWorld) explore(t *testing.T, limit int) (explore.Result, *explore.Failure) {
	router := newRouter(t, 2, route.ReadRoundRobin)
	holders := router.Replicas([]byte("k"), nil)
	return explore.UpTo(func() *explore.World {
		w := &explore.World{Faults: a.faults, Servers: []*model.Server{{}, {}}}
		// The second server has counted one store more.
		q, err := strict.Read(bufio.NewReader(strings.NewReader("set other 0 0 1\r\nx\r\n")))
		require.NoError(t, err)
		w.Servers[holders[1]].Do(&q)
		for _, s := range w.Servers {
			if a.bare {
				q, err := strict.Read(bufio.NewReader(strings.NewReader("set k 0 0 1\r\n" + before + "\r\n")))
				require.NoError(t, err)
				s.Do(&q)
			} else if !a.empty {
				s.Put("k", model.Item{Value: before, CAS: initialVersion})
			}
		}
		for i, commands := range a.clients {
			d := driveWith(t, router, replica.AckAll, plan.NewVersions(uint64(100*i), 1),
				func(o *plan.Options) { o.Home = holders[1] })
			d.shows = holders[1]
			if i == 0 || a.mutant == ownTokens {
				d.mutant = a.mutant
			}
			if !a.checks {
				d.waits = len(commands) + 1
			}
			w.Workers = append(w.Workers, &explore.Worker{Middleware: i, Driver: d, Commands: slices.Clone(commands)})
		}
		return w
	}, limit, explore.Checks{Always: tokensHold})
}

func TestATokenFromAnyServerWinsOnceAndOnlyOverItsItem(t *testing.T) {
	computes(t)
	set, remove, incr := "set k 0 0 1\r\n7\r\n", "delete k\r\n", "incr k 1\r\n"
	var worlds []tokenWorld
	for _, rival := range [][]string{{gets, other}, {set}, {remove, set}, {incr}, {set, incr}} {
		worlds = append(worlds, tokenWorld{clients: [][]string{{gets, cas}, rival}},
			tokenWorld{bare: true, clients: [][]string{{gets, cas}, rival}})
	}
	worlds = append(worlds, tokenWorld{
		empty:   true,
		clients: [][]string{{set, gets, cas}, {"set k 0 0 1\r\n6\r\n", gets, other}},
	})
	if mctest.Long() {
		for _, a := range worlds {
			a.faults = explore.Faults{Evictions: 1, Key: "k"}
			worlds = append(worlds, a)
			a.faults = explore.Faults{Deaths: 1}
			worlds = append(worlds, a)
			a.checks = true
			worlds = append(worlds, a)
		}
	}
	sum := newTally(t)
	for _, a := range worlds {
		r, failure := a.explore(t, mostStates)
		sum.holds(r, failure, "%q, bare %t, %+v", a.clients, a.bare, a.faults)
	}
}

func TestEveryFaultInjectedIntoTokensIsFound(t *testing.T) {
	computes(t)
	set := "set k 0 0 1\r\n7\r\n"
	finds(t, map[string]tokenWorld{
		"servers count": {
			mutant: ownTokens, empty: true,
			clients: [][]string{{"set k 0 0 1\r\n6\r\n", gets, cas}, {set}},
		},
		"servers count, bare item":    {mutant: ownTokens, bare: true, clients: [][]string{{gets, cas}, {set}}},
		"two cas":                     {mutant: readersDecide, clients: [][]string{{gets, cas}, {gets, other}}},
		"a cas that compares nothing": {mutant: blindCas, clients: [][]string{{gets, cas}, {set}}},
	}, func(t *testing.T, _ string, a tokenWorld) (explore.Result, *explore.Failure) {
		return a.explore(t, 1_000_000)
	})
}

// Clients that read a token and write with it.
const (
	gets  = "gets k\r\n"
	cas   = "cas k 0 0 1 $\r\n3\r\n"
	other = "cas k 0 0 1 $\r\n4\r\n"
)

// readFrom returns a driver of servers whose items have versions, and whose reads go to the server that is not the
// first of k.
func readFrom(t *testing.T) (d *driver, first, second int) {
	t.Helper()
	router := newRouter(t, 2, route.ReadRoundRobin)
	holders := router.Replicas([]byte("k"), nil)
	return driveWith(t, router, replica.AckAll, plan.NewVersions(0, 1), func(o *plan.Options) { o.Home = holders[1] }),
		holders[0], holders[1]
}

func TestAReadOfATokenAsksTheFirstServerOnlyIfTheTokenIsNoVersion(t *testing.T) {
	for _, c := range []struct{ command, version, own, none string }{
		{"gets k\r\n", "VALUE k 0 1 4611686018427387904\r\nx\r\nEND\r\n", "VALUE k 0 1 77\r\nx\r\nEND\r\n", "END\r\n"},
		{
			"gets k l\r\n", "VALUE l 0 1 4611686018427387904\r\nx\r\nEND\r\n",
			"VALUE k 0 1 4611686018427387904\r\nx\r\nVALUE l 0 1 7\r\nx\r\nEND\r\n", "END\r\n",
		},
		{"mg k v c\r\n", "VA 1 c4611686018427387904\r\nx\r\n", "VA 1 c77\r\nx\r\n", "EN\r\n"},
		{"mg k c s\r\n", "HD c9223372036854775807 s1\r\n", "HD c77 s1\r\n", "EN\r\n"},
	} {
		for _, answer := range []string{c.version, c.none} {
			d, first, second := readFrom(t)
			d.Start(c.command)
			require.Equal(t, []string{c.command, ""}, []string{d.Out(second), d.Out(first)})
			d.Reply(second, answer)
			got, done := d.Answer()
			assert.True(t, done)
			assert.Equal(t, answer, got)
		}
		d, first, second := readFrom(t)
		l := d.router.Replicas([]byte("l"), nil)[0]
		require.Equal(t, first, l, "both keys have the same first server")
		d.Start(c.command)
		_ = d.Out(second)
		d.Reply(second, c.own)
		require.Equal(t, []string{"", c.command}, []string{d.Out(second), d.Out(first)})
		d.Reply(first, strings.Replace(c.own, "7", "5", 1))
		got, done := d.Answer()
		assert.True(t, done)
		assert.Equal(t, strings.Replace(c.own, "7", "5", 1), got, "it is where cas decides")
	}
	for _, command := range []string{"gats 0 k\r\n", "me k\r\n"} {
		d, first, second := readFrom(t)
		d.Start(command)
		assert.Equal(t, command, d.Out(first))
		assert.NotEqual(t, command, d.Out(second))
	}
}

// A client would otherwise read the token, and be refused, until the item expires.
func TestACopyWhoseTokenWasRefusedIsDeleted(t *testing.T) {
	for _, c := range []struct{ refusal, looks string }{
		{"NF\r\n", "EN\r\n"},
		{"EX\r\n", "HD c4611686018427387999 kk\r\n"},
	} {
		d, first, second := readFrom(t)
		d.Start("cas k 0 0 1 4611686018427387950\r\n1\r\n")
		require.Equal(t, "ms k 1 C4611686018427387950 E4611686018427387905\r\n1\r\n", d.Out(first))
		d.Reply(first, c.refusal)
		for range 2 {
			for s, look := range map[int]string{first: c.looks, second: "HD c4611686018427387950 kk\r\n"} {
				require.Equal(t, "mg k u c k\r\n", d.Out(s))
				d.Reply(s, look)
			}
		}
		assert.Equal(t, "md k C4611686018427387950\r\nmg k u c k\r\n", d.Out(second))
	}
	d, first, _ := readFrom(t)
	d.Start("cas k 0 0 1 77\r\n1\r\n")
	d.Reply(first, "EX\r\n")
	assert.False(t, d.Busy(), "no other server has shown this token")
}
