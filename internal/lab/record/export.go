package record

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Tables are the tables of a record, in the order in which they are described.
var Tables = []string{"runs", "factors", "metrics", "results", "windows", "histograms", "host_samples", "warnings"}

// The formats of Export.
const (
	CSV   = "csv"   // a line of names, then the rows; nothing for NULL, inf for an infinite number
	JSON  = "json"  // one array of objects; null for NULL and for an infinite number
	JSONL = "jsonl" // one object per line, likewise
)

// Formats are the formats of Export.
var Formats = []string{CSV, JSON, JSONL}

// Export writes every table to a file TABLE.FORMAT in a directory, which is made and must not hold such a file yet. All files are of
// one moment. What was written when an error occurs stays.
func (r *Record) Export(ctx context.Context, dir, format string) error {
	if !slices.Contains(Formats, format) {
		return fmt.Errorf("format %q: expected one of %v", format, Formats)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return explain(dir, err)
	}
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return explain(r.dir, err)
	}
	defer tx.Rollback() // nothing was written
	for _, table := range Tables {
		path := filepath.Join(dir, table+"."+format)
		if err := exportTable(ctx, tx, table, path, format); err != nil {
			return explain(path, err)
		}
	}
	return nil
}

func exportTable(ctx context.Context, tx *sql.Tx, table, path, format string) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	rows, err := tx.QueryContext(ctx, "SELECT * FROM "+table)
	if err != nil {
		return err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(file)
	var w rowWriter
	switch format {
	case CSV:
		w = &csvWriter{csv: csv.NewWriter(out)}
	case JSON:
		w = &jsonWriter{out: out, names: names, begin: "[\n", between: ",\n", end: "\n]\n"}
	default:
		w = &jsonWriter{out: out, names: names, between: "\n", end: "\n"}
	}
	if err := w.head(names); err != nil {
		return err
	}
	values, pointers := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		pointers[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(pointers...); err != nil {
			return err
		}
		if err := w.row(values); err != nil {
			return err
		}
	}
	return errors.Join(rows.Err(), w.foot(), out.Flush())
}

type rowWriter interface {
	head(names []string) error
	row(values []any) error
	foot() error
}

type csvWriter struct {
	csv  *csv.Writer
	text []string // one row
}

func (w *csvWriter) head(names []string) error {
	w.text = make([]string, len(names))
	return w.csv.Write(names)
}

func (w *csvWriter) row(values []any) error {
	for i, v := range values {
		switch v := v.(type) {
		case nil:
			w.text[i] = ""
		case float64:
			w.text[i] = strconv.FormatFloat(v, 'g', -1, 64)
			if math.IsInf(v, 0) {
				w.text[i] = map[bool]string{true: "inf", false: "-inf"}[v > 0]
			}
		default:
			w.text[i] = fmt.Sprint(v)
		}
	}
	return w.csv.Write(w.text)
}

func (w *csvWriter) foot() error {
	w.csv.Flush()
	return w.csv.Error()
}

type jsonWriter struct {
	out                 *bufio.Writer
	names               []string
	begin, between, end string
	rows                int
}

func (w *jsonWriter) head([]string) error {
	_, err := w.out.WriteString(w.begin)
	return err
}

// row writes an object whose members are in the order of the columns.
func (w *jsonWriter) row(values []any) error {
	if w.rows > 0 {
		io.WriteString(w.out, w.between) // the buffer keeps the error
	}
	w.rows++
	for i, v := range values {
		if x, ok := v.(float64); ok && math.IsInf(x, 0) {
			v = nil
		}
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		opening := ", "
		if i == 0 {
			opening = "{"
		}
		if _, err := fmt.Fprintf(w.out, "%s%q: %s", opening, w.names[i], text); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w.out, "}")
	return err
}

func (w *jsonWriter) foot() error {
	if w.rows == 0 && w.begin == "" {
		return nil
	}
	_, err := io.WriteString(w.out, w.end)
	return err
}
