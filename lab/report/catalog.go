package report

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"mcmw/lab/frame"
	"mcmw/lab/plot"
	"mcmw/lab/record"
	"mcmw/lab/table"
)

// kind is a figure or table of a catalog.
type kind[T any] struct {
	name, title, caption string
	// make returns no panels or rows if the record lacks the measurements.
	make func(*artist) T
}

func namesOf[T any](catalog []kind[T]) []string {
	names := make([]string, len(catalog))
	for i, k := range catalog {
		names[i] = k.name
	}
	return names
}

// selected returns the named kinds in the order of their catalog; without names, all.
func selected[T any](catalog []kind[T], names []string) []kind[T] {
	return slices.DeleteFunc(slices.Clone(catalog),
		func(k kind[T]) bool { return len(names) > 0 && !slices.Contains(names, k.name) })
}

// figures is the catalog of figures, in the order of the page.
var figures = []kind[[]plot.Chart]{
	{
		"throughput", "Throughput",
		"Throughput measured by the clients. Dashed: the interactive law, N/(R + Z), with the measured response time " +
			"R. " +
			"Dotted: the bandwidth limit. Ring: the point of saturation.", (*artist).throughput,
	},
	{
		"response-time", "Response time",
		"Mean response time measured by the clients. Dashed: the interactive law, N/X - Z, with the measured " +
			"throughput X.", (*artist).responseTime,
	},
	{
		"service", "Quality of service",
		"The metric that the quality of service limits, measured by the clients; without a quality of service the " +
			"99th percentile of the response times. " +
			"Dotted: the limit. Ring: the highest load within it.", (*artist).service,
	},
	{
		"cost", "Cost of a request",
		"Throughput, processor time of the middlewares per request of the clients, and 99th percentile of the " +
			"response times.", (*artist).cost,
	},
	{"head-to-head", "Head to head", "Ratios of the values of two lines. Dotted: equal values.", (*artist).headToHead},
	{
		"queue-length", "Queue length", "Mean number of requests in the queues of the middlewares.",
		(*artist).queueLength,
	},
	{"queue-time", "Queue time", "Mean time of a request in the queue.", (*artist).queueTime},
	{
		"service-time", "Service time by server",
		"Mean time from a request to a server until its reply, measured by the middleware. Dashed: until the last of " +
			"the replies that a request needs.", (*artist).serviceTime,
	},
	{
		"stages", "Where the time goes",
		"Mean response time by stage, stacked. The layer outside is the difference between the response times at the " +
			"clients and in the middleware: the network, and the client itself.", (*artist).stages,
	},
	{"utilization", "Utilization", "Utilization of each component.", (*artist).utilization},
	{"host", "Processor of the host", "Processor time of all cores by category, stacked.", (*artist).host},
	{"percentiles", "Percentiles", "Percentiles and mean of the response times at the clients.", (*artist).percentiles},
	{
		"spread", "Spread of response times",
		"Response times at the clients: boxes from the 25th to the 75th percentile with the median, whiskers from " +
			"the 5th to the 95th, a diamond at the mean.", (*artist).spread,
	},
	{
		"histogram", "Distribution of response times",
		"Response times at the clients and in the middleware at the point of saturation, up to the 99.5th " +
			"percentile: the mean number of requests of a repetition in each bin. " +
			"The width of the bins is by the rule of Freedman and Diaconis, but not below the resolution of the " +
			"record.",
		(*artist).histogram,
	},
	{
		"cdf", "Cumulative distribution",
		"Share of the requests that were answered within a time, at the clients. All lines have the same load: the " +
			"least at which one of them saturates.", (*artist).cdf,
	},
	{
		"trace", "Throughput over time", "Throughput in each window of every repetition, at the point of saturation.",
		func(a *artist) []plot.Chart { return a.trace("throughput", "throughput", plot.OpsPerSecond) },
	},
	{
		"trace-response-time", "Response time over time",
		"Mean response time in each window of every repetition, at the point of saturation.",
		func(a *artist) []plot.Chart { return a.trace("response_time_mean", "response time", plot.Seconds) },
	},
	{
		"relative", "Relative to the least load",
		"Response time divided by that at the least level of the x axis, for each line.", (*artist).relative,
	},
	{
		"model-throughput", "Throughput, measured and modelled", modelCaption,
		func(a *artist) []plot.Chart { return a.modelled("throughput") },
	},
	{
		"model-response-time", "Response time, measured and modelled", modelCaption,
		func(a *artist) []plot.Chart { return a.modelled("response-time") },
	},
	{
		"scalability", "Scalability",
		"Highest throughput of each line divided by that of the first. Dashed: proportional growth.",
		(*artist).scalability,
	},
}

// FigureNames returns the names of all figures.
func FigureNames() []string { return namesOf(figures) }

// Figures draws those figures that have one of the names; without names, all for which the record has measurements.
func (d *Data) Figures(v View, names []string) ([]table.Figure, error) {
	a := d.artist(v)
	var drawn []table.Figure
	for _, k := range selected(figures, names) {
		charts := k.make(a)
		switch {
		case a.err != nil:
			return nil, fmt.Errorf("figure %s: %w", k.name, a.err)
		case len(charts) == 0 && len(names) > 0:
			return nil, fmt.Errorf("figure %s: the record does not have the measurements for it", k.name)
		case len(charts) == 0:
			continue
		}
		plot.ShareY(charts)
		drawn = append(drawn, table.Figure{
			Name: k.name, Caption: k.caption + d.errorBars(k.name), Command: d.Command(v, "figure", k.name),
			Warnings: d.Caution(a.pointsOf(k.name)),
			Figure:   plot.Figure{Title: k.title, Panels: charts},
		})
	}
	return drawn, nil
}

// ofSaturation are the figures and tables that show only points of saturation.
var ofSaturation = []string{"histogram", "trace", "trace-response-time", "breakdown"}

// pointsOf returns the points that a figure or table shows.
func (a *artist) pointsOf(name string) []frame.Point {
	var points []frame.Point
	switch {
	case name == "cdf":
		a.each(func(panel Panel, l Line) { points = append(points, a.sameLoad(panel, l)...) })
	case slices.Contains(ofSaturation, name):
		a.each(func(_ Panel, l Line) { points = append(points, l.saturated()...) })
	default:
		points = a.d.Points
	}
	return points
}

// errorBars returns the sentence about error bars in the caption of a figure.
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
		return fmt.Sprintf(" Error bars: %.0f %% confidence interval of the mean over %d repetitions.",
			100*d.Confidence, most)
	}
}

// Command returns the command line that makes one figure or table again.
func (d *Data) Command(v View, what, name string) string {
	words := []string{"mcmwlab", "report", d.Dir, "--" + what, name}
	given := View{Command: v.Command}
	// differs reports whether the flags so far choose another view.
	differs := func() bool {
		chosen, err := d.Choose(given)
		return err == nil && (v.X != chosen.X || v.Series != chosen.Series || !slices.Equal(v.Panels, chosen.Panels))
	}
	if chosen, err := d.Choose(given); err == nil && v.X != chosen.X {
		given.X = v.X
		words = append(words, "--x", v.X)
	}
	if v.Series != "" && differs() {
		given.Series = v.Series
		words = append(words, "--series", v.Series)
	}
	if len(v.Panels) > 0 && differs() {
		words = append(words, "--panels", strings.Join(v.Panels, ","))
	}
	if v.Command != "" {
		words = append(words, "--command", v.Command)
	}
	for _, factor := range slices.Sorted(maps.Keys(d.wanted)) {
		words = append(words, "--where", where(factor, d.wanted[factor]))
	}
	if d.Confidence != DefaultConfidence {
		words = append(words, "--confidence", fmt.Sprint(d.Confidence))
	}
	return CommandLine(words)
}

// where returns the argument of --where for a level. Commas separate the levels of several factors, unless in quotes.
func where(factor, level string) string {
	text := factor + "=" + level
	if strings.ContainsAny(text, "\",") {
		text = `"` + strings.ReplaceAll(text, `"`, `""`) + `"`
	}
	return text
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

// plainWord matches words that a shell does not interpret.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9/._:=+,@%-]+$`)

func quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Caution summarizes the checks that the runs of points and the whole set violate; "" if there are none.
func (d *Data) Caution(points []frame.Point) string {
	all := frame.Frame{Points: points}.Runs()
	bad := 0
	counts := map[string]int{} // runs by code
	for _, r := range all {
		if len(r.Warnings) > 0 {
			bad++
		}
		for _, code := range codes(r.Warnings) {
			counts[code]++
		}
	}
	var parts []string
	for _, code := range slices.SortedFunc(maps.Keys(counts),
		func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) }) {
		parts = append(parts, fmt.Sprintf("%s (%d)", code, counts[code]))
	}
	var texts []string
	if bad > 0 {
		texts = append(texts, fmt.Sprintf("%d of the %d runs behind it violate checks: %s", bad, len(all),
			strings.Join(parts, ", ")))
	}
	if len(d.Warnings) > 0 {
		texts = append(texts, "the set violates "+strings.Join(codes(d.Warnings), ", "))
	}
	return strings.Join(texts, "; ")
}

// codes returns the codes of warnings, each once.
func codes(warnings []record.Warning) (codes []string) {
	for _, w := range warnings {
		if !slices.Contains(codes, w.Code) {
			codes = append(codes, w.Code)
		}
	}
	return codes
}
