package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"mcmw/internal/admin"
	"mcmw/internal/model"
	"mcmw/internal/spell"
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
			if err := writeAdvice(cmd.OutOrStdout(), answer.Model); err != nil {
				return err
			}
			return writePrefixAdvice(cmd.OutOrStdout(), answer.Usage.Advice)
		},
	}
	oneOf(command, &output, "output", "o", "output format", "text", "json")
	return command
}

// writePrefixAdvice writes the advice about prefixes of keys.
func writePrefixAdvice(w io.Writer, advice []string) error {
	if len(advice) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\nPrefixes of keys:\n- %s\n", strings.Join(advice, "\n- "))
	return err
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
