package terminal

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"mcmw/internal/admin"
	"mcmw/internal/model"
	"mcmw/internal/spell"
)

// adviceWidth is the maximum width of the lines of the advice, in columns.
const adviceWidth = 110

const yellow = "\x1b[33m"

// lines returns the view for a terminal of the given width.
func (m *Top) lines(width int) []string {
	title := Bold + "mcmw top" + Plain + "  " + m.url
	if m.report == nil {
		return []string{title, "", "  " + m.stateOf(), "", Faint + "  q quits" + Plain}
	}
	r, p := m.report, m.newest()
	uptime := (time.Duration(r.Uptime) * time.Second).String()
	lines := []string{
		title + Faint + "  " + r.Version + ", up " + uptime + "; q quits" + Plain,
		Row("state", "%s; %d connections, %s requests so far", m.stateOf(), p.Open, spell.Count(float64(r.Requests))),
		"",
	}
	lines = append(lines, Second(&p.Summary, m.trend, r.Workers, r.Capacity)...)
	lines = append(lines, Row("spread", "%s", spreadOf(p.Hist, r.Bounds)), Row("in use", "%s", inUseOf(r.Model)), "")
	lines = append(lines, serversOf(r, p)...)
	if a := r.Agreement; a.Text != "" {
		color := ""
		if a.Warning {
			color = yellow
		}
		lines = append(lines, "", Row("replicas", "%s", color+a.Text+Plain))
	}
	lines = append(lines, "")
	if m.shown.Keys {
		lines = append(append(lines, keysOf(r)...), "")
	}
	if m.shown.Prefixes {
		lines = append(append(lines, prefixesOf(&r.Usage)...), "")
	}
	for _, line := range wrapped(r.Model.Advice, min(width, adviceWidth)-2) {
		lines = append(lines, "  "+line)
	}
	return append(append(lines, ""), commandsOf(r, p)...)
}

// stateOf describes whether the middleware answers and serves clients.
func (m *Top) stateOf() string {
	switch {
	case m.lost != nil:
		return fmt.Sprintf("%sno answer since %s%s: %v; trying again", Red, m.since.Format(time.TimeOnly), Plain,
			m.lost)
	case m.report == nil:
		return "connecting"
	case !m.report.Ready:
		return yellow + "not ready" + Plain
	}
	return "serving"
}

// line describes a point in one line.
func (m *Top) line(p *admin.Point) string {
	text := time.UnixMilli(p.Time).Format(time.TimeOnly) + ": " + Line(&p.Summary, m.report.Workers)
	for i, h := range m.report.Health {
		if h.State != "up" {
			text += "; " + m.report.Servers[i] + " is " + h.State
		}
	}
	if keys := m.report.HotKeys.Keys; m.shown.Keys && len(keys) > 0 {
		text += fmt.Sprintf("; hottest key %s %.1f %%", keys[0].Name, 100*keys[0].Share)
	}
	if list := m.report.Usage.Prefixes; m.shown.Prefixes && len(list) > 0 {
		text += fmt.Sprintf("; most used prefix %s %.1f %%", list[0].Name, 100*list[0].Share)
	}
	return text
}

// spreadOf draws the distribution of a second's response times, between the bounds that enclose all of them.
func spreadOf(hist []uint64, bounds []int64) string {
	first := slices.IndexFunc(hist, func(n uint64) bool { return n > 0 })
	if first < 0 {
		return "–"
	}
	var counts []float64
	last := first
	for i, n := range hist[first:] {
		counts = append(counts, float64(n))
		if n > 0 {
			last = first + i
		}
	}
	counts = counts[:last-first+1]
	from, to := "0", "more"
	if first > 0 {
		from = spell.Time(float64(bounds[first-1]))
	}
	if last < len(bounds) {
		to = spell.Time(float64(bounds[last]))
	}
	return from + " " + sparks(counts) + " " + to
}

// inUseOf describes the utilization of the parts that are no servers, and the load at which the first part saturates.
func inUseOf(r *model.Report) string {
	var parts []string
	for i := range r.Parts {
		p := &r.Parts[i]
		if p.Part == model.PartServer {
			continue
		}
		text := fmt.Sprintf("%s %.0f %%", strings.TrimPrefix(p.String(), "the "), 100*p.Utilization)
		if p.Utilization >= model.Saturated {
			text = Red + text + Plain
		}
		parts = append(parts, text)
	}
	if r.Capacity > 0 {
		parts = append(parts, fmt.Sprintf("the limit is %s at %s requests/s", &r.Parts[r.Bottleneck],
			spell.Count(r.Capacity)))
	}
	return strings.Join(parts, ", ")
}

// serversOf returns the table of the servers.
func serversOf(r *admin.Report, p *admin.Point) []string {
	use := map[string]float64{}
	for _, part := range r.Model.Parts {
		if part.Part == model.PartServer {
			use[part.Server] = part.Utilization
		}
	}
	name := nameWidth("server", r.Servers)
	lines := []string{Faint + fmt.Sprintf("  %-*s %11s %7s %9s %9s %8s %9s  %s", name, "server", "requests/s", "in use",
		"mean", "p99", "waiting", "failed/s", "state") + Plain}
	for i, server := range r.Servers {
		state := r.Health[i].State
		if state != "up" {
			state = Red + fmt.Sprintf("%s for %v", state, (time.Duration(r.Health[i].For)*time.Second)) + Plain
		}
		if i >= len(p.Servers) {
			continue // the server is new
		}
		if len(r.Pools) > 0 && (i == 0 || r.Pools[i] != r.Pools[i-1]) {
			pool := "  pool " + r.Pools[i]
			if text := r.Gutters[r.Pools[i]]; text != "" {
				pool += ": " + text
			}
			lines = append(lines, Faint+pool+Plain)
		}
		s := &p.Servers[i]
		lines = append(lines, fmt.Sprintf("  %-*s %11s %5.0f %% %9s %9s %8.1f %9s  %s", name, shortened(server, name),
			spell.Count(s.Rate), 100*use[server],
			spell.Time(s.Mean), spell.Time(s.P99), s.Waited, spell.Count(s.Errors), state))
	}
	return lines
}

// commandsOf returns the table of the classes of commands that were used in the second.
func commandsOf(r *admin.Report, p *admin.Point) []string {
	lines := []string{Faint + fmt.Sprintf("  %-13s %11s %9s %9s %9s  %s", "command", "requests/s", "mean", "p50", "p99",
		"where the time goes") + Plain}
	for i, class := range r.Classes {
		if i >= len(p.Classes) || p.Classes[i].Rate == 0 {
			continue
		}
		c := &p.Classes[i]
		lines = append(lines, fmt.Sprintf("  %-13s %11s %9s %9s %9s  %s", class, spell.Count(c.Rate),
			spell.Time(c.Mean), spell.Time(c.P50), spell.Time(c.P99), stackOf(c)))
	}
	if len(lines) == 1 {
		return nil
	}
	return lines
}

// keysOf returns the table of the keys that are requested most.
func keysOf(r *admin.Report) []string {
	var names []string
	for _, k := range r.HotKeys.Keys {
		names = append(names, k.Name)
	}
	if names == nil {
		return []string{Faint + "  no hot keys: too few requests, or --hot-keys off" + Plain}
	}
	name := nameWidth("key", names)
	lines := []string{Faint + fmt.Sprintf("  %-*s %8s  %s", name, "key", "share", "servers") + Plain}
	for _, k := range r.HotKeys.Keys {
		lines = append(lines, fmt.Sprintf("  %-*s %6.1f %%  %s", name, shortened(k.Name, name), 100*k.Share,
			strings.Join(k.Servers, ", ")))
	}
	return lines
}

// prefixesOf returns the table of the prefixes that are used most.
func prefixesOf(u *admin.Usage) []string {
	var names []string
	for i := range u.Prefixes {
		names = append(names, u.Prefixes[i].Name)
	}
	if names == nil {
		return []string{Faint + "  no prefixes: no requests, or mcmw runs without --prefixes" + Plain}
	}
	name := nameWidth("prefix", names)
	lines := []string{Faint + fmt.Sprintf("  %-*s %11s %8s %8s %8s %14s %9s", name, "prefix", "requests/s", "share",
		"found", "bytes", "evicted soon/s", "mean") + Plain}
	for i := range u.Prefixes {
		p := &u.Prefixes[i]
		found := "–"
		if lookups := p.Hits + p.Misses; lookups > 0 {
			found = fmt.Sprintf("%.1f %%", 100*p.Hits/lookups)
		}
		lines = append(lines, fmt.Sprintf("  %-*s %11s %6.1f %% %8s %6.1f %% %14s %9s", name,
			shortened(p.Name, name), spell.Count(p.Requests), 100*p.Share, found, 100*p.BytesShare,
			spell.Count(p.EvictedSoon), spell.Time(p.Mean)))
	}
	return lines
}

// stackOf draws the shares of the stages in a class of commands next to each other.
func stackOf(c *admin.ClassLoad) string {
	const width = 24
	var b strings.Builder
	sum, drawn := 0.0, 0
	for i, mean := range c.Stages {
		sum += mean
		end := int(sum/max(c.Mean, 1)*width + 0.5)
		if n := min(end, width) - drawn; n > 0 {
			b.WriteString(stageColors[i] + strings.Repeat("█", n))
			drawn += n
		}
	}
	return b.String() + Plain
}

const longestName = 28 // columns of a name; longer ones are cut at the front

func nameWidth(heading string, names []string) int {
	width := len(heading)
	for _, name := range names {
		width = max(width, utf8.RuneCountInString(name))
	}
	return min(width, longestName)
}

// shortened returns the end of name, which is more distinctive than its beginning, in at most width columns.
func shortened(name string, width int) string {
	runes := []rune(name)
	if len(runes) <= width {
		return name
	}
	return "…" + string(runes[len(runes)-width+1:])
}

// wrapped breaks text into lines of at most width columns, between words.
func wrapped(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
