package collect

import (
	"bytes"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"mcmw/lab/agent"
	"mcmw/lab/kernel"
	"mcmw/lab/record"
)

// host adds the samples of a host: its counters as windows, and the processor time of processes over the measured
// window.
func (c *collector) host(source string, text []byte) error {
	readings, err := agent.ReadSamples(bytes.NewReader(text))
	if err != nil || len(readings) == 0 {
		return err
	}
	for i := 1; i < len(readings); i++ {
		before, after := readings[i-1], readings[i]
		middle := before.At.Add(after.At.Sub(before.At) / 2)
		if middle.Before(c.measured.begin) || middle.After(c.measured.end) {
			continue
		}
		c.hostWindow(source, before, after)
	}
	// used returns the growth of a counter of a process over the measured window.
	used := func(name string, counter func(agent.Reading) map[string]float64) float64 {
		return max(at(readings, counter, name, c.measured.end)-at(readings, counter, name, c.measured.begin), 0)
	}
	last := readings[len(readings)-1]
	for _, name := range slices.Sorted(maps.Keys(last.Processes)) {
		if strings.HasPrefix(name, record.SourceClient+":") {
			continue // the result of the load has its processor time
		}
		cpu := used(name, func(r agent.Reading) map[string]float64 { return r.Processes })
		c.result(name, "seconds_cpu", cpu)
		group := record.SourceServers
		switch {
		case strings.HasPrefix(name, record.SourceMiddleware+":"):
			group = record.SourceMiddleware
			c.addTo(group, "seconds_cpu", cpu)
		case !strings.HasPrefix(name, record.SourceServer):
			continue
		}
		c.cpu[group] += cpu
		if memory, ok := last.Memory[name]; ok {
			c.addTo(group, "memory_peak", memory)
			c.calls[group] += used(name, func(r agent.Reading) map[string]float64 { return r.Calls })
		}
	}
	return nil
}

// perRequest adds the processor time and the system calls per request of the clients.
func (c *collector) perRequest() {
	rate, _ := c.run.Value(record.SourceClient, "throughput")
	requests := rate * c.measured.seconds()
	if requests <= 0 {
		return
	}
	if cpu, ok := c.run.Value(record.SourceClient, "seconds_cpu"); ok && cpu > 0 {
		c.cpu[record.SourceClient] = cpu
	}
	for _, group := range slices.Sorted(maps.Keys(c.cpu)) {
		c.result(group, "cpu_per_request", c.cpu[group]/requests)
		if calls, ok := c.calls[group]; ok {
			c.result(group, "calls_per_request", calls/requests)
		}
	}
}

func (c *collector) hostWindow(source string, before, after agent.Reading) {
	start, seconds := c.measured.from(before.At), after.At.Sub(before.At).Seconds()
	add := func(source, metric string, value float64) {
		c.run.HostSamples = append(c.run.HostSamples,
			record.Window{Source: source, Start: start, Seconds: seconds, Metric: metric, Value: value})
	}
	if total := after.CPU.Total() - before.CPU.Total(); total > 0 {
		for _, category := range []struct {
			metric string
			of     func(kernel.CPU) float64
		}{
			{"cpu_user", func(c kernel.CPU) float64 { return c.User }},
			{"cpu_system", func(c kernel.CPU) float64 { return c.System }},
			{"cpu_softirq", func(c kernel.CPU) float64 { return c.SoftIRQ }},
			{"cpu_irq", func(c kernel.CPU) float64 { return c.IRQ }},
			{"cpu_iowait", func(c kernel.CPU) float64 { return c.IOWait }},
			{"cpu_steal", func(c kernel.CPU) float64 { return c.Steal }},
			{"cpu_idle", func(c kernel.CPU) float64 { return c.Idle }},
		} {
			// The kernel sometimes corrects idle and waiting times downwards.
			add(source, category.metric, max(category.of(after.CPU)-category.of(before.CPU), 0)/total)
		}
	}
	add(source, "net_rx_bytes", grown(before.Received, after.Received)/seconds)
	add(source, "net_tx_bytes", grown(before.Sent, after.Sent)/seconds)
	for _, name := range slices.Sorted(maps.Keys(after.Processes)) {
		if earlier, ok := before.Processes[name]; ok {
			add(name, "process_cpu", max(after.Processes[name]-earlier, 0)/seconds)
		}
	}
}

// grown returns the growth of a counter; 0 if it was reset.
func grown(before, after uint64) float64 { return float64(max(after, before) - before) }

// at returns the value of a process's counter at a moment, interpolated between readings.
func at(readings []agent.Reading, counter func(agent.Reading) map[string]float64, name string,
	moment time.Time,
) float64 {
	after := sort.Search(len(readings), func(i int) bool { return !readings[i].At.Before(moment) })
	switch after {
	case 0:
		return counter(readings[0])[name]
	case len(readings):
		return counter(readings[len(readings)-1])[name]
	}
	a, b := readings[after-1], readings[after]
	share := moment.Sub(a.At).Seconds() / b.At.Sub(a.At).Seconds()
	return counter(a)[name] + share*(counter(b)[name]-counter(a)[name])
}

// addTo adds a value to a result, which it creates if needed.
func (c *collector) addTo(source, metric string, value float64) {
	for i := range c.run.Results {
		if r := &c.run.Results[i]; r.Source == source && r.Metric == metric {
			r.Value += value
			return
		}
	}
	c.result(source, metric, value)
}
