package main

import "github.com/spf13/cobra"

// newWaitCommand returns the command of a pod whose image has no shell and in which runs are started with kubectl exec: it waits until interrupted.
func newWaitCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "wait",
		Short: "Do nothing until interrupted (for containers in which runs are started later)",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			<-cmd.Context().Done()
			return nil
		},
	}
}
