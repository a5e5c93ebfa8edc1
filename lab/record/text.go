package record

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// textName is the file of a record that is kept as text: beside the manifest a line for each run, so that it can be
// kept among sources. It has no raw outputs, windows, histograms or results of single load processes, and no warnings
// of the set; of host samples it has the means, of warnings the codes.
const textName = "record.csv"

// The columns of a run. Those of factors follow, by their names, of results as SOURCE.METRIC, and of the means of host
// samples as "mean SOURCE.METRIC".
var runColumns = []string{
	"id", "point", "repetition", "position", "started", "seconds", "state", "error", "warnings",
}

const meanColumn = "mean "

// exportText writes the manifest and the runs as text into a directory, and returns the paths of the files.
func (r *Record) exportText(ctx context.Context, dir string) (files []string, err error) {
	if Is(dir) {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, manifestName), ErrExists)
	}
	runs, err := r.Runs(ctx)
	if err != nil {
		return nil, err
	}
	names, lines := map[string]bool{}, make([]map[string]string, len(runs))
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
		for name := range lines[i] {
			names[name] = true
		}
	}
	for _, name := range runColumns {
		delete(names, name)
	}
	columns := append(slices.Clone(runColumns), slices.Sorted(maps.Keys(names))...)
	files = []string{filepath.Join(dir, manifestName), filepath.Join(dir, textName)}
	file, err := os.OpenFile(files[1], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, explain(files[1], err)
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
	if err := errors.Join(out.Error(), file.Close()); err != nil {
		return nil, explain(files[1], err)
	}
	return files, explain(files[0], writeManifest(dir, r.manifest))
}

// textCells returns the cells of a run by their columns. Numbers have six digits.
func textCells(run Run, samples []Window) map[string]string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	var codes []string
	for _, w := range run.Warnings {
		codes = append(codes, w.Code)
	}
	cells := map[string]string{
		"id": fmt.Sprint(run.ID), "point": fmt.Sprint(run.Point), "repetition": fmt.Sprint(run.Repetition),
		"position": fmt.Sprint(run.Position), "started": run.Started.Format(time.RFC3339),
		"seconds": number(run.Seconds), "state": string(run.State), "error": run.Error,
		"warnings": strings.Join(codes, " "),
	}
	maps.Copy(cells, run.Factors)
	for _, v := range run.Results {
		if !strings.HasPrefix(v.Source, SourceClient+":") {
			cells[v.Source+"."+v.Metric] = number(v.Value)
		}
	}
	sums, seconds := map[string]float64{}, map[string]float64{}
	for _, s := range samples {
		name := meanColumn + s.Source + "." + s.Metric
		sums[name] += s.Value * s.Seconds
		seconds[name] += s.Seconds
	}
	for name, sum := range sums {
		if !strings.HasPrefix(name, meanColumn+SourceClient+":") && seconds[name] > 0 {
			cells[name] = number(sum / seconds[name])
		}
	}
	return cells
}

// openText opens a record that is kept as text. Nothing can be added to it.
func openText(dir string, m Manifest) (_ *Record, err error) {
	file, err := os.Open(filepath.Join(dir, textName))
	if err != nil {
		return nil, explain(dir, err)
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", file.Name(), ErrNoRecord, err)
	}
	temporary, err := os.MkdirTemp("", "mcmwlab-record-")
	if err != nil {
		return nil, err
	}
	r := &Record{dir: dir, manifest: m, temporary: temporary}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if err := fill(temporary, m); err != nil {
		return nil, err
	}
	if r.db, err = openDatabase(temporary, "rw"); err != nil {
		return nil, err
	}
	if err := r.transact(func(tx *sql.Tx) error {
		for i, line := range lines[min(1, len(lines)):] {
			run, err := textRun(lines[0], line)
			if err == nil {
				err = add(tx, run)
			}
			if err != nil {
				return fmt.Errorf("%s: %w: line %d of %s: %w", dir, ErrNoRecord, i+2, textName, err)
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if err = r.db.Close(); err != nil {
		return nil, err
	}
	if r.db, err = openDatabase(temporary, "ro"); err != nil {
		return nil, err
	}
	return r, nil
}

// textRun returns the run of a line.
func textRun(columns, cells []string) (run Run, err error) {
	run.Factors = map[string]string{}
	number := func(name, text string) float64 {
		v, bad := strconv.ParseFloat(text, 64)
		if bad != nil {
			err = cmp.Or(err, fmt.Errorf("%s is %q; expected a number", name, text))
		}
		return v
	}
	values := map[string]string{}
	for i, name := range columns {
		text := cells[i]
		source, metric := name, ""
		if at := strings.LastIndexByte(name, '.'); at >= 0 {
			source, metric = name[:at], name[at+1:]
		}
		switch {
		case slices.Contains(runColumns, name):
			values[name] = text
		case text == "":
		case metric == "":
			run.Factors[name] = text
		case strings.HasPrefix(source, meanColumn):
			run.HostSamples = append(run.HostSamples, Window{
				Source: strings.TrimPrefix(source, meanColumn), Seconds: 1, Metric: metric, Value: number(name, text),
			})
		default:
			run.Results = append(run.Results, Value{Source: source, Metric: metric, Value: number(name, text)})
		}
	}
	whole := func(name string) int {
		n, bad := strconv.Atoi(values[name])
		if bad != nil || n < 0 {
			err = cmp.Or(err, fmt.Errorf("%s is %q; expected a whole number", name, values[name]))
		}
		return n
	}
	run.ID, run.Point, run.Repetition = int64(whole("id")), whole("point"), whole("repetition")
	run.Position, run.Seconds = whole("position"), number("seconds", values["seconds"])
	run.State, run.Error = State(values["state"]), values["error"]
	for _, code := range strings.Fields(values["warnings"]) {
		run.Warnings = append(run.Warnings, Warning{Code: code, Message: "the text has only the code"})
	}
	started, bad := time.Parse(time.RFC3339, values["started"])
	if bad != nil {
		err = cmp.Or(err, fmt.Errorf("started is %q; expected a time such as 2026-11-28T14:40:00Z", values["started"]))
	}
	run.Started = started
	return run, err
}
