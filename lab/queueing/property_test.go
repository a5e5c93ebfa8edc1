package queueing

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// same fails unless the values agree to a relative tolerance.
func same(t require.TestingT, want, got, tolerance float64, what string) {
	if want == 0 {
		require.InDelta(t, 0, got, tolerance, what)
		return
	}
	require.InEpsilon(t, want, got, tolerance, what)
}

func TestTenThousandServersCloseToSaturationAreAccurate(t *testing.T) {
	for _, c := range []struct {
		m    int
		idle float64
	}{{10_000, 1e-9}, {10_000, 1e-3}, {10_000, 0.3}, {1000, 1e-6}, {1, 1e-9}} {
		t.Run(fmt.Sprintf("m=%d, rho=1-%v", c.m, c.idle), func(t *testing.T) {
			lambda := float64(c.m) * (1 - c.idle)
			q, err := NewMMm(lambda, 1, c.m)
			require.NoError(t, err)
			// Erlang's C with 200 bits, from the same input.
			number := func(v float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(v) }
			a, b := number(lambda), number(1)
			for k := 1; k <= c.m; k++ {
				b.Mul(b, a)
				b.Quo(b, new(big.Float).Add(number(float64(k)), b))
			}
			spare := new(big.Float).Sub(number(float64(c.m)), a)
			all := new(big.Float).Quo(new(big.Float).Mul(number(float64(c.m)), b),
				new(big.Float).Add(spare, new(big.Float).Mul(a, b)))
			exact, _ := all.Float64()
			same(t, exact, q.C, 1e-9, "C")
			wait, _ := new(big.Float).Quo(all, spare).Float64()
			same(t, wait, q.MeanWait(), 1e-9, "wait")
			same(t, q.MeanQueue(), q.Lambda*q.MeanWait(), 1e-9, "Little's law")
		})
	}
}

func TestResponseTimesIncreaseWithLoadAndDecreaseWithServers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.IntRange(1, 60).Draw(t, "m")
		rho := rapid.Float64Range(0.05, 0.95).Draw(t, "rho")
		at := func(lambda float64, m int) MMm {
			q, err := NewMMm(lambda, 1, m)
			require.NoError(t, err)
			return q
		}
		q, busier, wider := at(float64(m)*rho, m), at(float64(m)*(rho+0.02), m), at(float64(m)*rho, m+1)
		require.GreaterOrEqual(t, busier.MeanResponse(), q.MeanResponse())
		require.LessOrEqual(t, wider.MeanWait(), q.MeanWait())
	})
}

// anyNetwork draws a network. If plain, it has only single servers and delays.
func anyNetwork(t *rapid.T, plain bool) Network {
	n := Network{Think: rapid.SampledFrom([]float64{0, 0, 0.5, 20}).Draw(t, "think")}
	kinds := []Kind{Queue, Delay, Multi, LoadDependent}
	if plain {
		kinds = kinds[:2]
	}
	for i := range rapid.IntRange(1, 5).Draw(t, "stations") {
		s := Station{
			Name: fmt.Sprintf("s%d", i), Kind: rapid.SampledFrom(kinds).Draw(t, "kind"),
			Visits:  rapid.SampledFrom([]float64{0.25, 0.5, 1, 3}).Draw(t, "visits"),
			Service: math.Pow(10, rapid.Float64Range(-4, 1).Draw(t, "log service")),
		}
		switch s.Kind {
		case Multi:
			s.Servers = rapid.IntRange(1, 256).Draw(t, "servers")
		case LoadDependent:
			s.Rates = rapid.SliceOfN(rapid.Float64Range(0.05, 10), 1, 20).Draw(t, "rates")
		}
		n.Stations = append(n.Stations, s)
	}
	return n
}

func TestLittlesLawHoldsAtEveryStationOfAnyClosedNetwork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := anyNetwork(t, false)
		customers := rapid.SampledFrom([]int{1, 2, 7, 63, 300}).Draw(t, "customers")
		s, err := n.Solve(customers)
		require.NoError(t, err)
		same(t, float64(customers), s.X*(s.R+n.Think), 1e-9, "interactive law")
		limit, _ := capacity(n)
		require.LessOrEqual(t, s.X, limit*(1+1e-9))
		var everywhere float64
		for i, r := range s.Stations {
			everywhere += r.Q
			same(t, r.Q, s.X*n.Stations[i].Visits*r.R, 1e-9, "Little's law")
			require.Equal(t, n.Stations[i].several(), r.Marginal != nil)
			var sum, mean float64
			for k, p := range r.Marginal {
				require.False(t, math.IsNaN(p) || p < 0 || p > 1, "p(%d) = %v", k, p)
				sum += p
				mean += float64(k) * p
			}
			if r.Marginal != nil {
				same(t, 1, sum, 1e-9, "sum of the probabilities")
				same(t, r.Q, mean, 1e-9, "mean of the probabilities")
			}
			if n.Stations[i].Kind != Delay {
				require.LessOrEqual(t, r.U, 1.0)
			}
			require.GreaterOrEqual(t, r.R, 0.0)
		}
		same(t, float64(customers), everywhere+s.X*n.Think, 1e-9, "sum of the customers")
	})
}

// capacity returns the throughput that a network cannot exceed, and the index of the station that limits it: the
// smallest ratio of a station's highest rate to its demand.
func capacity(n Network) (x float64, station int) {
	x, station = math.Inf(1), -1
	for i, s := range n.Stations {
		best := 1.0
		switch s.Kind {
		case Delay:
			continue
		case Multi:
			best = float64(s.Servers)
		case LoadDependent:
			best = slices.Max(s.Rates)
		}
		if limit := best / s.demand(); limit < x {
			x, station = limit, i
		}
	}
	return x, station
}

func TestThroughputIncreasesWithCustomersUpToTheCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := anyNetwork(t, true)
		n.Stations = append(n.Stations,
			Station{Name: "pool", Kind: Multi, Servers: rapid.IntRange(1, 64).Draw(t, "pool"), Visits: 1, Service: 100})
		counts := []int{1, 2, 3, 10, 50, 200, 300}
		var last Solution
		for _, customers := range counts {
			s, err := n.Solve(customers)
			require.NoError(t, err)
			require.GreaterOrEqual(t, s.X, last.X*(1-1e-12))
			require.GreaterOrEqual(t, s.R, last.R*(1-1e-12))
			last = s
		}
		limit, at := capacity(n)
		if n.Stations[at].Name == "pool" && n.Think == 0 {
			require.InEpsilon(t, limit, last.X, 0.05)
		}
	})
}

// TestMeanValueAnalysisAgrees also solves networks of delays and single servers by the exact recurrence of mean value
// analysis (Jain, section 34.2), which is numerically stable for these networks.
func TestMeanValueAnalysisAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := anyNetwork(t, true)
		customers := rapid.IntRange(1, 400).Draw(t, "customers")
		q := make([]float64, len(n.Stations))
		var x float64
		for k := 1; k <= customers; k++ {
			sum := n.Think
			r := make([]float64, len(q))
			for i := range q {
				s := &n.Stations[i]
				r[i] = s.demand()
				if s.Kind == Queue {
					r[i] *= 1 + q[i]
				}
				sum += r[i]
			}
			x = float64(k) / sum
			for i := range q {
				q[i] = x * r[i]
			}
		}
		s, err := n.Solve(customers)
		require.NoError(t, err)
		same(t, x, s.X, 1e-9, "throughput")
		for i := range q {
			same(t, q[i], s.Stations[i].Q, 1e-9, "mean number")
		}
	})
}

// TestAFullPoolIsAccurate solves a delay and a pool for numbers of customers at which mean value analysis in float64
// returns negative throughputs, and compares with sums of 300 bits.
func TestAFullPoolIsAccurate(t *testing.T) {
	const delay, service = 2.5, 10.0
	for _, m := range []int{64, 128, 256} {
		for _, customers := range []int{m + 30, 2 * m, 1000} {
			number := func(v float64) *big.Float { return new(big.Float).SetPrec(300).SetFloat64(v) }
			pool, rest := []*big.Float{number(1)}, []*big.Float{number(1)}
			for j := 1; j <= customers; j++ {
				pool = append(pool, new(big.Float).Mul(pool[j-1],
					new(big.Float).Quo(number(service), number(float64(min(j, m))))))
				rest = append(rest, new(big.Float).Mul(rest[j-1],
					new(big.Float).Quo(number(delay), number(float64(j)))))
			}
			constant := func(n int) *big.Float {
				sum := number(0)
				for k := range n + 1 {
					sum.Add(sum, new(big.Float).Mul(pool[k], rest[n-k]))
				}
				return sum
			}
			exact, _ := new(big.Float).Quo(constant(customers-1), constant(customers)).Float64()
			n := Network{Stations: []Station{
				{Name: "net", Kind: Delay, Visits: 1, Service: delay},
				{Name: "pool", Kind: Multi, Visits: 1, Service: service, Servers: m},
			}}
			s, err := n.Solve(customers)
			require.NoError(t, err)
			same(t, exact, s.X, 1e-12, fmt.Sprintf("m=%d N=%d", m, customers))
		}
	}
}

func TestANetworkWithoutCustomersHasNoThroughput(t *testing.T) {
	s, err := twoMiddlewares().Solve(0)
	require.NoError(t, err)
	require.Zero(t, s.X)
	require.Zero(t, s.R)
	for _, r := range s.Stations {
		require.Zero(t, r.Q)
		if r.Marginal != nil {
			require.Equal(t, []float64{1}, r.Marginal)
		}
	}
}

func TestWideNumbersExceedTheRangeOfFloats(t *testing.T) {
	w := widen(1)
	for range 5000 {
		w = w.times(1e-30)
	}
	v := w.times(3)
	require.InEpsilon(t, 3, v.over(w), 1e-15)
	require.InEpsilon(t, 4, v.plus(w).over(w), 1e-15)
	require.InEpsilon(t, 1, widen(1).plus(w).over(widen(1)), 1e-15)
	require.Zero(t, w.over(widen(1)))
	require.Equal(t, widen(1), widen(1).plus(wide{}))
	require.InEpsilon(t, 1, widen(5e-324).over(widen(5e-324)), 1e-15)
	require.InEpsilon(t, 1, widen(math.MaxFloat64).over(widen(math.MaxFloat64)), 1e-15)
}
