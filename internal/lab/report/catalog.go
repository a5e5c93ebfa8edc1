package report

import (
	"fmt"
	"slices"
	"strings"

	"mcmw/internal/lab/plot"
	"mcmw/internal/lab/record"
)

// Figure is a drawn figure of the catalog.
type Figure struct {
	Name    string // for selecting it, and of its file
	Caption string // what it shows, and what its error bars are
	plot.Figure
	// Command is the command line that makes it again.
	Command string
	// Warnings summarize the violated checks of the runs behind it; "" if there are none.
	Warnings string
}

// kind is a figure that can be made of records that measured what it needs.
type kind struct {
	name, title, caption string
	// draw returns no panels where what it needs was not measured.
	draw func(*artist) ([]plot.Chart, error)
}

// kinds is the catalog, in the order of the page.
var kinds = []kind{
	{"throughput", "Throughput", "Throughput as the clients measure it. Dashed: what the interactive law says, N/(R + Z), with the measured response time. " +
		"Dotted: what the bandwidth allows; a ring marks the point of saturation.", (*artist).throughput},
	{"response-time", "Response time", "Mean response time as the clients measure it. Dashed: what the interactive law says, N/X - Z, with the measured throughput.", (*artist).responseTime},
	{"service", "Quality of service", "The metric of the quality of service as the clients measure it, or else the 99th percentile. Dotted: the limit, where the experiment has one; a ring marks the " +
		"highest load within it.", (*artist).service},
	{"cost", "Cost of a request", "What clients get and what it costs: throughput, processor time of the middlewares by requests of the clients, and the 99th percentile of the response time.", (*artist).cost},
	{"head-to-head", "Head to head", "How many times the values of one level of the lines' factor those of the other are; dotted: they are equal.", (*artist).headToHead},
	{"queue-length", "Queue length", "Mean number of requests in the queues of the middlewares.", (*artist).queueLength},
	{"queue-time", "Queue time", "Mean time that a request waits in the queue.", (*artist).queueTime},
	{"service-time", "Service time by server", "Mean time from a request to a server until its reply, as the middleware sees it; dashed: until the reply of the last server that the request needs.", (*artist).serviceTime},
	{"stages", "Where the time goes", "Mean response time by stages, one on top of the other; outside is what the clients see beyond the middleware: the network, and the client itself.", (*artist).stages},
	{"utilization", "Utilization", "Part of the time that each component is in use.", (*artist).utilization},
	{"host", "Processor of the host", "Time of all cores by category, one on top of the other.", (*artist).host},
	{"percentiles", "Percentiles", "Percentiles and mean of the response time at the clients.", (*artist).percentiles},
	{"spread", "Spread of response times", "Response times at the clients: boxes from the 25th to the 75th percentile with the median, whiskers from the 5th to the 95th, a diamond at the mean.", (*artist).spread},
	{"histogram", "Distribution of response times", "Response times at the clients and in the middleware, mean number of requests of a repetition for each bin. The bins are as wide as Freedman and Diaconis " +
		"say, and never narrower than what was recorded. At the point of saturation; up to the 99.5th percentile.", (*artist).histogram},
	{"cdf", "Cumulative distribution", "Part of the requests that were answered within a time, at the clients, all lines at the same load: the least at which one of them saturates.", (*artist).cdf},
	{"trace", "Throughput over time", "Throughput in each window of the repetitions, at the point of saturation.", (*artist).traceThroughput},
	{"trace-response-time", "Response time over time", "Mean response time in each window of the repetitions, at the point of saturation.", (*artist).traceResponseTime},
	{"relative", "Relative to the least load", "Response time divided by that at the least level of the x axis, for each line.", (*artist).relative},
	{"model-throughput", "Throughput, measured and modelled", modelCaption, (*artist).modelThroughput},
	{"model-response-time", "Response time, measured and modelled", modelCaption, (*artist).modelResponseTime},
	{"scalability", "Scalability", "Highest throughput of each line divided by that of the first; dashed: as it would be in proportion.", (*artist).scalability},
}

// FigureNames returns the names of all figures.
func FigureNames() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.name
	}
	return names
}

// Figures draws the figures with these names, or, without names, all that the record allows.
func (d *Data) Figures(v View, names []string) ([]Figure, error) {
	a := &artist{d: d, v: v, analysis: d.Analyse(v)}
	var figures []Figure
	for _, k := range kinds {
		if len(names) > 0 && !slices.Contains(names, k.name) {
			continue
		}
		charts, err := k.draw(a)
		if err != nil {
			return nil, fmt.Errorf("figure %s: %w", k.name, err)
		}
		if len(charts) == 0 {
			if len(names) > 0 {
				return nil, fmt.Errorf("figure %s: the record has not what it shows", k.name)
			}
			continue
		}
		f := Figure{Name: k.name, Caption: k.caption + d.errorBars(k.name), Command: d.Command(v, "figure", k.name), Warnings: d.Caution(a.behind(k.name))}
		f.Title = k.title
		f.Panels = charts
		plot.ShareY(f.Panels)
		figures = append(figures, f)
	}
	for _, name := range names {
		if !slices.Contains(FigureNames(), name) {
			return nil, fmt.Errorf("there is no figure %q: expected one of %s", name, strings.Join(FigureNames(), ", "))
		}
	}
	return figures, nil
}

// ofSaturation are the figures and tables that show points of saturation alone.
var ofSaturation = []string{"histogram", "cdf", "trace", "trace-response-time", "breakdown"}

// behind returns the points that a figure or a table shows.
func (a *artist) behind(name string) []Point {
	if !slices.Contains(ofSaturation, name) {
		return a.d.Points
	}
	var points []Point
	a.each(func(_ Panel, _ Line, s Saturation) {
		if p, ok := s.Point(); ok {
			points = append(points, p)
		}
	})
	return points
}

func (d *Data) errorBars(name string) string {
	most := 0
	for _, p := range d.Points {
		most = max(most, len(p.Runs))
	}
	switch {
	case slices.Contains([]string{"stages", "host", "spread", "cdf", "trace", "trace-response-time"}, name):
		return ""
	case most < 2:
		return " No error bars: there is one repetition."
	case name == "histogram":
		return fmt.Sprintf(" Error bars: %.0f %% confidence interval over the repetitions.", 100*d.Confidence)
	default:
		return fmt.Sprintf(" Error bars: %.0f %% confidence interval of the mean over %d repetitions.", 100*d.Confidence, most)
	}
}

// Command returns the command line that makes one figure or table again.
func (d *Data) Command(v View, what, name string) string {
	words := []string{"mcmwlab", "report", quoted(d.Dir), "--" + what, name}
	chosen, err := d.Choose(View{Command: v.Command})
	if err == nil && v.X != chosen.X {
		words = append(words, "--x", v.X)
	}
	if err == nil && v.Series != chosen.Series && v.Series != "" {
		words = append(words, "--series", v.Series)
	}
	if v.Command != "" {
		words = append(words, "--command", v.Command)
	}
	for _, level := range d.selected() {
		words = append(words, "--select", quoted(level))
	}
	if d.Confidence != DefaultConfidence {
		words = append(words, "--confidence", fmt.Sprint(d.Confidence))
	}
	return strings.Join(words, " ")
}

// DefaultConfidence is the default confidence of intervals.
const DefaultConfidence = 0.95

// CommandLine returns words quoted for a shell.
func CommandLine(words []string) string {
	quotes := make([]string, len(words))
	for i, word := range words {
		quotes[i] = quoted(word)
	}
	return strings.Join(quotes, " ")
}

// quoted returns a word quoted for a shell where needed.
func quoted(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("/._-:=+,@%", r) && !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Caution says which checks the runs of points violate, and how many runs do; "" if none does.
func (d *Data) Caution(points []Point) string {
	runs, bad := 0, 0
	counts := map[string]int{}
	var codes []string
	for _, p := range points {
		for _, r := range p.Runs {
			runs++
			if len(r.Warnings) > 0 {
				bad++
			}
			seen := map[string]bool{}
			for _, w := range r.Warnings {
				if !seen[w.Code] {
					seen[w.Code] = true
					counts[w.Code]++
				}
			}
		}
	}
	for code := range counts {
		codes = append(codes, code)
	}
	slices.SortFunc(codes, func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	var parts []string
	for _, code := range codes {
		parts = append(parts, fmt.Sprintf("%s (%d)", code, counts[code]))
	}
	var texts []string
	if bad > 0 {
		texts = append(texts, fmt.Sprintf("%d of the %d runs behind it violate checks: %s", bad, runs, strings.Join(parts, ", ")))
	}
	if len(d.Warnings) > 0 {
		texts = append(texts, fmt.Sprintf("the set violates %s", setCodes(d.Warnings)))
	}
	return strings.Join(texts, "; ")
}

// setCodes lists the codes of warnings, each once.
func setCodes(warnings []record.Warning) string {
	var codes []string
	for _, w := range warnings {
		if !slices.Contains(codes, w.Code) {
			codes = append(codes, w.Code)
		}
	}
	return strings.Join(codes, ", ")
}
