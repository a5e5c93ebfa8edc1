package marker

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fleetServers are servers with the marks that they hold; a server that is not in it has lost them. Members of a fleet look at those that
// they reach.
type fleetServers map[string]Marks

// lookAt has f look at the servers, all of which answer at once.
func (s fleetServers) lookAt(f *Fleet, now time.Duration, servers ...string) {
	at := int64(now)
	for _, name := range servers {
		marks, witness := s[name]
		if !witness {
			if want, joins := f.Empty(name, at, at); joins {
				s[name] = slices.Clone(want)
			}
			continue
		}
		if want, changed := f.Witness(name, marks, at, at); changed {
			s[name] = slices.Clone(want)
			f.Put(marks, want, at)
		}
	}
}

func member(owner string) *Fleet {
	f := NewFleet(owner)
	f.Place([]string{"a", "b", "c"})
	return f
}

// keepLooking looks every LookEvery, from a time on to another.
func (s fleetServers) keepLooking(f *Fleet, from, to time.Duration, servers ...string) {
	for now := from; now <= to; now += LookEvery {
		s.lookAt(f, now, servers...)
	}
}

const start = time.Minute // on nobody's clock is it 0

func TestAWriterMayAnswerWhenItsMarkIsOnAMajorityForLongEnoughAndItKeepsFindingIt(t *testing.T) {
	s := fleetServers{"a": {}, "b": {}, "c": {}}
	f := member("x")
	s.lookAt(f, start, "a", "b", "c")
	f.Mark("a", int64(start))
	s.lookAt(f, start+1, "b")
	s.keepLooking(f, start+2, start+2*inForce, "b")
	require.Zero(t, f.InForce("a", int64(start+2*inForce)), "one is no majority")
	begin := start + 3*inForce
	s.lookAt(f, begin, "b", "c")
	s.keepLooking(f, begin+1, begin+inForce, "b", "c")
	require.Zero(t, f.InForce("a", int64(begin+inForce)), "it has been for a moment less than that")
	end := begin + inForce + 2*LookEvery
	s.keepLooking(f, begin+inForce+1, end, "b", "c")
	require.NotZero(t, f.InForce("a", int64(end)))
	require.Zero(t, f.InForce("a", int64(end+relied+LookEvery)), "a look that was long ago proves nothing")
	s["c"] = Marks{}
	s.lookAt(f, end, "b", "c")
	require.Zero(t, f.InForce("a", int64(end)), "it was lost on one of them")
}

func TestAReaderHeedsWhatItFoundAndReliesOnALookForAShortTime(t *testing.T) {
	mark := Mark{"a", "y", 1}
	s := fleetServers{"a": {}, "b": {mark}, "c": {mark}}
	f := member("x")
	s.lookAt(f, start, "a")
	require.Zero(t, f.Lease(), "one server doesn't find every mark")
	s.lookAt(f, start+time.Millisecond, "b")
	require.Equal(t, int64(start+relied), f.Lease(), "the look began with the first")
	require.Equal(t, "y", f.MarkedBy("a"))
	require.Empty(t, f.MarkedBy("b"))
	s["b"], s["c"] = Marks{}, Marks{}
	s.lookAt(f, start+2*time.Millisecond, "b", "c")
	require.Empty(t, f.MarkedBy("a"))
}

func TestAMarkOfAnotherIsHeededByAllWhenItWasFoundOnAMajorityForLongEnough(t *testing.T) {
	mark := Mark{"a", "y", 1}
	s := fleetServers{"a": {}, "b": {mark}, "c": {}}
	f := member("x")
	end := start + 2*inForce
	s.keepLooking(f, start, end, "a", "b", "c")
	require.Equal(t, "y", f.MarkedBy("a"))
	require.False(t, f.Heeded("a", int64(end)), "it is on one")
	s["c"] = Marks{mark}
	begin := end + 1
	s.lookAt(f, begin, "b", "c")
	s.keepLooking(f, begin+1, begin+inForce-1, "b", "c")
	require.False(t, f.Heeded("a", int64(begin+inForce-1)), "others may not have looked since")
	last := begin + inForce
	s.lookAt(f, last, "b", "c")
	require.True(t, f.Heeded("a", int64(last)))
	require.False(t, f.Heeded("b", int64(last)))
	require.False(t, f.Heeded("a", int64(last+relied)), "a look that was long ago proves nothing")
	s.lookAt(f, last+relied, "b", "c")
	require.False(t, f.Heeded("a", int64(last+relied)), "it may have been removed, and put again")
	s["b"], s["c"] = Marks{}, Marks{}
	s.lookAt(f, last+relied+1, "b", "c")
	s["b"], s["c"] = Marks{mark}, Marks{mark}
	s.keepLooking(f, last+relied+2, last+relied+inForce, "b", "c")
	require.False(t, f.Heeded("a", int64(last+relied+inForce)))
}

func TestAServerThatHasLostItsMarksGetsThoseThatAreKnownWhileALookIsReliedOn(t *testing.T) {
	mark := Mark{"a", "y", 1}
	s := fleetServers{"b": {mark}, "c": {mark}}
	f := member("x")
	s.lookAt(f, start, "b", "c")
	delete(s, "b")
	delete(s, "c")
	s.lookAt(f, start+relied-1, "b", "c")
	require.Equal(t, fleetServers{"b": {mark}, "c": {mark}}, s)
	delete(s, "b")
	delete(s, "c")
	s.lookAt(f, start+3*relied, "b", "c")
	require.Empty(t, s, "what was marked since is not known")
	s.keepLooking(f, start+3*relied, start+4*relied+lostAfter, "b", "c")
	require.True(t, f.Lost(int64(start+4*relied+lostAfter)))
	for _, server := range []string{"a", "b", "c"} {
		f.Mark(server, int64(start+4*relied+lostAfter))
	}
	f.Bare()
	s.lookAt(f, start+5*relied+lostAfter, "b", "c")
	require.Len(t, s["b"], 4, "what it knew, and all three of its own")
	require.False(t, f.Lost(int64(start+5*relied+lostAfter)))
}

func TestTheMarkOfAnOwnerWithoutABeatIsRemovedWhenItsServerIsClean(t *testing.T) {
	s := fleetServers{"a": {}, "b": {}, "c": {}}
	owner, heir := member("x"), member("y")
	owner.Mark("a", int64(start))
	now := start
	for ; now < start+3*goneAfter; now += LookEvery {
		owner.Beat(int64(now))
		s.lookAt(owner, now, "b", "c")
		s.lookAt(heir, now, "a", "b", "c")
		_, gone := heir.Gone(int64(now))
		require.False(t, gone, "it lives")
	}
	s.keepLooking(heir, now, now+goneAfter+LookEvery, "a", "b", "c")
	now += goneAfter + LookEvery
	mark, gone := heir.Gone(int64(now))
	require.True(t, gone)
	require.Equal(t, "x", mark.Owner)
	heir.Mark("a", int64(now))
	heir.Bury(mark)
	_, gone = heir.Gone(int64(now))
	require.False(t, gone, "once is enough")
	s.lookAt(heir, now, "a", "b", "c")
	require.True(t, s["b"].of("a", "x"), "the server is not clean yet")
	heir.Unmark("a")
	s.lookAt(heir, now, "a", "b", "c")
	require.Empty(t, slices.Concat(s["a"], s["b"], s["c"]))
	// Who was taken for gone, and was only stopped, finds that.
	s.lookAt(owner, now, "b", "c")
	require.Zero(t, owner.InForce("a", int64(now)))
	owner.Beat(int64(now))
	s.lookAt(owner, now, "b", "c")
	s.lookAt(heir, now, "b", "c")
	require.True(t, s["b"].of("a", "x"), "and marks it again")
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

// A server that comes from other lists may have marks of their servers on it.
func TestMarksOfServersThatAreNotInTheListDoNotHideThoseThatAre(t *testing.T) {
	s := fleetServers{"a": {}, "b": {{"a", "dead", 1}}, "c": {{"a", "dead", 1}, {"0", "elsewhere", 1}, {"z", "elsewhere", 1}}}
	f := member("x")
	s.keepLooking(f, start, start+2*goneAfter, "a", "b", "c")
	mark, gone := f.Gone(int64(start + 2*goneAfter))
	require.True(t, gone)
	require.Equal(t, Mark{"a", "dead", 1}, mark)
	f.Mark("a", int64(start+2*goneAfter))
	f.Bury(mark)
	_, gone = f.Gone(int64(start + 2*goneAfter))
	require.False(t, gone)
}
