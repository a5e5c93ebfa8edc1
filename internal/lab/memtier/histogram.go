package memtier

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// microsecond is the unit of memtier's histograms, in seconds.
const microsecond = 1e-6

// Interval is a line of a log of HdrHistogram.
type Interval struct {
	// Start and End are in seconds since 1970.
	Start, End float64
	// Max is the longest response time, in seconds.
	Max       float64
	Histogram []Bin
}

// decodeHistogram reads a compressed histogram of microseconds.
func decodeHistogram(text string) ([]Bin, error) {
	h, err := hdrhistogram.Decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("histogram: %w", err)
	}
	var bins []Bin
	for _, bar := range h.Distribution() {
		if bar.Count > 0 {
			bins = append(bins, Bin{Lower: float64(bar.From) * microsecond, Upper: float64(bar.To+1) * microsecond, Count: uint64(bar.Count)})
		}
	}
	return bins, nil
}

// ParseLog reads a histogram log, as memtier writes with --hdr-file-prefix (NAME_FULL_RUN_1.hgrm).
func ParseLog(r io.Reader) ([]Interval, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 1<<16), maxLine)
	var intervals []Interval
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' || line[0] == '"' {
			continue
		}
		interval, err := parseInterval(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		intervals = append(intervals, interval)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(intervals) == 0 {
		return nil, errors.New("no interval found: expected lines of start, end, maximum and a compressed histogram, with commas between")
	}
	return intervals, nil
}

// parseInterval reads "start,end,max,histogram", also after "Tag=name,".
func parseInterval(line string) (Interval, error) {
	fields := strings.Split(line, ",")
	if strings.HasPrefix(fields[0], "Tag=") {
		fields = fields[1:]
	}
	if len(fields) != 4 {
		return Interval{}, fmt.Errorf("%d fields: expected start, end, maximum and a compressed histogram", len(fields))
	}
	var values [3]float64
	for i := range values {
		value, err := strconv.ParseFloat(fields[i], 64)
		if err != nil || math.IsNaN(value) || math.IsInf(value, 0) || value < 0 {
			return Interval{}, fmt.Errorf("%q: expected a number from 0", fields[i])
		}
		values[i] = value
	}
	bins, err := decodeHistogram(fields[3])
	if err != nil {
		return Interval{}, err
	}
	return Interval{Start: values[0], End: values[1], Max: values[2] * microsecond, Histogram: bins}, nil
}

// Percentiles is a table of percentiles, as HdrHistogram prints it.
type Percentiles struct {
	Quantiles []Quantile
	// Counts are the numbers of requests up to each quantile.
	Counts []uint64
	// Mean, StdDev and Max are in seconds; Total is the number of requests.
	Mean, StdDev, Max float64
	Total             uint64
}

// ParsePercentiles reads a table of percentiles in milliseconds, as memtier writes with --hdr-file-prefix
// (NAME_FULL_RUN_1.txt).
func ParsePercentiles(r io.Reader) (*Percentiles, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 1<<16), maxLine)
	p := &Percentiles{Mean: math.NaN(), StdDev: math.NaN(), Max: math.NaN()}
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		var err error
		switch {
		case line == "" || strings.HasPrefix(line, "Value"):
		case strings.HasPrefix(line, "#["):
			err = p.summary(strings.Trim(line, "#[]"))
		default:
			err = p.row(strings.Fields(line))
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(p.Quantiles) == 0 {
		return nil, errors.New("no percentile found: expected a table of Value, Percentile, TotalCount and 1/(1-Percentile)")
	}
	return p, nil
}

// row takes "value percentile count 1/(1-percentile)".
func (p *Percentiles) row(fields []string) error {
	if len(fields) < 3 || len(fields) > 4 {
		return fmt.Errorf("%d columns: expected Value, Percentile, TotalCount, 1/(1-Percentile)", len(fields))
	}
	milliseconds, err1 := strconv.ParseFloat(fields[0], 64)
	share, err2 := strconv.ParseFloat(fields[1], 64)
	total, err3 := strconv.ParseUint(fields[2], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return fmt.Errorf("%w: expected numbers", err)
	}
	q := Quantile{Share: share, Seconds: milliseconds * 1e-3}
	if err := checkMonotonic(p.Quantiles, q); err != nil {
		return err
	}
	if n := len(p.Counts); n > 0 && total < p.Counts[n-1] {
		return fmt.Errorf("count %d comes after %d: expected them to rise", total, p.Counts[n-1])
	}
	p.Quantiles, p.Counts = append(p.Quantiles, q), append(p.Counts, total)
	return nil
}

// summary takes "Mean = 0.114, StdDeviation = 0.153".
func (p *Percentiles) summary(line string) error {
	for part := range strings.SplitSeq(line, ",") {
		name, text, ok := strings.Cut(part, "=")
		if !ok {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || !(value >= 0) || math.IsInf(value, 0) {
			return fmt.Errorf("%q: expected a number from 0", strings.TrimSpace(part))
		}
		switch strings.TrimSpace(name) {
		case "Mean":
			p.Mean = value * 1e-3
		case "StdDeviation":
			p.StdDev = value * 1e-3
		case "Max":
			p.Max = value * 1e-3
		case "Total count":
			if value > 1<<53 {
				return fmt.Errorf("%q: expected at most 2^53", strings.TrimSpace(part))
			}
			p.Total = uint64(value)
		}
	}
	return nil
}
