package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"mcmw/lab/agent"
	"mcmw/lab/cgroup"
	"mcmw/lab/testbed"
	"mcmw/lab/testbed/kubernetes"
	"mcmw/lab/testbed/remote"
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
