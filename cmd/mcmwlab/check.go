package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"mcmw/internal/lab/experiment"
)

func newCheckCommand() *cobra.Command {
	var quick bool
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Say everything that is wrong with an experiment's file, or what it does",
		Long: `Read an experiment's file (docs/experiments.md) and say everything that is wrong with it, each with its line and what was
expected; or, if nothing is, which runs it consists of and how long they take. The exit code is 2 if something is wrong.`,
		Example: `  mcmwlab check experiments/quick.yaml`,
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := readExperiment(args[0], quick)
			if err != nil {
				return err
			}
			if err := e.WritePlan(cmd.OutOrStdout()); err != nil || quick || !experiment.HasQuick(e.Text) {
				return err
			}
			q, err := readExperiment(args[0], true)
			if err != nil {
				return fmt.Errorf("with its quick profile:\n%w", err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), "\nwith --quick")
			return q.WritePlan(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&quick, "quick", false, "show the plan of the file's quick profile alone")
	return cmd
}

// oneFile accepts one argument.
func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError{fmt.Errorf("%s takes one file, got %d arguments (see %s --help)", cmd.CommandPath(), len(args), cmd.CommandPath())}
	}
	return nil
}

// readExperiment reads the experiment in a file.
func readExperiment(path string, quick bool) (*experiment.Experiment, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, usageError{err}
	}
	e, err := experiment.Parse(path, text, quick)
	if err != nil {
		return nil, usageError{err}
	}
	return e, nil
}
