package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"mcmw/internal/lab/cgroup"
	"mcmw/internal/lab/testbed/kubernetes"
)

func newCleanupCommand() *cobra.Command {
	var cluster bool
	var kubeContext string
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove what killed labs left on this machine",
		Long: `List and remove what killed labs (kill -9, out of memory) left on this machine: control groups, with what still runs in them. Labs
that still run are left alone. --kubernetes also removes namespaces of the testbed kubernetes from a cluster. The exit code is 0 when nothing
is left.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := cleanup(cmd.OutOrStdout())
			if cluster {
				err = errors.Join(err, kubernetes.Cleanup(cmd.Context(), kubeContext, cmd.OutOrStdout()))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&cluster, "kubernetes", false, "clean up the cluster of kubectl's current context, too")
	cmd.Flags().StringVar(&kubeContext, "context", "", "context of kubectl for --kubernetes (default: the current one)")
	return cmd
}

func cleanup(w io.Writer) error {
	groups, err := cleanGroups()
	for _, left := range groups {
		fmt.Fprintf(w, "removed %s of the lab that was process %d\n", count(len(left.Groups), "control group"), left.PID)
		for _, pid := range left.Processes {
			fmt.Fprintf(w, "ended process %d in them\n", pid)
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

// cleanGroups removes control groups. A machine without controllers cannot have any of the lab's.
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
