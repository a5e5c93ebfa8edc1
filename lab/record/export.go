package record

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Tables are the tables of a record, in the order of docs/record.md.
var Tables = []string{"runs", "factors", "metrics", "results", "windows", "histograms", "host_samples", "warnings"}

// The formats of Export.
const (
	CSV   = "csv"   // a line of names, then the rows; NULL is an empty cell, an infinite number is inf
	JSON  = "json"  // one array of objects; NULL and infinite numbers are null
	JSONL = "jsonl" // one object per line, with the same values
	Text  = "text"  // the manifest, and lines for runs, windows and warnings, which Open reads as a record
)

// Formats are the formats of Export.
var Formats = []string{CSV, JSON, JSONL, Text}

// Export writes every table to a file TABLE.FORMAT in a directory, which it creates if needed; with Text the record as
// text instead. It returns the files' paths. A file that exists is an error. All files show the same state of the
// record. After an error the files written so far stay.
func (r *Record) Export(ctx context.Context, dir, format string) (files []string, _ error) {
	if !slices.Contains(Formats, format) {
		return nil, fmt.Errorf("format %q: expected one of %v", format, Formats)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, explain(dir, err)
	}
	if format == Text {
		return r.exportText(ctx, dir)
	}
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, explain(r.dir, err)
	}
	defer tx.Rollback() // nothing was written
	for _, table := range Tables {
		path := filepath.Join(dir, table+"."+format)
		if err := exportTable(ctx, tx, table, path, format); err != nil {
			return nil, explain(path, err)
		}
		files = append(files, path)
	}
	return files, nil
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
	out := bufio.NewWriter(file) // Flush returns the first error of all writes
	lines := csv.NewWriter(out)
	switch format {
	case CSV:
		lines.Write(names)
	case JSON:
		out.WriteString("[\n")
	}
	values, pointers := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		pointers[i] = &values[i]
	}
	for n := 0; rows.Next(); n++ {
		if err := rows.Scan(pointers...); err != nil {
			return err
		}
		switch {
		case format == CSV:
			lines.Write(csvCells(values))
			continue
		case format == JSON && n > 0:
			out.WriteString(",\n")
		}
		if err := writeObject(out, names, values); err != nil {
			return err
		}
		if format == JSONL {
			out.WriteString("\n")
		}
	}
	if format == JSON {
		out.WriteString("\n]\n")
	}
	lines.Flush()
	return errors.Join(rows.Err(), lines.Error(), out.Flush())
}

func csvCells(values []any) []string {
	cells := make([]string, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case nil:
		case float64:
			cells[i] = strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(v, 'g', -1, 64), "+")) // +Inf is inf
		default:
			cells[i] = fmt.Sprint(v)
		}
	}
	return cells
}

// writeObject writes a JSON object with its members in the order of the columns.
func writeObject(out *bufio.Writer, names []string, values []any) error {
	opening := "{"
	for i, v := range values {
		if x, ok := v.(float64); ok && math.IsInf(x, 0) {
			v = nil
		}
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s%q: %s", opening, names[i], text)
		opening = ", "
	}
	return out.WriteByte('}')
}
