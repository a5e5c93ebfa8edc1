package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"mcmw/lab/cgroup"
	"mcmw/lab/testbed/kubernetes"
)

func newCleanupCommand() *cobra.Command {
	var cluster bool
	var kubeContext string
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove leftovers of killed labs on this machine",
		Long: `List and remove leftovers of killed labs (kill -9, out of memory) on this machine: control groups and the processes that still run in
them. Labs that still run are not affected. --kubernetes also removes namespaces of the testbed kubernetes from a cluster. The exit code is 0
if nothing is left.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := cleanup(cmd.OutOrStdout())
			if cluster {
				err = errors.Join(err, kubernetes.Cleanup(cmd.Context(), kubeContext, cmd.OutOrStdout()))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&cluster, "kubernetes", false, "clean up a cluster, too")
	cmd.Flags().StringVar(&kubeContext, "context", "",
		"kubectl context of the cluster for --kubernetes (default: the current one)")
	return cmd
}

func cleanup(w io.Writer) error {
	groups, err := cleanGroups()
	for _, left := range groups {
		fmt.Fprintf(w, "removed %s of the lab that was process %d\n", count(len(left.Groups), "control group"),
			left.PID)
		for _, pid := range left.Processes {
			fmt.Fprintf(w, "ended process %d in it\n", pid)
		}
	}
	if err != nil {
		return fmt.Errorf("cleaning up: %w", err)
	}
	if len(groups) == 0 {
		fmt.Fprintln(w, "nothing to clean up")
	}
	return nil
}

// cleanGroups removes the lab's control groups. A machine without controllers has none.
func cleanGroups() ([]cgroup.Left, error) {
	tree, err := cgroup.Find()
	if errors.Is(err, cgroup.ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return tree.Clean()
}
