package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"mcmw/lab/experiment"
	"mcmw/lab/table"
	"mcmw/lab/testbed/vm"
)

func newTestbedCommand(stderr io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "testbed",
		Short: "Inspect testbeds",
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTestbedVMCommand(stderr))
	return cmd
}

// machinesFlags are the flags of `mcmwlab testbed vm`.
type machinesFlags struct {
	quick, asJSON bool
	bulk          time.Duration
}

// The limits of the length of a bandwidth measurement. The shorter it is, the more the token bucket counts that is full
// at the beginning. It must also end before the timeout of a host's answer.
const (
	minBulk = 100 * time.Millisecond
	maxBulk = 10 * time.Second
)

func newTestbedVMCommand(stderr io.Writer) *cobra.Command {
	f := machinesFlags{bulk: 2 * time.Second}
	cmd := &cobra.Command{
		Use:   "vm [FILE]",
		Short: "Create emulated machines and measure their network",
		Long: `Create the emulated machines of an experiment file, or those of the 2018 report, measure the bandwidth and the round-trip time
between each of them and a machine without limits, and compare them with the requested ones. This needs root.`,
		Example: `  mcmwlab testbed vm
  mcmwlab testbed vm lab/experiments/sweep.yaml --json`,
		Args: arguments(0, 1, "at most one experiment file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, cmd.OutOrStdout(), stderr)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.quick, "quick", false, "use the file's quick profile")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON")
	flags.Var((*seconds)(&f.bulk), "bulk",
		"time to measure the bandwidth of each direction: seconds, or a duration")
	return cmd
}

func (f *machinesFlags) run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	if f.bulk < minBulk || f.bulk > maxBulk {
		return usageError{fmt.Errorf("--bulk %v: expected %v to %v", f.bulk, minBulk, maxBulk)}
	}
	e := &experiment.Experiment{Dilation: 1}
	if len(args) > 0 {
		if e, err = readExperiment(args[0], nil, f.quick); err != nil {
			return err
		}
	}
	if err := e.On(experiment.VMTestbed); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	hosts, err := vm.New(e.Machines, e.Delay, e.Dilation)
	if err != nil {
		return err
	}
	p := newProgress(stderr)
	c, err := hosts.Calibrate(ctx, program, f.bulk, func(machine string) { p.show("measuring " + machine) })
	p.clear()
	if err = errors.Join(err, hosts.Close()); err != nil {
		return err
	}
	if f.asJSON {
		return writeJSON("-", stdout, c)
	}
	return writeCalibration(stdout, c)
}

// writeCalibration writes a table of the machines.
func writeCalibration(w io.Writer, c vm.Calibration) error {
	t := table.Table{
		Columns: []string{
			"machine", "size", "processors", "memory", "upload Mbit/s", "measured", "", "download Mbit/s",
			"measured", "", "round trip ms",
		}, Left: []int{1},
	}
	for _, m := range c.Machines {
		memory := "all"
		if m.Memory > 0 {
			memory = fmt.Sprintf("%d MiB", m.Memory>>20)
		}
		cpus := "all"
		if m.CPUs > 0 {
			cpus = fmt.Sprintf("%g", m.CPUs)
		}
		t.Rows = append(t.Rows, slices.Concat([]string{m.Name, cmp.Or(m.Preset, "-"), cpus, memory},
			against(m.Upload, m.Measured.Upload),
			against(m.Download, m.Measured.Download), []string{fmt.Sprintf("%.3f", m.Measured.RoundTripMean*1e3)}))
	}
	if err := t.Lines(w); err != nil {
		return err
	}
	writeNotes(w, c.Shortfalls)
	return nil
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
