package main

import "github.com/spf13/cobra"

// newWaitCommand does nothing until it is interrupted: what a pod does in which runs are started by kubectl exec, whose image has no shell.
func newWaitCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "wait",
		Short: "Do nothing until interrupted (for containers in which runs are started later)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			<-cmd.Context().Done()
			return nil
		},
	}
}
