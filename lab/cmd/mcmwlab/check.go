package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"mcmw/lab/experiment"
	"mcmw/lab/table"
)

func newCheckCommand() *cobra.Command {
	var quick, machines bool
	var set []string
	bulk := 2 * time.Second
	cmd := &cobra.Command{
		Use:   "check FILE... | check --machines [FILE]",
		Short: "Check experiment files and show their runs, or measure emulated machines",
		Long: `Check experiment files (docs/experiments.md). List every error with its line, or else describe the runs and their time, also in total
for several files. The exit code is 2 if there are errors.

With --machines, create the emulated machines of the file, or those of the 2018 report, measure the bandwidth and the round-trip time
between each of them and a machine without limits, and compare them with the requested ones. This needs root.`,
		Example: `  mcmwlab check lab/experiments/quick.yaml
  mcmwlab check --quick lab/experiments/scaling/*.yaml
  mcmwlab check lab/experiments/quick.yaml --set repetitions=5
  mcmwlab check --machines lab/experiments/sweep.yaml --format json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if machines {
				return nil
			}
			return someFiles(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&quick, "quick", false, "show only the plan of the file's quick profile")
	flags.StringArrayVar(&set, "set", nil, setHelp)
	flags.BoolVar(&machines, "machines", false, "create and measure emulated machines")
	flags.Var((*seconds)(&bulk), "bulk",
		"with --machines: time to measure the bandwidth of each direction, seconds, or a duration")
	return answers(cmd, false, func(cmd *cobra.Command, args []string) (p table.Page, err error) {
		if machines {
			return measureMachines(cmd, args, quick, bulk)
		}
		var sum plans
		var problems []error
		for _, file := range args {
			problems = append(problems, sum.check(cmd.OutOrStdout(), file, set, quick))
		}
		if err := errors.Join(problems...); err != nil || len(args) == 1 {
			return p, err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "together\n%s", sum)
		return p, err
	})
}

// plans are the numbers of runs and the times of experiments, and of their quick profiles.
type plans struct {
	runs, quickRuns int
	time, quickTime time.Duration
}

// check checks the experiment in a file, writes its plan, and adds it to the sums.
func (s *plans) check(w io.Writer, file string, set []string, quick bool) error {
	e, err := readExperiment(file, set, quick)
	if err != nil {
		return err
	}
	_, runs := e.Runs()
	s.runs += runs
	s.time += time.Duration(runs) * e.RunTime()
	if err := e.WritePlan(w); err != nil {
		return err
	}
	if !quick && experiment.HasQuick(e.Text) {
		q, err := readExperiment(file, set, true)
		if err != nil {
			return fmt.Errorf("with its quick profile:\n%w", err)
		}
		_, runs := q.Runs()
		s.quickRuns += runs
		s.quickTime += time.Duration(runs) * q.RunTime()
		fmt.Fprintln(w, "\nwith --quick")
		if err := q.WritePlan(w); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(w)
	return err
}

// String describes the largest numbers of runs and their times.
func (s plans) String() string {
	text := fmt.Sprintf("runs         %d at most, about %v\n", s.runs, s.time.Round(time.Second))
	if s.quickRuns > 0 {
		text += fmt.Sprintf("with --quick %d at most, about %v\n", s.quickRuns, s.quickTime.Round(time.Second))
	}
	return text
}

// setHelp is the help of the flag --set.
const setHelp = "KEY=VALUE: change the experiment, such as repetitions=5, run.duration=1s or factors.system=[direct, " +
	"mcmw]; repeatable"

// readExperiment reads the experiment in a file, changed by the settings in set (see experiment.Set).
func readExperiment(path string, set []string, quick bool) (*experiment.Experiment, error) {
	text, err := experiment.Read(path, os.ReadFile)
	if err != nil {
		return nil, usageError{err}
	}
	e, err := experiment.Parse(path, text, quick, set...)
	if err != nil {
		return nil, usageError{err}
	}
	return e, nil
}
