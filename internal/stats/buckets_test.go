package stats

import (
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func boundaries() []int64 {
	bounds := make([]int64, NumBuckets)
	for i := range bounds {
		bounds[i] = Bound(i)
	}
	return bounds
}

func TestBoundariesAscendInTheDocumentedSteps(t *testing.T) {
	us := int64(time.Microsecond)
	var want []int64
	for b := int64(0); b < 100*us; b += us {
		want = append(want, b)
	}
	for b := 100 * us; b < 10_000*us; b += 10 * us {
		want = append(want, b)
	}
	for b := 10_000 * us; b < 200_000*us; b += 100 * us {
		want = append(want, b)
	}
	for low := 200_000 * us; low < 100_000_000*us; low *= 2 {
		for i := range int64(16) {
			want = append(want, low+i*low/16)
		}
	}
	want = append(want, 102_400_000*us)
	require.Equal(t, want, boundaries())
}

func TestEveryMultipleOf100MicrosecondsUpTo200MillisecondsIsABoundary(t *testing.T) {
	isBoundary := map[int64]bool{}
	for _, b := range boundaries() {
		isBoundary[b] = true
	}
	for b := int64(0); b <= int64(200*time.Millisecond); b += int64(100 * time.Microsecond) {
		require.True(t, isBoundary[b], "%v is no boundary", time.Duration(b))
	}
}

func TestBucketsBeyond200MillisecondsAreAtMostOneSixteenthWide(t *testing.T) {
	for i := tailBase; i < NumBuckets-1; i++ {
		width := Bound(i+1) - Bound(i)
		require.LessOrEqual(t, width*16, Bound(i), "bucket %d", i)
	}
}

// TestATimeFallsIntoTheBucketBetweenItsBoundaries compares the computed index with a search in the boundary table: at
// every boundary, one nanosecond either side, and at every microsecond of the linear ranges.
func TestATimeFallsIntoTheBucketBetweenItsBoundaries(t *testing.T) {
	bounds := boundaries()
	search := func(ns int64) int {
		return sort.Search(len(bounds), func(i int) bool { return bounds[i] > ns }) - 1
	}
	for i, b := range bounds {
		require.Equal(t, i, bucketOf(b), "at boundary %d", b)
		if b > 0 {
			require.Equal(t, i-1, bucketOf(b-1), "just below boundary %d", b)
		}
		if i+1 < len(bounds) {
			require.Equal(t, i, bucketOf((b+bounds[i+1])/2), "in the middle of bucket %d", i)
		}
	}
	for ns := int64(0); ns < int64(201*time.Millisecond); ns += 333 {
		if got, want := bucketOf(ns), search(ns); got != want {
			t.Fatalf("bucketOf(%d) = %d, the table says %d", ns, got, want)
		}
	}
	for ns := int64(201 * time.Millisecond); ns < int64(110*time.Second); ns += ns / 997 {
		if got, want := bucketOf(ns), search(ns); got != want {
			t.Fatalf("bucketOf(%d) = %d, the table says %d", ns, got, want)
		}
	}
}

func TestTimesOutsideTheBoundariesFallIntoTheFirstAndLastBucket(t *testing.T) {
	require.Equal(t, 0, bucketOf(-1))
	require.Equal(t, 0, bucketOf(-1<<63))
	require.Equal(t, NumBuckets-1, bucketOf(1<<63-1))
}
