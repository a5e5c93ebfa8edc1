package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mcmw/lab/paper"
	"mcmw/lab/record"
	"mcmw/lab/report"
	"mcmw/lab/table"
)

// paperOut is the default directory of the pages of --paper.
const paperOut = "results/paper-report"

// runPaperReport compares records with the reports whose experiments they repeat: with the report named by the first
// argument, or with all.
func (f *reportFlags) runPaperReport(ctx context.Context, args []string, stdout io.Writer) (err error) {
	if err := f.checkPaper(); err != nil {
		return err
	}
	names, dirs, err := paperArguments(args)
	if err != nil {
		return usageError{err}
	}
	opened, err := recordsIn(dirs)
	if err != nil {
		return err
	}
	var records []*record.Record
	defer func() {
		for _, r := range records {
			err = errors.Join(err, r.Close())
		}
	}()
	var reports []string // whose experiments the records repeat
	for _, dir := range opened {
		r, err := record.Open(dir)
		if err != nil {
			return err
		}
		records = append(records, r)
		if name := paper.ReportOf(r.Manifest().Name); name != "" && !slices.Contains(reports, name) {
			reports = append(reports, name)
		}
	}
	if len(reports) == 0 {
		return usageError{fmt.Errorf("no record is one of a report's experiments; expected records of the files in "+
			"experiments/%s/", strings.Join(paper.Names, "/, experiments/"))}
	}
	if names == nil {
		names = reports
	}
	if (len(f.figures)+len(f.tables) > 0 || f.claims != "") && len(names) != 1 {
		return usageError{fmt.Errorf("--figure, --table and --claims need a single report; expected its name after "+
			"--paper: %s", strings.Join(reports, " or "))}
	}
	evidence, err := paper.NewEvidence(ctx, records)
	if err != nil {
		return usageError{err}
	}
	for _, name := range names {
		r, err := paper.Load(name, f.claims)
		if err != nil {
			return usageError{err}
		}
		if err := f.writePaper(r, evidence, dirs, stdout); err != nil {
			return err
		}
	}
	return nil
}

// checkPaper checks the flags of --paper, and refuses those for a single record.
func (f *reportFlags) checkPaper() error {
	switch {
	case f.list || len(f.where) > 0 || f.view.X+f.view.Series+f.view.Command != "" || len(f.view.Panels) > 0:
		return usageError{errors.New("--paper can only be combined with --out, --figure, --table, --format and " +
			"--claims; other flags are for the report of one record")}
	case len(f.formats) > 0 && len(f.tables) == 0:
		return usageError{errors.New("--format: expected with --paper only together with --table, because the page " +
			"is always HTML")}
	}
	return f.checkOutput()
}

// recordsIn replaces each directory that is not a record by the records in it.
func recordsIn(dirs []string) (records []string, err error) {
	for _, dir := range dirs {
		before := len(records)
		err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
			if path := filepath.Join(dir, name); err == nil && record.Is(path) {
				if records = append(records, path); entry.IsDir() { // or a link to one
					err = fs.SkipDir
				}
			}
			return err
		})
		if err == nil && len(records) == before {
			err = errors.New("there is no record in it")
		}
		if err != nil {
			return nil, usageError{fmt.Errorf("%s: expected a record, or a directory of records: %w", dir, err)}
		}
	}
	return records, nil
}

// named returns the elements that the values of a flag name.
func named[T any](flag string, names []string, all []T, nameOf func(T) string) (chosen []T, err error) {
	var known []string
	for _, one := range all {
		known = append(known, nameOf(one))
	}
	if err := oneOfEach(flag, names, known); err != nil {
		return nil, err
	}
	for _, name := range names {
		chosen = append(chosen, all[slices.Index(known, name)])
	}
	return chosen, nil
}

// paperArguments separates the name of a report, which is optional, from the directories of records.
func paperArguments(args []string) (names, dirs []string, err error) {
	if len(args) > 0 && slices.Contains(paper.Names, args[0]) {
		names, args = args[:1], args[1:]
	}
	if len(args) == 0 {
		return nil, nil,
			fmt.Errorf("--paper: no records; expected an optional name of a report (%s), then records or directories "+
				"of records, such as results/paper", strings.Join(paper.Names, ", "))
	}
	return names, args, nil
}

// writePaper writes the page of a report and its figures, and prints its tables.
func (f *reportFlags) writePaper(r *paper.Report, e *paper.Evidence, dirs []string, stdout io.Writer) error {
	findings, s := r.Decide(e), paper.Of(r, e)
	s.Command = report.CommandLine(append([]string{"mcmwlab", "report", "--paper", r.Name}, dirs...))
	page, err := s.Page(findings)
	if err != nil {
		return err
	}
	out := cmp.Or(f.out, paperOut)
	if len(f.figures)+len(f.tables) > 0 {
		var some report.Report // those that the flags name
		var err2 error
		some.Figures, err = named("figure", f.figures, page.Figures,
			func(figure table.Figure) string { return figure.Name })
		some.Tables, err2 = named("table", f.tables, page.Tables, func(t table.Table) string { return t.Label })
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		return f.writeSome(&some, out, stdout)
	}
	if err := writeFigures(page.Figures, out, io.Discard); err != nil {
		return err
	}
	path := filepath.Join(out, r.Name+".html")
	if err := writeFile(path, page.WriteHTML); err != nil {
		return err
	}
	for _, finding := range findings {
		fmt.Fprintf(stdout, "%-20s %-4s %s\n    %s\n", finding.Verdict, finding.Section, finding.Text, finding.Why)
	}
	fmt.Fprintln(stdout)
	for _, t := range page.Tables {
		if t.Label == report.FindingsTable {
			continue // printed above; its lines are too long for a terminal
		}
		if err := t.Write(stdout, table.Text); err != nil {
			return err
		}
	}
	for _, finding := range page.Findings {
		fmt.Fprintln(stdout, finding)
	}
	_, err = fmt.Fprintln(stdout, path)
	return err
}
