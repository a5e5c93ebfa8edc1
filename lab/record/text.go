package record

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The files of a record that is kept as text, so that it can be kept among sources, beside the manifest. It has no raw
// outputs, histograms, windows of others than all clients together, or results of single load processes; of host
// samples it has the means, of the runs' warnings the codes.
const (
	textName         = "record.csv"          // a line for each run
	textWindowsName  = "record-windows.csv"  // a line for each window of the clients; missing: there are none
	textWarningsName = "record-warnings.csv" // a line for each warning of the set; missing: there are none
)

// The columns of a run. Those of factors follow, by their names, of results as SOURCE.METRIC, and of the means of host
// samples as "mean SOURCE.METRIC".
var runColumns = []string{
	"id", "point", "repetition", "position", "started", "seconds", "state", "error", "warnings",
}

const meanColumn = "mean "

// The columns of a window. Those of metrics follow, as SOURCE.METRIC.
var windowCells = []string{"run", "start", "seconds"}

var warningCells = []string{"code", "message"}

// exportText writes the manifest and the runs as text into a directory, and returns the paths of the files.
func (r *Record) exportText(ctx context.Context, dir string) (files []string, err error) {
	if Is(dir) {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, manifestName), ErrExists)
	}
	runs, err := r.Runs(ctx)
	if err != nil {
		return nil, err
	}
	lines := make([]map[string]string, len(runs))
	var windows []map[string]string
	for i, run := range runs {
		samples, err := r.HostSamples(run.ID)
		if err != nil {
			return nil, err
		}
		for name := range run.Factors {
			if slices.Contains(runColumns, name) || strings.Contains(name, ".") {
				return nil, fmt.Errorf("the factor %q can't be kept as text; expected none with a dot, and none of %s",
					name, strings.Join(runColumns, ", "))
			}
		}
		lines[i] = textCells(run, samples)
		of, err := r.Windows(run.ID)
		if err != nil {
			return nil, err
		}
		windows = append(windows, textWindows(run.ID, of)...)
	}
	warnings, err := r.Warnings(ctx)
	if err != nil {
		return nil, err
	}
	var ofSet []map[string]string
	for _, w := range warnings {
		ofSet = append(ofSet, map[string]string{"code": w.Code, "message": w.Message})
	}
	files = []string{filepath.Join(dir, manifestName)} // is written last: a directory without it is no record
	for _, file := range []struct {
		name    string
		columns []string
		lines   []map[string]string
	}{{textName, runColumns, lines}, {textWindowsName, windowCells, windows}, {textWarningsName, warningCells, ofSet}} {
		if file.lines == nil && file.name != textName {
			continue
		}
		path := filepath.Join(dir, file.name)
		if err := writeLines(path, file.columns, file.lines); err != nil {
			return nil, explain(path, err)
		}
		files = append(files, path)
	}
	return files, explain(files[0], writeManifest(dir, r.manifest))
}

// writeLines writes a new file of lines with cells by their columns: first the given ones, then all others by name.
func writeLines(path string, first []string, lines []map[string]string) error {
	names := map[string]bool{}
	for _, line := range lines {
		for name := range line {
			names[name] = true
		}
	}
	for _, name := range first {
		delete(names, name)
	}
	columns := append(slices.Clone(first), slices.Sorted(maps.Keys(names))...)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	out := csv.NewWriter(file)
	out.Write(columns) // Error returns the first error of all writes
	for _, line := range lines {
		cells := make([]string, len(columns))
		for i, name := range columns {
			cells[i] = line[name]
		}
		out.Write(cells)
	}
	out.Flush()
	return errors.Join(out.Error(), file.Close())
}

// sixDigits returns the text of a number.
func sixDigits(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// textWindows returns the cells of a run's windows of all clients together, one after the other.
func textWindows(run int64, windows []Window) (lines []map[string]string) {
	at := map[float64]map[string]string{} // by the start
	for _, w := range windows {
		if w.Source != SourceClient {
			continue
		}
		if at[w.Start] == nil {
			at[w.Start] = map[string]string{
				"run": fmt.Sprint(run), "start": sixDigits(w.Start), "seconds": sixDigits(w.Seconds),
			}
		}
		at[w.Start][w.Source+"."+w.Metric] = sixDigits(w.Value)
	}
	for _, start := range slices.Sorted(maps.Keys(at)) {
		lines = append(lines, at[start])
	}
	return lines
}

// textCells returns the cells of a run by their columns.
func textCells(run Run, samples []Window) map[string]string {
	var codes []string
	for _, w := range run.Warnings {
		codes = append(codes, w.Code)
	}
	cells := map[string]string{
		"id": fmt.Sprint(run.ID), "point": fmt.Sprint(run.Point), "repetition": fmt.Sprint(run.Repetition),
		"position": fmt.Sprint(run.Position), "started": run.Started.Format(time.RFC3339),
		"seconds": sixDigits(run.Seconds), "state": string(run.State), "error": run.Error,
		"warnings": strings.Join(codes, " "),
	}
	maps.Copy(cells, run.Factors)
	for _, v := range run.Results {
		if !strings.HasPrefix(v.Source, SourceClient+":") {
			cells[v.Source+"."+v.Metric] = sixDigits(v.Value)
		}
	}
	for _, v := range Means(samples) {
		if !strings.HasPrefix(v.Source, SourceClient+":") {
			cells[meanColumn+v.Source+"."+v.Metric] = sixDigits(v.Value)
		}
	}
	return cells
}

// openText opens a record that is kept as text.
func openText(dir string, m Manifest) (*Record, error) {
	var runs []Run
	if err := readLines(dir, textName, func(columns, cells []string) error {
		run, err := textRun(columns, cells)
		if slices.ContainsFunc(runs, func(other Run) bool {
			return other.ID == run.ID || other.State == Complete && run.State == Complete &&
				other.Point == run.Point && other.Repetition == run.Repetition
		}) {
			err = cmp.Or(err, fmt.Errorf("run %d of point %d, repetition %d is there twice", run.ID, run.Point,
				run.Repetition))
		}
		runs = append(runs, run)
		return err
	}); err != nil {
		return nil, err
	}
	if err := readLines(dir, textWindowsName, func(columns, cells []string) error {
		return addTextWindow(runs, columns, cells)
	}); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var warnings []Warning
	if err := readLines(dir, textWarningsName, func(columns, cells []string) error {
		if !slices.Equal(columns, warningCells) {
			return fmt.Errorf("expected the columns %s", strings.Join(warningCells, ", "))
		}
		warnings = append(warnings, Warning{Code: cells[0], Message: cells[1]})
		return nil
	}); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	r, err := InMemory(dir, m, runs, warnings)
	if err == nil {
		r.text = true
	}
	return r, err
}

// readLines calls read for every line of a file after the first, which has the names of the columns.
func readLines(dir, name string, read func(columns, cells []string) error) error {
	file := filepath.Join(dir, name)
	text, err := os.ReadFile(file)
	if err != nil {
		return explain(file, err)
	}
	lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return fmt.Errorf("%s: %w: %w", file, ErrNoRecord, err)
	}
	if len(lines) == 0 {
		return fmt.Errorf("%s: %w: it is empty", file, ErrNoRecord)
	}
	for i, name := range lines[0] {
		if slices.Contains(lines[0][:i], name) {
			return fmt.Errorf("%s: %w: it has two columns %s", file, ErrNoRecord, name)
		}
	}
	for i, line := range lines[1:] {
		if err := read(lines[0], line); err != nil {
			return fmt.Errorf("%s: %w: line %d of %s: %w", dir, ErrNoRecord, i+2, name, err)
		}
	}
	return nil
}

// parser reads the cells of lines, until the first error.
type parser struct{ err error }

// line returns the cells of a line by their columns, and the values in columns SOURCE.METRIC.
func (p *parser) line(columns, cells []string) (named map[string]string, values []Value) {
	named = map[string]string{}
	for i, column := range columns {
		switch at := strings.LastIndexByte(column, '.'); {
		case at < 0 || at == len(column)-1:
			named[column] = cells[i]
		case cells[i] != "":
			values = append(values, p.metric(column[:at], column[at+1:], cells[i]))
		}
	}
	return named, values
}

func (p *parser) number(name, text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !finite(v) {
		p.err = cmp.Or(p.err, fmt.Errorf("%s is %q; expected a number", name, text))
	}
	return v
}

// metric reads the value of a metric at a source.
func (p *parser) metric(source, metric, text string) Value {
	if _, ok := Describe(metric); !ok {
		p.err = cmp.Or(p.err, fmt.Errorf("unknown metric %q; expected those of docs/record.md", metric))
	}
	name := strings.TrimPrefix(source+"."+metric, meanColumn)
	return Value{Source: source, Metric: metric, Value: p.number(name, text)}
}

func (p *parser) whole(name, text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		p.err = cmp.Or(p.err, fmt.Errorf("%s is %q; expected a whole number", name, text))
	}
	return n
}

// addTextWindow adds the window of a line to its run.
func addTextWindow(runs []Run, columns, cells []string) error {
	var p parser
	named, values := p.line(columns, cells)
	id := int64(p.whole("run", named["run"]))
	start, seconds := p.number("start", named["start"]), p.number("seconds", named["seconds"])
	if p.err != nil {
		return p.err
	}
	at := slices.IndexFunc(runs, func(run Run) bool { return run.ID == id })
	if at < 0 {
		return fmt.Errorf("run is %d; expected one of those in %s", id, textName)
	}
	if slices.ContainsFunc(runs[at].Windows, func(w Window) bool { return w.Start == start }) {
		return fmt.Errorf("run %d has two windows that start at %g", id, start)
	}
	for _, v := range values {
		runs[at].Windows = append(runs[at].Windows, Window{v.Source, start, seconds, v.Metric, v.Value})
	}
	return nil
}

// textRun returns the run of a line.
func textRun(columns, cells []string) (run Run, _ error) {
	var p parser
	named, values := p.line(columns, cells)
	run.Factors = maps.Clone(named)
	maps.DeleteFunc(run.Factors,
		func(name, level string) bool { return level == "" || slices.Contains(runColumns, name) })
	for _, v := range values {
		if source, mean := strings.CutPrefix(v.Source, meanColumn); mean {
			run.HostSamples = append(run.HostSamples, Window{source, 0, 1, v.Metric, v.Value})
		} else {
			run.Results = append(run.Results, v)
		}
	}
	whole := func(name string) int { return p.whole(name, named[name]) }
	run.ID, run.Point, run.Repetition = int64(whole("id")), whole("point"), whole("repetition")
	run.Position, run.Seconds = whole("position"), p.number("seconds", named["seconds"])
	run.State, run.Error = State(named["state"]), named["error"]
	if run.State != Complete && run.State != Failed {
		p.err = cmp.Or(p.err, fmt.Errorf("state is %q; expected %s or %s", run.State, Complete, Failed))
	}
	for _, code := range strings.Fields(named["warnings"]) {
		run.Warnings = append(run.Warnings, Warning{Code: code, Message: "the text has only the code"})
	}
	started, err := time.Parse(time.RFC3339, named["started"])
	if err != nil {
		p.err = cmp.Or(p.err,
			fmt.Errorf("started is %q; expected a time such as 2026-11-28T14:40:00Z", named["started"]))
	}
	run.Started = started
	return run, p.err
}
