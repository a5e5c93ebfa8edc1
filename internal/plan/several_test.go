package plan

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/protocol"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// several returns a script of a planner that is one of several writers. Its versions are V1, V2 ..; see v.
func several(t *testing.T, s setup) *script {
	t.Helper()
	s.options.Versions = NewVersions(0, 1)
	return plan(t, s)
}

// v returns text with version n in place of each V<n>.
func v(text string) string {
	for n := range 9 {
		text = strings.ReplaceAll(text, fmt.Sprintf("V%d", n), fmt.Sprint(uint64(protocol.FirstVersion|n)))
	}
	return text
}

// A case is a command and its answer (-: none), the servers on which it is checked afterwards, and for each step what
// is sent and answered: "server: line -> reply". Servers are numbered in the order of the key's servers, and ~ is a
// blank.
func TestWithSeveralWritersEachCommandGoesItsWay(t *testing.T) {
	for _, c := range mctest.Cases(t, "testdata/several.txt") {
		line := strings.TrimSpace(c.Text)
		t.Run(line, func(t *testing.T) {
			x := several(t, setup{})
			holders := x.options.Router.Replicas([]byte("k"), nil)
			if words := strings.Fields(line); len(words) > 3 && words[0] != "ma" && words[0] != "mg" &&
				words[0] != "md" {
				line = line[:len(line)-2] + "\r\n" + line[len(line)-1:]
			}
			first, steps, _ := strings.Cut(strings.ReplaceAll(v(c.Want), "~", " "), "\n")
			want, checked, _ := strings.Cut(first, "; checked on ")
			i := x.request(line)
			for n, step := range strings.Split(strings.TrimSuffix(steps, "\n"), "\nthen\n") {
				if step == "" {
					break
				}
				if n > 0 {
					require.Equal(t, []int32{i}, x.again)
					x.again = nil
					x.Next(i)
				}
				from, lines := x.started, strings.Split(step, "\n")
				asked := x.calls()
				require.Len(t, asked, len(lines), "%q", asked)
				for k, sent := range lines {
					call, reply, _ := strings.Cut(sent, " ->")
					holder := holders[call[0]-'0']
					assert.Equal(t, fmt.Sprint(holder)+call[1:], asked[k])
					if reply = strings.TrimPrefix(reply, " "); reply == "" {
						x.lose(from + k)
					} else {
						x.reply(from+k, strings.ReplaceAll(reply, " | ", "\r\n")+"\r\n")
					}
				}
			}
			assert.Empty(t, x.again)
			answer := x.answer(i)
			if strings.HasPrefix(want, "SERVER_ERROR s") || strings.HasPrefix(want, "CLIENT_ERROR") {
				assert.True(t, strings.HasPrefix(answer, want), "%q", answer)
			} else if want == "-" {
				assert.Empty(t, answer)
			} else {
				assert.Equal(t, strings.ReplaceAll(want, " | ", "\r\n")+"\r\n", answer)
			}
			x.Reset()
			x.PlanChecks()
			var looked []int
			for _, s := range strings.Fields(checked) {
				looked = append(looked, holders[s[0]-'0'])
			}
			var servers []int
			for _, c := range x.Calls {
				servers = append(servers, int(c.Server))
			}
			slices.Sort(looked)
			assert.Equal(t, looked, servers)
		})
	}
}

// checks stores k on all servers and returns what its check sends, "server: line", in each round. looks are what the
// servers hold in each round: by server, a version or nothing.
func checks(t *testing.T, x *script, looks ...[3]string) (asked [][]string) {
	i := x.request("set k 0 0 1\r\nx")
	for n := range 3 {
		x.reply(n, "HD\r\n")
	}
	require.Equal(t, "STORED\r\n", x.answer(i))
	for _, look := range looks {
		x.Reset()
		x.started = 0
		x.PlanChecks()
		round := x.calls()
		asked = append(asked, round)
		for n := range round {
			c := &x.Calls[n]
			reply := strings.Repeat("HD\r\n", strings.Count(string(c.Bytes[0]), "md "))
			switch holds := v(look[c.Server]); {
			case !bytes.Contains(c.Bytes[0], []byte("mg ")):
			case holds == "lost":
				x.NoAnswer(int32(n), nil, true)
				continue
			case holds == "":
				reply += "EN\r\n"
			case strings.HasPrefix(holds, "SERVER"):
				reply += holds + "\r\n"
			default:
				reply += "HD kk c" + holds + "\r\n"
			}
			x.reply(n, reply)
		}
	}
	x.Reset()
	return asked
}

func TestACheckEndsWhenReplicasAgreeAndCutsWhatDiffersTwice(t *testing.T) {
	x := several(t, setup{})
	h := x.options.Router.Replicas([]byte("k"), nil)
	by := func(first, second, third string) (look [3]string) {
		look[h[0]], look[h[1]], look[h[2]] = first, second, third
		return look
	}
	looks := func(cuts ...string) []string {
		lines := make([]string, len(h))
		for k, s := range h {
			lines[s] = fmt.Sprintf("%d: ", s)
			if k < len(cuts) && cuts[k] != "" {
				lines[s] += "md k C" + v(cuts[k]) + " "
			}
			lines[s] += "mg k u c k"
		}
		return lines
	}
	for _, tc := range []struct {
		name   string
		looks  [][3]string
		cuts   []string // with the last look
		counts stats.Agreement
	}{
		{"all hold it", [][3]string{by("V1", "V1", "V1")}, nil, stats.Agreement{Checks: 1}},
		{"all hold another client's", [][3]string{by("V8", "V8", "V8")}, nil, stats.Agreement{Checks: 1}},
		{"a copy is missing", [][3]string{by("V1", "", "V1")}, nil, stats.Agreement{Checks: 1}},
		{"all copies are missing", [][3]string{by("", "", "")}, nil, stats.Agreement{Checks: 1}},
		{
			"they were different for a moment",
			[][3]string{by("V8", "V1", "V1"), by("V8", "V8", "V8")},
			nil,
			stats.Agreement{Checks: 1},
		},
		{
			"they differ",
			[][3]string{by("V8", "V1", "V8"), by("V8", "V1", "V8"), by("V8", "", "V8")},
			[]string{"", "V1"},
			stats.Agreement{Checks: 1, Disagreements: 1, Cuts: 1},
		},
		{
			"both differ",
			[][3]string{by("V1", "V7", "V8"), by("V1", "V7", "V8"), by("V1", "", "")},
			[]string{"", "V7", "V8"},
			stats.Agreement{Checks: 1, Disagreements: 1, Cuts: 2},
		},
		{
			"the first has none",
			[][3]string{by("", "V1", "V8"), by("", "V1", "V8"), by("", "", "V8")},
			[]string{"", "V1"},
			stats.Agreement{Checks: 1, Disagreements: 1, Cuts: 1},
		},
		{
			"the first has none, and no server holds the own write",
			[][3]string{by("", "V7", "V8")},
			nil,
			stats.Agreement{Checks: 1},
		},
		{"all but one are lost", [][3]string{by("V8", "lost", "lost")}, nil, stats.Agreement{Checks: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := several(t, setup{})
			asked := checks(t, x, tc.looks...)
			for n, round := range asked {
				want := looks()
				if n == len(asked)-1 {
					want = looks(tc.cuts...)
				}
				assert.Equal(t, want, round)
			}
			assert.Zero(t, x.Checking())
			assert.Equal(t, tc.counts, x.Agreement)
		})
	}
}

func TestACheckThatNeverSeesTheSameTwiceCutsInTheEndAndOneThatGetsErrorsEnds(t *testing.T) {
	x := several(t, setup{})
	var changing, failing [][3]string
	for n := range 2*mostLooks + 1 {
		changing = append(changing, [3]string{"9", fmt.Sprint(10 + n), "9"})
		failing = append(failing, [3]string{"9", "SERVER_ERROR busy", "9"})
	}
	checks(t, x, changing[:mostLooks+1]...)
	assert.Equal(t, stats.Agreement{Cuts: 1}, x.Agreement)
	assert.Equal(t, 1, x.Checking())

	x = several(t, setup{})
	checks(t, x, failing...)
	assert.Zero(t, x.Checking())
}

func TestALookGivesBackTheRenewalThatItTookFromClients(t *testing.T) {
	x := several(t, setup{})
	h := x.options.Router.Replicas([]byte("k"), nil)
	var look [3]string
	look[h[0]] = "9 X W"
	asked := checks(t, x, look, [3]string{})
	assert.Equal(t, []string{fmt.Sprintf("%d: md k I C9 E9", h[0])}, asked[1])
	assert.Zero(t, x.Checking())
}

// storeAll stores the keys on all servers, in one round.
func storeAll(x *script, keys ...string) {
	for _, key := range keys {
		first := len(x.Calls)
		x.request("set " + key + " 0 0 1\r\nx")
		for n := first; n < len(x.Calls); n++ {
			x.reply(n, "HD\r\n")
		}
	}
}

// nextRound ends the round.
func nextRound(x *script) {
	x.Reset()
	x.started = 0
	clear(x.settled)
}

func TestALaterStoreOfAKeyReplacesItsCheck(t *testing.T) {
	x := several(t, setup{})
	storeAll(x, "k", "k", "l", "k")
	nextRound(x)
	storeAll(x, "k")
	nextRound(x)
	require.Equal(t, 2, x.Checking())
	x.PlanChecks()
	assert.Equal(t, []string{"0: mg k u c k mg l u c k", "1: mg k u c k mg l u c k", "2: mg k u c k mg l u c k"},
		x.calls())
	assert.Equal(t, uint64(protocol.FirstVersion|5), x.checks[0].version)

	// The next store is answered while the check looks at the servers.
	storeAll(x, "k")
	for n := range 3 {
		x.reply(n, fmt.Sprintf("HD kk c%d\r\nHD kl c9\r\n", n))
	}
	nextRound(x)
	assert.Equal(t, 1, x.Checking(), "the check of l and the older check of k have ended")
	assert.Equal(t, uint64(protocol.FirstVersion|6), x.checks[0].version)
	assert.Equal(t, stats.Agreement{Checks: 1}, x.Agreement)
}

func TestARenewalThatALookTookIsGivenBackEvenAfterALaterStore(t *testing.T) {
	x := several(t, setup{})
	storeAll(x, "k")
	x.PlanChecks()
	storeAll(x, "k")
	x.reply(3, "HD kk c9 X W\r\n") // another client has marked it stale meanwhile
	x.reply(4, "EN\r\n")
	x.reply(5, "EN\r\n")
	nextRound(x)
	x.PlanChecks()
	assert.Equal(t, []string{"0: md k I C9 E9 mg k u c k", "1: mg k u c k", "2: mg k u c k"}, x.calls())
}

func TestACheckLosesAServerThatAnswersOnlyEarlierChecks(t *testing.T) {
	x := several(t, setup{})
	storeAll(x, "k", "l")
	nextRound(x)
	x.PlanChecks()
	var rep protocol.Reply
	reply := []byte("HD kk c9\r\n")
	_, _, err := protocol.DecodeReply(reply, &rep)
	require.NoError(t, err)
	last, _, ok := x.Element(0, &rep, reply, 0, len(reply))
	require.True(t, ok && !last)
	x.NoAnswer(0, nil, true)
	for n := 1; n < 3; n++ {
		x.reply(n, "HD kk c9\r\nHD kl c9\r\n")
	}
	assert.False(t, x.checks[0].copies[0].lost || x.checks[0].copies[1].lost || x.checks[0].copies[2].lost)
	lost := 0
	for _, c := range x.checks[1].copies {
		if c.lost {
			assert.EqualValues(t, 0, c.server)
			lost++
		}
	}
	assert.Equal(t, 1, lost)
	nextRound(x)
	assert.Zero(t, x.Checking())
	assert.Equal(t, stats.Agreement{Checks: 2}, x.Agreement)
}

func TestAServerThatDoesNotAnswerACheckHasMissedTheWrite(t *testing.T) {
	x := several(t, setup{})
	x.request("ms aw== 1 b\r\nx")
	for n := range 3 {
		x.reply(n, "HD\r\n")
	}
	x.Reset()
	x.PlanChecks()
	var missed []string
	require.False(t, x.Missed(0, func(key []byte) { missed = append(missed, string(key)) }))
	assert.Equal(t, []string{"k"}, missed)
	assert.True(t, x.Writes(0))
	assert.False(t, x.Movable(0))
	assert.Equal(t, FollowsNothing, x.Follows(0))
}

func TestAReplyThatDoesNotFitACheckIsRefused(t *testing.T) {
	x := several(t, setup{})
	x.request("set k 0 0 1\r\nx")
	for _, reply := range []string{"EN\r\n", "VA 1\r\nx\r\n", "HD c5\r\n", "STORED\r\n"} {
		assert.False(t, x.feed(0, reply), reply)
	}
	for n := range 3 {
		x.reply(n, "HD\r\n")
	}
	x.Reset()
	x.PlanChecks()
	for _, reply := range []string{"NF\r\n", "VA 1\r\nx\r\n", "MN\r\n", "HD c5\r\n", "HD c5 kl\r\n", "EN kl\r\n"} {
		assert.False(t, x.feed(0, reply), reply)
	}
	x.reply(0, "HD c5 kk\r\n")
}

func TestAReplyAboutAnotherKeyIsRefusedForRequestsOfMcmwsOwn(t *testing.T) {
	for _, tc := range []struct {
		line, asked      string
		call             int
		another, its, no string
	}{
		{"incr k 1", "ma k v k D1 EV1", 0, "VA 1 kl\r\n6\r\n", "VA 1 kk\r\n6\r\n", "VA 1\r\n6\r\n"},
		{
			"incr k 1", "mg k u v f t c k", 1, "VA 1 f0 t-1 c9 kl\r\nx\r\n", "VA 1 f0 t-1 c9 kk\r\n6\r\n",
			"VA 1 f0 t-1 c9\r\n6\r\n",
		},
		{
			"ma aw== b v", "mg aw== u v f t c O3252696320 b", 1, "VA 1 f0 t-1 c9 O7\r\nx\r\n",
			"VA 1 f0 t-1 c9 O3252696320\r\n6\r\n", "VA 1 f0 t-1 c9\r\n6\r\n",
		},
		{"get k", "me k", 1, "ME l exp=-1\r\n", "ME k exp=-1\r\n", "ME\r\n"},
	} {
		x := several(t, setup{})
		i := x.request(tc.line)
		if tc.line == "get k" {
			x.AskLife(i)
		}
		calls := x.calls()
		assert.Equal(t, v(tc.asked), calls[tc.call][len("0: "):])
		assert.False(t, x.feed(tc.call, tc.another))
		assert.False(t, x.feed(tc.call, tc.no))
		x.reply(tc.call, tc.its)
	}
}

func TestVersionsDoNotRepeatAndNoServerGivesThemOut(t *testing.T) {
	seen := map[uint64]bool{}
	versions := NewVersions(1<<63+5, 1<<61)
	for range 100_000 {
		n := versions.next()
		require.False(t, seen[n])
		require.GreaterOrEqual(t, n, uint64(1<<62))
		require.Less(t, n, uint64(1<<63))
		seen[n] = true
	}
}

// A client's own cas stays where nobody else writes.
func TestWithOneReplicaAnItemGetsItsVersionInOneTrip(t *testing.T) {
	for request, want := range map[string]string{
		"set k 0 0 1\r\nx": "ms k 1 EV1 x", "cas k 0 0 1 7\r\nx": "ms k 1 C7 EV1 x",
		"add k 0 0 1\r\nx": "ms k 1 ME EV1 x", "delete k": "delete k",
		"ms k 1 E5\r\nx": "ms k 1 E5 x", "incr k 1": "ma k v k D1 EV1; mg k u v f t c k",
	} {
		x := several(t, setup{replicas: 1})
		x.options.Pools[0].Several = false
		x.request(request)
		var sent []string
		for _, call := range x.calls() {
			_, text, _ := strings.Cut(call, ": ")
			sent = append(sent, text)
		}
		assert.Equal(t, v(want), strings.Join(sent, "; "), request)
	}
}

func TestAWriteWhoseItemIsNotKeptIsAnsweredWhole(t *testing.T) {
	x := several(t, setup{})
	i := x.request("append k 0 0 1\r\nx")
	x.Cut(1)
	assert.False(t, x.Partial(i), "a part of an answer would not wait for the marks of servers that missed the write")
}

func TestATokenOfAServersOwnIsNoticedAmongKeysWithoutTheirPrefix(t *testing.T) {
	pool := func(name string, servers ...string) route.Pool {
		p := route.Pool{Name: name, Options: route.Options{Read: route.ReadRoundRobin}}
		for _, s := range servers {
			p.Servers = append(p.Servers, route.Server{Name: s})
		}
		return p
	}
	router, err := route.NewPools([]route.Pool{pool("a", "s0", "s1"), pool("b", "s2")},
		route.Routes{Default: "b", Prefixes: []route.Prefix{{Prefix: "p:", Pool: "a", Strip: true}}})
	require.NoError(t, err)
	x := plan(t, setup{options: Options{
		Router: router, Versions: NewVersions(0, 1), Pools: []Pool{{Versions: true, Several: true}, {}},
	}})
	first := int32(router.Primary([]byte("p:k")))
	for asked := first; asked == first; { // until another server is asked
		x.Part()
		i := x.request("gets p:k x")
		calls := x.CallsOf(i)
		asked = calls[0].Server
		from := len(x.Calls) - len(calls)
		x.reply(from, "VALUE k 0 1 7\r\nx\r\nEND\r\n")
		x.reply(from+1, "END\r\n")
		assert.Equal(t, asked != first, len(x.again) > 0, "the read is repeated on the first server")
	}
	x.calls()
	assert.Equal(t, fmt.Sprintf("%d: gets k", first), x.next()[0])
}
