package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"mcmw/lab/plot"
)

func newStaleCommand() *cobra.Command {
	s := Stale{}
	cmd := &cobra.Command{
		Use:   "stale",
		Short: "Count old values after a server's return, by proxy",
		Long: `Put mcmw, memcached's proxy and twemproxy in front of three servers each, cut one server off while all keys are stored again, and count the reads that
return an old value once it is back. memcached must be 1.6.27 or later and have the proxy: the one in MCMW_MEMCACHED_NEW, which "make deps" builds.`,
		Example: `  go -C test/faults run . stale --figure ../../docs/results/figures/stale-reads.svg`,
		Args:    noArguments,
	}
	figure := cmd.Flags().String("figure", "", "write the figure to this `file`")
	mcmwFlag(cmd.Flags(), &s.Mcmw)
	cmd.Flags().StringVar(&s.Twemproxy, "twemproxy", "nutcracker", "twemproxy's `program`")
	cmd.Flags().IntVar(&s.Runs, "runs", 5, "`number` of runs with each proxy")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s.Memcached = cmp.Or(os.Getenv("MCMW_MEMCACHED_NEW"), "memcached")
		results, err := s.Run(cmd.Context(), func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) })
		if err != nil {
			return err
		}
		for i, name := range StaleProxies {
			var counts []string
			for _, r := range results[i] {
				counts = append(counts, fmt.Sprintf("%d/%d", r.Stale, r.Reads))
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%-18s stale reads: %s\n", name, strings.Join(counts, ", "))
		}
		if *figure == "" {
			return nil
		}
		return os.WriteFile(*figure, staleFigure(results).SVG(), 0o644)
	}
	return cmd
}

// staleFigure returns a figure of the results of Run.
func staleFigure(results [][]StaleRun) plot.Figure {
	bars, dots := plot.Layer{}, plot.Line{Look: plot.Dots, Series: 1}
	for i, runs := range results {
		low, high, sum := 1.0, 0.0, 0.0
		for _, r := range runs {
			share := float64(r.Stale) / float64(r.Reads)
			low, high, sum = min(low, share), max(high, share), sum+share
		}
		mean := sum / float64(len(runs))
		bars.Values = append(bars.Values, mean)
		dots.Points = append(dots.Points, plot.Between(float64(i), mean, low, high))
	}
	return plot.Figure{Title: "Share of reads that return an old value after a server was cut off and returned, by " +
		"proxy", Panels: []plot.Chart{{
		X:     plot.Axis{Categories: StaleProxies},
		Y:     plot.Axis{Label: "stale reads after a server's return", Unit: plot.Ratio, FromZero: true, Max: 0.4},
		Marks: []plot.Mark{plot.Bars{Layers: []plot.Layer{bars}}, dots},
	}}}
}
