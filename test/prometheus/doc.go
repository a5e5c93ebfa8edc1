// Package prometheus tests mcmw's metrics with Prometheus: it evaluates every expression of every dashboard, recording
// rule and alert in a Prometheus that scrapes mcmw under load, and makes every alert fire.
//
// It uses two versions of Prometheus: the current engine as a library, which stores only native histograms, and the
// program of Debian's package, which stores classic ones. It is a separate module, so that mcmw does not require
// Prometheus.
package prometheus
