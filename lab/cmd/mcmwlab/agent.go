package main

import (
	"os"

	"github.com/spf13/cobra"

	"mcmw/lab/agent"
	"mcmw/lab/testbed"
	"mcmw/lab/testbed/remote"
)

// newAgentCommand returns the command that testbeds call on their hosts: `agent serve` starts and stops programs as
// instructed on standard input, and stops all of them when the input ends; another argument is an agent.Task.
func newAgentCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "agent serve | agent TASK",
		Short: "Do what mcmwlab run asks of the hosts of a testbed",
		Args:  arguments(1, 1, "serve or a task in JSON"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "serve" {
				return remote.Serve(cmd.Context(), os.Stdin, cmd.OutOrStdout(), testbed.Here().Start, build.Version)
			}
			return agent.Run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
}
