package report_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/lab/queueing"
	"mcmw/lab/record"
)

// synthetic describes the record of a closed network: a delay of one round trip, then a queue for workers, whose
// service time grows with the number of busy workers; the bandwidth limits the throughput.
type synthetic struct {
	clients, workers    []int
	ratios              []string
	repetitions, second int // repetitions, and the seconds of each
	warn                bool
}

const (
	trip      = 1.2e-3  // s
	bandwidth = 12.45e6 // B/s
	valueSize = 4096    // bytes
)

// state is the steady state of the network.
type state struct{ throughput, response, queue, server, queueLength float64 }

// solve solves the network; rate(j) is the rate of the workers with j requests.
func solve(t testing.TB, clients int, think float64, workers int, rate func(j int) float64) state {
	pool := queueing.Station{Kind: queueing.LoadDependent, Visits: 1, Service: 1}
	for j := range workers {
		pool.Rates = append(pool.Rates, rate(j+1))
	}
	solution, err := queueing.Network{Think: think, Stations: []queueing.Station{pool}}.Solve(clients)
	require.NoError(t, err)
	s := state{throughput: solution.X, response: solution.R}
	for j, p := range solution.Stations[0].Marginal {
		s.queueLength += p * float64(max(0, j-workers))
	}
	s.queue = s.queueLength / s.throughput
	s.server = s.response - s.queue
	return s
}

// write returns the record.
func (s synthetic) write(t testing.TB) *record.Record {
	r := newRecord(t, record.Manifest{
		Name: "synthetic", Title: "A synthetic sweep", Created: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		Command:    []string{"mcmwlab", "run", "experiments/synthetic sweep.yaml"},
		Experiment: "name: synthetic\nfactors: {clients: [6, 24]}\nquality: {below: 15ms}\n", Testbed: "computed",
		Versions: map[string]string{"memcached": "1.6.38", "mcmw": "test"},
		Host:     record.Host{CPU: "none", Cores: 8, Memory: 16 << 30, Kernel: "Linux 6.1"},
		Path: []record.Value{
			{Source: record.SourcePath, Metric: "round_trip_time_mean", Value: trip},
			{Source: record.SourcePath, Metric: "bandwidth", Value: bandwidth},
		},
	})
	random := rand.New(rand.NewPCG(1, 2))
	point := 0
	for _, ratio := range s.ratios {
		for _, workers := range s.workers {
			for _, clients := range s.clients {
				for repetition := range s.repetitions {
					run := s.run(t, random, ratio, workers, clients, repetition)
					run.Point, run.Repetition = point, repetition
					if s.warn && point == 1 {
						run.Warnings = []record.Warning{{
							Code:    "interactive_law",
							Message: "the response time differs by 12 % from N/X - Z",
						}}
					}
					require.NoError(t, r.Add(run))
				}
				point++
			}
		}
	}
	return r
}

func (s synthetic) run(t testing.TB, random *rand.Rand, ratio string, workers, clients, repetition int) record.Run {
	noisy := func(v, by float64) float64 { return v * (1 + by*random.NormFloat64()) }
	reads := ratio == "0:1"
	rate := func(j int) float64 {
		j = min(j, workers)
		x := float64(j) / (0.9e-3 + 0.07e-3*float64(j))
		if reads {
			x = math.Min(x, bandwidth/(valueSize+40))
		}
		return x
	}
	st := solve(t, clients, trip, workers, rate)
	f := noisy(1, 0.012)
	x, seconds := st.throughput*f, float64(s.second)
	response := float64(clients)/x - trip
	net, worker, reply := 0.02e-3, 0.05e-3, 0.01e-3
	server := st.server/f - net - worker - reply
	queue := max(0, response-server-net-worker-reply)
	read, written := 8.0, 400.0
	command := "set"
	if reads {
		read, written, command = valueSize+40, 40, "get"
	}
	run := record.Run{
		State: record.Complete, Seconds: seconds, Started: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		Factors: map[string]string{
			"connections": fmt.Sprint(clients), "clients": fmt.Sprint(clients), "workers": fmt.Sprint(workers),
			"ratio": ratio, "servers": "2", "middlewares": "1", "pipeline": "1",
			"value_size": fmt.Sprint(valueSize), "server_threads": "1", "think_time": "0s", "rate": "0",
		},
	}
	add := func(source, metric string, v float64) {
		run.Results = append(run.Results, record.Value{Source: source, Metric: metric, Value: v})
	}
	client := float64(clients) / noisy(x, 0.002)
	add("client", "throughput", x)
	add("client", "requests", x*seconds)
	add("client", "response_time_mean", client)
	add("client", "response_time_p99", 2.5*client)
	add("client", "bytes_read", read*x*seconds)
	add("client", "bytes_written", written*x*seconds)
	add("client", "errors", 0)
	if reads {
		add("client", "hits", x*seconds)
		add("client", "misses", 0)
	}
	add("client", "saturated", 0)
	add("middleware", "throughput", noisy(x, 0.003))
	add("middleware", "response_time_mean", response)
	add("middleware", "cpu_per_request", 10e-6)
	for metric, v := range map[string]float64{
		"stage_net_mean": net, "stage_queue_mean": queue, "stage_worker_mean": worker, "stage_server_mean": server,
		"stage_reply_mean":  reply,
		"queue_length_mean": x * queue, "busy_workers_mean": min(float64(workers), x*(response-queue-net)),
	} {
		add("middleware", metric, v)
	}
	for i, name := range []string{"server:one", "server:two"} {
		add(name, "service_time_mean", server*(0.8+0.15*float64(i)))
		add(name, "seconds_cpu", seconds*x/14000*(0.8+0.1*float64(i)))
		add(name, "throughput", x)
	}
	for second := range s.second {
		at := float64(second)
		run.Windows = append(
			run.Windows,
			record.Window{Source: "client", Start: at, Seconds: 1, Metric: "throughput", Value: noisy(x, 0.03)},
			record.Window{
				Source: "client", Start: at, Seconds: 1, Metric: "response_time_mean",
				Value: noisy(client, 0.03),
			},
		)
		busy := min(0.85, 0.1+x/20000)
		for metric, part := range map[string]float64{
			"cpu_user": 0.3, "cpu_system": 0.5, "cpu_softirq": 0.17,
			"cpu_irq": 0.02, "cpu_iowait": 0.01,
		} {
			run.HostSamples = append(run.HostSamples,
				record.Window{Source: "host", Start: at, Seconds: 1, Metric: metric, Value: busy * part})
		}
		run.HostSamples = append(run.HostSamples,
			record.Window{Source: "host", Start: at, Seconds: 1, Metric: "cpu_idle", Value: 1 - busy})
	}
	run.Histograms = slices.Concat(gamma("client", command, client, x*seconds, random),
		gamma("middleware", command, response, x*seconds, random))
	return run
}

// gamma returns the bins of an Erlang distribution of order 4; they are 100 us wide.
func gamma(source, command string, mean, requests float64, random *rand.Rand) (bins []record.Bin) {
	const width, order = 1e-4, 4.0
	for lower := 0.0; lower < 5*mean; lower += width {
		z := (lower + width/2) * order / mean
		density := z * z * z * math.Exp(-z) / 6 * order / mean
		count := requests * density * width
		if n := count + math.Sqrt(count)*random.NormFloat64(); n >= 1 {
			bins = append(bins, record.Bin{
				Source: source, Metric: "response_time", Command: command, Lower: lower,
				Upper: lower + width, Count: uint64(n),
			})
		}
	}
	return bins
}
