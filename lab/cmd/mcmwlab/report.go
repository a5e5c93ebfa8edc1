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

	"github.com/spf13/cobra"

	"mcmw/lab/paper"
	"mcmw/lab/record"
	"mcmw/lab/report"
	"mcmw/lab/table"
)

type reportFlags struct {
	out        string
	figures    []string
	tables     []string
	formats    []string
	where      map[string]string
	confidence float64
	list       bool
	paper      bool
	claims     string
	view       report.View
}

func newReportCommand() *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:   "report RECORD | report --paper [NAME] RECORD...",
		Short: "Make a page, figures and tables of a record",
		Long: `Make a page, figures and tables of a record: a self-contained index.html, and every figure as an SVG file. The
varying factors are assigned to the x axis, the lines and the panels of the figures; flags override this.
docs/report.md describes every figure and table, and how saturation and bottlenecks are found.

With --paper, compare records of a published report's experiments (lab/experiments/NAME/) with the report: its tables, and its findings with
verdicts from the records (docs/results/paper.md). Without NAME, all reports with records are compared. A directory of records stands for all
records in it.`,
		Example: `  mcmwlab report results/sweep
  mcmwlab report results/sweep --figure throughput --out -> throughput.svg
  mcmwlab report results/sweep --table maximum --format latex
  mcmwlab report --paper results/paper
  mcmwlab report results/sweep --x keys_per_get --series sharded --where workers=8`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.paper {
				return f.runPaperReport(cmd.Context(), args, cmd.OutOrStdout())
			}
			if err := oneRecord(cmd, args); err != nil {
				return err
			}
			return f.run(cmd.Context(), args, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.out, "out", "o", "",
		"directory to write to (default RECORD/report); - writes one figure or table to standard output")
	flags.StringArrayVar(&f.figures, "figure", nil, "write only this figure; repeatable (--list lists them)")
	flags.StringArrayVar(&f.tables, "table", nil, "print only this table; repeatable")
	flags.StringSliceVar(&f.formats, "format", nil,
		formatHelp+"; several with commas (default html, for single tables markdown; all but html and markdown have "+
			"only the tables)")
	flags.StringVar(&f.view.X, "x", "", "factor of the x axis")
	flags.StringVar(&f.view.Series, "series", "", "factor of the lines")
	flags.StringSliceVar(&f.view.Panels, "panels", nil, "factors of the panels")
	defineWhere(flags, &f.where)
	flags.StringVar(&f.view.Command, "command", "", "use only requests of one kind: get, set or multiget")
	flags.Float64Var(&f.confidence, "confidence", report.DefaultConfidence,
		"confidence of the intervals, between 0 and 1")
	flags.BoolVar(&f.paper, "paper", false,
		"compare records with the published reports whose experiments they repeat (default --out "+paperOut+")")
	flags.StringVar(&f.claims, "claims", "",
		"file with the findings of the report of --paper (default: the built-in lab/experiments/reports/NAME.yaml)")
	flags.BoolVar(&f.list, "list", false, "list the figures and tables that can be made of the record")
	return cmd
}

// run makes the requested outputs of the record in args.
func (f *reportFlags) run(ctx context.Context, args []string, stdout io.Writer) error {
	if err := f.check(); err != nil {
		return err
	}
	r, err := openRecord(ctx, args[0])
	if err != nil {
		return err
	}
	defer r.Close()
	d, err := report.Read(ctx, r, f.confidence, f.where)
	if err != nil {
		return err
	}
	v, err := d.Choose(f.view)
	if err != nil {
		return err
	}
	out := f.out
	if out == "" {
		out = filepath.Join(args[0], "report")
		if !record.Is(args[0]) {
			out = strings.TrimSuffix(args[0], filepath.Ext(args[0])) + "-report"
		}
	}
	switch {
	case f.list:
		return list(d, v, stdout)
	case len(f.figures)+len(f.tables) > 0:
		some := &report.Report{}
		if len(f.figures) > 0 {
			if some.Figures, err = d.Figures(v, f.figures); err != nil {
				return err
			}
		}
		if len(f.tables) > 0 {
			some.Tables = d.Tables(v, f.tables)
		}
		return f.writeSome(some, out, stdout)
	}
	page, err := f.all(d, v, out, stdout)
	if err != nil {
		return err
	}
	for _, finding := range page.Findings {
		fmt.Fprintln(stdout, finding)
	}
	if page.Warnings != "" {
		fmt.Fprintf(stdout, "Warning: %s.\n", page.Warnings)
	}
	return nil
}

// check checks the flags.
func (f *reportFlags) check() (err error) {
	if err := checkConfidence(f.confidence); err != nil {
		return err
	}
	if f.view.Command != "" {
		err = oneOfEach("command", []string{f.view.Command}, record.Commands)
	}
	return cmp.Or(err, f.checkOutput(), oneOfEach("figure", f.figures, report.FigureNames()),
		oneOfEach("table", f.tables, report.TableNames()))
}

// checkOutput checks the flags --format and --out.
func (f *reportFlags) checkOutput() error {
	if err := oneOfEach("format", f.formats, table.Formats); err != nil {
		return err
	}
	if f.out == "-" && len(f.figures)+len(f.tables) != 1 {
		return usageError{errors.New("--out -: expected exactly one --figure or --table with it")}
	}
	return nil
}

// list prints the figures and tables that can be made.
func list(d *report.Data, v report.View, stdout io.Writer) error {
	figures, err := d.Figures(v, nil)
	if err != nil {
		return err
	}
	for _, fig := range figures {
		fmt.Fprintf(stdout, "%-8s%-22s%s\n", "figure", fig.Name, fig.Title)
	}
	for _, t := range d.Tables(v, nil) {
		fmt.Fprintf(stdout, "%-8s%-22s%s\n", "table", t.Label, t.Caption)
	}
	return nil
}

// writeSome writes figures to files or standard output, and prints tables.
func (f *reportFlags) writeSome(r *report.Report, out string, stdout io.Writer) error {
	if out == "-" && len(r.Figures) > 0 {
		_, err := stdout.Write(r.Figures[0].SVG())
		return err
	}
	if len(r.Figures) > 0 {
		if err := writeFigures(r.Figures, out, stdout); err != nil {
			return err
		}
	}
	if len(r.Tables) == 0 {
		return nil
	}
	format := table.Markdown
	if len(f.formats) > 0 {
		format = f.formats[0]
	}
	return table.Of(nil, r.Tables...).Write(stdout, format)
}

// writeFigures writes every figure to its file in a directory, and prints the paths.
func writeFigures(figures []table.Figure, out string, stdout io.Writer) error {
	var p table.Page
	for _, fig := range figures {
		p.Blocks = append(p.Blocks, fig)
		fmt.Fprintln(stdout, filepath.Join(out, fig.File()))
		if fig.Warnings != "" {
			fmt.Fprintf(stdout, "  warning: %s\n", fig.Warnings)
		}
	}
	return p.Save(out)
}

var fileNames = map[string]string{
	table.HTML: "index.html", table.Markdown: "report.md", table.LaTeX: "tables.tex", table.Text: "tables.txt",
	table.CSV: "tables.csv", table.JSON: "tables.json",
}

// all writes the report in every requested format, and all figures, and prints the paths of the former.
func (f *reportFlags) all(d *report.Data, v report.View, out string, stdout io.Writer) (*report.Report, error) {
	r, err := d.Report(v)
	if err != nil {
		return nil, err
	}
	if err := writeFigures(r.Figures, out, io.Discard); err != nil {
		return nil, err
	}
	formats := f.formats
	if len(formats) == 0 {
		formats = []string{table.HTML}
	}
	for _, format := range formats {
		path := filepath.Join(out, fileNames[format])
		if err := writeFile(path, func(w io.Writer) error { return r.Write(w, format) }); err != nil {
			return nil, err
		}
		fmt.Fprintln(stdout, path)
	}
	return r, nil
}

// conclude makes the page of a record, and prints the sentence that answers the experiment's question, and the page's
// path.
func conclude(ctx context.Context, dir string, stdout io.Writer) error {
	r, err := record.Open(dir)
	if err != nil {
		return err
	}
	defer r.Close()
	d, err := report.Read(ctx, r, report.DefaultConfidence, nil)
	if err != nil {
		return err
	}
	v, err := d.Choose(report.View{})
	if err != nil {
		return err
	}
	var path strings.Builder
	page, err := (&reportFlags{}).all(d, v, filepath.Join(dir, "report"), &path)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s\n%s", page.Answer, path.String())
	return err
}

// paperOut is the default directory of the pages of --paper.
const paperOut = "results/paper-report"

// runPaperReport compares records with the reports whose experiments they repeat: with the report named by the first
// argument, or with all.
func (f *reportFlags) runPaperReport(ctx context.Context, args []string, stdout io.Writer) (err error) {
	if err := f.checkPaper(); err != nil {
		return err
	}
	var names []string
	dirs := args
	if len(args) > 0 && slices.Contains(paper.Names, args[0]) {
		names, dirs = args[:1], args[1:]
	}
	if len(dirs) == 0 {
		return usageError{fmt.Errorf("--paper: no records; expected an optional name of a report (%s), then records "+
			"or directories of records, such as results/paper", strings.Join(paper.Names, ", "))}
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
