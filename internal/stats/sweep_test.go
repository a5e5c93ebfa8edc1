package stats

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNoPoolHidesWhatIsKnownOfTheReplicasOfAnother(t *testing.T) {
	var all Sweeps
	require.Equal(t, SweepSnapshot{}, all.Snapshot())
	a, b, single := all.Begin(), all.Begin(), all.Begin()
	a.Repeats(true, time.Minute)
	b.Repeats(true, time.Hour)
	b.Last(time.Minute, 2)
	single.Repeats(false, 0)
	single.Last(time.Hour, 9)
	require.Equal(t, SweepSnapshot{Replicated: true, Every: int64(time.Hour), LastDiffer: 2}, all.Snapshot(),
		"when a was compared last is not known")

	a.Last(time.Second, 3)
	s := all.Snapshot()
	require.Equal(t, b.Snapshot().Last, s.Last)
	require.Equal(t, uint64(5), s.LastDiffer)

	a.Runs(true)
	a.Compared(5, time.Second)
	a.Disagreed()
	a.Deleted()
	a.Ended(SweepFailed, "x: reset")
	b.Runs(false)
	b.Compared(7, time.Second)
	b.Ended(SweepComplete, "")
	s = all.Snapshot()
	require.True(t, s.Running)
	require.Equal(t, "x: reset", s.Why)
	counts := SweepCounts{Keys: 12, Disagreements: 1, Cut: 1, Busy: uint64(2 * time.Second)}
	counts.Outcomes[SweepFailed], counts.Outcomes[SweepComplete] = 1, 1
	require.Equal(t, counts, s.SweepCounts)

	all.End(a)
	s = all.Snapshot()
	require.False(t, s.Running)
	require.Empty(t, s.Why)
	require.Equal(t, counts, s.SweepCounts, "the counts of a pool that was removed stay")

	b.Repeats(true, 0)
	require.Equal(t, single.Snapshot().Last, all.Snapshot().Last, "none is compared regularly")
}
