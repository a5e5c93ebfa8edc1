package follow

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// owing is a follower that remembers what it is said to doubt.
type owing struct {
	state State
}

func (o *owing) State() State { return o.state }

func (o *owing) Doubt(since time.Time) { o.state.Doubt = since }

func watching(owner string) (*Watch, *owing) {
	o := &owing{}
	return &Watch{Follower: o, Lease: 10 * time.Second, owner: owner, seen: map[string]sight{}}, o
}

func TestTheLineOfAMiddlewareThatIsGoneIsTakenOverAfterALease(t *testing.T) {
	mine, me := watching("a")
	other := line{"b", epoch.UnixMilli(), 7}
	at := func(second int) time.Time { return epoch.Add(time.Duration(second) * time.Second) }

	assert.Len(t, mine.next([]line{other}, at(0)), 2)
	other.beat++
	assert.Len(t, mine.next([]line{other}, at(9)), 2)
	stale := line{"b", epoch.UnixMilli(), 7}
	assert.Len(t, mine.next([]line{stale}, at(18)), 2, "another server has an earlier line")
	assert.True(t, me.state.Doubt.IsZero())

	lines := mine.next([]line{other}, at(19))
	assert.Equal(t, []line{{"a", epoch.UnixMilli(), 0}}, lines, "the doubt is on record before the line is gone")
	assert.Equal(t, epoch, me.state.Doubt)
}

func TestTheLineOfAMiddlewareThatEndedWithDebtsIsTakenOverAtOnce(t *testing.T) {
	mine, me := watching("a")
	ended := line{"b", epoch.UnixMilli(), 0}
	assert.Len(t, mine.next([]line{ended}, epoch.Add(time.Hour)), 1)
	assert.Equal(t, epoch, me.state.Doubt)
}

func TestARecordIsReadAsItWasWrittenWithoutWhatIsNoLine(t *testing.T) {
	lines := []line{{"a", 1, 2}, {"b", 3, 0}}
	assert.Equal(t, lines, parse(append(format(lines), "c x 1\nd 1\n"...)))
}

func TestDebtsAreDroppedForLackOfMemoryAndDoubtedSinceTheOldest(t *testing.T) {
	l := NewLedger(3 * (overhead + 2))
	for i, key := range []string{"k0", "k1", "k0", "k2", "k3"} {
		l.Owe([]byte(key), true, epoch.Add(time.Duration(i)*time.Second))
	}
	s := l.State(epoch.Add(time.Minute))
	assert.Equal(t, epoch, s.Doubt)
	assert.Equal(t, State{Counts: Counts{Dropped: 3}, Debts: 1, Oldest: epoch.Add(4 * time.Second), Doubt: epoch}, s)

	number := l.Doubted()
	l.Owe([]byte("k4"), true, epoch)
	l.Listed(number)
	assert.Zero(t, l.Doubted(), "all keys have been added")
	debts, _, _ := l.Take(10, false, epoch)
	for i, d := range debts {
		s = l.State(epoch)
		assert.False(t, s.Doubt.IsZero(), "%d debts are left", len(debts)-i)
		l.Settle(d, Paid, epoch)
	}
	s = l.State(epoch)
	assert.True(t, s.Clear())
}

func TestAFlushThatIsDueIsNotForgottenForALaterOne(t *testing.T) {
	l := NewLedger(1 << 20)
	l.Flush(epoch, epoch)
	l.Flush(epoch.Add(time.Second), epoch.Add(time.Second))
	assert.Zero(t, l.Doubted(), "the second has the effect of both")
	now := epoch.Add(2 * time.Second)
	l.Flush(now.Add(time.Hour), now)
	s := l.State(now)
	assert.Equal(t, epoch.Add(time.Second), s.Doubt, "the server may hold for an hour what the pool does not hold")
	_, f, wait := l.Take(10, false, now)
	assert.False(t, f.Any())
	assert.Equal(t, time.Hour, wait)
}
