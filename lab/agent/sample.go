package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"mcmw/lab/cgroup"
	"mcmw/lab/kernel"
)

// Reading has the counters of a host and its processes at one time. The difference between two readings is the usage
// between them.
type Reading struct {
	At  time.Time  `json:"at"`
	CPU kernel.CPU `json:"cpu"` // since the host's start
	// Received and Sent are the traffic of all network interfaces, bytes.
	Received uint64 `json:"received"`
	Sent     uint64 `json:"sent"`
	// Processes is the processor time that each watched process has used, seconds. Processes that have ended are left
	// out.
	Processes map[string]float64 `json:"processes"`
	// Memory is the peak resident memory of each process, bytes, and Calls its number of reads and writes. Only
	// processes of this host have them.
	Memory map[string]float64 `json:"memory,omitempty"`
	Calls  map[string]float64 `json:"calls,omitempty"`
}

// Watched says what is sampled.
type Watched struct {
	// Processes are the processes, by name: the id of one of this host, or the URL of another's Prometheus metrics.
	Processes map[string]string `json:"processes,omitempty"`
	// Group lists the directories of the control group of an emulated host: CPU is then the usage of its processes, out
	// of CPUs processors. Empty: CPU is the usage of the whole machine.
	Group    []string      `json:"group,omitempty"`
	CPUs     float64       `json:"cpus,omitempty"`
	Interval time.Duration `json:"interval"` // between two samples, ns
}

// Sample writes a Reading of this host as a line of JSON at once, after every interval, and when ctx ends.
func Sample(ctx context.Context, w io.Writer, watched Watched) error {
	out := json.NewEncoder(w)
	began := time.Now()
	ticker := time.NewTicker(watched.Interval)
	defer ticker.Stop()
	for {
		r, err := watched.read(time.Since(began))
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

// read takes a reading, that long after the first.
func (w Watched) read(since time.Duration) (Reading, error) {
	cpu, err := w.cpu(since)
	if err != nil {
		return Reading{}, err
	}
	received, sent, err := kernel.HostNetwork()
	if err != nil {
		return Reading{}, err
	}
	r := Reading{
		At: time.Now().UTC(), CPU: cpu, Received: received, Sent: sent,
		Processes: make(map[string]float64, len(w.Processes)), Memory: map[string]float64{},
		Calls: map[string]float64{},
	}
	for name, process := range w.Processes {
		used, err := usageOf(process)
		if err != nil {
			continue
		}
		r.Processes[name] = used.CPU.Seconds()
		if used.Memory > 0 {
			r.Memory[name], r.Calls[name] = float64(used.Memory), float64(used.Calls)
		}
	}
	return r, nil
}

// cpu returns the times of the host's processors. Processors that a group does not use count as idle, even if other
// programs use them.
func (w Watched) cpu(since time.Duration) (kernel.CPU, error) {
	if len(w.Group) > 0 {
		user, system, err := cgroup.Used(w.Group)
		idle := w.CPUs*since.Seconds() - (user + system).Seconds()
		return kernel.CPU{User: user.Seconds(), System: system.Seconds(), Idle: idle}, err
	}
	return kernel.HostCPU()
}

// maxLine is the longest line that is read, bytes.
const maxLine = 1 << 20

// ReadSamples reads the output of Sample. An incomplete last line is ignored: its writer was killed.
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
			continue // the clock was set back
		}
		readings = append(readings, one)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("samples of a host: %w", err)
	}
	return readings, nil
}

// usageOf returns what a process has used: a process of this host, by its id, or one elsewhere, of which only the
// processor time is known, by the URL of its Prometheus metrics.
func usageOf(process string) (u kernel.Used, err error) {
	if strings.HasPrefix(process, "http://") {
		u.CPU, err = usageAt(process)
		return u, err
	}
	pid, err := strconv.Atoi(process)
	if err != nil {
		return u, err
	}
	return kernel.UsedBy(pid)
}

// usageMetric is the metric's name in Prometheus client libraries.
const usageMetric = "process_cpu_seconds_total"

// metrics reads metrics. A late answer would not belong to the time of the sample.
var metrics = http.Client{Timeout: 500 * time.Millisecond}

func usageAt(url string) (time.Duration, error) {
	response, err := metrics.Get(url)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s answers with status %s", url, response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), usageMetric+" "); ok {
			seconds, err := strconv.ParseFloat(value, 64)
			return time.Duration(seconds * float64(time.Second)), err
		}
	}
	return 0, fmt.Errorf("%s has no metric %s", url, usageMetric)
}

// write writes the profile, in pprof's format.
func (p *Profiled) write(ctx context.Context, w io.Writer) error {
	select {
	case <-time.After(p.After):
	case <-ctx.Done():
		return ctx.Err()
	}
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%.0f", p.Address, max(p.For.Seconds(), 1))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers with status %s", url, response.Status)
	}
	_, err = io.Copy(w, response.Body)
	return err
}
