package paper

import (
	"fmt"
	"math"

	"mcmw/internal/lab/factorial"
	"mcmw/internal/lab/queueing"
)

// ribeiro checks the report of autumn 2016 with the M/M/1, M/M/m and network models and the 2^3 4 design.
func (c *checker) ribeiro() error {
	if err := c.ribeiroMM1(); err != nil {
		return err
	}
	if err := c.ribeiroMMm(); err != nil {
		return err
	}
	if err := c.ribeiroNetwork(); err != nil {
		return err
	}
	if err := c.ribeiroDesign(); err != nil {
		return err
	}
	for _, part := range []struct {
		table string
		think float64
	}{{"12", 0.2175}, {"13", 0}} {
		c.ribeiroLaw(part.table, part.think)
	}
	return nil
}

// milli turns seconds into milliseconds.
const milli = 1e3

// ribeiroMM1 checks tables 1 to 3, the model's rows.
func (c *checker) ribeiroMM1() error {
	r := c.report
	lambda, mu := r.number("lambda"), r.number("mu")
	if _, err := queueing.NewMM1(lambda.value, mu.value); err != nil {
		return err
	}
	model := func(f func(q queueing.MM1) []float64) func([]float64) []float64 {
		return func(x []float64) []float64 {
			q, err := queueing.NewMM1(x[0], x[1])
			if err != nil {
				panic(err) // Half a request per second more makes no stable queue unstable.
			}
			return f(q)
		}
	}
	inputs := []figure{lambda, mu}
	c.table = "1"
	t := r.table(c.table)
	c.compute(t.Columns, same(t.row(0)), inputs, model(func(q queueing.MM1) []float64 {
		return []float64{milli * q.MeanResponse(), milli * q.ResponsePercentile(0.5), milli * q.ResponsePercentile(0.9), milli * math.Sqrt(q.VarResponse())}
	}))
	c.table = "2"
	t = r.table(c.table)
	c.compute(t.Columns, same(t.row(0)), inputs, model(func(q queueing.MM1) []float64 {
		return []float64{milli * q.MeanWait(), milli * q.WaitPercentile(0.5), milli * q.WaitPercentile(0.9), milli * math.Sqrt(q.VarWait())}
	}))
	c.table = "3"
	t = r.table(c.table)
	c.compute(t.Columns[:3], same(t.row(0)[:3]), inputs, model(func(q queueing.MM1) []float64 {
		return []float64{milli / q.Mu, milli / q.Mu, q.MeanService()}
	}))
	// The report computed the jobs from ρ as it prints it.
	c.compute(t.Columns[3:], same(t.row(0)[3:]), []figure{r.number("rho")}, func(x []float64) []float64 {
		return []float64{x[0] * x[0] / (1 - x[0]), x[0] / (1 - x[0])}
	})
	c.explain("sd service time", "a mistake of the report: the standard deviation of an exponential service time is its mean")
	c.law("jobs in system, real", t.row(1)[4], t.row(1)[2]+t.row(1)[3], 1e-9, "jobs in server and in queue")
	return nil
}

// ribeiroMMm checks tables 4 and 5.
func (c *checker) ribeiroMMm() error {
	rates, jobs := c.report.table("4"), c.report.table("5")
	lambda, mu, rho := same(rates.row(0)), same(rates.row(1)), same(rates.row(2))
	rows := make([][]figure, len(jobs.Rows))
	for i := range rows {
		rows[i] = same(jobs.row(i))
	}
	for j, column := range rates.Columns {
		m := 3
		if column[1] == '7' {
			m = 7
		}
		c.table = "4"
		c.one("ρ "+column, rho[j], func(x []float64) float64 { return x[0] / (float64(m) * x[1]) }, lambda[j], mu[j])
		if _, err := queueing.NewMMm(lambda[j].value, mu[j].value, m); err != nil {
			return err
		}
		c.table = "5"
		names := []string{"E[n] " + column, "E[n_q] " + column, "E[n_s] " + column}
		c.compute(names, []figure{rows[0][j], rows[1][j], rows[2][j]}, []figure{lambda[j], mu[j]}, func(x []float64) []float64 {
			q, err := queueing.NewMMm(x[0], x[1], m)
			if err != nil {
				panic(err) // Half a request per second more makes no stable queue unstable.
			}
			return []float64{q.MeanJobs(), q.MeanQueue(), q.MeanService()}
		})
		// The report seems to have gone on with a service time of three decimals, rounded or cut off.
		c.one("busy threads / m times predicted service time [ms] "+column, rows[7][j],
			func(x []float64) float64 { return x[0] / float64(m) * x[1] }, rows[5][j], figure{milli / mu[j].value, 2e-3})
		c.one("real E[n_s] "+column, rows[5][j], func(x []float64) float64 { return x[0] - x[1] }, rows[3][j], rows[4][j])
	}
	const why = "a mistake of the report: λ/(3μ) of its table 4 is 0.8066 and it went on with ρ = 0.825, which would need μ of about 6213"
	for _, table := range []string{"4", "5"} {
		c.table = table
		for _, what := range []string{"ρ (3,1,10%)", "E[n] (3,1,10%)", "E[n_q] (3,1,10%)", "E[n_s] (3,1,10%)"} {
			c.explain(what, why)
		}
	}
	return nil
}

// ribeiroNetwork checks table 7: the model's get class alone, laws of the rest.
func (c *checker) ribeiroNetwork() error {
	services, t := c.report.table("6"), c.report.table("7")
	c.table = "7"
	get, set := services.row(0), services.row(1)
	const servers, threads, gets, sets = 7, 16, 178, 20
	network := queueing.Network{Stations: []queueing.Station{
		{Name: "network", Kind: queueing.Delay, Visits: 1, Service: get[0]},
		{Name: "receiver", Kind: queueing.Queue, Visits: 1, Service: get[1]},
	}}
	for i := range servers {
		network.Stations = append(network.Stations, queueing.Station{
			Name: fmt.Sprintf("read threads %d", i+1), Kind: queueing.Multi, Visits: 1.0 / servers, Service: get[4], Servers: threads,
		})
	}
	network.Stations = append(network.Stations, queueing.Station{Name: "network back", Kind: queueing.Delay, Visits: 1, Service: get[5]})
	solution, err := network.Solve(gets)
	if err != nil {
		return err
	}
	model := func(row int) []float64 { return t.row(row) }
	const alone = "the get class alone, with visit ratios of 1/7; the report solves both classes together"
	c.law("model get time, total [ms]", model(1)[0], solution.R, 0.01, alone)
	c.law("model get time, device 5 [ms]", model(1)[5], solution.Stations[2].R, 0.01, alone)
	c.law("model get throughput [ops/s]", model(5)[0], milli*solution.X, 0.01, alone)
	c.law("utilization of device 5", t.row(9)[5], 1-solution.Stations[2].P0, 0.01, "the probability that one thread at least is busy")
	c.law("device 5, busy share of its threads", solution.Stations[2].U, model(5)[5]/milli*get[4]/threads, 0.01, "utilization law")

	time, flow := same(model(1)), same(model(5))
	c.one("get throughput of a device 5 [ops/s]", flow[5], func(x []float64) float64 { return x[0] / servers }, flow[0])
	setTime, setFlow := same(model(3)), same(model(7))
	c.one("set throughput of a device 4 [ops/s]", setFlow[4], func(x []float64) float64 { return x[0] / servers }, setFlow[0])
	c.one("customers of the get class", printed(gets, 0), func(x []float64) float64 { return x[0] * x[1] / milli }, time[0], flow[0])
	c.one("customers of the set class", printed(sets, 0), func(x []float64) float64 { return x[0] * x[1] / milli }, setTime[0], setFlow[0])
	requests := same(model(8))
	for _, device := range []int{1, 6} {
		c.one(fmt.Sprintf("requests at device %d", device), printed(requests[device].value, 3),
			func(x []float64) float64 { return (x[0]*x[1] + x[2]*x[3]) / milli }, flow[0], printed(get[device-1], 3), setFlow[0], printed(set[device-1], 3))
	}
	c.one("requests at a device 4", printed(requests[4].value, 3), func(x []float64) float64 { return x[0] * x[1] / milli }, setFlow[4], printed(set[3], 3))
	c.one("requests at a device 5", printed(requests[5].value, 3), func(x []float64) float64 { return x[0] * x[1] / milli }, flow[5], time[5])
	c.explain("requests at a device 5", "follows from 6.331 ms, which the network has at device 5, and not from the printed 6.328 ms")
	return nil
}

// ribeiroDesign checks tables 8 to 10 and the figures of section 4.3.
func (c *checker) ribeiroDesign() error {
	r := c.report
	design, inputs := r.design("table8-10").design(1)
	if _, err := factorial.Analyze(design, factorial.Options{Confidence: 0.95}); err != nil {
		return err
	}
	analyze := func(x []float64) *factorial.Analysis {
		a, err := factorial.Analyze(refill(design, x), factorial.Options{Confidence: 0.95})
		if err != nil {
			panic(err) // The design was analysed before; other responses change nothing.
		}
		return a
	}
	c.table = "8"
	t := r.table(c.table)
	var names []string
	for i := range t.Rows {
		names = append(names, fmt.Sprintf("mean of row %d", i+1))
		row := t.row(i)
		c.one(fmt.Sprintf("sign AB of row %d", i+1), printed(row[3], 0), func([]float64) float64 { return row[0] * row[1] })
	}
	c.explain("sign AB", "a slip in the printed table: A and B have opposite signs there; the printed effects use the right sign")
	c.compute(names, same(t.column(8)), inputs, func(x []float64) []float64 { return analyze(x).CellMeans })

	c.table = "8 last row"
	t = r.table(c.table)
	names = nil
	for _, effect := range t.Columns {
		names = append(names, "effect "+effect)
	}
	c.compute(names, same(t.row(0)), inputs, func(x []float64) []float64 {
		a := analyze(x)
		values := make([]float64, len(a.Terms))
		for i, term := range a.Terms {
			values[i] = term.Q
		}
		return values
	})

	c.table = "9"
	t = r.table(c.table)
	for repetition := range t.Rows {
		names = nil
		for _, column := range t.Columns {
			names = append(names, fmt.Sprintf("error of repetition %d at %s", repetition+1, column))
		}
		c.compute(names, same(t.row(repetition)), inputs, func(x []float64) []float64 {
			var values []float64
			for _, residual := range analyze(x).Residuals {
				if residual.Repetition == repetition {
					values = append(values, residual.Error)
				}
			}
			return values
		})
	}

	c.table = "10"
	t = r.table(c.table)
	names = nil
	var outputs []figure
	for j, column := range t.Columns {
		names = append(names, "sum of squares "+column)
		value := t.row(0)[j]
		// Printed with six significant digits, that of the errors with all.
		unit := math.Pow(10, math.Floor(math.Log10(value))-5)
		if column == "Errors" {
			unit = 1
		}
		outputs = append(outputs, figure{value, unit})
	}
	for _, column := range t.Columns {
		names = append(names, "share "+column+" [%]")
	}
	outputs = append(outputs, same(t.row(1))...)
	c.compute(names, outputs, inputs, func(x []float64) []float64 {
		a := analyze(x)
		squares, shares := []float64{a.SST, a.SSE}, []float64{100, 100 * a.VariationError}
		for _, term := range a.Terms[1:] {
			squares, shares = append(squares, term.SS), append(shares, 100*term.Variation)
		}
		return append(squares, shares...)
	})

	c.table = "section 4.3"
	c.compute([]string{"SSE", "s_e", "s_q", "t[0.975;24]", "half width of the intervals"},
		[]figure{r.number("SSE"), r.number("s_e"), r.number("s_q"), r.number("t[0.975;24]"), r.number("half width 95%")}, inputs,
		func(x []float64) []float64 {
			a := analyze(x)
			return []float64{a.SSE, a.SE, a.SQ, a.T, a.HalfWidth}
		})
	return nil
}

// ribeiroLaw checks tables 12 and 13: the interactive law with 198 clients.
func (c *checker) ribeiroLaw(name string, think float64) {
	c.table = name
	t := c.report.table(name)
	z := printed(think, decimals(think))
	if think == 0 {
		z.unit = 0
	}
	throughput, real := same(t.column(0)), same(t.column(1))
	predicted, relative := same(t.column(2)), same(t.column(3))
	for i, row := range t.Rows {
		c.compute([]string{"predicted response time [ms] " + string(row.Label), "relative error [%] " + string(row.Label)},
			[]figure{predicted[i], relative[i]}, []figure{throughput[i], real[i], z}, func(x []float64) []float64 {
				r := milli*198/x[0] - x[2]
				return []float64{r, 100 * (x[1] - r) / x[1]}
			})
	}
}
