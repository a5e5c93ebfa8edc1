package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"mcmw/internal/lab/paper"
	"mcmw/internal/lab/table"
)

// jsonFormat is the machine-readable format of commands that write tables.
const jsonFormat = "json"

func newPaperCommand() *cobra.Command {
	var selection paper.Selection
	var format string
	cmd := &cobra.Command{
		Use:   "paper [NAME]",
		Short: "Recompute the tables of published reports and compare them with the originals",
		Long: `Recompute the tables of five published reports on memcached and its middlewares from their own printed or raw data, and
show the result beside what was printed. Without NAME the reports are listed.

A figure agrees when the recomputed one, rounded, is the printed one, or differs from it by no more than the rounding of
the printed inputs explains. A law between measured figures holds to the difference that is shown. Every difference has a
reason.`,
		Example: `  mcmwlab paper
  mcmwlab paper ` + paper.Names[0] + ` --differences --format markdown`,
		Args: arguments(0, 1, "the name of a report"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPaper(cmd.OutOrStdout(), args, selection, format)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&selection.Table, "table", "", "show only this table, as printed and recomputed")
	flags.BoolVar(&selection.All, "all", false, "also show the tables as printed, and those that cannot be recomputed")
	flags.BoolVar(&selection.Differences, "differences", false, "leave out what agrees")
	flags.StringVar(&format, "format", "text", "text, markdown, latex, html or json")
	return cmd
}

// runPaper shows a report, or lists them.
func runPaper(out io.Writer, args []string, s paper.Selection, format string) error {
	if len(args) == 0 {
		summary, err := paper.Summary()
		if err != nil {
			return err
		}
		return writeTables(out, format, summary, summary)
	}
	report, err := paper.Load(args[0])
	if err != nil {
		return usageError{err}
	}
	if format == jsonFormat {
		checks, err := report.Selected(s)
		if err != nil {
			return usageError{err}
		}
		return writeTables(out, format, checks)
	}
	tables, err := report.Render(s)
	if err != nil {
		return usageError{err}
	}
	return writeTables(out, format, nil, tables...)
}

// tableFormat returns the format of tables that --format names; for JSON, which has none, plain text.
func tableFormat(name string) (table.Format, error) {
	if name == jsonFormat {
		return table.Text, nil
	}
	f, err := table.ParseFormat(name)
	if err != nil {
		return f, usageError{fmt.Errorf("--format: %w, or %s", err, jsonFormat)}
	}
	return f, nil
}

// writeTables writes tables in a format, or, as JSON, the object that they show.
func writeTables(out io.Writer, format string, object any, tables ...table.Table) error {
	if format == jsonFormat {
		return writeJSON("-", out, object)
	}
	f, err := tableFormat(format)
	if err != nil {
		return err
	}
	for _, t := range tables {
		if err := t.Write(out, f); err != nil {
			return err
		}
	}
	return nil
}
