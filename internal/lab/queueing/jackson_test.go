package queueing

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnOpenNetworkIsQueuesOfTheirOwn(t *testing.T) {
	// A computer with feedback: who leaves the processor goes to the disk with 0.6 and comes back, or leaves.
	n := Jackson{Stations: []OpenStation{
		{Name: "cpu", Service: 0.02, Arrivals: 10, Next: []float64{0, 0.6}},
		{Name: "disk", Kind: Multi, Servers: 2, Service: 0.08, Next: []float64{1}},
		{Name: "net", Kind: Delay, Service: 0.5},
	}}
	s, err := n.Solve()
	require.NoError(t, err)
	cpu, err := NewMM1(25, 50)
	require.NoError(t, err)
	disk, err := NewMMm(15, 12.5, 2)
	require.NoError(t, err)
	require.InEpsilon(t, 25, s.Stations[0].Lambda, 1e-12)
	require.InEpsilon(t, 2.5, s.Stations[0].Visits, 1e-12)
	require.InEpsilon(t, cpu.MeanJobs(), s.Stations[0].Q, 1e-12)
	require.InEpsilon(t, disk.MeanResponse(), s.Stations[1].R, 1e-12)
	require.InEpsilon(t, 0.6, s.Stations[1].U, 1e-12)
	require.Zero(t, s.Stations[2].Q)
	require.InEpsilon(t, (cpu.MeanJobs()+disk.MeanJobs())/10, s.R, 1e-12)
}

func TestAnOpenNetworkThatMakesNoSenseIsNamed(t *testing.T) {
	for want, n := range map[string]Jackson{
		`station "b": M/M/m: no steady state`:                     {Stations: []OpenStation{{Name: "a", Service: 0.1, Arrivals: 2, Next: []float64{0, 1}}, {Name: "b", Service: 1}}},
		"some that come in never leave":                           {Stations: []OpenStation{{Name: "a", Service: 0.1, Arrivals: 2, Next: []float64{1}}}},
		`station "a": the probabilities of the ways on add up to`: {Stations: []OpenStation{{Name: "a", Service: 0.1, Arrivals: 2, Next: []float64{0.7, 0.7}}, {Name: "b"}}},
		`station "a" has 2 ways on`:                               {Stations: []OpenStation{{Name: "a", Service: 0.1, Arrivals: 2, Next: []float64{0.1, 0.1}}}},
		`the sum of the arrivals from outside is 0`:               {Stations: []OpenStation{{Name: "a", Service: 0.1}}},
		`the arrivals from outside is -1`:                         {Stations: []OpenStation{{Name: "a", Service: 0.1, Arrivals: -1}}},
		`station "a" has the kind ld`:                             {Stations: []OpenStation{{Name: "a", Kind: LoadDependent, Service: 0.1, Arrivals: 1}}},
		`station "a": the number of servers is 0`:                 {Stations: []OpenStation{{Name: "a", Kind: Multi, Service: 0.1, Arrivals: 1}}},
		`the probability of going to station "a" is -0.5`:         {Stations: []OpenStation{{Name: "a", Service: 0.1, Arrivals: 1, Next: []float64{-0.5}}}},
	} {
		_, err := n.Solve()
		require.ErrorContains(t, err, want)
	}
}
