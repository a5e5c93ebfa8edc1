// Package effects finds the factors that affect the response of an experiment: it makes a design from the runs of a record
// ([FromRuns]) or the lines of a table ([FromCSV]), analyses it with package factorial, and writes tables and figures.
package effects
