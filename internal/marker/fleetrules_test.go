package marker

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fleetServers are servers with the marks that they hold. A server that is not in the map has lost its marks.
type fleetServers map[string]Marks

// lookAt makes f look at servers, which all answer at once.
func (s fleetServers) lookAt(f *Fleet, now time.Duration, servers ...string) {
	at := int64(now)
	for _, name := range servers {
		marks, witness := s[name]
		if !witness {
			if want, joins := f.Empty(name, at, at, at); joins {
				s[name] = slices.Clone(want)
			}
			continue
		}
		if want, changed := f.Witness(name, marks, at, at); changed {
			s[name] = slices.Clone(want)
			f.Put(name, marks, want, at)
		}
	}
}

func member(owner string) *Fleet {
	f := NewFleet(owner)
	f.Place([]string{"a", "b", "c"})
	return f
}

// reader returns a member that may read, having looked at servers just before start.
func (s fleetServers) reader(t *testing.T, owner string, servers ...string) *Fleet {
	f := member(owner)
	f.Register(int64(start - 10))
	for before := time.Duration(9); before > 0; before-- {
		s.lookAt(f, start-before, servers...)
	}
	require.Greater(t, f.Lease(), int64(start))
	return f
}

// ofServers returns the marks that say that servers missed writes.
func (m Marks) ofServers() Marks {
	return slices.DeleteFunc(slices.Clone(m), func(k Mark) bool { return !k.ofServer() })
}

// keepLooking makes f look every LookEvery, from one time to another.
func (s fleetServers) keepLooking(f *Fleet, from, to time.Duration, servers ...string) {
	for now := from; now <= to; now += LookEvery {
		s.lookAt(f, now, servers...)
	}
}

const start = time.Minute // a clock at 0 could hide a fault

func TestAWriterMayAnswerWhileLooksKeepFindingItsMarkOnAMajorityForLongEnough(t *testing.T) {
	s := fleetServers{"a": {}, "b": {}, "c": {}}
	f := member("x")
	f.Silent(int64(start + time.Hour))
	s.lookAt(f, start, "a", "b", "c")
	f.Mark("a", int64(start))
	s.lookAt(f, start+1, "b")
	s.keepLooking(f, start+2, start+2*inForce, "b")
	require.Zero(t, f.InForce("a", int64(start+2*inForce)), "one server is no majority")
	begin := start + 3*inForce
	s.lookAt(f, begin, "b", "c")
	s.keepLooking(f, begin+1, begin+inForce, "b", "c")
	require.Zero(t, f.InForce("a", int64(begin+inForce)), "it has been in force for a moment less than that")
	end := begin + inForce + 2*LookEvery
	s.keepLooking(f, begin+inForce+1, end, "b", "c")
	require.NotZero(t, f.InForce("a", int64(end)))
	require.Zero(t, f.InForce("a", int64(end+relied+LookEvery)), "an old look proves nothing")
	s["c"] = Marks{}
	s.lookAt(f, end, "b", "c")
	require.Zero(t, f.InForce("a", int64(end)), "one of the servers has lost it")
}

func TestAWriterLooksSoonForAMarkThatItHasStoredAndAgainWhenTheMarkMayCount(t *testing.T) {
	s := fleetServers{"a": {}, "b": {}, "c": {}}
	f := member("x")
	f.Silent(int64(start + time.Hour))
	s.lookAt(f, start, "a", "b", "c")
	require.Equal(t, LookEvery, f.Pause(int64(start)))
	f.Mark("a", int64(start))
	s.lookAt(f, start, "b", "c")
	require.Equal(t, soon, f.Pause(int64(start)))
	require.Equal(t, LookEvery, f.Pause(int64(start+relied)), "the mark cannot be stored on enough servers")
	s.lookAt(f, start+soon, "b", "c")
	require.Equal(t, LookEvery, f.Pause(int64(start+soon)))
	require.Equal(t, time.Millisecond, f.Pause(int64(start+soon+inForce)))
	s.lookAt(f, start+soon+inForce, "b", "c")
	require.NotZero(t, f.InForce("a", int64(start+soon+inForce)))
	require.Equal(t, LookEvery, f.Pause(int64(start+soon+inForce)))
}

func TestAReaderRespectsTheMarksThatItFoundAndReliesOnALookForAShortTime(t *testing.T) {
	mark := Mark{"a", "y", 1}
	s := fleetServers{"a": {}, "b": {mark}, "c": {mark}}
	f := s.reader(t, "x", "a", "b", "c")
	lease := f.Lease()
	s.lookAt(f, start, "a")
	require.Equal(t, lease, f.Lease(), "one server does not have every mark")
	s.lookAt(f, start+time.Millisecond, "b")
	require.Equal(t, int64(start+relied), f.Lease(), "the look began with the first server")
	require.Equal(t, "y", f.MarkedBy("a"))
	require.Empty(t, f.MarkedBy("b"))
	s["b"], s["c"] = Marks{}, Marks{}
	s.lookAt(f, start+2*time.Millisecond, "b", "c")
	require.Empty(t, f.MarkedBy("a"))
	require.Zero(t, f.Lease(), "others do not see that it reads")
}

func TestAWriterMayAnswerOnceAllWhoReadHaveAcknowledgedItsMark(t *testing.T) {
	s := fleetServers{"a": {}, "b": {}, "c": {}}
	x := s.reader(t, "x", "a", "b", "c")
	y := member("y")
	y.Register(int64(start))
	s.keepLooking(y, start, start+2*inForce, "a", "b", "c")
	s.keepLooking(x, start, start+2*inForce, "a", "b", "c")
	now := start + 2*inForce
	require.Greater(t, y.Lease(), int64(now))
	look := func(f *Fleet) {
		for _, server := range []string{"b", "c"} {
			now++
			s.lookAt(f, now, server)
		}
	}
	x.Mark("a", int64(now))
	for range 5 {
		look(x)
	}
	require.Zero(t, x.InForce("a", int64(now)))
	require.Equal(t, soon, x.Pause(int64(now)))
	require.False(t, y.News())
	s.lookAt(y, now, "b")
	require.True(t, y.News(), "the other servers are asked for it, too")
	require.Equal(t, soon, y.Pause(int64(now)), "it is on one server, as far as is known")
	look(y)
	require.False(t, y.News())
	require.Equal(t, LookEvery, y.Pause(int64(now)))
	look(x)
	require.Equal(t, time.Millisecond, x.Pause(int64(now)))
	require.Zero(t, x.InForce("a", int64(now)), "a look that begins now has to find it")
	look(x)
	require.NotZero(t, x.InForce("a", int64(now)))
	y.Leave()
	look(y)
	require.False(t, s["b"].of(reads, "y"))
}

func TestWhoReadsAndIsGoneIsNotWaitedForForever(t *testing.T) {
	s := fleetServers{"a": {}, "b": {}, "c": {}}
	s.reader(t, "gone", "a", "b", "c")
	f := member("x")
	f.Register(int64(start))
	for now := start; now < start+goneAfter+beatEvery; now += LookEvery {
		f.Beat(int64(now))
		s.lookAt(f, now, "a", "b", "c")
	}
	require.False(t, s["a"].of(reads, "gone"))
	require.True(t, s["a"].of(reads, "x"))
}

func TestAMarkOfAnotherIsRespectedByAllWhenItWasFoundOnAMajorityForLongEnough(t *testing.T) {
	mark := Mark{"a", "y", 1}
	s := fleetServers{"a": {}, "b": {mark}, "c": {}}
	f := member("x")
	end := start + 2*inForce
	s.keepLooking(f, start, end, "a", "b", "c")
	require.Equal(t, "y", f.MarkedBy("a"))
	require.False(t, f.RespectedByAll("a", int64(end)), "it is on one server")
	s["c"] = Marks{mark}
	begin := end + 1
	s.lookAt(f, begin, "b", "c")
	s.keepLooking(f, begin+1, begin+inForce-1, "b", "c")
	require.False(t, f.RespectedByAll("a", int64(begin+inForce-1)), "other middlewares may not have looked since")
	last := begin + inForce
	s.lookAt(f, last, "b", "c")
	require.True(t, f.RespectedByAll("a", int64(last)))
	require.False(t, f.RespectedByAll("b", int64(last)))
	require.False(t, f.RespectedByAll("a", int64(last+relied)), "an old look proves nothing")
	s.lookAt(f, last+relied, "b", "c")
	require.False(t, f.RespectedByAll("a", int64(last+relied)), "it may have been removed and stored again")
	s["b"], s["c"] = Marks{}, Marks{}
	s.lookAt(f, last+relied+1, "b", "c")
	s["b"], s["c"] = Marks{mark}, Marks{mark}
	s.keepLooking(f, last+relied+2, last+relied+inForce, "b", "c")
	require.False(t, f.RespectedByAll("a", int64(last+relied+inForce)))
}

func TestAServerThatHasLostItsMarksGetsTheKnownMarksWhileALookIsReliedOn(t *testing.T) {
	mark := Mark{"a", "y", 1}
	s := fleetServers{"a": {}, "b": {mark}, "c": {mark}}
	f := s.reader(t, "x", "a", "b", "c")
	delete(s, "a")
	s.lookAt(f, start, "b", "c")
	delete(s, "b")
	delete(s, "c")
	s.lookAt(f, start+relied-1, "b", "c")
	require.Equal(t, Marks{mark}, s["b"].ofServers())
	require.Equal(t, Marks{mark}, s["c"].ofServers())
	delete(s, "b")
	delete(s, "c")
	s.lookAt(f, start+3*relied, "b", "c")
	require.Empty(t, s, "newer marks are not known")
	s.keepLooking(f, start+3*relied, start+4*relied+lostAfter, "b", "c")
	require.True(t, f.Lost(int64(start+4*relied+lostAfter)))
	for _, server := range []string{"a", "b", "c"} {
		f.Mark(server, int64(start+4*relied+lostAfter))
	}
	f.AcceptEmpty()
	s.lookAt(f, start+5*relied+lostAfter, "b", "c")
	require.Len(t, s["b"].ofServers(), 4, "the mark that it knew, and its own marks of all three servers")
	require.False(t, f.Lost(int64(start+5*relied+lostAfter)))
}

func TestAMarkWhoseOwnerIsGoneIsRemovedWhenItsServerIsClean(t *testing.T) {
	s := fleetServers{"a": {}, "b": {}, "c": {}}
	owner, other := member("x"), member("y")
	owner.Mark("a", int64(start))
	now := start
	for ; now < start+3*goneAfter; now += LookEvery {
		owner.Beat(int64(now))
		s.lookAt(owner, now, "b", "c")
		s.lookAt(other, now, "a", "b", "c")
		_, gone := other.Gone(int64(now))
		require.False(t, gone, "the owner is alive")
	}
	s.keepLooking(other, now, now+goneAfter+LookEvery, "a", "b", "c")
	now += goneAfter + LookEvery
	mark, gone := other.Gone(int64(now))
	require.True(t, gone)
	require.Equal(t, "x", mark.Owner)
	other.Mark("a", int64(now))
	other.TakeOver(mark)
	_, gone = other.Gone(int64(now))
	require.False(t, gone, "the mark has been taken over")
	s.lookAt(other, now, "a", "b", "c")
	require.True(t, s["b"].of("a", "x"), "the server is not clean yet")
	other.Unmark("a")
	s.lookAt(other, now, "a", "b", "c")
	require.Empty(t, slices.Concat(s["a"], s["b"], s["c"]))
	// An owner that was only stopped, and counted as gone, finds that its mark was removed.
	s.lookAt(owner, now, "b", "c")
	require.Zero(t, owner.InForce("a", int64(now)))
	owner.Beat(int64(now))
	s.lookAt(owner, now, "b", "c")
	s.lookAt(other, now, "b", "c")
	require.True(t, s["b"].of("a", "x"), "the owner marks the server again")
}

func TestMarksAreReadAsTheyWereWritten(t *testing.T) {
	m := Marks{{"a", "x", 1}, {"b", "y \" é", 1 << 63}}
	got, err := DecodeMarks([]byte(m.Encode()))
	require.NoError(t, err)
	require.Equal(t, m, got)
	none, err := DecodeMarks([]byte(Marks(nil).Encode()))
	require.NoError(t, err)
	require.NotNil(t, none)
	_, err = DecodeMarks([]byte("x"))
	assert.ErrorContains(t, err, "the marks of servers that missed writes")
}

// A server that was in other lists may hold marks of their servers.
func TestMarksOfServersOutsideTheListDoNotHideMarksOfServersInIt(t *testing.T) {
	s := fleetServers{
		"a": {}, "b": {{"a", "dead", 1}},
		"c": {{"a", "dead", 1}, {"0", "elsewhere", 1}, {"z", "elsewhere", 1}},
	}
	f := member("x")
	s.keepLooking(f, start, start+2*goneAfter, "a", "b", "c")
	mark, gone := f.Gone(int64(start + 2*goneAfter))
	require.True(t, gone)
	require.Equal(t, Mark{"a", "dead", 1}, mark)
	f.Mark("a", int64(start+2*goneAfter))
	f.TakeOver(mark)
	_, gone = f.Gone(int64(start + 2*goneAfter))
	require.False(t, gone)
}

func TestAFirstStartWaitsForAServerUnlessMostHaveHeldNoMarksForLong(t *testing.T) {
	const at = 10 * time.Minute
	for name, tc := range map[string]struct {
		blank [2]time.Duration // for how long "a" and "b" have held no marks; 0: unknown
		joins bool
	}{
		"most have held none for long":      {[2]time.Duration{startsAfter + time.Second, time.Hour}, true},
		"one may have lost some since then": {[2]time.Duration{time.Hour, aloneFor}, false},
		"one has evicted items":             {[2]time.Duration{time.Hour, 0}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := member("x")
			f.Mark("c", 1)
			f.Alone()
			joins := false
			for i, server := range []string{"a", "b"} {
				blank := int64(0)
				if tc.blank[i] != 0 {
					blank = int64(at - tc.blank[i])
				}
				_, joins = f.Empty(server, int64(at), blank, int64(at))
			}
			require.Equal(t, tc.joins, joins)
		})
	}
}

// ofTwo returns a middleware in front of two servers.
func ofTwo(owner string, now time.Duration) *Fleet {
	f := NewFleet(owner)
	f.Place([]string{"a", "b"})
	f.Register(int64(now))
	return f
}

// runs lets fleets look at server "a", and at "b" if that is up, for some time, and returns when that is over.
func (s fleetServers) runs(from, d time.Duration, up bool, fleets ...*Fleet) (end time.Duration) {
	for end = from; end < from+d; end += LookEvery / 2 {
		for _, f := range fleets {
			f.Beat(int64(end))
			if s.lookAt(f, end, "a"); up {
				s.lookAt(f, end, "b")
			} else if f.own[reads] != nil {
				f.Mark("b", int64(end))
			}
		}
	}
	return end
}

func TestOneOfTwoServersCountsForWhoRunsAndForWhoStarts(t *testing.T) {
	s := fleetServers{"a": {}, "b": {}}
	x, y := ofTwo("x", start), ofTwo("y", start)
	now := s.runs(start, time.Second, true, x, y)
	now = s.runs(now, 2*startsAfter, false, x, y)
	require.Greater(t, x.Lease(), int64(now))
	require.NotZero(t, y.InForce("b", int64(now)))
	now = s.runs(now, goneAfter-time.Second, false, x)
	require.Less(t, x.Lease(), int64(now), "y may only be silent")
	now = s.runs(now, 2*time.Second, false, x)
	require.Greater(t, x.Lease(), int64(now), "y has acknowledged the mark of b")
	require.False(t, s["a"].of(reads, "y"))
	z := ofTwo("z", now)
	now = s.runs(now, time.Second, false, x, z)
	require.Greater(t, z.Lease(), int64(now))
	x.Leave()
	z.Leave()
	now = s.runs(now, LookEvery, false, x, z)
	next := ofTwo("next", now)
	now = s.runs(now, time.Second, false, next)
	require.Greater(t, next.Lease(), int64(now), "the others have left, and all know that b is marked")
}

func TestWhoStartsAtOneOfTwoServersWaitsForTheOtherIfSomebodyMayRelyOnThat(t *testing.T) {
	s := fleetServers{"a": {}, "b": {}}
	x := ofTwo("x", start)
	now := s.runs(start, time.Second, true, x)
	for _, began := range []bool{false, true} {
		if began {
			now = s.runs(now, time.Second, false, x) // it marks b before it is gone
		}
		y := ofTwo("y", now)
		now = s.runs(now, 2*startsAfter, false, y)
		require.Less(t, y.Lease(), int64(now))
		require.False(t, y.Lost(int64(now)))
		y.Leave()
		now = s.runs(now, LookEvery, false, y)
	}
	y := ofTwo("y", now)
	now = s.runs(now, 2*goneAfter, true, y)
	require.Greater(t, y.Lease(), int64(now))
}
