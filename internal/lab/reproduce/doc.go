// Package reproduce compares records of a report's repeated experiments with the printed report: its tables with the same
// rows and columns, figures of the records, and its findings with the verdicts of package claim.
package reproduce
