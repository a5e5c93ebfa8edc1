package foreign

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

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
