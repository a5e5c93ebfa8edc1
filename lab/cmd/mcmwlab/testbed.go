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
	e := &experiment.Experiment{Dilation: 1}
	if len(files) > 1 {
		return p, usageError{fmt.Errorf("--machines: expected at most one experiment file, got %q", files)}
	} else if len(files) == 1 {
		if e, err = readExperiment(files[0], nil, quick); err != nil {
			return p, err
		}
	}
	if err := e.On(experiment.VMTestbed); err != nil {
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
