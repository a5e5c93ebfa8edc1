package agent

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"mcmw/internal/lab/kernel"
)

// Usage returns the processor time that a process has used, seconds.
type Usage func() (float64, error)

// UsageOf is that of a process of this host.
func UsageOf(pid int) Usage {
	return func() (float64, error) {
		used, err := kernel.ProcessCPU(pid)
		return used.Seconds(), err
	}
}

const (
	// scrapeTimeout is how long metrics are waited for: a sample that comes late is of another moment.
	scrapeTimeout = 500 * time.Millisecond
	// usageMetric is what Prometheus's clients call it.
	usageMetric = "process_cpu_seconds_total"
)

// UsageAt is that of a process elsewhere, as its Prometheus metrics at a URL say.
func UsageAt(url string) Usage {
	client := &http.Client{Timeout: scrapeTimeout}
	return func() (float64, error) {
		response, err := client.Get(url)
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("%s answers %s", url, response.Status)
		}
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, maxLine)
		for lines.Scan() {
			if value, ok := strings.CutPrefix(lines.Text(), usageMetric+" "); ok {
				return strconv.ParseFloat(value, 64)
			}
		}
		return 0, fmt.Errorf("%s has no %s", url, usageMetric)
	}
}
