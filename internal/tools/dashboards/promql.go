package main

import (
	"fmt"
	"strings"
)

// here selects what the dashboard's variables name. Every selector has it.
const here = `namespace=~"$namespace",job=~"$job",instance=~"$instance"`

// of selects the series of a metric, with more matchers than here, such as `state="up"`.
func of(metric string, matchers ...string) string {
	return metric + "{" + strings.Join(append([]string{here}, matchers...), ",") + "}"
}

// rate is a counter's, or a histogram's, increase per second, over an interval that holds several scrapes.
func rate(metric string, matchers ...string) string {
	return "rate(" + of(metric, matchers...) + "[$__rate_interval])"
}

// over aggregates what is left and right of a space in operation, such as "sum job": one series per value of these labels.
func over(operation, expr string) string {
	name, labels, _ := strings.Cut(operation, " ")
	if labels == "" {
		return name + "(" + expr + ")"
	}
	return name + " by (" + labels + ") (" + expr + ")"
}

// perSecond is the rate of a counter, summed by labels ("" for one series).
func perSecond(by, metric string, matchers ...string) string {
	return over("sum "+by, rate(metric, matchers...))
}

// quantile is a quantile of a histogram, by labels: of the native histogram where Prometheus stores those, else of the
// classic one.
func quantile(q float64, by, metric string, matchers ...string) string {
	classic := over("sum "+labels("le", by), rate(metric+"_bucket", matchers...))
	return fmt.Sprintf("histogram_quantile(%v, %s) or histogram_quantile(%v, %s)", q, perSecond(by, metric, matchers...), q, classic)
}

// mean is the mean of a histogram, by labels, from the native or the classic one.
func mean(by, metric string, matchers ...string) string {
	native := perSecond(by, metric, matchers...)
	return fmt.Sprintf("histogram_sum(%s) / histogram_count(%s) or %s", native, native, classicMean(by, metric, matchers...))
}

// classicMean is mean for a histogram that has no native form.
func classicMean(by, metric string, matchers ...string) string {
	return perSecond(by, metric+"_sum", matchers...) + " / " + perSecond(by, metric+"_count", matchers...)
}

// count is how much a histogram counts per second, by labels, from the native or the classic one.
func count(by, metric string, matchers ...string) string {
	return "histogram_count(" + perSecond(by, metric, matchers...) + ") or " + perSecond(by, metric+"_count", matchers...)
}

// buckets is a histogram for a heat map: the native one where Prometheus stores it, else the classic one's buckets.
func buckets(metric string, matchers ...string) string {
	native := perSecond("", metric, matchers...)
	return native + " or (" + perSecond("le", metric+"_bucket", matchers...) + " unless on () " + native + ")"
}

// ratio divides; where nothing happened there is no value rather than NaN.
func ratio(part, whole string) string { return part + " / (" + whole + " > 0)" }

// labels joins lists of labels that may be empty.
func labels(lists ...string) string {
	var all []string
	for _, l := range lists {
		if l != "" {
			all = append(all, l)
		}
	}
	return strings.Join(all, ", ")
}
