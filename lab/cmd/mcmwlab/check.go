package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"mcmw/lab/experiment"
	"mcmw/lab/table"
	"mcmw/lab/testbed/vm"
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
			tables, err := sum.check(file, set, quick)
			p.Blocks, problems = append(p.Blocks, table.Of(nil, tables...).Blocks...), append(problems, err)
		}
		if err = errors.Join(problems...); err == nil && len(args) > 1 {
			p.Blocks = append(p.Blocks, sum.table())
		}
		return p, err
	})
}

// plans are the numbers of runs and the times of experiments, and of their quick profiles.
type plans struct {
	runs, quickRuns int
	time, quickTime time.Duration
}

// check checks the experiment in a file, returns its plan and that of its quick profile, and adds them to the sums.
func (s *plans) check(file string, set []string, quick bool) ([]table.Table, error) {
	e, err := readExperiment(file, set, quick)
	if err != nil {
		return nil, err
	}
	_, runs := e.Runs()
	s.runs += runs
	s.time += time.Duration(runs) * e.RunTime()
	tables := []table.Table{e.Plan()}
	if !quick && experiment.HasQuick(e.Text) {
		q, err := readExperiment(file, set, true)
		if err != nil {
			return tables, fmt.Errorf("with its quick profile:\n%w", err)
		}
		_, runs := q.Runs()
		s.quickRuns += runs
		s.quickTime += time.Duration(runs) * q.RunTime()
		plan := q.Plan()
		plan.Caption = "with --quick"
		tables = append(tables, plan)
	}
	return tables, nil
}

// table describes the largest numbers of runs and their times.
func (s *plans) table() table.Table {
	t := table.Table{Caption: "together", Columns: []string{"", ""}, Left: []int{1}}
	add := func(name string, runs int, length time.Duration) {
		if runs > 0 {
			text := fmt.Sprintf("%d at most, about %v", runs, length.Round(time.Second))
			t.Rows = append(t.Rows, []string{name, text})
		}
	}
	add("runs", s.runs, s.time)
	add("with --quick", s.quickRuns, s.quickTime)
	return t
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

// The limits of the length of a bandwidth measurement. The shorter it is, the more the token bucket counts that is full
// at the beginning. It must also end before the timeout of a host's answer.
const (
	minBulk = 100 * time.Millisecond
	maxBulk = 10 * time.Second
)

// measureMachines creates the emulated machines of an experiment file, or those of the 2018 report, and returns a page
// with their network as requested and as measured, each direction for the time bulk.
func measureMachines(cmd *cobra.Command, files []string, quick bool, bulk time.Duration) (p table.Page, err error) {
	if bulk < minBulk || bulk > maxBulk {
		return p, usageError{fmt.Errorf("--bulk %v: expected %v to %v", bulk, minBulk, maxBulk)}
	}
	set := "testbed=" + experiment.VMTestbed
	e, err := experiment.Parse("", []byte("name: machines"), false, set)
	if len(files) > 1 {
		err = usageError{fmt.Errorf("--machines: expected at most one experiment file, got %q", files)}
	} else if len(files) == 1 {
		e, err = readExperiment(files[0], []string{set}, quick)
	}
	if err != nil {
		return p, err
	}
	program, err := os.Executable()
	if err != nil {
		return p, err
	}
	hosts, err := vm.New(e.Machines, e.Delay, e.Dilation)
	if err != nil {
		return p, err
	}
	progress := newProgress(cmd.ErrOrStderr())
	c, err := hosts.Calibrate(cmd.Context(), program, bulk, func(name string) { progress.show("measuring " + name) })
	progress.clear()
	if err = errors.Join(err, hosts.Close()); err != nil {
		return p, err
	}
	t := table.Table{
		Columns: []string{
			"machine", "size", "processors", "memory", "upload Mbit/s", "measured", "", "download Mbit/s",
			"measured", "", "round trip ms",
		}, Left: []int{1}, Notes: c.Shortfalls,
	}
	for _, m := range c.Machines {
		memory, cpus := "all", "all"
		if m.Memory > 0 {
			memory = fmt.Sprintf("%d MiB", m.Memory>>20)
		}
		if m.CPUs > 0 {
			cpus = fmt.Sprintf("%g", m.CPUs)
		}
		t.Rows = append(t.Rows, slices.Concat([]string{m.Name, cmp.Or(m.Preset, "-"), cpus, memory},
			against(m.Upload, m.Measured.Upload),
			against(m.Download, m.Measured.Download), []string{fmt.Sprintf("%.3f", m.Measured.RoundTripMean*1e3)}))
	}
	return table.Of(c, t), nil
}

// against returns three cells from a requested and a measured bandwidth, bytes per second: both in Mbit/s, and the
// deviation.
func against(requested, measured float64) []string {
	const megabit = 1e6 / 8
	if requested == 0 {
		return []string{"no limit", fmt.Sprintf("%.1f", measured/megabit), ""}
	}
	return []string{
		fmt.Sprintf("%.1f", requested/megabit), fmt.Sprintf("%.1f", measured/megabit),
		fmt.Sprintf("%+.1f %%", 100*(measured/requested-1)),
	}
}
