package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"mcmw/internal/lab/kernel"
)

// Reading is what the counters of a host and its processes stood at. Differences of two readings say what happened between them.
type Reading struct {
	At  time.Time `json:"at"`
	CPU CPU       `json:"cpu"`
	// Received and Sent are what all network interfaces have carried, bytes.
	Received uint64 `json:"received"`
	Sent     uint64 `json:"sent"`
	// Processes is the processor time that each watched process has used, seconds. One that has ended is left out.
	Processes map[string]float64 `json:"processes"`
}

// CPU is the time that all cores have spent since the host was started, seconds, by what mpstat calls its categories.
type CPU struct {
	User    float64 `json:"user"` // nice processes and guests included
	System  float64 `json:"system"`
	SoftIRQ float64 `json:"softirq"`
	IRQ     float64 `json:"irq"`
	IOWait  float64 `json:"iowait"`
	Idle    float64 `json:"idle"`
	Steal   float64 `json:"steal"`
}

// Total returns the time of all categories.
func (c CPU) Total() float64 {
	return c.User + c.System + c.SoftIRQ + c.IRQ + c.IOWait + c.Idle + c.Steal
}

// Sample writes a Reading of this host as a JSON line at once, after every interval, and when ctx ends. processes are the ids of
// the processes to watch by their names.
func Sample(ctx context.Context, w io.Writer, processes map[string]int, interval time.Duration) error {
	out := json.NewEncoder(w)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		r, err := read(processes)
		if err != nil {
			return err
		}
		if err := out.Encode(r); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// read takes a reading of now.
func read(processes map[string]int) (Reading, error) {
	cpu, err := kernel.HostCPU()
	if err != nil {
		return Reading{}, err
	}
	network, err := kernel.HostNetwork()
	if err != nil {
		return Reading{}, err
	}
	r := Reading{
		At: time.Now().UTC(),
		CPU: CPU{
			User: cpu.User.Seconds(), System: cpu.System.Seconds(), SoftIRQ: cpu.SoftIRQ.Seconds(), IRQ: cpu.IRQ.Seconds(),
			IOWait: cpu.IOWait.Seconds(), Idle: cpu.Idle.Seconds(), Steal: cpu.Steal.Seconds(),
		},
		Received: network.Received, Sent: network.Sent,
		Processes: make(map[string]float64, len(processes)),
	}
	for name, pid := range processes {
		if used, err := kernel.ProcessCPU(pid); err == nil {
			r.Processes[name] = used.Seconds()
		}
	}
	return r, nil
}

// maxLine is the longest line of readings that is taken, bytes.
const maxLine = 1 << 20

// ReadSamples reads what Sample wrote. A last line that isn't whole is left out: its writer was killed.
func ReadSamples(r io.Reader) (readings []Reading, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	var broken error
	for n := 1; lines.Scan(); n++ {
		if broken != nil {
			return nil, broken
		}
		var one Reading
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			broken = fmt.Errorf("samples of a host: line %d: %w", n, err)
			continue
		}
		if last := len(readings) - 1; last >= 0 && !one.At.After(readings[last].At) {
			continue // the clock was set
		}
		readings = append(readings, one)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("samples of a host: %w", err)
	}
	return readings, nil
}
