package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"mcmw/lab/paper"
	"mcmw/lab/table"
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
show the results next to the printed numbers. Without NAME, list the reports.

A number agrees if the recomputed one, rounded, is the printed one, or if the rounding of the printed inputs explains the
difference. For laws between measured numbers the difference is shown. Every difference has a reason.`,
		Example: `  mcmwlab paper
  mcmwlab paper ` + paper.Names[0] + ` --differences --format markdown`,
		Args: arguments(0, 1, "the name of a report"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPaper(cmd.OutOrStdout(), args, selection, format)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&selection.Table, "table", "", "show only this table, as printed and recomputed")
	flags.BoolVar(&selection.All, "all", false, "also show the printed tables, and tables that cannot be recomputed")
	flags.BoolVar(&selection.Differences, "differences", false, "show only numbers that don't agree")
	flags.StringVar(&format, "format", "text", formatHelp)
	return cmd
}

// formatHelp is the help of the flag --format of commands that write tables or JSON.
const formatHelp = "format of the output: text, markdown, latex, html or json"

// runPaper shows a report, or lists all reports.
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

// checkFormat checks the flag --format of commands that write tables or JSON.
func checkFormat(name string) error {
	if _, err := table.ParseFormat(name); err != nil && name != jsonFormat {
		return usageError{fmt.Errorf("--format: %w, or %s", err, jsonFormat)}
	}
	return nil
}

// tableFormat returns the format of the flag --format of commands that only write tables.
func tableFormat(name string) (table.Format, error) {
	f, err := table.ParseFormat(name)
	if err != nil {
		return f, usageError{fmt.Errorf("--format: %w", err)}
	}
	return f, nil
}

// writeTables writes tables in a format or, if it is JSON, the object that the tables show.
func writeTables(out io.Writer, format string, object any, tables ...table.Table) error {
	if err := checkFormat(format); err != nil {
		return err
	}
	if format == jsonFormat {
		return writeJSON("-", out, object)
	}
	for _, t := range tables {
		if err := t.Write(out, table.Format(format)); err != nil {
			return err
		}
	}
	return nil
}
