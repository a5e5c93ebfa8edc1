// Package reproduce sets what records of a report's experiments measured beside what the report prints: its tables with the same rows
// and columns, figures of the records, and its findings with the verdicts of package claim.
package reproduce
