package foreign

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"

	"mcmw/lab/memtier"
	"mcmw/lab/sample"
)

// The experiments of the 2018 report, whose raw data a test summarizes as the report does.

// Configuration is one combination of settings of a tree, with its repetitions.
type Configuration struct {
	// Dir is the folder below the tree's root. Params has the settings in its name, such as "nmw": "2".
	Dir         string
	Params      map[string]string
	Repetitions []Repetition
}

// Repetition has the outputs of the clients and middlewares of a run.
type Repetition struct {
	Number      int
	Clients     []*memtier.Output
	Middlewares []*MiddlewareOutput
	// Dstat has the samples by machine, such as "mw1".
	Dstat map[string][]HostSample
}

// fileName matches the names of outputs, with program, instance and repetition.
var fileName = regexp.MustCompile(`^(cliout|mwout|dstatout-)([a-z]*)(\d+)rep(\d+)\.out$`)

// ReadTree reads the experiments of a tree: folders named by settings, such as nsvr=3/nmw=2, with the outputs of
// memtier (cliout1rep2.out: instance 1, repetition 2), of middlewares (mwout1rep2.out) and of dstat
// (dstatout-mw1rep2.out). The configurations are in the order of their folders' names.
func ReadTree(ctx context.Context, root fs.FS) ([]Configuration, error) {
	folders := map[string]*Configuration{}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		match := fileName.FindStringSubmatch(entry.Name())
		if entry.IsDir() || match == nil {
			return nil
		}
		dir := path.Dir(name)
		c := folders[dir]
		if c == nil {
			c = &Configuration{Dir: dir, Params: paramsOf(dir)}
			folders[dir] = c
		}
		number, err := strconv.Atoi(match[4])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := c.repetition(number).read(root, name, match[1], match[2]+match[3]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(folders) == 0 {
		return nil,
			errors.New("no output found: expected files such as cliout1rep1.out and mwout1rep1.out in folders such " +
				"as nsvr=1/nmw=2")
	}
	var configurations []Configuration
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		c := folders[dir]
		slices.SortFunc(c.Repetitions, func(a, b Repetition) int { return a.Number - b.Number })
		if !slices.ContainsFunc(c.Repetitions, func(r Repetition) bool { return len(r.Clients) > 0 }) {
			return nil, fmt.Errorf("%s: no repetition has an output of a client", dir)
		}
		configurations = append(configurations, *c)
	}
	return configurations, nil
}

// failure returns the reason why a repetition doesn't count; "" if it does. All clients and middlewares that any
// repetition has must have answered requests, just as a run of mcmwlab fails if one of its load processes fails.
func (c *Configuration) failure(r Repetition) string {
	clients, middlewares := 0, 0
	for _, other := range c.Repetitions {
		clients, middlewares = max(clients, len(other.Clients)), max(middlewares, len(other.Middlewares))
	}
	switch {
	case len(r.Clients) == 0:
		return "it has no output of a client"
	case len(r.Clients) < clients:
		return fmt.Sprintf("it has outputs of %d clients, another repetition has %d", len(r.Clients), clients)
	case len(r.Middlewares) < middlewares:
		return fmt.Sprintf("it has outputs of %d middlewares, another repetition has %d", len(r.Middlewares),
			middlewares)
	}
	silent := 0
	for _, client := range r.Clients {
		if row, ok := client.Overall().Row("Totals"); !ok || !(row.Throughput > 0) {
			silent++
		}
	}
	if silent > 0 {
		return fmt.Sprintf("%d of %d clients measured no request", silent, len(r.Clients))
	}
	if len(r.Middlewares) > 0 && !(throughputOf(r.Middlewares, trim) > 0) {
		return fmt.Sprintf("a middleware answered no request except in its first and last %d s", trim)
	}
	return ""
}

// paramsOf returns the settings in a path: folders named NAME=VALUE.
func paramsOf(dir string) map[string]string {
	params := map[string]string{}
	for folder := range strings.SplitSeq(dir, "/") {
		if name, value, ok := strings.Cut(folder, "="); ok {
			params[name] = value
		}
	}
	return params
}

// repetition returns the repetition with a number, which it adds if needed.
func (c *Configuration) repetition(number int) *Repetition {
	i := slices.IndexFunc(c.Repetitions, func(r Repetition) bool { return r.Number == number })
	if i < 0 {
		i = len(c.Repetitions)
		c.Repetitions = append(c.Repetitions, Repetition{Number: number, Dstat: map[string][]HostSample{}})
	}
	return &c.Repetitions[i]
}

// read adds an output. Files are read in the order of their names; the order of instances changes no result.
func (r *Repetition) read(root fs.FS, name, what, machine string) error {
	file, err := root.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	switch what {
	case "cliout":
		out, err := memtier.ParseText(file)
		if err != nil {
			return err
		}
		r.Clients = append(r.Clients, out)
	case "mwout":
		out, err := ParseMiddleware(file)
		if err != nil {
			return err
		}
		r.Middlewares = append(r.Middlewares, out)
	default:
		samples, err := ParseDstat(file)
		if err != nil {
			return err
		}
		r.Dstat[machine] = samples
	}
	return nil
}

func (r *Repetition) connections() int {
	n := 0
	for _, client := range r.Clients {
		n += client.Clients()
	}
	return n
}

// histogramWidth is the width of the classes of a middleware's histograms, in seconds.
const histogramWidth = 100e-6

// maxClasses is the largest number of classes of a histogram: ten minutes.
const maxClasses = 6_000_000

// kinds are the kinds of requests in a middleware's output, with the names of their columns and histograms.
var kinds = []struct{ name, count, queue, service, histogram string }{
	{"set", "nset", "sqt", "swt", "SET"},
	{"get", "nget", "gqt", "gwt", "GET"},
	{"multiget", "nmget", "mqt", "mwt", "MGET"},
}

// MiddlewareRow has the measurements of a second of a middleware in which a request ended.
type MiddlewareRow struct {
	// Seconds is the length, Throughput is per second.
	Seconds, Throughput float64
	// QueueLength is the length of the queue at the end of the second.
	QueueLength float64
	// Kinds has the kinds of requests by name: "set", "get" and "multiget".
	Kinds map[string]KindRow
}

// KindRow has the measurements of one kind of request in a second of a middleware.
type KindRow struct {
	Count float64 // per second
	// Queue is the mean time in the queue, Service the mean time from the queue to the reply; NaN without a request.
	Queue, Service float64
}

// MiddlewareOutput is the output of a middleware of the 2018 report.
type MiddlewareOutput struct {
	Rows []MiddlewareRow
	// PerServer has the number of requests to each server.
	PerServer []uint64
	// Histograms has the numbers of response times by kind of request, in classes of 100 us from 0.
	Histograms map[string][]uint64
}

// ParseMiddleware reads the output of a middleware.
func ParseMiddleware(r io.Reader) (*MiddlewareOutput, error) {
	p := middlewareParser{lines: bufio.NewScanner(r), out: &MiddlewareOutput{Histograms: map[string][]uint64{}}}
	for p.lines.Scan() {
		p.number++
		if err := p.line(strings.TrimSpace(p.lines.Text())); err != nil {
			return nil, fmt.Errorf("line %d: %w", p.number, err)
		}
	}
	if err := p.lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", p.number+1, err)
	}
	if p.state != "" {
		return nil, fmt.Errorf("the output ends within %s: expected %s END", p.state, p.state)
	}
	if p.columns == nil {
		return nil, errors.New("no statistics found: expected lines between STAT START and STAT END")
	}
	return p.out, nil
}

// middlewareParser parses an output line by line.
type middlewareParser struct {
	lines  *bufio.Scanner
	out    *MiddlewareOutput
	number int // of the line
	// state is the current part: "STAT", "SET HIST", "GET HIST" or "MGET HIST"; "" between them.
	state   string
	columns map[string]int
	counted bool // the number of classes of the histogram has been read
}

func (p *middlewareParser) line(text string) error {
	part, start := strings.CutSuffix(text, " START")
	switch {
	case text == "":
		return nil
	case start && p.state != "":
		return fmt.Errorf("%s starts within %s", part, p.state)
	case start:
		p.state, p.counted = part, false
		return nil
	case p.state != "" && text == p.state+" END":
		p.state = ""
		return nil
	case p.state == "STAT" && p.columns == nil:
		return p.head(strings.Split(text, ","))
	case p.state == "STAT":
		return p.row(strings.Split(text, ","))
	case p.state != "":
		return p.class(text)
	}
	var server int
	var requests uint64
	if n, _ := fmt.Sscanf(text, "Server %d handled %d requests.", &server, &requests); n == 2 {
		if server != len(p.out.PerServer) {
			return fmt.Errorf("server %d follows %d servers: expected them in order", server, len(p.out.PerServer))
		}
		p.out.PerServer = append(p.out.PerServer, requests)
	}
	return nil
}

func (p *middlewareParser) head(names []string) error {
	p.columns = map[string]int{}
	for i, name := range names {
		p.columns[name] = i
	}
	needed := []string{"secs", "qlen", "thru"}
	for _, kind := range kinds {
		needed = append(needed, kind.count, kind.queue, kind.service)
	}
	for _, name := range needed {
		if _, ok := p.columns[name]; !ok {
			return fmt.Errorf("no column %s: expected %s", name, strings.Join(needed, ", "))
		}
	}
	return nil
}

// row reads a second.
func (p *middlewareParser) row(fields []string) error {
	if len(fields) != len(p.columns) {
		return fmt.Errorf("%d columns: expected %d", len(fields), len(p.columns))
	}
	var failure error
	value := func(name string) float64 {
		text := fields[p.columns[name]]
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(v, 0) || v < 0 {
			failure = fmt.Errorf("%s is %q: expected a number from 0, or NaN", name, text)
		}
		return v
	}
	row := MiddlewareRow{
		Seconds: value("secs"), QueueLength: value("qlen"), Throughput: value("thru"),
		Kinds: map[string]KindRow{},
	}
	for _, kind := range kinds {
		row.Kinds[kind.name] = KindRow{Count: value(kind.count), Queue: value(kind.queue), Service: value(kind.service)}
		if math.IsNaN(row.Kinds[kind.name].Count) {
			failure = fmt.Errorf("%s is not a number", kind.count)
		}
	}
	if failure == nil && !(row.Seconds > 0) || math.IsNaN(row.QueueLength) || math.IsNaN(row.Throughput) {
		failure = errors.New("secs, qlen and thru: expected numbers, and secs above 0")
	}
	p.out.Rows = append(p.out.Rows, row)
	return failure
}

// class reads a class and its count, such as "17 250", or the number of classes.
func (p *middlewareParser) class(text string) error {
	name := ""
	for _, kind := range kinds {
		if p.state == kind.histogram+" HIST" {
			name = kind.name
		}
	}
	if name == "" {
		return nil
	}
	fields := strings.Fields(text)
	if len(fields) == 1 && !p.counted {
		p.counted = true
		return nil
	}
	if len(fields) != 2 {
		return fmt.Errorf("%q: expected the number of a class and its count", text)
	}
	index, err1 := strconv.Atoi(fields[0])
	count, err2 := strconv.ParseUint(fields[1], 10, 53)
	classes := p.out.Histograms[name]
	if err1 != nil || err2 != nil || index < len(classes) || index >= maxClasses {
		return fmt.Errorf("%q: expected a class from %d to %d and its count", text, len(classes), maxClasses-1)
	}
	for len(classes) < index {
		classes = append(classes, 0)
	}
	p.out.Histograms[name] = append(classes, count)
	return nil
}

// trim is the number of rows that the report leaves out at either end of a middleware's output, as warm-up and
// cool-down.
const trim = 5

// ClientKind has the clients' measurements of one kind of request, or of all requests, according to the conventions of
// the report.
type ClientKind struct {
	Throughput float64 // sum over the clients
	Response   float64 // mean, weighted by throughput, in seconds
	// Percentiles are those of the distributions of all clients, merged with their throughput as weight: the smallest
	// edge up to which the share of requests is reached, in seconds.
	Percentiles map[float64]float64
}

// MiddlewareKind has the middlewares' measurements of one kind of request.
type MiddlewareKind struct {
	Throughput float64
	// Queue and Service are means over the seconds, weighted over the middlewares by throughput, as in the report.
	// QueueWeighted and ServiceWeighted are means over the requests.
	Queue, Service, QueueWeighted, ServiceWeighted float64
	// Histogram has the response times of the whole output, in seconds.
	Histogram sample.Histogram
}

// clientKind summarizes the clients' rows with a name and their distributions. The row of all requests, Totals, has
// those of all kinds.
func clientKind(outputs []*memtier.Output, row string) (ClientKind, bool) {
	k := ClientKind{Percentiles: map[float64]float64{}}
	for _, out := range outputs {
		if r, ok := out.Overall().Row(row); ok && r.Throughput > 0 {
			k.Throughput += r.Throughput
			k.Response += r.Throughput * r.Mean
		}
	}
	if k.Throughput == 0 {
		return k, false
	}
	k.Response /= k.Throughput
	cdfs, weights := distributionsOf(outputs, row)
	for _, q := range []float64{0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999} {
		if len(cdfs) > 0 {
			k.Percentiles[q] = mergedPercentile(cdfs, weights, q)
		}
	}
	return k, true
}

// distributionsOf returns the clients' distributions for a row, and their throughputs.
func distributionsOf(outputs []*memtier.Output, row string) (cdfs [][]memtier.Quantile, weights []float64) {
	for _, out := range outputs {
		of, throughputs := distributions(out.Overall(), row)
		cdfs, weights = append(cdfs, of...), append(weights, throughputs...)
	}
	return cdfs, weights
}

// cut returns rows without the first and the last n.
func cut(rows []MiddlewareRow, n int) []MiddlewareRow {
	if len(rows) <= 2*n {
		return nil
	}
	return rows[n : len(rows)-n]
}

// meanOver returns the mean of a value over rows, without those in which it is NaN; NaN for no rows.
func meanOver[Row any](rows []Row, value func(Row) float64) float64 {
	var values []float64
	for _, row := range rows {
		if v := value(row); !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	return stat.Mean(values, nil)
}

// throughputOf returns the sum of the middlewares' mean throughputs without n rows at either end.
func throughputOf(outputs []*MiddlewareOutput, n int) float64 {
	sum := 0.0
	for _, out := range outputs {
		sum += meanOver(cut(out.Rows, n), func(r MiddlewareRow) float64 { return r.Throughput })
	}
	return sum
}

// queueLengths returns the mean length of each middleware's queue without n rows at either end.
func queueLengths(outputs []*MiddlewareOutput, n int) []float64 {
	lengths := make([]float64, len(outputs))
	for i, out := range outputs {
		lengths[i] = meanOver(cut(out.Rows, n), func(r MiddlewareRow) float64 { return r.QueueLength })
	}
	return lengths
}

// addCounts adds counts by index to a sum, which may become longer.
func addCounts(sum, counts []uint64) []uint64 {
	for i, n := range counts {
		if i == len(sum) {
			sum = append(sum, 0)
		}
		sum[i] += n
	}
	return sum
}

// middlewareKind summarizes a kind of request over the middlewares, without trim rows at either end.
func middlewareKind(outputs []*MiddlewareOutput, kind string) (MiddlewareKind, bool) {
	var k MiddlewareKind
	requests := 0.0
	for _, out := range outputs {
		rows := cut(out.Rows, trim)
		throughput := meanOver(rows, func(r MiddlewareRow) float64 { return r.Kinds[kind].Count })
		if !(throughput > 0) {
			continue
		}
		k.Throughput += throughput
		k.Queue += throughput * meanOver(rows, func(r MiddlewareRow) float64 { return r.Kinds[kind].Queue })
		k.Service += throughput * meanOver(rows, func(r MiddlewareRow) float64 { return r.Kinds[kind].Service })
		for _, row := range rows {
			if v := row.Kinds[kind]; v.Count > 0 {
				n := v.Count * row.Seconds
				requests += n
				k.QueueWeighted += n * v.Queue
				k.ServiceWeighted += n * v.Service
			}
		}
	}
	var classes []uint64
	for _, out := range outputs {
		classes = addCounts(classes, out.Histograms[kind])
	}
	for i, count := range classes {
		if count > 0 {
			k.Histogram = append(k.Histogram,
				sample.Bin{
					Lower: float64(i) * histogramWidth, Upper: float64(i+1) * histogramWidth,
					Count: float64(count),
				})
		}
	}
	if k.Throughput == 0 {
		return k, false
	}
	k.Queue /= k.Throughput
	k.Service /= k.Throughput
	k.QueueWeighted /= requests
	k.ServiceWeighted /= requests
	return k, true
}
