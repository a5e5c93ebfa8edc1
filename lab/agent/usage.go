package agent

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"mcmw/lab/kernel"
)

// Used is what a process has used since its start. Memory is its peak resident memory, bytes, and Calls its number of
// reads and writes. Both are 0 if they are not known.
type Used struct {
	CPU    time.Duration
	Memory int64
	Calls  uint64
}

// usageOf returns what a process has used: a process of this host, by its id, or one elsewhere, by the URL of its
// Prometheus metrics.
func usageOf(process string) (u Used, err error) {
	if strings.HasPrefix(process, "http://") {
		return usageAt(process)
	}
	pid, err := strconv.Atoi(process)
	if err != nil {
		return u, err
	}
	if u.CPU, err = kernel.ProcessCPU(pid); err != nil {
		return u, err
	}
	// Only the owner of a process may read the rest.
	if calls, err := kernel.Calls(pid); err == nil {
		u.Memory, _ = kernel.PeakMemory(pid)
		u.Calls = calls
	}
	return u, nil
}

// usageMetric is the metric's name in Prometheus client libraries.
const usageMetric = "process_cpu_seconds_total"

// metrics reads metrics. A late answer would not belong to the time of the sample.
var metrics = http.Client{Timeout: 500 * time.Millisecond}

func usageAt(url string) (u Used, err error) {
	response, err := metrics.Get(url)
	if err != nil {
		return u, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return u, fmt.Errorf("%s answers with status %s", url, response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), usageMetric+" "); ok {
			seconds, err := strconv.ParseFloat(value, 64)
			u.CPU = time.Duration(seconds * float64(time.Second))
			return u, err
		}
	}
	return u, fmt.Errorf("%s has no metric %s", url, usageMetric)
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
