// Package statlog writes down what was measured, as JSON lines, one object each, for a program to analyse later: windows of
// the statistics, and single requests. docs/observability.md describes every field.
package statlog
