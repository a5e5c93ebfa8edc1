package memtier

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"mcmw/lab/sample"
)

// ParseJSON reads what memtier writes with --json-out-file. memtier writes nan where nothing was measured, which is not
// JSON; such numbers are taken as missing.
func ParseJSON(r io.Reader) (*Output, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(withoutNaN(text), &file); err != nil {
		return nil, fmt.Errorf("%w: expected the JSON of memtier_benchmark", err)
	}
	out := &Output{Configuration: map[string]string{}}
	if err := out.settings(file); err != nil {
		return nil, err
	}
	for title, section := range file {
		if place(title) < 0 {
			continue
		}
		result, err := parseResult(title, section)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", title, err)
		}
		out.Results = append(out.Results, result)
	}
	if len(out.Results) == 0 {
		return nil, errors.New(`no result of memtier_benchmark found: expected an object "ALL STATS"`)
	}
	// The order of the text: single runs, best, worst, average.
	slices.SortFunc(out.Results, func(a, b Result) int {
		return cmp.Or(place(a.Title)-place(b.Title), len(a.Title)-len(b.Title), strings.Compare(a.Title, b.Title))
	})
	return out, nil
}

// titles are the prefixes of the titles of memtier's results, in memtier's order.
var titles = []string{"ALL STATS", "RUN #", "BEST RUN", "WORST RUN", "AGGREGATED"}

// place returns the index of the element of titles with which title begins; -1 if title is not that of a result.
func place(title string) int {
	return slices.IndexFunc(titles, func(kind string) bool { return strings.HasPrefix(title, kind) })
}

// settings reads "configuration" and "run information".
func (o *Output) settings(file map[string]json.RawMessage) error {
	var configuration map[string]any
	var information struct {
		Threads     float64 `json:"Threads"`
		Connections float64 `json:"Connections per thread"`
		Seconds     float64 `json:"Seconds"`
	}
	for name, target := range map[string]any{"configuration": &configuration, "run information": &information} {
		if raw, ok := file[name]; ok {
			if err := json.Unmarshal(raw, target); err != nil {
				return fmt.Errorf("%q: %w", name, err)
			}
		}
	}
	for name, value := range configuration {
		switch value := value.(type) {
		case nil:
		case string:
			o.Configuration[name] = value
		case float64:
			o.Configuration[name] = strconv.FormatFloat(value, 'f', -1, 64)
		default:
			return fmt.Errorf(`"configuration": %s is neither text nor a number`, name)
		}
	}
	for _, count := range []float64{information.Threads, information.Connections, information.Seconds} {
		if count < 0 || count > math.MaxInt32 {
			return fmt.Errorf(`"run information": %v: expected 0 to %d`, count, math.MaxInt32)
		}
	}
	o.Threads, o.Connections, o.Duration = int(information.Threads), int(information.Connections), information.Seconds
	return nil
}

// jsonRow is the JSON of a row.
type jsonRow struct {
	Count      *float64 `json:"Count"`
	Throughput *float64 `json:"Ops/sec"`
	Hits       *float64 `json:"Hits/sec"`
	Misses     *float64 `json:"Misses/sec"`
	Errors     *float64 `json:"Connection Errors"`
	Latency    *float64 `json:"Latency"`
	Mean       *float64 `json:"Average Latency"`
	Min        *float64 `json:"Min Latency"`
	Max        *float64 `json:"Max Latency"`
	Received   *float64 `json:"KB/sec RX"`
	Sent       *float64 `json:"KB/sec TX"`

	Series      map[string]map[string]*float64 `json:"Time-Serie"`
	Percentiles map[string]json.RawMessage     `json:"Percentile Latencies"`
}

// parseResult reads a result: rows are objects, distributions are arrays, and "Runtime" is something else.
func parseResult(title string, section json.RawMessage) (Result, error) {
	result := Result{Title: title, Distributions: map[string][]Quantile{}}
	err := eachMember(section, func(name string, raw json.RawMessage) (err error) {
		switch {
		case name == "Runtime":
			return result.runtime(raw)
		case raw[0] == '[':
			result.Distributions[name], err = parseDistribution(raw)
		case raw[0] == '{':
			var row Row
			row, err = parseRow(name, raw)
			result.Rows = append(result.Rows, row)
		}
		return err
	})
	if err != nil {
		return result, err
	}
	if len(result.Rows) == 0 {
		return result, errors.New(`no rows: expected objects such as "Sets" and "Totals"`)
	}
	result.addUp()
	result.meanOfTotals()
	return result, nil
}

// addUp computes the percentiles of the Totals of an average, for which memtier adds up no histograms. Some other
// fields are not initialized there, and become NaN.
func (r *Result) addUp() {
	i := slices.IndexFunc(r.Rows, func(row Row) bool { return row.Name == "Totals" })
	if i < 0 || r.Averaged() == 1 || len(r.Rows[i].Histogram) > 0 {
		return
	}
	totals := &r.Rows[i]
	var all sample.Histogram
	for _, row := range r.Rows {
		all = append(all, row.Histogram...)
	}
	slices.SortFunc(all, func(a, b sample.Bin) int { return cmp.Compare(a.Upper, b.Upper) })
	for k := range totals.Percentiles {
		q := &totals.Percentiles[k]
		q.Seconds = all.UpperQuantile(q.Share) - microsecond // the largest value in the bin, which memtier prints
	}
	totals.Min, totals.Max, totals.Received, totals.Sent = math.NaN(), math.NaN(), math.NaN(), math.NaN()
}

// eachMember calls f for the members of a JSON object, in the order of the text, until f fails.
func eachMember(object json.RawMessage, f func(name string, value json.RawMessage) error) error {
	decoder := json.NewDecoder(bytes.NewReader(object))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return cmp.Or(err, errors.New("expected an object"))
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return err
		}
		if err := f(name.(string), value); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	return nil
}

// runtime reads the times of the run.
func (r *Result) runtime(raw json.RawMessage) error {
	var runtime struct {
		Start       int64  `json:"Start time"`
		Finish      int64  `json:"Finish time"`
		Unit        string `json:"Time unit"`
		Interrupted string `json:"Interrupted"`
	}
	if err := json.Unmarshal(raw, &runtime); err != nil {
		return err
	}
	if runtime.Unit != "" && runtime.Unit != "MILLISECONDS" {
		return fmt.Errorf("time unit %q: expected MILLISECONDS", runtime.Unit)
	}
	r.Interrupted = runtime.Interrupted == "true"
	if runtime.Start > 0 {
		r.Start, r.Finish = time.UnixMilli(runtime.Start), time.UnixMilli(runtime.Finish)
	}
	return nil
}

func parseRow(name string, raw json.RawMessage) (Row, error) {
	row := emptyRow(name)
	var object jsonRow
	if err := json.Unmarshal(raw, &object); err != nil {
		return row, err
	}
	var err error
	if row.Count, err = count(object.Count); err != nil {
		return row, fmt.Errorf("count: %w", err)
	}
	if row.Errors, err = count(object.Errors); err != nil {
		return row, fmt.Errorf("connection errors: %w", err)
	}
	if object.Mean == nil {
		object.Mean = object.Latency
	}
	row.Throughput, row.Hits, row.Misses = scaled(object.Throughput, 1), scaled(object.Hits, 1),
		scaled(object.Misses, 1)
	row.Mean, row.Min, row.Max = scaled(object.Mean, 1e-3), scaled(object.Min, 1e-3), scaled(object.Max, 1e-3)
	row.Received, row.Sent = scaled(object.Received, bytesPerKB), scaled(object.Sent, bytesPerKB)
	if err := row.percentiles(object.Percentiles); err != nil {
		return row, fmt.Errorf("percentile latencies: %w", err)
	}
	for second, values := range object.Series {
		s, err := parseSecond(second, values)
		if err != nil {
			return row, fmt.Errorf("Time-Serie %q: %w", second, err)
		}
		row.Seconds = append(row.Seconds, s)
	}
	slices.SortFunc(row.Seconds, func(a, b Second) int { return cmp.Compare(a.Start, b.Start) })
	row.Mean = finer(row.Mean, row.exactMean())
	return row, nil
}

// percentiles reads members such as "p99.90", and the histogram among them.
func (r *Row) percentiles(members map[string]json.RawMessage) (err error) {
	for name, raw := range members {
		if name == "Histogram log format" {
			var log struct {
				Histogram string `json:"Compressed Histogram"`
			}
			if err := json.Unmarshal(raw, &log); err != nil {
				return err
			}
			if log.Histogram != "" {
				if r.Histogram, err = decodeHistogram(log.Histogram); err != nil {
					return err
				}
			}
			continue
		}
		share, ok := percentileName(name)
		if !ok {
			continue
		}
		var milliseconds *float64
		if err := json.Unmarshal(raw, &milliseconds); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r.Percentiles = append(r.Percentiles, Quantile{Share: share, Seconds: scaled(milliseconds, 1e-3)})
	}
	sortQuantiles(r.Percentiles)
	return nil
}

// parseSecond reads a member of a time series.
func parseSecond(name string, values map[string]*float64) (Second, error) {
	s := Second{
		Mean: scaled(values["Average Latency"], 1e-3), Min: scaled(values["Min Latency"], 1e-3),
		Max: scaled(values["Max Latency"], 1e-3),
	}
	start, err := strconv.ParseUint(name, 10, 31)
	if err != nil {
		return s, errors.New("expected the number of a second")
	}
	s.Start = float64(start)
	s.Total = scaled(values["Accumulated Latency"], 1e-3)
	for field, target := range map[string]*uint64{
		"Count": &s.Count, "Hits": &s.Hits, "Misses": &s.Misses,
	} {
		if *target, err = count(values[field]); err != nil {
			return s, fmt.Errorf("%s: %w", field, err)
		}
	}
	for field, value := range values {
		if share, ok := percentileName(field); ok {
			s.Percentiles = append(s.Percentiles, Quantile{Share: share, Seconds: scaled(value, 1e-3)})
		}
	}
	sortQuantiles(s.Percentiles)
	s.Mean = finer(s.Mean, s.Total/float64(s.Count))
	return s, nil
}

// parseDistribution reads the array of a cumulative distribution.
func parseDistribution(raw json.RawMessage) ([]Quantile, error) {
	var steps []struct {
		Milliseconds *float64 `json:"<=msec"`
		Percent      *float64 `json:"percent"`
	}
	if err := json.Unmarshal(raw, &steps); err != nil {
		return nil, err
	}
	var quantiles []Quantile
	for _, step := range steps {
		q := Quantile{Share: scaled(step.Percent, 0.01), Seconds: scaled(step.Milliseconds, 1e-3)}
		if err := checkMonotonic(quantiles, q); err != nil {
			return nil, err
		}
		quantiles = append(quantiles, q)
	}
	return quantiles, nil
}

func sortQuantiles(quantiles []Quantile) {
	slices.SortFunc(quantiles, func(a, b Quantile) int { return cmp.Compare(a.Share, b.Share) })
}

// bytesPerKB is memtier's kilobyte.
const bytesPerKB = 1024

// scaled returns the value times unit; NaN for a missing one.
func scaled(value *float64, unit float64) float64 {
	if value == nil {
		return math.NaN()
	}
	return *value * unit
}

// count converts a count; 0 for a missing one.
func count(value *float64) (uint64, error) {
	if value == nil {
		return 0, nil
	}
	if *value < 0 || *value > 1<<53 || *value != math.Trunc(*value) {
		return 0, fmt.Errorf("%v: expected a whole number from 0", *value)
	}
	return uint64(*value), nil
}

// stringOrNaN matches a JSON string, or a nan or infinity outside of strings.
var stringOrNaN = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?(?:nan|inf)`)

// withoutNaN returns text with nan, -nan, inf and -inf outside of strings replaced by null.
func withoutNaN(text []byte) []byte {
	return stringOrNaN.ReplaceAllFunc(text, func(match []byte) []byte {
		if match[0] == '"' {
			return match
		}
		return []byte("null")
	})
}

// microsecond is the unit of memtier's histograms, in seconds.
const microsecond = 1e-6

// decodeHistogram reads a compressed histogram of microseconds.
func decodeHistogram(text string) (sample.Histogram, error) {
	h, err := hdrhistogram.Decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("histogram: %w", err)
	}
	var bins sample.Histogram
	for _, bar := range h.Distribution() {
		if bar.Count > 0 {
			bins = append(bins, sample.Bin{
				Lower: float64(bar.From) * microsecond,
				Upper: float64(bar.To+1) * microsecond, Count: float64(bar.Count),
			})
		}
	}
	return bins, nil
}
