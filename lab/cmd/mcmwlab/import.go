package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"mcmw/lab/check"
	"mcmw/lab/foreign"
	"mcmw/lab/record"
)

type importFlags struct {
	out, format string
	factors     map[string]string
	command     []string
}

func newImportCommand(args []string, stderr io.Writer) *cobra.Command {
	f := importFlags{command: append([]string{"mcmwlab"}, args...)}
	cmd := &cobra.Command{
		Use:   "import PATH...",
		Short: "Import other programs' measurements as a record",
		Long: `Import other programs' measurements as a record. PATH is a file with an output of mcmwlab load (JSON), memtier_benchmark (text or JSON),
memaslap or dstat.

The factors are from the outputs, from folders named NAME=LEVEL, and from --factor. Files with the
same factors are repetitions.`,
		Example: `  mcmwlab import --out results/memtier --factor servers=1 workers=8/run1.json workers=8/run2.json workers=16/run1.json`,
		Args:    arguments(1, -1, "files"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, cmd.OutOrStdout(), stderr)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.out, "out", "", "directory of the new record, which must not exist")
	flags.StringVar(&f.format, "format", "auto", "format of the files: auto, "+strings.Join(foreign.Formats, ", "))
	flags.StringToStringVar(&f.factors, "factor", nil, "NAME=LEVEL,...: levels of further factors, such as servers=3")
	return cmd
}

// run reads the files at the paths and creates the record.
func (f *importFlags) run(ctx context.Context, paths []string, stdout, stderr io.Writer) error {
	if f.out == "" {
		return usageError{errors.New("--out is missing: expected the directory of the new record")}
	}
	found, imported, err := f.read(ctx, paths, stderr)
	if err != nil {
		return err
	}
	manifest := record.Manifest{Name: filepath.Base(f.out), Created: time.Now(), Command: f.command, Imported: imported}
	if err := foreign.Write(ctx, f.out, manifest, found); err != nil {
		return err
	}
	r, err := record.Open(f.out)
	if err != nil {
		return err
	}
	warnings, err := check.Record(ctx, r)
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	failed := 0
	for _, one := range found {
		if one.Run.State == record.Failed {
			failed++
		}
	}
	text := fmt.Sprintf("%s imported into %s", count(len(found), "run"), f.out)
	if failed > 0 {
		text += fmt.Sprintf("; %d of them failed", failed)
	}
	if warnings > 0 {
		text += "; " + count(warnings, "warning") + " (mcmwlab show lists them)"
	}
	fmt.Fprintln(stdout, text)
	return nil
}

// read returns the runs at the paths and their format.
func (f *importFlags) read(ctx context.Context, paths []string, stderr io.Writer) ([]foreign.Found, string, error) {
	p := newProgress(stderr)
	defer p.clear()
	var found []foreign.Found
	var formats []string
	for i, path := range paths {
		if err := ctx.Err(); err != nil {
			return nil, "", err
		}
		if p.terminal {
			p.show(fmt.Sprintf("reading %d of %d: %s", i+1, len(paths), path))
		}
		factors := foreign.PathFactors(path)
		maps.Copy(factors, f.factors)
		runs, format, err := readOutput(path, f.format, factors)
		if err != nil {
			return nil, "", err
		}
		found = append(found, runs...)
		if !slices.Contains(formats, format) {
			formats = append(formats, format)
		}
	}
	foreign.Place(found)
	return found, strings.Join(formats, ", "), nil
}

// openRecord opens the record in a directory, or makes one in memory of a file that import can read.
func openRecord(ctx context.Context, path string) (*record.Record, error) {
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return record.Open(path)
	}
	found, format, err := readOutput(path, "auto", nil)
	if err != nil {
		return nil, err
	}
	foreign.Place(found)
	var runs []record.Run
	for _, one := range found {
		runs = append(runs, one.Run)
	}
	r, err := record.InMemory(path, record.Manifest{
		Name: filepath.Base(path), Created: runs[0].Started.In(time.UTC), Imported: format,
	}, runs, nil)
	if err == nil {
		_, err = check.Record(ctx, r)
	}
	return r, err
}

// readOutput reads the runs in a file.
func readOutput(path, format string, factors map[string]string) ([]foreign.Found, string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, syscall.EISDIR) {
		return nil, "", usageError{fmt.Errorf("%s is a directory: expected files with the outputs of programs", path)}
	}
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
		found = append(found, foreign.Found{Run: run, Path: path})
	}
	return found, format, nil
}
