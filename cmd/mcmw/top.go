package main

import (
	"os"

	"github.com/spf13/cobra"

	"mcmw/internal/admin"
	"mcmw/internal/terminal"
)

func newTopCommand() *cobra.Command {
	var count int
	var keys bool
	command := &cobra.Command{
		Use:   "top URL",
		Short: "Watch a running middleware",
		Long: "Show the throughput, percentiles, stages, queue, workers and servers of a running middleware, every " +
			"second. URL is the\n" +
			"middleware's admin address. Press q or Ctrl-C to end. Without a terminal, one line per second is printed.",
		Example: "  mcmw top http://127.0.0.1:9150\n  mcmw top 127.0.0.1:9150 --count 10 | tee log",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			base, err := admin.BaseURL(args[0])
			if err != nil {
				return err
			}
			return terminal.NewTop(base, count, keys).Run(cmd.Context(), os.Stdin, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	command.Flags().IntVarP(&count, "count", "n", 0, "`number` of seconds to show; 0: until interrupted")
	command.Flags().BoolVar(&keys, "keys", false,
		"show the keys that are requested most, as hashes unless the middleware runs with --log-keys")
	return command
}
