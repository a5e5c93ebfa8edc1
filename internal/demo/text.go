package demo

import (
	"fmt"
	"strings"
	"time"

	"mcmw/internal/admin"
	"mcmw/internal/spell"
	"mcmw/internal/stats"
	"mcmw/internal/terminal"
)

// tableOf returns the lines of the demo's table on a terminal.
func tableOf(d *demo, s admin.Summary, trend []float64, progress string) []string {
	lines := []string{terminal.Bold + "mcmw demo" + terminal.Plain + "  " + d.options.String()}
	if d.page != "" {
		lines = append(lines, terminal.Row("live page", "%s", d.page))
	}
	lines = append(lines, terminal.Row("clients", "%s  %s", d.clients,
		terminal.Faint+"(yours may connect too)"+terminal.Plain), "")
	lines = append(lines, terminal.Second(&s, trend, d.options.Workers, d.capacity)...)
	lines = append(lines, "",
		terminal.Faint+fmt.Sprintf("  %-13s %-17s %11s %9s %9s %11s", "server", "address", "requests/s", "mean", "p99",
			"failures/s")+terminal.Plain)
	for i, server := range d.fleet.servers {
		load := s.Servers[i]
		state := fmt.Sprintf("%11s", spell.Count(load.Errors))
		if server.hasEnded() {
			state = terminal.Red + "      ended" + terminal.Plain
		}
		lines = append(lines, fmt.Sprintf("  %-13s %-17s %11s %9s %9s %s", server.name, server.addr,
			spell.Count(load.Rate), spell.Time(load.Mean),
			spell.Time(load.P99), state))
	}
	return append(lines, "", terminal.Faint+"  "+progress+"; press Ctrl-C to end"+terminal.Plain)
}

// introOf returns the line before those for the seconds.
func introOf(d *demo) string {
	text := "mcmw demo: " + d.options.String() + "; clients may connect to " + d.clients
	if d.page != "" {
		text += "; live page " + d.page
	}
	return text
}

// summaryOf returns the final lines: the whole run, as measured by the middleware and by its clients.
func summaryOf(d *demo, w *stats.Snapshot, elapsed time.Duration) []string {
	s := admin.Summarize(w)
	stages := make([]string, stats.NumStages)
	for i, mean := range s.Stages {
		stages[i] = fmt.Sprintf("%s in %s", spell.Time(mean), stats.Stage(i))
	}
	clients := d.load.registry.Snapshot()
	seen := clients.All()
	failed := uint64(0)
	for _, results := range clients.Requests {
		failed += results[stats.ResultServerError]
	}
	lines := []string{
		fmt.Sprintf("%s requests in %.1f s: %s/s; %s failed", spell.Count(float64(seen.Count())), elapsed.Seconds(),
			spell.Count(float64(seen.Count())/elapsed.Seconds()), spell.Count(float64(failed))),
		fmt.Sprintf("response time seen by the clients: mean %s, p50 %s, p90 %s, p99 %s, p99.9 %s",
			spell.Time(seen.Mean()),
			spell.Time(seen.Quantile(0.5)), spell.Time(seen.Quantile(0.9)), spell.Time(seen.Quantile(0.99)),
			spell.Time(seen.Quantile(0.999))),
		fmt.Sprintf("response time in mcmw: mean %s, p50 %s, p90 %s, p99 %s, p99.9 %s", spell.Time(s.Mean),
			spell.Time(s.P50), spell.Time(s.P90),
			spell.Time(s.P99), spell.Time(s.P999)),
		fmt.Sprintf("of this mean: %s", strings.Join(stages, ", ")),
	}
	for i, server := range d.fleet.servers {
		times := &w.Servers[i].Times
		lines = append(lines, fmt.Sprintf("%s: %s requests, mean %s, p99 %s", server.name,
			spell.Count(float64(times.Count())),
			spell.Time(times.Mean()), spell.Time(times.Quantile(0.99))))
	}
	if d.load.failure != "" {
		lines = append(lines, "first failure: "+d.load.failure)
	}
	return lines
}
