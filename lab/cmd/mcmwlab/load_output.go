package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mcmw/lab/load"
	"mcmw/lab/memtier"
)

// loadOutputs are the files of a load's result.
type loadOutputs struct {
	files []string // by the form that the name says
	json  string
}

// histograms begins the name of --out-file that stands for the files of the histograms.
const histograms = "hdr:"

// check checks before the load runs that the directories of the files exist, and that the files are none.
func (l *loadOutputs) check() error {
	files := l.files
	if l.json != "" {
		files = append(slices.Clip(files), l.json)
	}
	for _, path := range files {
		if info, err := os.Stat(path); path == "" || err == nil && info.IsDir() {
			return fmt.Errorf("%q can't be written: expected the path of a file", path)
		}
		if path = strings.TrimPrefix(path, histograms); path == "-" {
			continue
		}
		if info, err := os.Stat(filepath.Dir(path)); err != nil {
			return fmt.Errorf("%s can't be written: %w", path, err)
		} else if !info.IsDir() {
			return fmt.Errorf("%s can't be written: %s is not a directory", path, filepath.Dir(path))
		}
	}
	return nil
}

func (l *loadOutputs) write(r *load.Result, stdout io.Writer) error {
	printed := l.json != "-"
	for _, path := range l.files {
		var err error
		switch prefix, ok := strings.CutPrefix(path, histograms); {
		case ok:
			err = writeHistograms(r, prefix)
		case filepath.Ext(path) == ".csv":
			err = writeFile(path, r.WriteCSV)
		default:
			printed, err = false, writeFile(path, r.WriteText)
		}
		if err != nil {
			return err
		}
	}
	if printed {
		if err := r.WriteText(stdout); err != nil {
			return err
		}
	}
	if l.json == "" {
		return nil
	}
	return writeJSON(l.json, stdout, r)
}

// writeHistograms writes the files of all histograms.
func writeHistograms(r *load.Result, prefix string) error {
	err := writeHistogram(r, prefix+"_FULL_RUN_1", "FULL RUN", r.Total.Histogram)
	for name, result := range r.Commands {
		err = cmp.Or(err, writeHistogram(r, prefix+"_"+name+"_command_run_1", name+" command", result.Histogram))
	}
	return err
}

// writeHistogram writes the two files of a histogram.
func writeHistogram(r *load.Result, path, title string, h *load.Histogram) error {
	if h == nil {
		return nil
	}
	if err := writeFile(path+".txt", h.WritePercentiles); err != nil {
		return err
	}
	return writeFile(path+".hgrm", func(w io.Writer) error { return h.WriteLog(w, title, r.Started, r.Elapsed) })
}

func writeFile(path string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// writeJSON writes v to the file at path, or to stdout if the path is "-".
func writeJSON(path string, stdout io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if path == "-" {
		_, err = stdout.Write(text)
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// runMemtier runs memtier_benchmark, at the path after = in driver.
func runMemtier(ctx context.Context, o load.Options, driver string, quiet bool, stderr io.Writer) (*load.Result,
	error,
) {
	complete, err := o.Complete()
	if err == nil {
		_, err = memtier.Arguments(complete)
	}
	if err != nil {
		return nil, usageError{err}
	}
	if !quiet {
		p := newProgress(stderr)
		length := complete.Duration.String()
		if complete.Duration <= 0 {
			length = fmt.Sprintf("%d requests per connection", complete.Requests)
		}
		p.show("memtier_benchmark runs for " + length)
		defer p.clear()
	}
	_, path, _ := strings.Cut(driver, "=")
	return memtier.Run(ctx, path, o)
}
