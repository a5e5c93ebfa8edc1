package memtier

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// maxLine bounds a line of an output, bytes; memtier writes all its progress as one line.
const maxLine = 16 << 20

// ParseText reads the text that memtier prints, of old releases (a column "Latency") and of new ones (mean and
// percentiles). It skips the progress lines.
func ParseText(r io.Reader) (*Output, error) {
	p := textParser{lines: bufio.NewScanner(r), out: &Output{}}
	p.lines.Buffer(make([]byte, 0, 1<<16), maxLine)
	for p.next() {
		if err := p.line(); err != nil {
			return nil, fmt.Errorf("line %d: %w", p.number, err)
		}
	}
	if err := p.lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", p.number+1, err)
	}
	for i := range p.out.Results {
		result := &p.out.Results[i]
		if len(result.Rows) == 0 {
			return nil, fmt.Errorf("the output ends before the rows of %q", result.Title)
		}
		result.meanOfTotals()
	}
	if len(p.out.Results) == 0 {
		return nil,
			errors.New("no table of memtier_benchmark found: expected a line such as ALL STATS, followed by a table " +
				"with the columns Type and Ops/sec")
	}
	return p.out, nil
}

// textParser reads an output line by line.
type textParser struct {
	lines  *bufio.Scanner
	out    *Output
	number int    // of the current line, from 1
	text   string // the current line
	// previous is the last line that was neither empty nor a rule: the title, if a table follows.
	previous string
	// columns are those of the current table of results; nil outside such a table.
	columns []string
	// distribution says whether the current line is in a table of a cumulative distribution.
	distribution bool
}

func (p *textParser) next() bool {
	if !p.lines.Scan() {
		return false
	}
	p.number++
	// Progress overwrites itself with carriage returns; only the last part counts.
	p.text = strings.TrimRight(p.lines.Text(), " \t\r")
	if i := strings.LastIndexByte(p.text, '\r'); i >= 0 {
		p.text = p.text[i+1:]
	}
	return true
}

func (p *textParser) line() error {
	fields := strings.Fields(p.text)
	switch {
	case len(fields) == 0:
		p.columns, p.distribution = nil, false
		return nil
	case strings.Trim(p.text, "=-") == "":
		return nil
	case fields[0] == "Type" && len(fields) > 1 && fields[1] == "Ops/sec":
		p.columns, p.distribution = separator.Split(strings.TrimSpace(p.text), -1), false
		p.out.Results = append(p.out.Results, Result{Title: p.previous, Distributions: map[string][]Quantile{}})
		return nil
	case strings.HasPrefix(p.text, "Type") && strings.Contains(p.text, "<= msec"):
		p.columns, p.distribution = nil, true
		return nil
	case p.columns != nil:
		return p.row(fields)
	case p.distribution && len(fields) == 3 && len(p.out.Results) > 0:
		return p.quantile(fields)
	}
	p.previous = strings.TrimSpace(p.text)
	return p.setting(fields)
}

// setting reads a line such as "4         Connections per thread"; it ignores other lines.
func (p *textParser) setting(fields []string) error {
	number, err := strconv.ParseFloat(fields[0], 64)
	if err != nil || len(p.out.Results) > 0 {
		return nil
	}
	set := map[string]func(){
		"Threads":                func() { p.out.Threads = int(number) },
		"Connections per thread": func() { p.out.Connections = int(number) },
		"Seconds":                func() { p.out.Duration = number },
	}
	name := strings.Join(fields[1:], " ")
	if set[name] == nil {
		return nil
	}
	// A comparison that is false for NaN.
	if !(number >= 0 && number <= math.MaxInt32) {
		return fmt.Errorf("%s: %s: expected 0 to %d", name, fields[0], math.MaxInt32)
	}
	set[name]()
	return nil
}

// separator separates the columns in the head of a table. Their names contain single spaces.
var separator = regexp.MustCompile(` {2,}`)

// row reads a row of the table of results.
func (p *textParser) row(fields []string) error {
	if len(fields) != len(p.columns) {
		return fmt.Errorf("%d columns: expected %d, %s", len(fields), len(p.columns), strings.Join(p.columns, ", "))
	}
	row := emptyRow(fields[0])
	for i, column := range p.columns[1:] {
		value, err := number(fields[i+1])
		if err != nil {
			return fmt.Errorf("%s of %s: %w", column, row.Name, err)
		}
		switch column {
		case "Ops/sec":
			row.Throughput = value
		case "Hits/sec":
			row.Hits = value
		case "Misses/sec":
			row.Misses = value
		case "Latency", "Avg. Latency":
			row.Mean = value * 1e-3
		default:
			// Such as "p99.9 Latency". Other columns, of later releases, are ignored.
			if share, ok := percentileName(strings.TrimSuffix(column, " Latency")); ok {
				row.Percentiles = append(row.Percentiles, Quantile{Share: share, Seconds: value * 1e-3})
			}
		}
	}
	result := &p.out.Results[len(p.out.Results)-1]
	result.Rows = append(result.Rows, row)
	return nil
}

// quantile reads a row of a cumulative distribution: command, milliseconds, percent.
func (p *textParser) quantile(fields []string) error {
	milliseconds, err := number(fields[1])
	if err != nil {
		return fmt.Errorf("milliseconds of %s: %w", fields[0], err)
	}
	percent, err := number(fields[2])
	if err != nil {
		return fmt.Errorf("percent of %s: %w", fields[0], err)
	}
	q := Quantile{Share: percent / 100, Seconds: milliseconds * 1e-3}
	distributions := p.out.Results[len(p.out.Results)-1].Distributions
	if err := checkMonotonic(distributions[fields[0]], q); err != nil {
		return fmt.Errorf("%s: %w", fields[0], err)
	}
	distributions[fields[0]] = append(distributions[fields[0]], q)
	return nil
}

// checkMonotonic returns an error if q cannot follow the quantiles before it in a cumulative distribution.
func checkMonotonic(before []Quantile, q Quantile) error {
	// Comparisons that are false for NaN.
	if !(q.Share >= 0 && q.Share <= 1+1e-9) || !(q.Seconds >= 0) {
		return fmt.Errorf("%v %% within %v s: expected 0 to 100 %% and a time", 100*q.Share, q.Seconds)
	}
	if n := len(before); n > 0 && (q.Share < before[n-1].Share || q.Seconds < before[n-1].Seconds) {
		return fmt.Errorf("%v %% within %v s comes after %v %% within %v s: expected both to increase",
			100*q.Share, q.Seconds, 100*before[n-1].Share, before[n-1].Seconds)
	}
	return nil
}

// number reads a value of a table; "---" and "-nan" are NaN. It does not accept infinities.
func number(text string) (float64, error) {
	switch strings.TrimPrefix(text, "-") {
	case "--", "nan":
		return math.NaN(), nil
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(value, 0) || math.IsNaN(value) {
		return 0, fmt.Errorf("%q: expected a number or ---", text)
	}
	return value, nil
}

// percentileName reads "p99.9" as 0.999.
func percentileName(name string) (share float64, ok bool) {
	digits, ok := strings.CutPrefix(name, "p")
	percent, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || !(percent >= 0 && percent <= 100) {
		return 0, false
	}
	return percent / 100, true
}
