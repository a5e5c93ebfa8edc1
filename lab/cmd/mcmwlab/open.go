package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"mcmw/lab/check"
	"mcmw/lab/foreign"
	"mcmw/lab/record"
)

// opened is an open record, which can be a temporary one made from a file.
type opened struct {
	*record.Record
	temporary string // directory of a temporary record, which Close removes; else ""
}

// openRecord opens the record in a directory, or a temporary record made from a file that import can read.
func openRecord(ctx context.Context, path string) (o *opened, err error) {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		r, err := record.Open(path)
		return &opened{Record: r}, err
	}
	found, format, err := readOutput(path, "auto", nil)
	if err != nil {
		return nil, err
	}
	foreign.Place(found)
	dir, err := os.MkdirTemp("", "mcmwlab-record-")
	if err != nil {
		return nil, err
	}
	o = &opened{temporary: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	m := record.Manifest{Name: filepath.Base(path), Created: found[0].Run.Started.In(time.UTC), Imported: format}
	o.Record, _, err = createRecord(ctx, filepath.Join(dir, "record"), m, found)
	return o, err
}

// createRecord creates a record of runs, checks it, and opens it.
func createRecord(ctx context.Context, dir string, m record.Manifest, found []foreign.Found) (r *record.Record,
	warnings int, err error,
) {
	if err := foreign.Write(ctx, dir, m, found); err != nil {
		return nil, 0, err
	}
	if r, err = record.Open(dir); err != nil {
		return nil, 0, err
	}
	if warnings, err = check.Record(ctx, r); err != nil {
		return nil, 0, errors.Join(err, r.Close())
	}
	return r, warnings, nil
}

// Close closes the record, and removes a temporary one.
func (o *opened) Close() error {
	err := o.Record.Close()
	if o.temporary != "" {
		err = errors.Join(err, os.RemoveAll(o.temporary))
	}
	return err
}

// readOutput reads the runs in a file.
func readOutput(path, format string, factors map[string]string) ([]foreign.Found, string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, "", err
	}
	runs, format, err := foreign.ParseFile(text, format, factors)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	var found []foreign.Found
	for _, run := range runs {
		if info, err := os.Stat(path); err == nil && run.Started.IsZero() {
			run.Started = info.ModTime()
		}
		found = append(found, foreign.Found{
			Run: run, Root: os.DirFS(filepath.Dir(path)),
			Files: []string{filepath.Base(path)},
		})
	}
	return found, format, nil
}
