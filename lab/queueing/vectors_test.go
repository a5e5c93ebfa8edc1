package queueing

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// vector is a case of testdata/queueing_vectors.json: inputs and the results of arithmetic with 60 digits.
type vector struct {
	ID, Model        string
	Inputs, Expected json.RawMessage
}

// vectors returns the cases of a model.
func vectors(t *testing.T, model string) []vector {
	t.Helper()
	text, err := os.ReadFile("testdata/queueing_vectors.json")
	require.NoError(t, err)
	var all struct{ Cases []vector }
	require.NoError(t, json.Unmarshal(text, &all))
	var chosen []vector
	for _, v := range all.Cases {
		if v.Model == model {
			chosen = append(chosen, v)
		}
	}
	require.NotEmpty(t, chosen)
	return chosen
}

// numbers returns the expected values that are numbers, by name.
func (v *vector) numbers(t *testing.T) map[string]float64 {
	t.Helper()
	var all map[string]any
	require.NoError(t, json.Unmarshal(v.Expected, &all))
	numbers := map[string]float64{}
	for name, value := range all {
		if f, ok := value.(float64); ok {
			numbers[name] = f
		}
	}
	return numbers
}

func (v *vector) inputs(t *testing.T, into any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(v.Inputs, into))
}

// near fails unless got is want within a relative tolerance.
func near(t *testing.T, want, got, tolerance float64, what string, args ...any) {
	t.Helper()
	if want == 0 {
		require.InDelta(t, 0, got, 1e-12, what, args)
		return
	}
	if diff := math.Abs(got/want - 1); !(diff <= tolerance) {
		t.Errorf("%s: expected %v, got %v, off by %.2g", fmt.Sprintf(what, args...), want, got, diff)
	}
}

func TestQueuesEqualTheVectors(t *testing.T) {
	for _, v := range append(vectors(t, "mm1"), vectors(t, "mmm")...) {
		t.Run(v.ID, func(t *testing.T) {
			in := struct {
				Lambda float64 `json:"arrival_rate"`
				Mu     float64 `json:"service_rate"`
				M      int     `json:"servers"`
			}{M: 1}
			v.inputs(t, &in)
			q, err := NewMMm(in.Lambda, in.Mu, in.M)
			want := v.numbers(t)
			if want["rho"] >= 1 {
				require.ErrorIs(t, err, ErrUnstable)
				require.ErrorContains(t, err, fmt.Sprintf("rho = %v", want["rho"]))
				return
			}
			require.NoError(t, err)
			got := map[string]float64{
				"rho": q.Rho, "mean_jobs_queue": q.MeanQueue(), "mean_response": q.MeanResponse(),
				"mean_wait": q.MeanWait(),
			}
			if v.Model == "mmm" {
				got["erlang_c"] = q.C
			}
			tolerance := 1e-9
			if q.Rho > 0.99 {
				tolerance = 1e-7 // as the file states
			}
			for name, value := range got {
				require.Contains(t, want, name)
				near(t, want[name], value, tolerance, "%s", name)
			}
		})
	}
}

func TestClosedNetworksEqualTheVectors(t *testing.T) {
	for _, v := range vectors(t, "closed_mva") {
		t.Run(v.ID, func(t *testing.T) {
			var in struct {
				Stations    []Station
				Think       float64 `json:"think_time"`
				Populations []int
			}
			v.inputs(t, &in)
			var want struct {
				Results []struct {
					N        int
					X, R     float64
					Stations []struct {
						Name        string
						U, Q, R, P0 float64
						Busy        *float64 `json:"busy_servers"`
					}
				}
			}
			require.NoError(t, json.Unmarshal(v.Expected, &want))
			for i, r := range want.Results {
				got, err := Network{Stations: in.Stations, Think: in.Think}.Solve(in.Populations[i])
				require.NoError(t, err)
				near(t, r.X, got.X, 1e-9, "N=%d X", r.N)
				near(t, r.R, got.R, 1e-9, "N=%d R", r.N)
				for j, s := range r.Stations {
					g := got.Stations[j]
					require.Equal(t, s.Name, g.Name)
					p0 := s.P0
					if g.Marginal != nil {
						p0 = g.Marginal[0]
					}
					for name, pair := range map[string][2]float64{
						"U": {s.U, g.U}, "Q": {s.Q, g.Q}, "R": {s.R, g.R}, "p0": {s.P0, p0},
					} {
						near(t, pair[0], pair[1], 1e-9, "N=%d %s of %s", r.N, name, s.Name)
					}
					if s.Busy == nil {
						require.True(t, math.IsNaN(g.Busy))
					} else {
						near(t, *s.Busy, g.Busy, 1e-9, "N=%d busy servers of %s", r.N, s.Name)
					}
				}
			}
		})
	}
}

func TestInvalidInputIsNamed(t *testing.T) {
	fails := func(want string, err error) {
		t.Helper()
		require.ErrorContains(t, err, want)
		require.False(t, errors.Is(err, ErrUnstable))
	}
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		_, err := NewMMm(bad, 1, 1)
		fails(fmt.Sprintf("arrival rate is %v", bad), err)
		_, err = NewMMm(1, bad, 2)
		fails(fmt.Sprintf("service rate is %v", bad), err)
	}
	_, err := NewMMm(1, 1, 0)
	fails("number of servers is 0: expected at least 1", err)
	_, err = NewMMm(10, 1, 10)
	require.ErrorIs(t, err, ErrUnstable)
	for want, n := range map[string]Network{
		`station "w": the number of servers is 0`: {Stations: []Station{{
			Name: "w",
			Kind: Multi, Visits: 1, Service: 1,
		}}},
		`station 1 has the kind "bus": expected queue, delay, multi or ld`: {Stations: []Station{{
			Kind:   "bus",
			Visits: 1, Service: 1,
		}}},
		`station 1: the visit ratio is -1`: {Stations: []Station{{
			Kind:   Queue,
			Visits: -1, Service: 1,
		}}},
		`station 1: the service time is NaN`: {Stations: []Station{{
			Kind:   Queue,
			Visits: 1, Service: math.NaN(),
		}}},
		`station "ld": the number of rates is 0`: {Stations: []Station{{
			Name: "ld",
			Kind: LoadDependent, Visits: 1, Service: 1,
		}}},
		`rate 2 is 0`: {Stations: []Station{{
			Kind:   LoadDependent,
			Visits: 1, Service: 1, Rates: []float64{1, 0},
		}}},
		`the demands and the think time add up to 0`: {},
		`the think time is -1`:                       {Think: -1},
	} {
		_, err := n.Solve(3)
		fails(want, err)
	}
	_, err = Network{Think: 1}.Solve(-1)
	fails("number of customers is -1", err)
}

func TestNetworksWithClassesEqualTheVectors(t *testing.T) {
	for _, v := range vectors(t, "multiclass_mva") {
		t.Run(v.ID, func(t *testing.T) {
			var in struct {
				Stations    []Station
				Thinks      []float64 `json:"think_times"`
				Populations []int
			}
			v.inputs(t, &in)
			m := Multiclass{Stations: in.Stations}
			for c, n := range in.Populations {
				m.Classes = append(m.Classes, Class{Customers: n, Think: in.Thinks[c]})
			}
			var want struct {
				X, R     []float64
				Stations []struct {
					Name  string
					Q     []float64
					Total float64 `json:"U_total"`
				}
			}
			require.NoError(t, json.Unmarshal(v.Expected, &want))
			got, err := m.Exact()
			require.NoError(t, err)
			for c := range want.X {
				near(t, want.X[c], got.X[c], 1e-9, "X of class %d", c)
				near(t, want.R[c], got.R[c], 1e-9, "R of class %d", c)
			}
			for i, s := range want.Stations {
				g := got.Stations[i]
				require.Equal(t, s.Name, g.Name)
				near(t, s.Total, g.U, 1e-9, "U of %s", s.Name)
				for c := range s.Q {
					near(t, s.Q[c], g.Q[c], 1e-9, "Q of class %d at %s", c, s.Name)
				}
			}
		})
	}
}
