package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"mcmw/internal/lab/cgroup"
	"mcmw/internal/lab/faults"
)

func newCleanupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cleanup",
		Short: "Remove what labs that were killed have left on this machine",
		Long: `Say and remove what labs that could not end in order (kill -9, out of memory) have left on this machine: control groups of the
testbed vm with what still runs in them, and network namespaces of "mcmwlab faults". What belongs to a lab that still runs is left
alone. The exit code is 0 when nothing is left.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cleanup(cmd.Context(), cmd.OutOrStdout())
		},
	}
}

func cleanup(ctx context.Context, w io.Writer) error {
	found := false
	say := func(format string, args ...any) {
		found = true
		fmt.Fprintf(w, format+"\n", args...)
	}
	groups, err := cleanGroups()
	for _, left := range groups {
		say("removed %s of the lab that was process %d", count(len(left.Groups), "control group"), left.PID)
		for _, pid := range left.Processes {
			say("ended process %d in them", pid)
		}
	}
	namespaces, spacesErr := faults.RemoveOrphans(ctx)
	for _, name := range namespaces {
		say("removed the network namespace %s", name)
	}
	if err = errors.Join(err, spacesErr); err != nil {
		return fmt.Errorf("cleaning up: %w", err)
	}
	if !found {
		fmt.Fprintln(w, "nothing to clean up")
	}
	return nil
}

// cleanGroups removes control groups. A machine without controllers has none of a lab's.
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
