package recomputed

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"mcmw/lab/factorial"
	"mcmw/lab/queueing"
)

// Verdict is the result of comparing a printed number with its recomputation.
type Verdict string

// The verdicts.
const (
	// Agrees: the recomputed number, rounded, is the printed one.
	Agrees Verdict = "agrees"
	// Rounding: the rounding of the printed inputs explains the difference.
	Rounding Verdict = "agrees within the rounding of its inputs"
	// CutOff: the difference is less than one unit of the last digit, as if the number was truncated instead of
	// rounded.
	CutOff Verdict = "cut off, not rounded"
	// Holds: a law between measured numbers holds, within a tolerance.
	Holds Verdict = "holds"
	// Differs: none of these.
	Differs Verdict = "differs"
)

// Check is a printed number of a report with its recomputation, in the report's unit.
type Check struct {
	Table, What         string
	Printed, Recomputed float64
	Verdict             Verdict
	Why                 string // they differ
}

// number is a printed number and the place value of its last digit.
type number struct{ value, unit float64 }

// same returns numbers that are printed to the same number of decimals.
func same(values []float64) []number {
	unit := math.Pow10(-decimals(values...))
	numbers := make([]number, len(values))
	for i, v := range values {
		numbers[i] = number{v, unit}
	}
	return numbers
}

// place returns the place value of a number's digit, counted from 1.
func place(v float64, digit int) float64 {
	return math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-float64(digit-1))
}

// prints checks a printed number that follows from printed inputs, whose rounding it allows for: each is moved to both
// ends of the interval that rounds to it (a first-order bound). NaN stands for nothing printed, and is not checked.
func (r *Report) prints(table, what, why string, printed number, inputs []number, is func(x []float64) float64) {
	if math.IsNaN(printed.value) {
		return
	}
	x := make([]float64, len(inputs))
	for i, input := range inputs {
		x[i] = input.value
	}
	k := Check{Table: table, What: what, Printed: printed.value, Recomputed: is(x), Verdict: Differs}
	spread := 0.0
	for i, input := range inputs {
		for _, units := range []float64{-0.5, 0.5} {
			x[i] = input.value + units*input.unit
			spread += math.Abs(is(x)-k.Recomputed) / 2
		}
		x[i] = input.value
	}
	const slack = 1 + 1e-6
	switch difference := math.Abs(k.Printed - k.Recomputed); {
	case difference <= printed.unit/2*slack:
		k.Verdict = Agrees
	case difference <= (printed.unit/2+spread)*slack:
		k.Verdict = Rounding
	case difference < printed.unit && math.Abs(k.Printed) < math.Abs(k.Recomputed):
		k.Verdict = CutOff
	default:
		k.Why = why
	}
	r.checks = append(r.checks, k)
}

// obeys checks that a law between measured numbers holds, to a relative difference.
func (r *Report) obeys(table, what, why string, measured, law, within float64) {
	k := Check{Table: table, What: what, Printed: measured, Recomputed: law, Verdict: Holds}
	if !(math.Abs((law-measured)/measured) <= within) {
		k.Verdict, k.Why = Differs, why
	}
	r.checks = append(r.checks, k)
}

// checksOfReports has the functions that make the checks, by report.
var checksOfReports = map[string]func(*Report){
	"kuechler": kuechler, "pungas": pungas, "pavlik": pavlik,
	"ribeiro": ribeiro, "cetin": cetin,
}

func kuechler(r *Report) {
	for _, c := range []struct {
		table, what string
		row         int
		n           float64
	}{
		{"3.3 summary one middleware", "reads", 1, 6},
		{"3.3 summary one middleware", "writes", 3, 144},
		{"3.3 summary two middlewares", "reads", 1, 6},
		{"3.3 summary two middlewares", "writes", 3, 192},
	} {
		row := r.row(c.table, c.row)
		r.obeys(c.table, c.what+": client response time [ms]", "", row[1].value, 1e3*c.n/row[0].value, 0.05)
	}
	const summary = "4.2 summary" // the queue is that of one of the two middlewares
	for i, column := range r.find(summary).Columns {
		x, wait := r.row(summary, 0)[i], r.row(summary, 3)[i]
		r.prints(summary, "length of a queue, "+column, "", r.row(summary, 4)[i], []number{x, wait},
			func(x []float64) float64 { return x[0] / 2 * x[1] / 1e3 })
		r.obeys(summary, "throughput of the clients, "+column, "", r.row(summary, 2)[i].value, x.value, 0.05)
	}
	for _, c := range []struct {
		data, effects, response, design string
		rounding                        float64
		q, means                        int // columns
		squares, errors                 float64
	}{
		// sums of squares of the throughput are printed in thousands
		{"1", "2", "throughput", "wo-tp-unrounded", 1e-6, 0, 9, 1000, 1000},
		{"1", "2", "response time", "wo-rt-unrounded", 1e-6, 4, 11, 1, 0.1},
		{"3", "4", "throughput", "ro-tp-printed", 1, 0, 9, 1000, 1000},
		{"3", "4", "response time", "ro-rt-printed", 0.1, 4, 11, 1, 0.1},
	} {
		d := r.design(c.design)
		y := d.responses(c.rounding)
		check := func(table, what string, printed number, of func(*factorial.Analysis) float64) {
			r.prints(table, c.response+", "+what, "", printed, y, func(y []float64) float64 {
				return of(d.analysis(y, 0.9))
			})
		}
		for i := range r.find(c.data).Rows {
			check(c.data, fmt.Sprintf("mean of run %d", i+1), r.column(c.data, c.means)[i],
				func(a *factorial.Analysis) float64 { return a.CellMeans[i] })
		}
		column := func(j int) []number { return r.column(c.effects, j) }
		for i, row := range r.find(c.effects).Rows {
			name, squares := string(row.Label), c.squares
			ss, share := func(a *factorial.Analysis) float64 { return a.Terms[i].SS },
				func(a *factorial.Analysis) float64 { return 100 * a.Terms[i].Variation }
			if name == "Error" {
				squares = c.errors
				ss, share = func(a *factorial.Analysis) float64 { return a.SSE }, func(a *factorial.Analysis) float64 {
					return 100 * a.VariationError
				}
			}
			ends := intervalOf(&row.Values[c.q+3])
			check(c.effects, name+": effect", column(c.q)[i], func(a *factorial.Analysis) float64 {
				return a.Terms[i].Q
			})
			check(c.effects, name+": sum of squares", number{column(c.q + 1)[i].value, squares}, ss)
			check(c.effects, name+": share [%]", number{column(c.q + 2)[i].value, 0.1}, share)
			check(c.effects, name+": interval, low", number{ends[0], column(c.q)[i].unit},
				func(a *factorial.Analysis) float64 { return a.Terms[i].Interval.Low })
			check(c.effects, name+": interval, high", number{ends[1], column(c.q)[i].unit},
				func(a *factorial.Analysis) float64 { return a.Terms[i].Interval.High })
		}
	}
	// as printed in the rows' labels
	for n, mu := range []struct{ single, many float64 }{{6385, 399}, {8313, 260}, {10504, 164}, {11848, 93}} {
		workers := 8 << n
		r.prints("5", fmt.Sprintf("%d workers: μ of M/M/m", workers), "", number{mu.many, 1}, []number{{mu.single, 1}},
			func(x []float64) float64 { return x[0] / float64(2*workers) })
		for i, clients := range r.find("5").Columns {
			r.prints("5", fmt.Sprintf("%d workers: ρ with %s clients", workers, clients), "", r.row("5", 2*n+1)[i],
				[]number{r.row("5", 2*n)[i], {mu.single, 1}}, quotient)
		}
	}
	for _, c := range []struct {
		what, printed, upload string
		keys                  float64
	}{
		{
			"2.1.1: reads that 99.6 MBit/s allow [ops/s]", "max read throughput by bandwidth, 4096 B values",
			"server upload bandwidth", 1,
		},
		{"2.2.1: reads that 199 MBit/s allow [ops/s]", "max throughput by bandwidth", "two server upload bandwidth", 1},
		{
			"5.1.1: 6-key multi-gets that 297.8 MBit/s allow [ops/s]", "limit for 6-key multi-gets",
			"three server upload bandwidth", 6,
		},
	} {
		r.prints("text", c.what, "", r.text(c.printed), []number{r.text(c.upload)}, func(x []float64) float64 {
			return x[0] * 1e6 / 8 / (4096 * c.keys)
		})
	}
	r.prints("text", "5.2.1: probability that one of 3 parts is late", "",
		r.text("P(sharded request delayed) for p=0.5, 3 servers"), nil,
		func([]float64) float64 { return 1 - 0.5*0.5*0.5 })
}

func quotient(x []float64) float64 { return x[0] / x[1] }

func pungas(r *Report) {
	sum := 0.0
	for _, stage := range r.column("Figure 5", 2) {
		sum += stage.value
	}
	// N/X with N = 180 and X = 18400 (section 1.4.1), less the 5 ms of the network (appendix B)
	r.obeys("Figure 5", "sum of the stages [ms]", "", sum,
		1e3*180/r.text("chosen optimum C=180 T=32").value-r.text("memaslap minus middleware response time").value, 0.2)
}

func pavlik(r *Report) {
	for i, row := range r.find("3.1").Rows {
		of := r.row("3.1", i)
		r.prints("3.1", fmt.Sprintf("connections of a host, %s instances", row.Label), "",
			same([]float64{of[2].value})[0], nil,
			func([]float64) float64 { return float64(i+1) * of[0].value * of[1].value })
		r.prints("3.1", fmt.Sprintf("percentage, %s instances", row.Label), "", number{of[3].value, 0.01}, nil,
			func([]float64) float64 { return 100 * of[2].value / 24 })
	}
	for i := range r.find("3.2").Rows {
		of := r.row("3.2", i)
		r.prints("3.2", fmt.Sprintf("total size [GB], %v bytes", of[0].value),
			"a mistake of the report: its formula for the key maximum, 1066666666/size, gives a digit more; with the "+
				"printed ones the data are 0.64 GB",
			number{of[2].value, 0.1}, nil, func([]float64) float64 { return of[0].value * of[1].value * 6 / 1e9 })
	}
}

func ribeiro(r *Report) {
	ribeiroQueues(r)
	ribeiroNetwork(r)
	ribeiroDesign(r)
	think := number{0.2175, 1e-4}
	for i, row := range r.find("12").Rows {
		x, response := r.column("12", 0)[i], r.column("12", 1)[i]
		r.prints("12", fmt.Sprintf("predicted response time [ms] %s", row.Label), "", r.column("12", 2)[i],
			[]number{x, think},
			func(x []float64) float64 { return 1e3*198/x[0] - x[1] })
		r.prints("12", fmt.Sprintf("relative error [%%] %s", row.Label), "", r.column("12", 3)[i],
			[]number{x, response, think},
			func(x []float64) float64 { return 100 * (1 - (1e3*198/x[0]-x[2])/x[1]) })
	}
	for i, row := range r.find("13").Rows {
		x, response := r.column("13", 0)[i], r.column("13", 1)[i]
		r.prints("13", fmt.Sprintf("predicted response time [ms] %s", row.Label), "", r.column("13", 2)[i], []number{x},
			func(x []float64) float64 { return 1e3 * 198 / x[0] })
		r.prints("13", fmt.Sprintf("relative error [%%] %s", row.Label), "", r.column("13", 3)[i],
			[]number{x, response},
			func(x []float64) float64 { return 100 * (1 - 1e3*198/x[0]/x[1]) })
	}
}

// ribeiroQueues checks the queues with one server and with several. The first rows of tables 1 to 3 are the model's.
func ribeiroQueues(r *Report) {
	rates := []number{r.text("lambda"), r.text("mu")}
	for i, column := range r.find("1").Columns {
		r.prints("1", column, "", r.row("1", 0)[i], rates, func(x []float64) float64 {
			q := mmm(x, 1)
			r := q.MeanResponse() // exponential: its standard deviation is the mean
			return 1e3 * []float64{r, -r * math.Log(0.5), -r * math.Log(0.1), r}[i]
		})
	}
	for i, column := range r.find("2").Columns {
		r.prints("2", column, "", r.row("2", 0)[i], rates, func(x []float64) float64 {
			q := mmm(x, 1) // Jain, box 31.1
			r := q.MeanResponse()
			return 1e3 * []float64{
				q.MeanWait(), r * math.Log(q.Rho/0.5), r * math.Log(q.Rho/0.1),
				r * math.Sqrt(q.Rho*(2-q.Rho)),
			}[i]
		})
	}
	service := r.values("3", 0)
	for i, column := range r.find("3").Columns {
		if i < 3 {
			r.prints("3", column,
				"a mistake of the report: the standard deviation of an exponential service time is its mean",
				same(service[:3])[i], rates,
				func(x []float64) float64 { return []float64{1e3 / x[1], 1e3 / x[1], quotient(x)}[i] })
			continue
		}
		// The report computed the jobs from the printed ρ.
		r.prints("3", column, "", same(service[3:])[i-3], []number{r.text("rho")}, func(x []float64) float64 {
			return []float64{x[0] * x[0] / (1 - x[0]), x[0] / (1 - x[0])}[i-3]
		})
	}
	real := r.values("3", 1)
	r.obeys("3", "jobs in system, real", "", real[4], real[2]+real[3], 1e-9)

	const slip = "a mistake of the report: λ/(3μ) of its table 4 is 0.8066 and it went on with ρ = 0.825, which " +
		"would need μ of about 6213"
	servers := func(column string) int { m, _ := strconv.Atoi(column[1:2]); return m } // of (3,1,1%)
	for i, column := range r.find("4").Columns {
		m := servers(column)
		r.prints("4", "ρ "+column, slip, r.row("4", 2)[i], []number{r.row("4", 0)[i], r.row("4", 1)[i]},
			func(x []float64) float64 { return x[0] / (float64(m) * x[1]) })
	}
	for i, column := range r.find("5").Columns {
		m := servers(column)
		for j, name := range []string{"E[n]", "E[n_q]", "E[n_s]"} {
			r.prints("5", name+" "+column, slip, r.row("5", j)[i], []number{r.row("4", 0)[i], r.row("4", 1)[i]},
				func(x []float64) float64 {
					waiting, served := mmm(x, m).MeanQueue(), quotient(x)
					return []float64{waiting + served, waiting, served}[j]
				})
		}
		// The report seems to have used a service time of three decimals, rounded or truncated.
		r.prints("5", "busy threads / m times predicted service time [ms] "+column, "", r.row("5", 7)[i],
			[]number{r.row("5", 5)[i], {1e3 / r.row("4", 1)[i].value, 2e-3}}, func(x []float64) float64 {
				return x[0] / float64(m) * x[1]
			})
		r.prints("5", "real E[n_s] "+column, "", r.row("5", 5)[i], []number{r.row("5", 3)[i], r.row("5", 4)[i]},
			func(x []float64) float64 { return x[0] - x[1] })
	}
}

// mmm returns the queue with the arrival rate and the service rate in x.
func mmm(x []float64, m int) queueing.MMm {
	q, err := queueing.NewMMm(x[0], x[1], m)
	if err != nil {
		panic(err)
	}
	return q
}

// ribeiroNetwork checks the network of table 7. The get class is solved alone, with visit ratios of 1/7; the report
// solves both classes together.
func ribeiroNetwork(r *Report) {
	const table = "7"
	solution := solve(r.Networks[0])
	row := func(i, j int) number { return r.row(table, i)[j] }
	r.obeys(table, "model get time, total [ms]", "", row(1, 0).value, solution.R, 0.01)
	r.obeys(table, "model get time, device 5 [ms]", "", row(1, 5).value, solution.Stations[2].R, 0.01)
	r.obeys(table, "model get throughput [ops/s]", "", row(5, 0).value, 1e3*solution.X, 0.01)
	// the probability that one thread at least is busy
	r.obeys(table, "utilization of device 5", "", row(9, 5).value, 1-solution.Stations[2].Marginal[0], 0.01)
	r.obeys(table, "device 5, busy share of its threads", "", solution.Stations[2].U,
		row(5, 5).value/1e3*r.row("6", 0)[4].value/16, 0.01)
	for _, c := range []struct {
		what       string
		device, at int
	}{{"get", 5, 5}, {"set", 4, 7}} {
		r.prints(table, fmt.Sprintf("%s throughput of a device %d [ops/s]", c.what, c.device), "", row(c.at, c.device),
			[]number{row(c.at, 0)},
			func(x []float64) float64 { return x[0] / 7 })
	}
	product := func(x []float64) float64 { return x[0] * x[1] / 1e3 }
	for _, c := range []struct {
		what      string
		customers float64
		at        int
	}{{"get", 178, 1}, {"set", 20, 3}} {
		r.prints(table, "customers of the "+c.what+" class", "", number{c.customers, 1},
			[]number{row(c.at, 0), row(c.at+4, 0)}, product)
	}
	demand := func(class, device int) number { return number{r.row("6", class)[device-1].value, 1e-3} }
	for _, device := range []int{1, 6} {
		r.prints(table, fmt.Sprintf("requests at device %d", device), "", number{row(8, device).value, 1e-3},
			[]number{row(5, 0), demand(0, device), row(7, 0), demand(1, device)},
			func(x []float64) float64 { return (x[0]*x[1] + x[2]*x[3]) / 1e3 })
	}
	r.prints(table, "requests at a device 4", "", number{row(8, 4).value, 1e-3}, []number{row(7, 4), demand(1, 4)},
		product)
	r.prints(table, "requests at a device 5",
		"follows from 6.331 ms, which the network has at device 5, and not from the printed 6.328 ms",
		number{row(8, 5).value, 1e-3}, []number{row(5, 5), row(1, 5)}, product)
}

func ribeiroDesign(r *Report) {
	for i := range r.find("8").Rows {
		of := r.values("8", i)
		r.prints("8", fmt.Sprintf("sign AB of row %d", i+1),
			"a slip in the printed table: A and B have opposite signs there; the printed effects use the right sign",
			number{of[3], 1}, nil, func([]float64) float64 { return of[0] * of[1] })
	}
	d := r.design("table8-10")
	y := d.responses(0.1)
	check := func(table, what string, printed number, of func(*factorial.Analysis) float64) {
		r.prints(table, what, "", printed, y, func(y []float64) float64 { return of(d.analysis(y, 0.95)) })
	}
	for i := range r.find("8").Rows {
		check("8", fmt.Sprintf("mean of row %d", i+1), r.column("8", 8)[i], func(a *factorial.Analysis) float64 {
			return a.CellMeans[i]
		})
	}
	for i, column := range r.find("8 last row").Columns {
		check("8 last row", "effect "+column, r.row("8 last row", 0)[i], func(a *factorial.Analysis) float64 {
			return a.Terms[i].Q
		})
	}
	for repetition := range 4 {
		for i, column := range r.find("9").Columns {
			check("9", fmt.Sprintf("error of repetition %d at %s", repetition+1, column), r.row("9", repetition)[i],
				func(a *factorial.Analysis) float64 {
					of := slices.DeleteFunc(slices.Clone(a.Residuals), func(e factorial.Residual) bool {
						return e.Repetition != repetition
					})
					return of[i].Error
				})
		}
	}
	for i, column := range r.find("10").Columns { // printed with six significant digits; the errors' with all
		squares := r.row("10", 0)[i].value
		unit := place(squares, 6)
		ss, share := func(a *factorial.Analysis) float64 { return a.SST }, func(*factorial.Analysis) float64 {
			return 100
		}
		switch column {
		case "Total":
		case "Errors":
			unit = 1
			ss, share = func(a *factorial.Analysis) float64 { return a.SSE }, func(a *factorial.Analysis) float64 {
				return 100 * a.VariationError
			}
		default:
			ss, share = func(a *factorial.Analysis) float64 { return a.Terms[i-1].SS },
				func(a *factorial.Analysis) float64 { return 100 * a.Terms[i-1].Variation }
		}
		if !math.IsNaN(squares) {
			check("10", "sum of squares "+column, number{squares, unit}, ss)
		}
		if !math.IsNaN(r.row("10", 1)[i].value) {
			check("10", fmt.Sprintf("share %s [%%]", column), r.row("10", 1)[i], share)
		}
	}
	for name, of := range map[string]func(*factorial.Analysis) float64{
		"SSE": func(a *factorial.Analysis) float64 { return a.SSE }, "s_e": func(a *factorial.Analysis) float64 {
			return a.SE
		},
		"s_q": func(a *factorial.Analysis) float64 { return a.SQ }, "t[0.975;24]": func(a *factorial.Analysis) float64 {
			return a.T
		},
		"half width 95%": func(a *factorial.Analysis) float64 { return a.HalfWidth },
	} {
		check("section 4.3", name, r.text(name), of)
	}
}

func cetin(r *Report) {
	for i, column := range r.find("5").Columns {
		row := func(j int) float64 { return r.row("5", j)[i].value }
		// flow balance
		r.obeys("5", "throughput of the middlewares, "+column, "a misprint: 161.1 stands for 8161.1", row(0),
			row(2), 0.05)
		// Little's law
		r.obeys("5", "length of a queue, "+column, "", row(4), row(2)/2*row(3)/1e3, 0.2)
	}
	const squares = "a mistake of the report: it takes SS = 2^2 q^2 instead of 2^3 3 q^2, and SSE over all 24 runs"
	for _, design := range []string{"wo-tpt-add", "wo-tpt-mult", "wo-lat-add", "wo-lat-mult"} {
		d, table := r.design(design), "2^k "+design
		a, p := d.analysis(nil, 0), d.Published
		check := func(what, why string, printed, unit, is float64) {
			r.prints(table, what, why, number{printed, unit}, nil, func([]float64) float64 { return is })
		}
		// printed with nine significant digits, or eight decimals; computed from logarithms of responses with ten
		// digits
		for i, name := range p.Order {
			check("effect "+name, "", p.Effects[i], max(1e-8, place(p.Effects[i], 9)), term(a, name).Q)
		}
		for _, name := range p.Order[1:] {
			check("sum of squares "+name, squares, p.SumsOfSquares[name], 1e-6, term(a, name).SS)
			check("share of variation "+name, squares, p.Shares[name], 1e-3, term(a, name).Variation)
		}
		check("SSE", "", p.SSE, 1e-6, a.SSE)
		check("share of the errors", squares, p.ShareOfErrors, 1e-3, a.VariationError)
		check("SST", squares, p.SST, 1e-6, a.SST)
	}
	for _, n := range r.Networks {
		if len(n.Stations) == 0 {
			continue
		}
		s, p := solve(n), n.Published
		for _, c := range []struct {
			what              string
			printed, unit, is float64
		}{
			{"throughput [ops/s]", p.Throughput, 0.1, 1e3 * s.X},
			{"response time [ms]", p.ResponseTime, 0.01, s.R},
			{"utilization of the workers", p.Utilization, 1e-3, s.Stations[2].U},
			{"requests at a middleware", p.Jobs, 0.01, s.Stations[2].Q},
		} {
			r.prints("network of queues", fmt.Sprintf("%s, %d clients: %s", n.Name, n.Clients, c.what),
				"an artefact of the toolbox, whose recursion for stations of several servers loses its digits once "+
					"there are more customers than servers",
				number{c.printed, c.unit}, nil, func([]float64) float64 { return c.is })
		}
	}
}

func term(a *factorial.Analysis, name string) factorial.Term {
	t, ok := a.Term(name)
	if !ok {
		panic("no effect " + name)
	}
	return t
}

func solve(n Network) queueing.Solution {
	s, err := queueing.Network{Stations: n.Stations}.Solve(n.Clients)
	if err != nil {
		panic(err)
	}
	return s
}

// decimals returns the largest number of decimals of the values.
func decimals(values ...float64) int {
	most := 0
	for _, v := range values {
		if _, fraction, ok := strings.Cut(strconv.FormatFloat(v, 'f', -1, 64), "."); ok {
			most = max(most, len(fraction))
		}
	}
	return most
}
