package record

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Runs returns all runs with their factors, results and warnings, ordered by point, repetition and number.
func (r *Record) Runs(ctx context.Context) ([]Run, error) {
	// One transaction, so that a run added meanwhile is there with all it has or not at all.
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, explain(r.dir, err)
	}
	defer tx.Rollback() // nothing was written
	runs, err := readRuns(ctx, tx)
	return runs, explain(r.dir, err)
}

func readRuns(ctx context.Context, tx *sql.Tx) ([]Run, error) {
	runs, err := collect(ctx, tx, scanRun, "SELECT id, point, repetition, position, started, seconds, state, error FROM runs ORDER BY point, repetition, id")
	if err != nil {
		return nil, err
	}
	byID := make(map[int64]*Run, len(runs))
	for i := range runs {
		byID[runs[i].ID] = &runs[i]
	}
	// of returns the run that a row belongs to.
	of := func(what string, id int64) (*Run, error) {
		if run := byID[id]; run != nil {
			return run, nil
		}
		return nil, fmt.Errorf("%s has a row of run %d, which is not there", what, id)
	}
	factors, err := collect(ctx, tx, scanFactor, "SELECT run, name, level FROM factors")
	if err != nil {
		return nil, err
	}
	for _, f := range factors {
		run, err := of("factors", f.run)
		if err != nil {
			return nil, err
		}
		run.Factors[f.name] = f.level
	}
	results, err := collect(ctx, tx, scanResult, "SELECT run, source, metric, value FROM results ORDER BY run, source, metric")
	if err != nil {
		return nil, err
	}
	for _, v := range results {
		run, err := of("results", v.run)
		if err != nil {
			return nil, err
		}
		run.Results = append(run.Results, v.Value)
	}
	warnings, err := collect(ctx, tx, scanWarning, "SELECT run, code, message FROM warnings WHERE run IS NOT NULL ORDER BY rowid")
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		run, err := of("warnings", w.run)
		if err != nil {
			return nil, err
		}
		run.Warnings = append(run.Warnings, w.Warning)
	}
	return runs, nil
}

// Warnings returns the warnings of the whole set; those of single runs are in Runs.
func (r *Record) Warnings(ctx context.Context) ([]Warning, error) {
	found, err := collect(ctx, r.db, scanWarning, "SELECT 0, code, message FROM warnings WHERE run IS NULL ORDER BY rowid")
	if err != nil {
		return nil, explain(r.dir, err)
	}
	var warnings []Warning
	for _, w := range found {
		warnings = append(warnings, w.Warning)
	}
	return warnings, nil
}

// Metrics returns the metrics of the record by name.
func (r *Record) Metrics(ctx context.Context) (map[string]Metric, error) {
	found, err := collect(ctx, r.db, func(rows *sql.Rows) (m Metric, err error) {
		return m, rows.Scan(&m.Name, &m.Unit, &m.Help)
	}, "SELECT name, unit, help FROM metrics")
	if err != nil {
		return nil, explain(r.dir, err)
	}
	metrics := make(map[string]Metric, len(found))
	for _, m := range found {
		metrics[m.Name] = m
	}
	return metrics, nil
}

// Windows returns the windows of a run, ordered by source, metric and start.
func (r *Record) Windows(run int64) ([]Window, error) { return r.windows("windows", run) }

// HostSamples returns what was seen of the host during a run, ordered by source, metric and start.
func (r *Record) HostSamples(run int64) ([]Window, error) { return r.windows("host_samples", run) }

func (r *Record) windows(table string, run int64) ([]Window, error) {
	windows, err := collect(context.Background(), r.db, func(rows *sql.Rows) (w Window, err error) {
		return w, rows.Scan(&w.Source, &w.Start, &w.Seconds, &w.Metric, &w.Value)
	}, "SELECT source, start, seconds, metric, value FROM "+table+" WHERE run = ? ORDER BY source, metric, start", run)
	return windows, explain(r.dir, err)
}

// Histograms returns the histograms of a run, ordered by source, metric, command and lower edge.
func (r *Record) Histograms(run int64) ([]Bin, error) {
	bins, err := collect(context.Background(), r.db, func(rows *sql.Rows) (b Bin, err error) {
		return b, rows.Scan(&b.Source, &b.Metric, &b.Command, &b.Lower, &b.Upper, &b.Count)
	}, "SELECT source, metric, command, lower, upper, count FROM histograms WHERE run = ? ORDER BY source, metric, command, lower", run)
	return bins, explain(r.dir, err)
}

func scanRun(rows *sql.Rows) (Run, error) {
	run := Run{Factors: map[string]string{}}
	var started string
	if err := rows.Scan(&run.ID, &run.Point, &run.Repetition, &run.Position, &started, &run.Seconds, &run.State, &run.Error); err != nil {
		return run, err
	}
	var err error
	if run.Started, err = time.Parse(time.RFC3339Nano, started); err != nil {
		return run, fmt.Errorf("run %d: started: %w", run.ID, err)
	}
	return run, nil
}

// The rows of tables that belong to runs.
type (
	factorOf struct {
		run         int64
		name, level string
	}
	resultOf struct {
		run int64
		Value
	}
	warningOf struct {
		run int64
		Warning
	}
)

func scanFactor(rows *sql.Rows) (f factorOf, err error) {
	return f, rows.Scan(&f.run, &f.name, &f.level)
}

func scanResult(rows *sql.Rows) (v resultOf, err error) {
	return v, rows.Scan(&v.run, &v.Source, &v.Metric, &v.Value.Value)
}

func scanWarning(rows *sql.Rows) (w warningOf, err error) {
	return w, rows.Scan(&w.run, &w.Code, &w.Message)
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func collect[T any](ctx context.Context, q querier, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}
