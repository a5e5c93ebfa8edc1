package paper

import (
	"fmt"
	"math"

	"mcmw/internal/lab/factorial"
	"mcmw/internal/lab/queueing"
)

// pungas checks the report of autumn 2016 on maximum throughput, replication and writes.
func (c *checker) pungas() {
	c.table = "Figure 5"
	t := c.report.table(c.table)
	times := t.column(2)
	sum := 0.0
	for _, v := range times {
		sum += v
	}
	seen := milli * 180 / c.report.number("chosen optimum C=180 T=32").value
	c.law("sum of the stages [ms]", sum, seen-c.report.number("memaslap minus middleware response time").value, 0.2,
		"interactive law N/X with N = 180 and X = 18400 (section 1.4.1), less the 5 ms of the network (appendix B)")
}

// pavlik checks the thesis of 2016.
func (c *checker) pavlik() {
	c.table = "3.1"
	t := c.report.table(c.table)
	for i, row := range t.Rows {
		v := t.row(i)
		instances := float64(i + 1)
		c.one("connections of a host, "+string(row.Label)+" instances", printed(v[2], decimals(v[2])),
			func([]float64) float64 { return instances * v[0] * v[1] })
		c.one("percentage, "+string(row.Label)+" instances", printed(v[3], 2), func([]float64) float64 { return 100 * v[2] / 24 })
	}
	c.table = "3.2"
	t = c.report.table(c.table)
	for i := range t.Rows {
		v := t.row(i)
		c.one(fmt.Sprintf("total size [GB], %.0f bytes", v[0]), printed(v[2], 1), func([]float64) float64 { return v[0] * v[1] * 6 / 1e9 })
	}
	c.explain("total size", "a mistake of the report: its formula for the key maximum, 1066666666/size, gives a digit more; with the printed ones the data are 0.64 GB")
}

// cetin checks the draft of autumn 2018 and the tables of its repository.
func (c *checker) cetin() error {
	c.table = "5"
	t := c.report.table(c.table)
	middleware, client, wait, length := t.row(0), t.row(2), t.row(3), t.row(4)
	for i, workers := range t.Columns {
		c.law("throughput of the middlewares, "+workers, middleware[i], client[i], 0.05, "flow balance with the clients")
	}
	c.explain("throughput", "a misprint: 161.1 stands for 8161.1")
	for i, workers := range t.Columns {
		c.law("length of a queue, "+workers, length[i], client[i]/2*wait[i]/milli, 0.2, "Little's law with half the clients' throughput")
	}
	for _, d := range c.report.Designs {
		if err := c.cetinDesign(d); err != nil {
			return err
		}
	}
	return c.cetinNetworks()
}

// cetinDesign checks a table of the 2^3 3 design.
func (c *checker) cetinDesign(d Design) error {
	c.table = "2^k " + d.Name
	design, _ := d.design(0)
	a, err := factorial.Analyze(design, factorial.Options{Model: factorial.Model(d.Model)})
	if err != nil {
		return err
	}
	for i, name := range d.Published.Order {
		term, ok := a.Term(name)
		if !ok {
			return fmt.Errorf("design %s: no effect %s", d.Name, name)
		}
		value := d.Published.Params[i]
		// Printed with nine significant digits, or eight decimals; of logarithms of responses of ten digits.
		c.add(Check{What: "effect " + name, Printed: value, Recomputed: term.Q, Unit: max(1e-8, 1e-8*math.Pow(10, math.Floor(math.Log10(math.Abs(value)))))})
	}
	for _, name := range d.Published.Order[1:] {
		term, _ := a.Term(name)
		c.add(Check{What: "sum of squares " + name, Printed: d.Published.SumsOfSquares[name], Recomputed: term.SS, Unit: 1e-6})
		c.add(Check{What: "share of variation " + name, Printed: d.Published.Fractions[name], Recomputed: term.Variation, Unit: 1e-3})
	}
	c.add(Check{What: "SSE", Printed: d.Published.SSE, Recomputed: a.SSE, Unit: 1e-6})
	c.add(Check{What: "share of the errors", Printed: d.Published.FractionError, Recomputed: a.VariationError, Unit: 1e-3})
	c.add(Check{What: "SST", Printed: d.Published.SST, Recomputed: a.SST, Unit: 1e-6})
	const why = "a mistake of the report: it takes SS = 2^2 q^2 instead of 2^3 3 q^2, and SSE over all 24 runs"
	for _, what := range []string{"sum of squares", "share", "SST"} {
		c.explain(what, why)
	}
	return nil
}

// cetinNetworks checks the predictions of the networks of queues.
func (c *checker) cetinNetworks() error {
	c.table = "network of queues"
	for _, n := range c.report.Networks {
		if n.Stations == nil {
			continue
		}
		var network queueing.Network
		for _, s := range n.Stations {
			kind, err := queueing.ParseKind(s.Kind)
			if err != nil {
				return err
			}
			network.Stations = append(network.Stations, queueing.Station{Name: s.Name, Kind: kind, Visits: s.Visits, Service: s.Service, Servers: s.Servers})
		}
		solution, err := network.Solve(n.Clients)
		if err != nil {
			return err
		}
		what := fmt.Sprintf("%s, %d clients: ", n.Name, n.Clients)
		workers := solution.Stations[2]
		c.add(Check{What: what + "throughput [ops/s]", Printed: n.Published.Throughput, Recomputed: milli * solution.X, Unit: 0.1})
		c.add(Check{What: what + "response time [ms]", Printed: n.Published.Latency, Recomputed: solution.R, Unit: 0.01})
		c.add(Check{What: what + "utilization of the workers", Printed: n.Published.Utilization, Recomputed: workers.U, Unit: 0.001})
		c.add(Check{What: what + "requests at a middleware", Printed: n.Published.Queue, Recomputed: workers.Q, Unit: 0.01})
	}
	const why = "an artefact of the toolbox, whose recursion for stations of several servers loses its digits once there are more customers than servers"
	c.explain("2mw-wo-64, 192", why)
	c.explain("2mw-wo-64, 288", why)
	return nil
}
