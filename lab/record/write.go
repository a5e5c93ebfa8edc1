package record

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Add stores a run with all its data in one transaction. It leaves out values that aren't finite, such as the mean of
// no requests. The error is ErrExists if there is a run with the same ID, or a complete one of the same point and
// repetition. A metric that Describe does not know is an error.
func (r *Record) Add(run Run) error {
	return r.transact(r.memory, func(tx *sql.Tx) error { return add(tx, run) })
}

func add(tx *sql.Tx, run Run) error {
	if run.State != Complete && run.State != Failed {
		return fmt.Errorf("run of point %d, repetition %d has the state %q: expected %q or %q", run.Point,
			run.Repetition, run.State, Complete, Failed)
	}
	if run.ID == 0 {
		if err := tx.QueryRow(nextID).Scan(&run.ID); err != nil {
			return err
		}
	}
	if err := defineUsed(tx, run); err != nil {
		return err
	}
	return insert(tx, run)
}

// defineUsed adds every metric of the run to the table of metrics.
func defineUsed(tx *sql.Tx, run Run) error {
	used := map[string]bool{}
	for _, v := range run.Results {
		used[v.Metric] = true
	}
	for _, w := range slices.Concat(run.Windows, run.HostSamples) {
		used[w.Metric] = true
	}
	for _, b := range run.Histograms {
		used[b.Metric] = true
	}
	define, err := tx.Prepare("INSERT INTO metrics (name, unit, help) VALUES (?, ?, ?) ON CONFLICT DO NOTHING")
	for name := range used {
		m, ok := Describe(name)
		if !ok {
			return fmt.Errorf("run %d: unknown metric %q: expected those of docs/record.md", run.ID, name)
		}
		if err == nil {
			_, err = define.Exec(m.Name, m.Unit, m.Help)
		}
	}
	return err
}

func insert(tx *sql.Tx, run Run) error {
	_,
		err := tx.Exec("INSERT INTO runs (id, point, repetition, position, started, seconds, state, error) VALUES "+
		"(?, ?, ?, ?, ?, ?, ?, ?)",
		run.ID, run.Point, run.Repetition, run.Position, run.Started.Format(time.RFC3339Nano), run.Seconds,
		string(run.State), run.Error)
	if e, ok := errors.AsType[*sqlite.Error](err); ok &&
		(e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY || e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE) {
		return fmt.Errorf("run %d of point %d, repetition %d: %w", run.ID, run.Point, run.Repetition, ErrExists)
	}
	if err != nil {
		return err
	}
	in := inserter{tx: tx, run: run.ID}
	for name, level := range run.Factors {
		in.row("factors (run, name, level)", name, level)
	}
	for _, v := range run.Results {
		if finite(v.Value) {
			in.row("results (run, source, metric, value)", v.Source, v.Metric, v.Value)
		}
	}
	for table, windows := range map[string][]Window{"windows": run.Windows, "host_samples": run.HostSamples} {
		for _, w := range windows {
			if finite(w.Value) {
				in.row(table+" (run, source, start, seconds, metric, value)", w.Source, w.Start, w.Seconds, w.Metric,
					w.Value)
			}
		}
	}
	for _, b := range run.Histograms {
		if b.Count > math.MaxInt64 || math.IsNaN(b.Lower) || math.IsNaN(b.Upper) || b.Lower > b.Upper {
			in.err = cmp.Or(in.err, fmt.Errorf("%s of %s: bin from %v to %v with %d values: expected lower <= upper",
				b.Metric, b.Source, b.Lower, b.Upper, b.Count))
			break
		}
		in.row("histograms (run, source, metric, command, lower, upper, count)", b.Source, b.Metric, b.Command, b.Lower,
			b.Upper, int64(b.Count))
	}
	for _, w := range run.Warnings {
		in.row("warnings (run, code, message)", w.Code, w.Message)
	}
	if in.err != nil {
		return fmt.Errorf("run %d: %w", run.ID, in.err)
	}
	return nil
}

// SetWarnings replaces the warnings of a run or, if run is 0, those of the whole set.
func (r *Record) SetWarnings(run int64, warnings []Warning) error {
	return r.transact(r.text, func(tx *sql.Tx) error { return setWarnings(tx, run, warnings) })
}

func setWarnings(tx *sql.Tx, run int64, warnings []Warning) error {
	id := sql.NullInt64{Int64: run, Valid: run != 0} // NULL for the set
	if _, err := tx.Exec("DELETE FROM warnings WHERE run IS ?", id); err != nil {
		return err
	}
	in := inserter{tx: tx, run: id}
	for _, w := range warnings {
		in.row("warnings (run, code, message)", w.Code, w.Message)
	}
	return in.err
}

// transact runs f in a transaction, and commits it unless f fails. refused: the record does not take it.
func (r *Record) transact(refused bool, f func(*sql.Tx) error) error {
	if refused {
		return fmt.Errorf("%s: %w: it has no database", r.dir, ErrReadOnly)
	}
	tx, err := r.db.BeginTx(context.Background(), nil)
	if err != nil {
		return explain(r.dir, err)
	}
	defer tx.Rollback() // does nothing after Commit
	if err := f(tx); err != nil {
		return explain(r.dir, err)
	}
	return explain(r.dir, tx.Commit())
}

// inserter inserts rows of one run, until the first error.
type inserter struct {
	tx        *sql.Tx
	run       any
	table     string
	statement *sql.Stmt
	err       error
}

// row inserts the run's ID and the values. It prepares a statement only when the table changes.
func (in *inserter) row(table string, values ...any) {
	if in.err != nil {
		return
	}
	if table != in.table {
		marks := "?"
		for range values {
			marks += ", ?"
		}
		in.table = table
		if in.statement, in.err = in.tx.Prepare("INSERT INTO " + table + " VALUES (" + marks + ")"); in.err != nil {
			return
		}
	}
	_, in.err = in.statement.Exec(append([]any{in.run}, values...)...)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
