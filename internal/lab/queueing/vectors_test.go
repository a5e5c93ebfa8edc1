package queueing

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// vector is a case of testdata/queueing_vectors.json: inputs, and what they lead to by arithmetic with 60 digits.
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

// near fails unless got is want by the tolerance that the file states.
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

// openModel is what the vectors ask of every open queue.
type openModel interface {
	P(n int) float64
	MeanJobs() float64
	VarJobs() float64
	MeanQueue() float64
	MeanService() float64
	MeanResponse() float64
	MeanWait() float64
	Utilization() float64
}

type unboundedModel interface {
	openModel
	AtLeast(n int) float64
	VarQueue() float64
	VarResponse() float64
	VarWait() float64
	ResponsePercentile(p float64) float64
	WaitPercentile(p float64) float64
}

// value returns what a vector calls name.
func value(q openModel, name string) (float64, bool) {
	if n, ok := strings.CutPrefix(name, "p_n_"); ok {
		count, _ := strconv.Atoi(n)
		return q.P(count), true
	}
	switch name {
	case "p0":
		return q.P(0), true
	case "utilization":
		return q.Utilization(), true
	case "mean_jobs":
		return q.MeanJobs(), true
	case "var_jobs":
		return q.VarJobs(), true
	case "mean_jobs_queue":
		return q.MeanQueue(), true
	case "mean_jobs_service":
		return q.MeanService(), true
	case "mean_response":
		return q.MeanResponse(), true
	case "mean_wait":
		return q.MeanWait(), true
	}
	if u, ok := q.(unboundedModel); ok {
		return unboundedValue(u, name)
	}
	return 0, false
}

func unboundedValue(q unboundedModel, name string) (float64, bool) {
	if n, ok := strings.CutPrefix(name, "prob_at_least_"); ok {
		count, _ := strconv.Atoi(n)
		return q.AtLeast(count), true
	}
	if p, ok := strings.CutPrefix(name, "response_p"); ok {
		percent, _ := strconv.ParseFloat(p, 64)
		return q.ResponsePercentile(percent / 100), true
	}
	if p, ok := strings.CutPrefix(name, "wait_p"); ok {
		percent, _ := strconv.ParseFloat(p, 64)
		return q.WaitPercentile(percent / 100), true
	}
	switch name {
	case "var_jobs_queue":
		return q.VarQueue(), true
	case "var_response":
		return q.VarResponse(), true
	case "sd_response":
		return math.Sqrt(q.VarResponse()), true
	case "var_wait":
		return q.VarWait(), true
	case "sd_wait":
		return math.Sqrt(q.VarWait()), true
	}
	return 0, false
}

// tolerance is that of the file for a value of a queue with this rho.
func tolerance(name string, rho float64) float64 {
	if strings.HasPrefix(name, "var_") || rho > 0.99 {
		return 1e-7
	}
	return 1e-9
}

func TestMM1IsWhatTheVectorsSay(t *testing.T) {
	for _, v := range vectors(t, "mm1") {
		t.Run(v.ID, func(t *testing.T) {
			var in struct {
				Lambda float64 `json:"arrival_rate"`
				Mu     float64 `json:"service_rate"`
			}
			v.inputs(t, &in)
			q, err := NewMM1(in.Lambda, in.Mu)
			want := v.numbers(t)
			if want["rho"] >= 1 {
				require.ErrorIs(t, err, ErrUnstable)
				require.ErrorContains(t, err, fmt.Sprintf("rho = %v", want["rho"]))
				return
			}
			require.NoError(t, err)
			more := map[string]float64{
				"rho": q.Rho, "mean_busy_period": q.MeanBusyPeriod(), "var_busy_period": q.VarBusyPeriod(),
				"mean_jobs_busy_period": q.MeanBusyJobs(), "var_jobs_busy_period": q.VarBusyJobs(),
			}
			for name, expected := range want {
				got, ok := more[name]
				if !ok {
					got, ok = value(q, name)
				}
				require.True(t, ok, name)
				near(t, expected, got, tolerance(name, q.Rho), "%s", name)
			}
		})
	}
}

func TestMMmIsWhatTheVectorsSay(t *testing.T) {
	for _, v := range vectors(t, "mmm") {
		t.Run(v.ID, func(t *testing.T) {
			var in struct {
				Lambda float64 `json:"arrival_rate"`
				Mu     float64 `json:"service_rate"`
				M      int     `json:"servers"`
			}
			v.inputs(t, &in)
			q, err := NewMMm(in.Lambda, in.Mu, in.M)
			require.NoError(t, err)
			more := map[string]float64{"rho": q.Rho, "offered_load": q.Lambda / q.Mu, "erlang_c": q.C}
			for name, expected := range v.numbers(t) {
				got, ok := more[name]
				if !ok {
					got, ok = value(q, name)
				}
				require.True(t, ok, name)
				near(t, expected, got, tolerance(name, q.Rho), "%s", name)
			}
		})
	}
}

func TestMMmKIsWhatTheVectorsSay(t *testing.T) {
	for _, v := range vectors(t, "mmmk") {
		t.Run(v.ID, func(t *testing.T) {
			var in struct {
				Lambda float64 `json:"arrival_rate"`
				Mu     float64 `json:"service_rate"`
				M      int     `json:"servers"`
				K      int     `json:"capacity"`
			}
			v.inputs(t, &in)
			q, err := NewMMmK(in.Lambda, in.Mu, in.M, in.K)
			require.NoError(t, err)
			more := map[string]float64{
				"rho": q.Rho, "offered_load": q.Lambda / q.Mu, "p_block": q.Blocked(), "throughput": q.Throughput(),
				"effective_arrival_rate": q.Throughput(), "loss_rate": q.LossRate(), "prob_all_busy": q.AllBusy(),
			}
			for name, expected := range v.numbers(t) {
				got, ok := more[name]
				if !ok {
					got, ok = value(q, name)
				}
				require.True(t, ok, name)
				near(t, expected, got, tolerance(name, q.Rho), "%s", name)
			}
		})
	}
}

func TestTheLawsAreWhatTheVectorsSay(t *testing.T) {
	for _, v := range vectors(t, "interactive_law") {
		t.Run(v.ID, func(t *testing.T) {
			var in struct {
				N, X, Z  float64
				Measured float64 `json:"R_measured"`
			}
			v.inputs(t, &in)
			check, err := CheckInteractive(in.N, in.X, in.Z, in.Measured)
			require.NoError(t, err)
			want := v.numbers(t)
			near(t, want["R"], check.Response, 1e-9, "R")
			near(t, want["error_abs"], check.Error, 1e-9, "error")
			near(t, want["error_percent"], 100*check.Relative, 1e-9, "relative error")
			near(t, want["X_from_R"], check.Throughput, 1e-9, "X from R")
		})
	}
	for _, v := range vectors(t, "operational_laws") {
		t.Run(v.ID, func(t *testing.T) {
			var in struct {
				T, Arrivals, Completions, Busy, Visits, Service float64
				System                                          float64 `json:"system_throughput"`
			}
			v.inputs(t, &in)
			demand := Demand(in.Visits, in.Service)
			got := map[string]float64{
				"arrival_rate": Throughput(in.Arrivals, in.T), "throughput": Throughput(in.Completions, in.T),
				"utilization": Utilization(in.Busy, in.T), "mean_service": ServiceTime(in.Busy, in.Completions), "demand": demand,
				"forced_flow_throughput": ForcedFlow(in.Visits, in.System), "utilization_law_from_demand": UtilizationLaw(in.System, demand),
				"littles_law_jobs_at_R_0_05": Little(Throughput(in.Completions, in.T), 0.05),
			}
			for name, expected := range v.numbers(t) {
				require.Contains(t, got, name)
				near(t, expected, got[name], 1e-9, "%s", name)
			}
		})
	}
}

// boundsVector is one side's numbers of a bounds case.
type boundsVector struct {
	XLow  float64 `json:"X_low"`
	XHigh float64 `json:"X_high"`
	RLow  float64 `json:"R_low"`
	RHigh float64 `json:"R_high"`
}

func TestTheBoundsAreWhatTheVectorsSay(t *testing.T) {
	for _, v := range vectors(t, "bounds") {
		t.Run(v.ID, func(t *testing.T) {
			var in struct {
				Demands []float64
				Think   float64 `json:"think_time"`
			}
			v.inputs(t, &in)
			var want struct {
				D, Dmax, Davg float64
				Knee          float64 `json:"N_star"`
				Results       []struct {
					N          int
					Asymptotic boundsVector
					Jain       boundsVector `json:"balanced_jain"`
					Lazowska   boundsVector `json:"balanced_lazowska_low"`
				}
			}
			require.NoError(t, json.Unmarshal(v.Expected, &want))
			d, err := NewDemands(in.Demands, in.Think)
			require.NoError(t, err)
			near(t, want.D, d.D, 1e-9, "D")
			near(t, want.Dmax, d.DMax, 1e-9, "Dmax")
			near(t, want.Davg, d.DAvg, 1e-9, "Davg")
			near(t, want.Knee, d.Knee(), 1e-9, "N*")
			same := func(what string, want boundsVector, got Bounds) {
				for _, side := range [][2]float64{{want.XLow, got.XLow}, {want.XHigh, got.XHigh}, {want.RLow, got.RLow}, {want.RHigh, got.RHigh}} {
					near(t, side[0], side[1], 1e-9, "%s", what)
				}
			}
			for _, r := range want.Results {
				asymptotic, err := d.Asymptotic(r.N)
				require.NoError(t, err)
				same("asymptotic", r.Asymptotic, asymptotic)
				balanced, err := d.Balanced(r.N)
				require.NoError(t, err)
				same("balanced", r.Jain, balanced)
				loose, err := d.BalancedLazowska(r.N)
				require.NoError(t, err)
				near(t, r.Lazowska.XLow, loose.XLow, 1e-9, "Lazowska X")
				near(t, r.Lazowska.RHigh, loose.RHigh, 1e-9, "Lazowska R")
			}
		})
	}
}

// networkVector is the input of a closed network.
type networkVector struct {
	Stations []struct {
		Name, Kind      string
		Service, Visits float64
		Servers         int
		Rates           []float64
		Demands         []float64
	}
	Think       float64   `json:"think_time"`
	Thinks      []float64 `json:"think_times"`
	Populations []int
}

func (v *networkVector) network(t *testing.T) Network {
	t.Helper()
	n := Network{Think: v.Think}
	for _, s := range v.Stations {
		kind, err := ParseKind(s.Kind)
		require.NoError(t, err)
		n.Stations = append(n.Stations, Station{Name: s.Name, Kind: kind, Visits: s.Visits, Service: s.Service, Servers: s.Servers, Rates: s.Rates})
	}
	return n
}

func TestClosedNetworksAreWhatTheVectorsSay(t *testing.T) {
	for _, v := range vectors(t, "closed_mva") {
		t.Run(v.ID, func(t *testing.T) {
			var in networkVector
			v.inputs(t, &in)
			var want struct {
				Results []struct {
					N        int
					X, R     float64
					Stations []struct {
						Name                      string
						X, U, Q, R, Residence, P0 float64
						Busy                      *float64 `json:"busy_servers"`
					}
				}
			}
			require.NoError(t, json.Unmarshal(v.Expected, &want))
			solutions, err := in.network(t).SolveAll(in.Populations)
			require.NoError(t, err)
			for i, r := range want.Results {
				got := solutions[i]
				require.Equal(t, r.N, got.N)
				near(t, r.X, got.X, 1e-9, "N=%d X", r.N)
				near(t, r.R, got.R, 1e-9, "N=%d R", r.N)
				for j, s := range r.Stations {
					g := got.Stations[j]
					require.Equal(t, s.Name, g.Name)
					for name, pair := range map[string][2]float64{
						"X": {s.X, g.X}, "U": {s.U, g.U}, "Q": {s.Q, g.Q}, "R": {s.R, g.R}, "residence": {s.Residence, g.Residence}, "p0": {s.P0, g.P0},
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

func TestWhatMakesNoSenseIsNamed(t *testing.T) {
	fails := func(want string, err error) {
		t.Helper()
		require.ErrorContains(t, err, want)
		require.False(t, errors.Is(err, ErrUnstable))
	}
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		_, err := NewMM1(bad, 1)
		fails(fmt.Sprintf("arrival rate is %v", bad), err)
		_, err = NewMMm(1, bad, 2)
		fails(fmt.Sprintf("service rate is %v", bad), err)
		_, err = NewMMmK(1, bad, 2, 3)
		fails(fmt.Sprintf("service rate is %v", bad), err)
	}
	_, err := NewMMm(1, 1, 0)
	fails("number of servers is 0: expected at least 1", err)
	_, err = NewMMmK(1, 1, 3, 2)
	fails("room, which includes the servers, is 2: expected at least 3", err)
	_, err = NewMMm(10, 1, 10)
	require.ErrorIs(t, err, ErrUnstable)
	_, err = NewDemands([]float64{1, -2}, 0)
	fails("demand of station 2 is -2", err)
	_, err = CheckInteractive(10, 5, 3, 1)
	fails("cannot think for 3", err)
	_, err = ParseKind("bus")
	fails(`"bus" is no kind of station`, err)
	for want, n := range map[string]Network{
		`station "w": the number of servers is 0`:    {Stations: []Station{{Name: "w", Kind: Multi, Visits: 1, Service: 1}}},
		`station 1 has kind 9`:                       {Stations: []Station{{Kind: 9, Visits: 1, Service: 1}}},
		`station 1: the visit ratio is -1`:           {Stations: []Station{{Visits: -1, Service: 1}}},
		`station 1: the service time is NaN`:         {Stations: []Station{{Visits: 1, Service: math.NaN()}}},
		`station "ld" has no rates`:                  {Stations: []Station{{Name: "ld", Kind: LoadDependent, Visits: 1, Service: 1}}},
		`rate 2 is 0`:                                {Stations: []Station{{Kind: LoadDependent, Visits: 1, Service: 1, Rates: []float64{1, 0}}}},
		`the demands and the think time add up to 0`: {},
		`the think time is -1`:                       {Think: -1},
	} {
		_, err := n.Solve(3)
		fails(want, err)
	}
	_, err = Network{Think: 1}.Solve(-1)
	fails("number of customers is -1", err)
}

func (v *networkVector) multiclass(t *testing.T) Multiclass {
	t.Helper()
	var m Multiclass
	for c, n := range v.Populations {
		m.Classes = append(m.Classes, Class{Customers: n, Think: v.Thinks[c]})
	}
	for _, s := range v.Stations {
		kind, err := ParseKind(s.Kind)
		require.NoError(t, err)
		m.Stations = append(m.Stations, ClassStation{Name: s.Name, Kind: kind, Demands: s.Demands, Servers: s.Servers, Rates: s.Rates})
	}
	return m
}

func TestNetworksWithClassesAreWhatTheVectorsSay(t *testing.T) {
	for _, v := range vectors(t, "multiclass_mva") {
		t.Run(v.ID, func(t *testing.T) {
			var in networkVector
			v.inputs(t, &in)
			var want struct {
				X, R     []float64
				Stations []struct {
					Name            string
					Q, U, Residence []float64
					Total           float64 `json:"U_total"`
				}
			}
			require.NoError(t, json.Unmarshal(v.Expected, &want))
			got, err := in.multiclass(t).Exact()
			require.NoError(t, err)
			for c := range want.X {
				near(t, want.X[c], got.X[c], 1e-9, "X of class %d", c)
				near(t, want.R[c], got.R[c], 1e-9, "R of class %d", c)
			}
			for i, s := range want.Stations {
				g := got.Stations[i]
				require.Equal(t, s.Name, g.Name)
				near(t, s.Total, g.UTotal, 1e-9, "U of %s", s.Name)
				for c := range s.Q {
					near(t, s.Q[c], g.Q[c], 1e-9, "Q of class %d at %s", c, s.Name)
					near(t, s.U[c], g.U[c], 1e-9, "U of class %d at %s", c, s.Name)
					near(t, s.Residence[c], g.Residence[c], 1e-9, "residence of class %d at %s", c, s.Name)
				}
			}
		})
	}
}
