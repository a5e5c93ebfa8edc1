package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"mcmw/internal/admin"
	"mcmw/internal/model"
	"mcmw/internal/spell"
	"mcmw/internal/terminal"
)

func newAdviseCommand() *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:   "advise URL",
		Short: "Find the bottleneck of a running middleware",
		Long: "Compute which part of a running middleware saturates first, at which load, and what would help, from " +
			"measurements of the\n" +
			"last 10 s. If it runs with --prefixes, say which prefixes of keys use the cache badly. URL is the " +
			"middleware's\nadmin address. docs/observability.md explains the computation.",
		Example: "  mcmw advise http://127.0.0.1:9150\n  mcmw advise 127.0.0.1:9150 -o json",
		Args:    adminAddress,
		RunE: func(cmd *cobra.Command, args []string) error {
			answer, err := admin.Fetch(cmd.Context(), args[0], admin.NoPoints)
			if err != nil {
				return err
			}
			if output == "json" {
				return writeJSON(cmd.OutOrStdout(), struct {
					*model.Report
					Prefixes []string `json:"prefixes"` // advice about prefixes of keys
				}{answer.Model, answer.Usage.Advice})
			}
			err = writeAdvice(cmd.OutOrStdout(), answer.Model)
			if advice := answer.Usage.Advice; err == nil && len(advice) > 0 {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "\nPrefixes of keys:\n- %s\n", strings.Join(advice, "\n- "))
			}
			return err
		},
	}
	oneOf(command, &output, "output", "o", "output format", "text", "json")
	return command
}

// writeAdvice writes the advice and the numbers that it is based on.
func writeAdvice(w io.Writer, r *model.Report) error {
	fmt.Fprintf(w, "%s\n\nOver %.0f s: %s requests/s answered, %s/s arrived.\n\n", r.Advice, r.Window,
		spell.Count(r.Rate), spell.Count(r.Arrivals))
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "part\tin use\tsaturates at")
	for i := range r.Parts {
		p := &r.Parts[i]
		at := "unknown"
		if p.Capacity > 0 {
			at = spell.Count(p.Capacity) + " requests/s"
		}
		fmt.Fprintf(columns, "%s\t%.0f %%\t%s\n", p, 100*p.Utilization, at)
	}
	fmt.Fprintln(columns, "\nLittle's law\tsampled\trate x time")
	for _, l := range r.Laws {
		fmt.Fprintf(columns, "requests in %s\t%.2f\t%.2f\n", l.Law, l.Measured, l.Predicted)
	}
	if err := columns.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nTime in the queue: %s measured, %s in an M/M/m queue\n", spell.Time(r.Wait.Measured),
		spell.Time(r.Wait.Predicted))
	return err
}

func newMigrateCommand() *cobra.Command {
	status := &cobra.Command{
		Use:   "status URL",
		Short: "Show the progress of migrations",
		Long: "Show the migrations in the configuration of a running middleware: the phase, how many keys are " +
			"copied, how long the others\n" +
			"will take, and what to do next. URL is the middleware's admin address. The exit code is 1 if a " +
			"migration needs attention.",
		Example: "  mcmw migrate status http://127.0.0.1:9150\n  mcmw migrate status 127.0.0.1:9150 --json",
		Args:    adminAddress,
	}
	asJSON := status.Flags().Bool("json", false, "print JSON")
	status.RunE = func(cmd *cobra.Command, args []string) error {
		report, err := admin.Fetch(cmd.Context(), args[0], admin.NoPoints)
		if err != nil {
			return err
		}
		return showMigrations(cmd.OutOrStdout(), report.Migrations, *asJSON)
	}
	return group("migrate", "Follow migrations of keys between pools", status)
}

// showMigrations prints migrations. It returns an error that names the first one that needs attention.
func showMigrations(out io.Writer, migrations []admin.Migration, asJSON bool) error {
	var attention error
	for _, m := range migrations {
		if m.Warning && attention == nil {
			attention = fmt.Errorf("the migration from %s to %s needs attention", m.From, m.To)
		}
	}
	if asJSON {
		return cmp.Or(writeJSON(out, migrations), attention)
	}
	if len(migrations) == 0 {
		_, err := fmt.Fprintln(out, "no migrations are configured")
		return err
	}
	for _, m := range migrations {
		if _, err := fmt.Fprintf(out, "%s\n  next: %s\n", m.Text, m.Next); err != nil {
			return err
		}
	}
	return attention
}

func newTopCommand() *cobra.Command {
	var count int
	var shown terminal.Shown
	command := &cobra.Command{
		Use:   "top URL",
		Short: "Watch a running middleware",
		Long: "Show the throughput, percentiles, stages, queue, workers and servers of a running middleware, every " +
			"second. URL is the\n" +
			"middleware's admin address. Press q or Ctrl-C to end. Without a terminal, one line per second is printed.",
		Example: "  mcmw top http://127.0.0.1:9150\n  mcmw top 127.0.0.1:9150 --count 10 | tee log",
		Args:    adminAddress,
		RunE: func(cmd *cobra.Command, args []string) error {
			top := terminal.NewTop(args[0], count, shown)
			return top.Run(cmd.Context(), os.Stdin, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	command.Flags().VarP(&checked[int]{&count, between(0, 1e9), "number"}, "count", "n",
		"`number` of seconds to show; 0: until interrupted")
	command.Flags().BoolVar(&shown.Keys, "keys", false,
		"show the keys that are requested most, as hashes unless the middleware runs with --log-keys")
	command.Flags().BoolVar(&shown.Prefixes, "prefixes", false,
		"show the prefixes of keys that are used most, if the middleware runs with --prefixes")
	return command
}
