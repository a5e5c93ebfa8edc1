package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"mcmw/lab/load"
	"mcmw/lab/memtier"
)

type loadOutputs struct {
	text, json, csv, hdrPrefix string
}

func (l *loadOutputs) define(flags *pflag.FlagSet) {
	flags.StringVarP(&l.text, "out-file", "o", "", "write the text to this file instead of standard output")
	flags.StringVar(&l.json, "json-out-file", "", "write the result as JSON to this file; - for standard output")
	flags.StringVar(&l.csv, "csv-out-file", "",
		"write the time series as CSV to this file, a line per second and command")
	flags.StringVar(&l.hdrPrefix, "hdr-file-prefix", "",
		"write the histogram of each command to PREFIX_<COMMAND>_command_run_1.hgrm (log) and .txt (percentiles), "+
			"and that of all requests to PREFIX_FULL_RUN_1")
}

// check checks before the load runs that the directories of the files exist.
func (l *loadOutputs) check() error {
	for _, path := range []string{l.text, l.json, l.csv, l.hdrPrefix} {
		if path == "" || path == "-" {
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
	switch {
	case l.text != "":
		if err := writeFile(l.text, r.WriteText); err != nil {
			return err
		}
	case l.json != "-":
		if err := r.WriteText(stdout); err != nil {
			return err
		}
	}
	if l.json != "" {
		if err := writeJSON(l.json, stdout, r); err != nil {
			return err
		}
	}
	if l.csv != "" {
		if err := writeFile(l.csv, r.WriteCSV); err != nil {
			return err
		}
	}
	if l.hdrPrefix == "" {
		return nil
	}
	if err := l.writeHistogram(r, "FULL_RUN_1", "FULL RUN", r.Total.Histogram); err != nil {
		return err
	}
	for name, result := range r.Commands {
		if err := l.writeHistogram(r, name+"_command_run_1", name+" command", result.Histogram); err != nil {
			return err
		}
	}
	return nil
}

// writeHistogram writes the two files of a histogram.
func (l *loadOutputs) writeHistogram(r *load.Result, name, title string, h *load.Histogram) error {
	if h == nil {
		return nil
	}
	path := l.hdrPrefix + "_" + name
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

// The drivers of `mcmwlab load`.
const (
	driverOwn     = load.DriverOwn
	driverMemtier = memtier.Name
)

// driverFlags select the load generator.
type driverFlags struct {
	name    string
	memtier memtier.Program
}

func (d *driverFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&d.name, "driver", driverOwn,
		"load generator: mcmwlab, or memtier (memtier_benchmark, which must be installed)")
	flags.StringVar(&d.memtier.Path, "memtier", "", "path of memtier_benchmark (default: the one in PATH)")
}

func (d *driverFlags) check() error {
	_, err := isSecond("driver", d.name, driverOwn, driverMemtier)
	return err
}

func (d *driverFlags) runMemtier(ctx context.Context, o load.Options, quiet bool, stderr io.Writer) (*load.Result,
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
	return d.memtier.Run(ctx, o)
}
