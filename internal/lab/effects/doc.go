// Package effects shows what moves the response of an experiment: it takes the runs of a record ([FromRuns]), or the lines of
// a table ([FromCSV]), to a design, analyses it with package factorial, and writes tables and figures.
package effects
