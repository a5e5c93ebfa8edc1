package main

import "github.com/spf13/cobra"

// newWaitCommand returns the command of a pod in which kubectl exec starts other commands. Its image has no shell that
// could wait.
func newWaitCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "wait",
		Short: "Do nothing until interrupted (for containers in which other commands are started later)",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			<-cmd.Context().Done()
			return nil
		},
	}
}
