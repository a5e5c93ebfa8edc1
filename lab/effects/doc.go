// Package effects makes designs of package factorial from the runs of a record ([FromRuns]) or the lines of a CSV file
// ([FromCSV]), and shows their analyses as tables, figures and JSON.
package effects
