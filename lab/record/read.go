package record

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Runs returns all runs with their factors, results and warnings, ordered by point, repetition and ID.
func (r *Record) Runs(ctx context.Context) ([]Run, error) {
	// One transaction, so that a run that is added meanwhile is complete or absent.
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, explain(r.dir, err)
	}
	defer tx.Rollback() // nothing was written
	runs, err := readRuns(ctx, tx)
	return runs, explain(r.dir, err)
}

func readRuns(ctx context.Context, tx *sql.Tx) (runs []Run, err error) {
	var run Run
	var started string
	to := []any{&run.ID, &run.Point, &run.Repetition, &run.Position, &started, &run.Seconds, &run.State, &run.Error}
	err = each(ctx, tx, to, func() (err error) {
		if run.Started, err = time.Parse(time.RFC3339Nano, started); err != nil {
			return fmt.Errorf("run %d: started: %w", run.ID, err)
		}
		run.Factors = map[string]string{}
		runs = append(runs, run)
		return nil
	},
		"SELECT id, point, repetition, position, started, seconds, state, error FROM runs ORDER BY point, "+
			"repetition, id")
	if err != nil {
		return nil, err
	}
	byID := make(map[int64]*Run, len(runs))
	for i := range runs {
		byID[runs[i].ID] = &runs[i]
	}
	var id int64
	var name, level string
	var result Value
	var warning Warning
	for _, table := range []struct {
		name, query string
		to          []any
		add         func(run *Run)
	}{
		{
			"factors", "SELECT run, name, level FROM factors",
			[]any{&id, &name, &level},
			func(run *Run) { run.Factors[name] = level },
		},
		{
			"results", "SELECT run, source, metric, value FROM results ORDER BY run, source, metric",
			[]any{&id, &result.Source, &result.Metric, &result.Value},
			func(run *Run) { run.Results = append(run.Results, result) },
		},
		{
			"warnings", "SELECT run, code, message FROM warnings WHERE run IS NOT NULL ORDER BY rowid",
			[]any{&id, &warning.Code, &warning.Message},
			func(run *Run) { run.Warnings = append(run.Warnings, warning) },
		},
	} {
		err := each(ctx, tx, table.to, func() error {
			run := byID[id]
			if run == nil {
				return fmt.Errorf("%s has a row of run %d, which is not in runs", table.name, id)
			}
			table.add(run)
			return nil
		}, table.query)
		if err != nil {
			return nil, err
		}
	}
	for _, run := range runs {
		renameClients(run.Factors)
	}
	return runs, nil
}

// renameClients replaces the factor connections of a record of an earlier version by clients. There clients was the
// same, or the number of threads of an imported load.
func renameClients(factors map[string]string) {
	connections, ok := factors["connections"]
	if !ok {
		return
	}
	if threads := factors["clients"]; threads != "" && threads != connections {
		factors["load_threads"] = threads
	}
	factors["clients"] = connections
	delete(factors, "connections")
}

// Warnings returns the warnings of the whole set; Runs has those of single runs.
func (r *Record) Warnings(ctx context.Context) (warnings []Warning, err error) {
	var w Warning
	err = each(ctx, r.db, []any{&w.Code, &w.Message}, func() error { warnings = append(warnings, w); return nil },
		"SELECT code, message FROM warnings WHERE run IS NULL ORDER BY rowid")
	return warnings, explain(r.dir, err)
}

// Windows returns the windows of a run, ordered by source, metric and start.
func (r *Record) Windows(run int64) ([]Window, error) {
	return r.windows("windows", run)
}

// HostSamples returns the samples of the hosts during a run, ordered by source, metric and start.
func (r *Record) HostSamples(run int64) ([]Window, error) {
	return r.windows("host_samples", run)
}

func (r *Record) windows(table string, run int64) (windows []Window, err error) {
	var w Window
	err = each(context.Background(), r.db, []any{&w.Source, &w.Start, &w.Seconds, &w.Metric, &w.Value},
		func() error { windows = append(windows, w); return nil },
		"SELECT source, start, seconds, metric, value FROM "+table+" WHERE run = ? ORDER BY source, metric, start", run)
	return windows, explain(r.dir, err)
}

// Histograms returns the histograms of a run, ordered by source, metric, command and lower edge.
func (r *Record) Histograms(run int64) (bins []Bin, err error) {
	var b Bin
	err = each(context.Background(), r.db, []any{&b.Source, &b.Metric, &b.Command, &b.Lower, &b.Upper, &b.Count},
		func() error { bins = append(bins, b); return nil },
		"SELECT source, metric, command, lower, upper, count FROM histograms WHERE run = ? ORDER BY source, metric, "+
			"command, lower", run)
	return bins, explain(r.dir, err)
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// each reads the rows of a query into to, one after the other, and calls f after each.
func each(ctx context.Context, q querier, to []any, f func() error, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			return err
		}
		if err := f(); err != nil {
			return err
		}
	}
	return rows.Err()
}
