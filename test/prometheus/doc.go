// Package prometheus tests what Prometheus makes of mcmw: every expression of every dashboard, recording rule and alert is
// asked of a Prometheus that scrapes a loaded mcmw, and every alert is provoked.
//
// There are two: the current engine as a library, which stores native histograms alone, and the program of Debian's
// package, which stores classic ones. It is a module of its own, so that nothing else of mcmw needs Prometheus.
package prometheus
