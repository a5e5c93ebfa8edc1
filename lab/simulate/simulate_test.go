package simulate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/lab/queueing"
)

// always returns a time that does not depend on the number of requests.
func always(t float64) func(int) float64 { return func(int) float64 { return t } }

func TestWithDepthOneSimulationAndFormulasAgree(t *testing.T) {
	shared := func(n int) float64 { return 1 + 0.2*float64(n-1) }
	for name, s := range map[string]System{
		"fewer customers than workers": {Customers: 4, Workers: 8, Depth: 1, Inside: shared, Outside: always(2)},
		"more customers than workers":  {Customers: 40, Workers: 8, Depth: 1, Inside: shared, Outside: always(2)},
		"think time": {
			Customers: 20, Think: 5, Workers: 4, Depth: 1, Inside: always(1),
			Outside: shared,
		},
	} {
		t.Run(name, func(t *testing.T) {
			station := func(time func(int) float64, most int) queueing.Station {
				l := queueing.Station{Kind: queueing.LoadDependent, Visits: 1, Service: time(1)}
				for n := 1; n <= most; n++ {
					l.Rates = append(l.Rates, float64(n)/time(n)*l.Service)
				}
				return l
			}
			exact, err := queueing.Network{Think: s.Think, Stations: []queueing.Station{
				station(s.Inside, min(s.Workers, s.Customers)), station(s.Outside, s.Customers),
			}}.Solve(s.Customers)
			require.NoError(t, err)
			var busy, queue float64
			for n, p := range exact.Stations[0].Marginal {
				busy += p * float64(min(n, s.Workers))
				queue += p * float64(max(n-s.Workers, 0))
			}
			got, err := Run(s)
			require.NoError(t, err)
			require.InEpsilon(t, exact.X, got.X, 0.01)
			require.InEpsilon(t, busy, got.Busy, 0.02)
			require.InDelta(t, queue, got.Queue, 0.02*queue+0.005)
		})
	}
}

func TestABatchTakesAllWaitingRequestsUpToTheDepth(t *testing.T) {
	// One worker, and hardly any time outside: one request is served alone, the other nine wait and form the next
	// batch.
	s := System{Customers: 10, Workers: 1, Depth: 100, Inside: always(1), Outside: always(1e-6)}
	got, err := Run(s)
	require.NoError(t, err)
	require.InEpsilon(t, 10.0/2, got.X, 0.02)
	require.InDelta(t, 1, got.Busy, 0.001)
	// Three at a time; the other seven wait.
	s.Depth = 3
	got, err = Run(s)
	require.NoError(t, err)
	require.InEpsilon(t, 3.0, got.X, 0.02)
	require.InEpsilon(t, 7.0, got.Queue, 0.01)
}

func TestTheSameSystemHasTheSameResult(t *testing.T) {
	s := System{Customers: 5, Workers: 2, Depth: 2, Inside: always(1), Outside: always(1)}
	first, err := Run(s)
	require.NoError(t, err)
	second, err := Run(s)
	require.NoError(t, err)
	require.Equal(t, first, second)
}

func TestASystemInWhichNothingHappensIsRefused(t *testing.T) {
	for _, change := range []func(*System){
		func(s *System) { s.Customers = 0 },
		func(s *System) { s.Workers = -1 },
		func(s *System) { s.Depth = 0 },
		func(s *System) { s.Outside = func(int) float64 { return -1 } },
	} {
		s := System{Customers: 1, Workers: 1, Depth: 1, Inside: always(1), Outside: always(1)}
		change(&s)
		_, err := Run(s)
		require.ErrorContains(t, err, "nothing happens")
	}
}
