package queueing

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"
)

// anyClasses draws a network with classes of up to most customers. If plain, it has only single servers and delays.
func anyClasses(t *rapid.T, plain bool, most int) Multiclass {
	var m Multiclass
	classes := rapid.IntRange(1, 3).Draw(t, "classes")
	for range classes {
		m.Classes = append(m.Classes, Class{
			Customers: rapid.IntRange(1, most).Draw(t, "customers"),
			Think:     rapid.SampledFrom([]float64{0, 1}).Draw(t, "think"),
		})
	}
	kinds := []Kind{Queue, Delay, Multi}
	if plain {
		kinds = kinds[:2]
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "stations") {
		s := Station{Name: fmt.Sprintf("s%d", i), Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Servers: 1 + i}
		for range classes {
			s.Demands = append(s.Demands, rapid.Float64Range(0.05, 2).Draw(t, "demand"))
		}
		m.Stations = append(m.Stations, s)
	}
	return m
}

func TestLittlesLawHoldsForEveryClass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyClasses(t, false, 6)
		s, err := m.Exact()
		require.NoError(t, err)
		for c, class := range m.Classes {
			same(t, float64(class.Customers), s.X[c]*(s.R[c]+class.Think), 1e-9, "interactive law")
			sum := s.X[c] * class.Think
			for i := range m.Stations {
				sum += s.Stations[i].Q[c]
			}
			same(t, float64(class.Customers), sum, 1e-9, "sum of the customers")
		}
		for i, r := range s.Stations {
			if m.Stations[i].Kind != Delay {
				require.LessOrEqual(t, r.U, 1.0)
			}
		}
	})
}

func TestEqualClassesBehaveAsOneClass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyClasses(t, false, 5)
		total := 0
		for c := range m.Classes {
			m.Classes[c].Think = m.Classes[0].Think
			total += m.Classes[c].Customers
		}
		n := Network{Think: m.Classes[0].Think}
		for i := range m.Stations {
			s := &m.Stations[i]
			for c := range s.Demands {
				s.Demands[c] = s.Demands[0]
			}
			n.Stations = append(n.Stations,
				Station{Name: s.Name, Kind: s.Kind, Visits: 1, Service: s.Demands[0], Servers: s.Servers})
		}
		apart, err := m.Exact()
		require.NoError(t, err)
		together, err := n.Solve(total)
		require.NoError(t, err)
		var x float64
		for c := range apart.X {
			x += apart.X[c]
			same(t, together.R, apart.R[c], 1e-9, "response time")
		}
		same(t, together.X, x, 1e-9, "throughput")
		for i := range n.Stations {
			same(t, together.Stations[i].Q, floats.Sum(apart.Stations[i].Q), 1e-9, "mean number")
			same(t, together.Stations[i].U, apart.Stations[i].U, 1e-9, "utilization")
		}
	})
}

func TestLinearizerIsCloseToTheExactSolution(t *testing.T) {
	var sum, count float64
	rapid.Check(t, func(t *rapid.T) {
		m := anyClasses(t, true, 8)
		exact, err := m.Exact()
		require.NoError(t, err)
		fine, err := m.Linearizer()
		require.NoError(t, err)
		for c := range m.Classes {
			off := math.Abs(fine.X[c]/exact.X[c] - 1)
			require.Less(t, off, 0.03)
			sum, count = sum+off, count+1
		}
	})
	require.Less(t, sum/count, 0.002)
}

func TestLinearizerIsExactForASingleCustomer(t *testing.T) {
	m := Multiclass{
		Classes: []Class{{Name: "get", Customers: 1, Think: 1}, {Name: "set"}},
		Stations: []Station{
			{Name: "q", Kind: Queue, Demands: []float64{1, 2}},
			{Name: "w", Kind: Multi, Servers: 3, Demands: []float64{1, 2}},
		},
	}
	for _, solve := range []func() (ClassSolution, error){m.Exact, m.Linearizer} {
		s, err := solve()
		require.NoError(t, err)
		require.InEpsilon(t, 1.0/3, s.X[0], 1e-9)
		require.Zero(t, s.X[1])
		require.Zero(t, s.R[1])
		require.InEpsilon(t, 1.0/9, s.Stations[1].U, 1e-9)
	}
}

func TestLinearizerSolvesPopulationsThatAreTooLargeForTheExactSolution(t *testing.T) {
	m := Multiclass{
		Classes: []Class{{Name: "get", Customers: 5000}, {Name: "set", Customers: 5000}},
		Stations: []Station{
			{Name: "q", Kind: Queue, Demands: []float64{1, 2}},
			{Name: "w", Kind: Multi, Servers: 64, Demands: []float64{100, 20}},
		},
	}
	_, err := m.Exact()
	require.ErrorContains(t, err, "use Linearizer")
	m.Classes[0].Customers, m.Classes[1].Customers = 300, 300
	_, err = m.Exact()
	require.ErrorContains(t, err, "steps: expected smaller populations")
	s, err := m.Linearizer()
	require.NoError(t, err)
	require.InDelta(t, 1, max(s.Stations[0].U, s.Stations[1].U), 0.02)
}

func TestInvalidInputOfANetworkWithClassesIsNamed(t *testing.T) {
	good := func() Multiclass {
		return Multiclass{
			Classes:  []Class{{Name: "get", Customers: 2}, {Customers: 1}},
			Stations: []Station{{Name: "q", Kind: Queue, Demands: []float64{1, 2}}},
		}
	}
	for want, change := range map[string]func(*Multiclass){
		"there are no classes":                                func(m *Multiclass) { m.Classes = nil },
		`class "get": the number of customers is -1`:          func(m *Multiclass) { m.Classes[0].Customers = -1 },
		`class 2: the think time is NaN`:                      func(m *Multiclass) { m.Classes[1].Think = math.NaN() },
		`class 2: the demands and the think time add up to 0`: func(m *Multiclass) { m.Stations[0].Demands[1] = 0 },
		`station "q" has 1 demands: expected 2`: func(m *Multiclass) {
			m.Stations[0].Demands = []float64{1}
			m.Classes[1].Think = 1
		},
		`station "q": the demand of class "get" is -1`: func(m *Multiclass) {
			m.Stations[0].Demands[0] = -1
			m.Classes[0].Think = 2
		},
		`station "q": the number of servers is 0`: func(m *Multiclass) { m.Stations[0].Kind = Multi },
		`station "q" has the kind ld`: func(m *Multiclass) {
			m.Stations[0].Kind = LoadDependent
		},
	} {
		m := good()
		change(&m)
		for _, solve := range []func() (ClassSolution, error){m.Exact, m.Linearizer} {
			_, err := solve()
			require.ErrorContains(t, err, want)
		}
	}
}
