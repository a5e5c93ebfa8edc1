package main

import (
	"os"

	"github.com/spf13/cobra"

	"mcmw/internal/terminal"
)

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
