package agent

import (
	"bufio"
	"fmt"
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

// Usage returns what a process has used until now.
type Usage func() (Used, error)

// UsageOf returns the Usage of a process on this host.
func UsageOf(pid int) Usage {
	return func() (u Used, err error) {
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
}

const (
	// scrapeTimeout bounds the wait for metrics: a late answer would not belong to the time of the sample.
	scrapeTimeout = 500 * time.Millisecond
	// usageMetric is the metric's name in Prometheus client libraries.
	usageMetric = "process_cpu_seconds_total"
)

// UsageAt returns the Usage of a process elsewhere, from its Prometheus metrics at a URL.
func UsageAt(url string) Usage {
	client := &http.Client{Timeout: scrapeTimeout}
	return func() (u Used, err error) {
		response, err := client.Get(url)
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
}
