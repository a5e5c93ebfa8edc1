package stats

import (
	"math"
	"math/big"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMomentsEqualThoseOfWelfordsMethod(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for name, next := range map[string]func() int64{
		"spread":              func() int64 { return int64(random.ExpFloat64() * 1e6) },
		"nearly all alike":    func() int64 { return 3_600_000_000_000 + random.Int64N(3) },
		"one and the same":    func() int64 { return 12345 },
		"squares over 64 bit": func() int64 { return random.Int64N(1 << 45) },
	} {
		var h Histogram
		var welford Moments // B. P. Welford, Technometrics 4 (1962)
		for range 5000 {
			x := next()
			n := uint64(1 + random.IntN(3))
			h.record(x, n)
			for range n {
				welford.N++
				d := float64(x) - welford.Mean
				welford.Mean += d / float64(welford.N)
				welford.M2 += d * (float64(x) - welford.Mean)
			}
		}
		m := h.Moments()
		require.Equal(t, welford.N, m.N, name)
		require.InEpsilon(t, welford.Mean, m.Mean, 1e-12, name)
		require.InDelta(t, welford.M2, m.M2, 1e-3*welford.M2, name) // Welford rounds at every step
	}
}

// The values are those of Welford's example in the reports: 1 to 5 have the mean 3 and the sample variance 2.5.
func TestTheMomentsOfASmallSampleAreCorrect(t *testing.T) {
	h := histogramOf(1, 2, 3, 4, 5)
	require.Equal(t, Moments{N: 5, Mean: 3, M2: 10}, h.Moments())
	require.InDelta(t, math.Sqrt(2.5), h.Moments().StdDev(), 1e-15)
	var empty Histogram
	require.Equal(t, Moments{}, empty.Moments())
	require.Zero(t, empty.Moments().StdDev())
}

func TestSquaresAddUpBeyond64Bits(t *testing.T) {
	var h Histogram
	want := new(big.Int)
	random := rand.New(rand.NewPCG(3, 3))
	for range 10_000 {
		x, n := random.Int64N(1<<(1+random.IntN(50))), uint64(1+random.IntN(40))
		h.record(x, n)
		square := new(big.Int).Mul(big.NewInt(x), big.NewInt(x))
		want.Add(want, square.Mul(square, new(big.Int).SetUint64(n)))
	}
	require.Equal(t, want.String(), h.Squares().String())
	require.Greater(t, want.BitLen(), 70)
	before := h
	h.record(-5, 1)
	require.Equal(t, before.squares, h.squares, "a negative time counts as 0")
}

func TestBusyTimeGrowsDuringARoundAndNeverDecreases(t *testing.T) {
	r := New(Options{Workers: 1})
	require.Zero(t, r.Snapshot().BusyTime)
	var worker sync.WaitGroup
	done := make(chan struct{})
	worker.Go(func() {
		w := r.Worker(0)
		for range 20_000 {
			w.Begin(Now())
			w.Round(1, Now())
		}
		w.Begin(Now() - int64(time.Hour))
		close(done)
	})
	var prev uint64
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		s := r.Snapshot()
		require.GreaterOrEqual(t, s.BusyTime, prev)
		prev = s.BusyTime
	}
	worker.Wait()
	s := r.Snapshot()
	require.Equal(t, 1, s.WorkersBusy)
	require.Greater(t, s.BusyTime, uint64(time.Hour), "the round under way counts")
}
