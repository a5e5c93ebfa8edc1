package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"mcmw/lab/experiment"
	"mcmw/lab/frame"
	"mcmw/lab/plot"
	"mcmw/lab/record"
	"mcmw/lab/sample"
)

// Busy is the utilization from which on a component counts as saturated. A station that is busy for nine tenths of the
// time already has nine requests in the mean (M/M/1: rho/(1 - rho)).
const Busy = 0.9

// Impossible is the utilization above which a component is not considered: its assumed capacity was wrong. A few
// percent above 1 are possible, because headers and acknowledgements count as bytes of a path, but not as its
// bandwidth.
const Impossible = 1.15

// Component is a part of the system that can saturate.
type Component struct {
	Name        string
	Utilization sample.Estimate // 0..1
}

// Bottleneck is the component that limits a point.
type Bottleneck struct {
	Name  string // of the component; "" if none is at least Busy
	Words string
}

// components returns the components whose utilization was measured at a point. Those that make others look busy come
// first: without processor time workers wait for it, without bandwidth servers seem slow.
func (d *Data) components(p frame.Point) []Component {
	var all []Component
	add := func(name string, f func(record.Run) (float64, bool)) {
		if e := p.Derive(f); e.OK() {
			all = append(all, Component{name, e})
		}
	}
	if e := p.Estimate(record.SourceClient, "saturated"); e.Mean > 0 {
		all = append(all, Component{"load generator", e})
	}
	add("bandwidth of the path", func(r record.Run) (float64, bool) {
		limit, ok := d.pathLimit(r)
		x, okX := r.Value(record.SourceClient, "throughput")
		return x / limit, ok && okX
	})
	for _, way := range directions {
		add(way.name+" of the "+way.role+" machines", func(r record.Run) (float64, bool) { return d.full(r, way) })
	}
	for _, source := range d.hostsOf(p) {
		add(processorOf(source), func(r record.Run) (float64, bool) {
			share, ok := d.busy(r)[source]
			return share, ok
		})
	}
	add(aProcessor+"the middleware", d.middlewareBusy)
	for _, s := range servers([]frame.Point{p}, "seconds_cpu") {
		add(processorOf(s), func(r record.Run) (float64, bool) {
			threads, ok := r.Number("server_threads")
			cpu, okC := r.Value(s, "seconds_cpu")
			if r.Factors[experiment.ServerPinning] == experiment.PinnedProcess {
				threads = min(threads, 1)
			}
			processors := d.processors(r, "server", experiment.ServerCPUs, serverNumber(s), threads)
			return cpu / r.Seconds / processors, ok && okC && threads > 0 && r.Seconds > 0
		})
	}
	add("workers", func(r record.Run) (float64, bool) {
		busy, ok := r.Value(record.SourceMiddleware, "busy_workers_mean")
		workers, okW := r.Number("workers")
		if r.Factors["pool"] == "per-server" { // each server has so many workers, and a writer
			servers, known := r.Number("servers")
			workers, okW = (workers+1)*servers, okW && known
		}
		if middlewares, known := r.Number("middlewares"); known && middlewares > 0 {
			workers *= middlewares
		}
		return busy / workers, ok && okW && workers > 0
	})
	return all
}

// aProcessor is the beginning of the names of all processors.
const aProcessor = "processor of "

// processorOf names the processor of a host or of a server's process.
func processorOf(source string) string {
	if source == record.SourceHost {
		return aProcessor + "the host"
	}
	return aProcessor + strings.TrimPrefix(strings.TrimPrefix(source, record.SourceHost+":"), record.SourceServer)
}

// busy returns the mean utilization of each host's processors over a run, 0 to 1, by source: host for the only host, or
// for the one that emulates the others, and host:NAME for one of several. A run that was imported has results in place
// of samples.
func (d *Data) busy(r record.Run) map[string]float64 {
	means, _ := d.sampled(r.ID) // none if they can't be read
	busy := map[string]float64{}
	for _, v := range slices.Concat(means, r.Results) {
		if v.Metric == "cpu_idle" {
			busy[v.Source] = 1 - v.Value
		}
	}
	return busy
}

// hostsOf returns the sources of the hosts whose processors were sampled at a point: first the one that emulates
// others.
func (d *Data) hostsOf(p frame.Point) []string {
	seen := map[string]bool{}
	for _, r := range p.Runs {
		for source := range d.busy(r) {
			seen[source] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// middlewareBusy returns the utilization of the processors that a middleware may use, of the busiest one.
func (d *Data) middlewareBusy(r record.Run) (most float64, known bool) {
	used, ok := r.Value(record.SourceMiddleware, "processors")
	if !ok { // as of other programs
		used = math.Inf(1)
		if len(d.busy(r)) <= 1 && len(d.Manifest.Machines) == 0 && d.Manifest.Host.Cores > 0 {
			used = float64(d.Manifest.Host.Cores)
		}
	}
	for _, v := range r.Results {
		text, ok := strings.CutPrefix(v.Source, record.SourceMiddleware+":")
		number, err := strconv.Atoi(text)
		if !ok || err != nil || v.Metric != "seconds_cpu" || r.Seconds <= 0 {
			continue
		}
		processors := d.processors(r, "middleware", experiment.MiddlewareCPUs, number, used)
		if !math.IsInf(processors, 1) {
			most, known = max(most, v.Value/r.Seconds/processors), true
		}
	}
	return most, known
}

// processors returns how many processors the program of a role with a number, from 0, can use: n of ours, or fewer if
// the experiment gives it fewer, by a setting or else by its testbed, or if its emulated machine has fewer. Ours do the
// work of as many of the machines' as their time is dilated.
func (d *Data) processors(r record.Run, role, setting string, number int, n float64) float64 {
	cpus := experiment.Values(r.Factors).Processors(setting)
	if len(cpus) == 0 {
		cpus = d.cpus[role]
	}
	if len(cpus) > 0 {
		n = min(n, float64(len(cpus)))
	}
	n *= max(d.Manifest.Dilation, 1)
	machines := slices.DeleteFunc(slices.Clone(d.Manifest.Machines),
		func(m record.Machine) bool { return !strings.HasPrefix(m.Name, role+"-") })
	if len(machines) == 0 || number < 0 {
		return n
	}
	if machine := machines[number%len(machines)]; machine.CPUs > 0 { // the machines of a role take turns
		n = min(n, machine.CPUs)
	}
	return n
}

// serverNumber returns the number, from 0, of a server with a source such as server:s1; -1 if it has another name.
func serverNumber(source string) int {
	number, err := strconv.Atoi(strings.TrimPrefix(source, record.SourceServer+"s"))
	if err != nil {
		return -1
	}
	return number - 1
}

// Limit finds the bottleneck of a point: the first of the components that are at least Busy.
func (d *Data) Limit(p frame.Point) Bottleneck {
	components := d.components(p)
	if len(components) == 0 {
		return Bottleneck{Words: "what limits it was not measured"}
	}
	var b Bottleneck
	var busy []Component
	most, doubts := Component{}, ""
	for _, c := range components {
		u := c.Utilization.Mean
		if u <= Impossible && u >= most.Utilization.Mean {
			most = c
		}
		switch {
		case u > Impossible:
			doubts += fmt.Sprintf("; the %s comes to %s, so its capacity was measured wrongly, and it is left out",
				c.Name, plot.Ratio.Format(u))
		case u >= Busy:
			busy = append(busy, c)
			b.Name = cmp.Or(b.Name, c.Name)
		}
	}
	switch b.Name {
	case "":
		b.Words = fmt.Sprintf("no component is in use for %.0f %% of the time", 100*Busy)
		if most.Name != "" {
			b.Words += "; most used: " + most.words()
		}
	case "load generator":
		b.Words = "limited by the load generator, not by what was measured"
	default:
		b.Words = "limited by the " + inUse(busy)
	}
	if waiting := p.Derive(waitingShare); b.Name == "workers" && waiting.OK() {
		b.Words += fmt.Sprintf("; for %s of their time they wait for servers", plot.Ratio.Format(waiting.Mean))
	}
	b.Words += doubts
	return b
}

// words returns the component with its utilization.
func (c Component) words() string {
	return fmt.Sprintf("%s, %s", c.Name, plot.Ratio.Format(c.Utilization.Mean))
}

// inUse names components that are busy: the one that limits, then the others, of which there can be many processors.
func inUse(busy []Component) string {
	var names, others []string
	least, most := math.Inf(1), 0.0
	for _, c := range busy[1:] {
		name, processor := strings.CutPrefix(c.Name, aProcessor)
		if !processor {
			others = append(others, c.words())
			continue
		}
		names = append(names, name)
		least, most = min(least, c.Utilization.Mean), max(most, c.Utilization.Mean)
	}
	switch last := len(names) - 1; {
	case last == 0:
		others = slices.Insert(others, 0, fmt.Sprintf("%s%s, %s", aProcessor, names[0], plot.Ratio.Format(most)))
	case last > 0:
		others = slices.Insert(others, 0, fmt.Sprintf("processors of %s and %s, %s to %s",
			strings.Join(names[:last], ", "), names[last], plot.Ratio.Format(least), plot.Ratio.Format(most)))
	}
	text := busy[0].words()
	if len(others) > 0 {
		text += "; with it the " + strings.Join(others, ", and the ")
	}
	return text
}

// MachineBusy returns the utilization of the processors that a run can exhaust: that of the host that runs everything,
// or emulates the others, else of the busiest of several hosts; 0 if none was measured.
func (d *Data) MachineBusy(r record.Run) (float64, error) {
	_, err := d.sampled(r.ID)
	busy := d.busy(r)
	if share, ok := busy[record.SourceHost]; ok || len(busy) == 0 {
		return share, err
	}
	return slices.Max(slices.Collect(maps.Values(busy))), err
}

// waitingShare returns the share of a worker's time for which it waits for servers.
func waitingShare(r record.Run) (float64, bool) {
	total := 0.0
	for _, stage := range []string{"stage_worker_mean", "stage_server_mean", "stage_reply_mean"} {
		v, ok := r.Value(record.SourceMiddleware, stage)
		if !ok {
			return 0, false
		}
		total += v
	}
	server, _ := r.Value(record.SourceMiddleware, "stage_server_mean")
	return server / total, total > 0
}
