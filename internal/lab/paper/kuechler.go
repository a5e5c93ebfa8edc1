package paper

import (
	"fmt"
	"math"

	"mcmw/internal/lab/factorial"
)

// kuechler checks the report of autumn 2018 with the 2^3 3 design.
func (c *checker) kuechler() error {
	c.kuechlerBaselines()
	c.kuechlerWrites()
	for _, part := range []struct {
		data, effects string
		designs       [2]string
		decimals      [2]int // of the responses that the design has
	}{
		{"1", "2", [2]string{"wo-tp-unrounded", "wo-rt-unrounded"}, [2]int{6, 6}},
		{"3", "4", [2]string{"ro-tp-printed", "ro-rt-printed"}, [2]int{0, 1}},
	} {
		for i, response := range []string{"throughput", "response time"} {
			d := c.report.design(part.designs[i])
			if err := c.kuechlerEffects(part.data, part.effects, 4*i, response, d, part.decimals[i]); err != nil {
				return err
			}
		}
	}
	c.kuechlerIntensities()
	c.kuechlerText()
	return nil
}

// kuechlerBaselines holds the summaries of section 3.3 against the interactive law at the clients, with their number from the
// caption.
func (c *checker) kuechlerBaselines() {
	for _, part := range []struct {
		name           string
		reads, writers float64
	}{{"3.3 summary one middleware", 6, 144}, {"3.3 summary two middlewares", 6, 192}} {
		c.table = part.name
		t := c.report.table(part.name)
		for _, row := range []struct {
			index   int
			clients float64
			what    string
		}{{1, part.reads, "reads: client response time [ms]"}, {3, part.writers, "writes: client response time [ms]"}} {
			v := t.row(row.index)
			c.law(row.what, v[1], row.clients/v[0]*1e3, 0.05, fmt.Sprintf("interactive law N/X with N = %.0f, Z = 0", row.clients))
		}
	}
}

// kuechlerWrites holds the summary of section 4.2 against Little's law on the queue of one of the two middlewares.
func (c *checker) kuechlerWrites() {
	c.table = "4.2 summary"
	t := c.report.table(c.table)
	throughput, wait, length := same(t.row(0)), same(t.row(3)), same(t.row(4))
	for i, workers := range t.Columns {
		c.one("length of a queue, "+workers, length[i], func(x []float64) float64 { return x[0] / 2 * x[1] / 1e3 }, throughput[i], wait[i])
	}
	client := t.row(2)
	for i, workers := range t.Columns {
		c.law("throughput of the clients, "+workers, client[i], throughput[i].value, 0.05, "flow balance with the middlewares")
	}
}

// kuechlerEffects checks half a table of data and half a table of effects; column is where the half begins in the latter.
func (c *checker) kuechlerEffects(data, effects string, column int, response string, d Design, digits int) error {
	design, inputs := d.design(digits)
	if _, err := factorial.Analyze(design, factorial.Options{Confidence: 0.9}); err != nil {
		return err
	}
	analyze := func(x []float64) *factorial.Analysis {
		a, err := factorial.Analyze(refill(design, x), factorial.Options{Confidence: 0.9})
		if err != nil {
			panic(err) // The design was analysed before; other responses change nothing.
		}
		return a
	}
	c.table = data
	t := c.report.table(data)
	var names []string
	for i := range t.Rows {
		names = append(names, fmt.Sprintf("%s, mean of run %d", response, i+1))
	}
	c.compute(names, same(t.column(9+column/2)), inputs, func(x []float64) []float64 { return analyze(x).CellMeans })

	c.table = effects
	t = c.report.table(effects)
	names = nil
	var outputs []figure
	q, ss, share := same(t.column(column)), t.column(column+1), t.column(column+2)
	unit := 1.0
	if response == "throughput" {
		unit = 1000 // printed as k
	}
	for i, row := range t.Rows {
		name := response + ", " + string(row.Label) + ": "
		interval := listOf(row.Values[column+3])
		if interval == nil {
			interval = []float64{math.NaN(), math.NaN()}
		}
		names = append(names, name+"effect", name+"sum of squares", name+"share [%]", name+"interval, low", name+"interval, high")
		outputs = append(outputs, q[i], figure{ss[i], unit}, printed(share[i], 1), figure{interval[0], q[i].unit}, figure{interval[1], q[i].unit})
		if row.Label == "Error" && response != "throughput" {
			outputs[len(outputs)-4].unit = 0.1
		}
	}
	c.compute(names, outputs, inputs, func(x []float64) []float64 {
		a := analyze(x)
		var values []float64
		for _, term := range a.Terms {
			values = append(values, term.Q, term.SS, 100*term.Variation, term.Interval.Low, term.Interval.High)
		}
		return append(values, math.NaN(), a.SSE, 100*a.VariationError, math.NaN(), math.NaN())
	})
	return nil
}

// kuechlerIntensities checks table 5: the traffic intensities, and the service rates of one of all workers.
func (c *checker) kuechlerIntensities() {
	c.table = "5"
	t := c.report.table(c.table)
	for i, model := range []struct {
		workers      float64
		one, ofMany  float64 // mu of M/M/1 and of M/M/m, as the rows' labels print them
		row, printed int
	}{{8, 6385, 399, 0, 1}, {16, 8313, 260, 2, 3}, {32, 10504, 164, 4, 5}, {64, 11848, 93, 6, 7}} {
		what := fmt.Sprintf("%.0f workers: ", model.workers)
		c.one(what+"μ of M/M/m", printed(model.ofMany, 0), func(x []float64) float64 { return x[0] / (2 * model.workers) }, printed(model.one, 0))
		lambda, rho := same(t.row(model.row)), same(t.row(2*i+1))
		for j, clients := range t.Columns {
			c.one(what+"ρ with "+clients+" clients", rho[j], func(x []float64) float64 { return x[0] / x[1] }, lambda[j], printed(model.one, 0))
		}
	}
}

// kuechlerText checks figures of the text.
func (c *checker) kuechlerText() {
	c.table = "text"
	r := c.report
	const value = 4096 // bytes
	limit := func(keys float64) func([]float64) float64 {
		return func(x []float64) float64 { return x[0] * 1e6 / 8 / (keys * value) }
	}
	c.one("2.1.1: reads that 99.6 MBit/s allow [ops/s]", r.number("max read throughput by bandwidth, 4096 B values"), limit(1), r.number("server upload bandwidth"))
	c.one("2.2.1: reads that 199 MBit/s allow [ops/s]", r.number("max throughput by bandwidth"), limit(1), r.number("two server upload bandwidth"))
	c.one("5.1.1: 6-key multi-gets that 297.8 MBit/s allow [ops/s]", r.number("limit for 6-key multi-gets"), limit(6), r.number("three server upload bandwidth"))
	c.one("5.2.1: probability that one of 3 parts is late", r.number("P(sharded request delayed) for p=0.5, 3 servers"),
		func([]float64) float64 { return 1 - math.Pow(0.5, 3) })
}

// design returns the responses as a design, and as figures with so many decimals, cell by cell.
func (d Design) design(decimals int) (factorial.Design, []figure) {
	design := factorial.Design{Factors: d.Factors}
	var inputs []figure
	for _, cell := range d.Cells {
		design.Cells = append(design.Cells, factorial.Cell{Levels: cell.Levels, Y: cell.Y})
		for _, y := range cell.Y {
			inputs = append(inputs, printed(y, decimals))
		}
	}
	return design, inputs
}

// refill returns d with the responses y, cell by cell.
func refill(d factorial.Design, y []float64) factorial.Design {
	filled := factorial.Design{Factors: d.Factors}
	for _, cell := range d.Cells {
		r := len(cell.Y)
		filled.Cells = append(filled.Cells, factorial.Cell{Levels: cell.Levels, Y: y[:r:r]})
		y = y[r:]
	}
	return filled
}
