package main

import (
	"fmt"
	"strings"
)

// here selects the series that the dashboard's variables choose. Every selector contains it.
const here = `namespace=~"$namespace",job=~"$job",instance=~"$instance"`

// of selects the series of a metric that match here and the matchers, such as `state="up"`.
func of(metric string, matchers ...string) string {
	return metric + "{" + strings.Join(append([]string{here}, matchers...), ",") + "}"
}

// rate is the increase per second of a counter or a histogram, over an interval of several scrapes.
func rate(metric string, matchers ...string) string {
	return "rate(" + of(metric, matchers...) + "[$__rate_interval])"
}

// over aggregates expr. operation is an operator and the labels to keep, separated by a space, such as "sum job".
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

// quantile is a quantile of a histogram, by labels: of the native histogram if Prometheus stores those, otherwise of
// the classic one.
func quantile(q float64, by, metric string, matchers ...string) string {
	classic := over("sum "+labels("le", by), rate(metric+"_bucket", matchers...))
	return fmt.Sprintf("histogram_quantile(%v, %s) or histogram_quantile(%v, %s)", q,
		perSecond(by, metric, matchers...), q, classic)
}

// mean is the mean of a histogram, by labels, from the native or the classic one.
func mean(by, metric string, matchers ...string) string {
	native := perSecond(by, metric, matchers...)
	return fmt.Sprintf("histogram_sum(%s) / histogram_count(%s) or %s", native, native,
		classicMean(by, metric, matchers...))
}

// classicMean is mean for a histogram that has no native form.
func classicMean(by, metric string, matchers ...string) string {
	return perSecond(by, metric+"_sum", matchers...) + " / " + perSecond(by, metric+"_count", matchers...)
}

// count is the number of observations of a histogram per second, by labels, from the native or the classic one.
func count(by, metric string, matchers ...string) string {
	return "histogram_count(" + perSecond(by, metric, matchers...) + ") or " +
		perSecond(by, metric+"_count", matchers...)
}

// buckets is a histogram for a heat map: the native one if Prometheus stores it, otherwise the buckets of the classic
// one.
func buckets(metric string, matchers ...string) string {
	native := perSecond("", metric, matchers...)
	return native + " or (" + perSecond("le", metric+"_bucket", matchers...) + " unless on () " + native + ")"
}

// ratio divides. If whole is 0, there is no value instead of NaN.
func ratio(part, whole string) string { return part + " / (" + whole + " > 0)" }

// labels joins lists of labels, which may be empty.
func labels(lists ...string) string {
	var all []string
	for _, l := range lists {
		if l != "" {
			all = append(all, l)
		}
	}
	return strings.Join(all, ", ")
}
