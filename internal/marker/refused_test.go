package marker

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

// A long outage, in steps of many seconds. Server 2 alone answers middlewares 0 and 1, which write there. The others
// are killed, started again, and cut off from some middlewares; whom they refuse has a proof. Middleware 2 starts
// apart from server 2, and whoever takes marks for lost does what Records does.

// outage is a long outage.
type outage struct {
	rules *fleet
	*fleetState
	random *rand.Rand
	seen   map[string]int
	wide   bool   // any middleware may be cut off from any server
	read   string // the first stale one
}

// reaches reports whether middleware m reaches server i, and that is up.
func (o *outage) reaches(m, i int) bool { return o.members[m].reach&bit(i) != 0 && !o.servers[i].down }

// step does what happens next, and returns what that is.
func (o *outage) step() string {
	i, m := o.random.IntN(2), o.random.IntN(2)
	server := &o.servers[i]
	switch n := o.random.IntN(10); {
	case n < 4:
		d := time.Duration(2+o.random.IntN(3)) * 10 * time.Second
		o.pass(d)
		return fmt.Sprint(d, " pass")
	case n < 8 && server.down:
		return o.restart(i)
	case n < 8:
		for m := range 2 {
			o.members[m].reach |= bit(i)
		}
		killed := o.kill(i)
		if o.random.IntN(4) > 0 {
			o.looks(1, len(o.members))
			killed += ", " + o.restart(i)
		}
		return killed
	case n == 8 && len(o.members) == 2:
		o.rules.start(o.fleetState)
		o.members[2].reach = 3
		return "another middleware starts"
	case n == 8 && server.down:
		server.down = false
		return fmt.Sprintf("server %d is started", i)
	}
	if o.wide {
		m, i = o.random.IntN(len(o.members)), o.random.IntN(len(o.servers))
	}
	o.members[m].reach ^= bit(i)
	return fmt.Sprintf("middleware %d reaches %03b", m, o.members[m].reach)
}

// pass lets time pass. Middlewares 0 and 1 look all the time, and middleware 2 finds the same all the time.
func (o *outage) pass(d time.Duration) {
	o.now += int64(d)
	o.looks(4, 2)
	if len(o.members) == 2 {
		return
	}
	for i := range o.servers {
		if a, asked := o.members[2].answers[nameOf(i)]; asked && o.reaches(2, i) {
			a.begun = o.now
			o.members[2].answers[nameOf(i)] = a
		}
	}
}

// restart starts server i, which middlewares 0 and 1 don't reach any more.
func (o *outage) restart(i int) string {
	o.servers[i].down = false
	for m := range 2 {
		o.members[m].reach &^= bit(i)
	}
	return fmt.Sprintf("server %d is started, apart from 0 and 1", i)
}

// kill ends server i.
func (o *outage) kill(i int) string {
	server := &o.servers[i]
	server.down = true
	server.life++
	if o.random.IntN(4) == 0 {
		return fmt.Sprintf("server %d is killed, and will start with its items", i)
	}
	*server = fleetServer{blank: true, cas: server.cas + 1, down: true, life: server.life}
	return fmt.Sprintf("server %d is killed", i)
}

// looks lets the first so many middlewares look n times.
func (o *outage) looks(n, middlewares int) {
	for range n {
		for m := range middlewares {
			for i := range o.servers {
				if o.members[m].reach&bit(i) == 0 {
					continue
				}
				o.now++
				o.rules.look(o.fleetState, m, i)
				o.read = cmp.Or(o.read, o.rules.stale(o.fleetState))
				o.recovers(m)
			}
		}
		o.now += int64(20 * time.Millisecond)
	}
	for m := range o.members {
		if me := &o.members[m]; me.agrees && o.now < me.Lease() {
			o.seen["one server counts"]++
			if o.now-me.anchored > int64(aloneFor) {
				o.seen["one server counts for long"]++
			}
		}
	}
}

// recovers lets middleware m do what it must if marks are lost.
func (o *outage) recovers(m int) {
	if me := o.member(m); me.Lost(o.now) {
		o.seen["marks are taken for lost"]++
		for i := range o.servers {
			me.Mark(nameOf(i), o.now)
		}
		me.AcceptEmpty()
	}
}

// cleans lets all middlewares clean the servers that they have marked and reach.
func (o *outage) cleans() {
	for m := range o.members {
		for i := range o.servers {
			if me := o.member(m); me.own[nameOf(i)] != nil && o.reaches(m, i) {
				o.servers[i].value = 0
				me.Unmark(nameOf(i))
			}
		}
	}
}

// writes lets a middleware write, if it may.
func (o *outage) writes(m int) {
	if o.now >= o.rules.lease(o.fleetState, m) {
		return
	}
	o.number++
	o.writer, o.missed = m, 0
	for i := range o.servers {
		if o.reaches(m, i) {
			o.servers[i].value = o.number
		} else {
			o.missed |= bit(i)
			o.member(m).Mark(nameOf(i), o.now)
		}
	}
	o.looks(4, len(o.members))
	if o.rules.mayAnswer(o.fleetState) {
		o.answered = o.number
		o.seen[fmt.Sprintf("a write of %d is answered", m)]++
	}
	o.writer = -1
}

// outage lets steps happen at random after s, and returns an error at a stale read.
func (f *fleet) outage(s *fleetState, seed uint64, steps int, wide bool, seen map[string]int) error {
	o := &outage{rules: f, fleetState: s.clone(), seen: seen, wide: wide}
	o.random = rand.New(rand.NewPCG(seed, 2))
	for m := range o.members {
		o.member(m)
	}
	o.inPlace = true
	all := []string{o.kill(0)}
	for m := range o.members {
		o.members[m].reach |= bit(0)
	}
	if !wide {
		o.rules.start(o.fleetState)
		o.members[2].reach = 3
	}
	for range steps {
		all = append(all, o.step())
		o.looks(4, len(o.members))
		if o.random.IntN(2) == 0 {
			o.cleans()
		}
		o.writes(o.random.IntN(len(o.members)))
		if o.read != "" {
			return fmt.Errorf("seed %d: %s after %q", seed, o.read, all)
		}
	}
	return nil
}

func TestOneServerCountsThroughALongOutageOnlyWhileTheOthersAreKnownNotToBeUp(t *testing.T) {
	mctest.RaceSkips(t, mctest.Computes)
	t.Parallel()
	const steps = 20
	outages := uint64(100)
	if mctest.Long() {
		outages = 10_000
	}
	f := fleet{members: 2, prefix: singly}
	begin, seen, seed := f.begin(), map[string]int{}, mctest.Seed(t)
	for n := range outages {
		require.NoError(t, f.outage(begin, seed+n, steps, n%2 == 1, seen))
	}
	t.Log(seen)
	require.NotZero(t, seen["one server counts for long"])
	for name, of := range map[string]struct {
		wide    bool
		without func(f *fleet)
	}{
		"a refusal of long ago":          {false, func(f *fleet) { f.past = true }},
		"after an interruption":          {false, func(f *fleet) { f.revived = true }},
		"a start that doesn't wait anew": {false, func(f *fleet) { f.restless = true }},
		"a start while others vouch":     {true, func(f *fleet) { f.hurried = true }},
	} {
		t.Run(name, func(t *testing.T) {
			faulty := f
			of.without(&faulty)
			var err error
			n := uint64(0)
			for ; n < 1_000 && err == nil; n++ {
				err = faulty.outage(begin, n, steps, of.wide, map[string]int{})
			}
			require.Error(t, err)
			t.Log(n, err)
		})
	}
}

// outlasts lets fleets look at server "c" for some time, and calls each before every look.
func (s fleetServers) outlasts(from, d time.Duration, fleets []*Fleet,
	each func(f *Fleet, now int64),
) (end time.Duration) {
	for end = from; end < from+d; end += LookEvery / 2 {
		for _, f := range fleets {
			f.Beat(int64(end))
			each(f, int64(end))
			s.lookAt(f, end, "c")
		}
	}
	return end
}

func TestOneServerCountsAsLongAsOthersRefuseConnections(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	for _, of := range []struct {
		servers int
		refuse  []string // a connection
		counts  bool
	}{
		{3, nil, false},
		{3, []string{"a"}, true},
		{3, []string{"c"}, false}, // which does so now and then
		{5, []string{"a"}, false},
		{5, []string{"a", "c"}, false},
		{5, []string{"a", "b"}, true},
	} {
		t.Run(fmt.Sprint(of), func(t *testing.T) {
			s := fleetServers{}
			var fleets []*Fleet
			for _, owner := range []string{"x", "y"} {
				f := NewFleet(owner)
				f.Place(names[:of.servers])
				f.Register(int64(start))
				fleets = append(fleets, f)
			}
			for _, server := range names[:of.servers] {
				s[server] = Marks{}
			}
			now := start
			for range 60 {
				for _, f := range fleets {
					s.lookAt(f, now, names[:of.servers]...)
				}
				now += LookEvery / 2
			}
			refuse := func(f *Fleet, now int64) {
				for _, server := range of.refuse {
					f.Refused(server, now-int64(time.Millisecond), now)
				}
			}
			now = s.outlasts(now, aloneFor-time.Second, fleets, refuse)
			for _, f := range fleets {
				require.Greater(t, f.Lease(), int64(now))
			}
			now = s.outlasts(now, 2*aloneFor, fleets, refuse)
			for _, f := range fleets {
				require.Equal(t, of.counts, f.Lease() > int64(now))
			}
			now = s.outlasts(now, aloneFor+time.Second, fleets, func(*Fleet, int64) {})
			now = s.outlasts(now, time.Second, fleets, refuse)
			for _, f := range fleets {
				require.Less(t, f.Lease(), int64(now), "others may have begun in between")
			}
		})
	}
}

func TestARefusalOfOneOrTwoServersProvesNothing(t *testing.T) {
	for _, servers := range [][]string{{"a"}, {"a", "b"}} {
		f := NewFleet("x")
		f.Place(servers)
		for range 2 {
			for _, server := range servers {
				f.Refused(server, int64(start), int64(start))
			}
		}
		require.Empty(t, f.proved)
	}
}

func TestWhoStartsWaitsAnewWhenAServerWasStartedAgain(t *testing.T) {
	s := fleetServers{"a": {}, "b": {}, "c": {}}
	s.reader(t, "gone", "a", "b", "c")
	f := member("x")
	f.Register(int64(start))
	now := start
	waits := func(d time.Duration) {
		for end := now + d; now < end; now += LookEvery {
			f.Beat(int64(now))
			s.lookAt(f, now, "a", "b")
		}
	}
	met := func(server string) { f.Met(server, int64(now)) }
	met("a")
	met("b")
	waits(startsAfter - time.Second)
	met("a")
	waits(startsAfter - time.Second)
	require.False(t, f.Lost(int64(now)), "who relied on c until a refused a connection may still do so")
	delete(s, "b")
	met("b")
	waits(startsAfter - time.Second)
	require.False(t, f.Lost(int64(now)))
	waits(2 * time.Second)
	require.True(t, f.Lost(int64(now)))
}
