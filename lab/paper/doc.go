// Package paper sets published reports on memcached and its middlewares beside records of their repeated experiments:
// the report's tables, figures of the records, and the report's findings with the verdicts of package claim.
//
//	experiments/reports/NAME.yaml   what it found, and the titles of its tables
//	experiments/reports/NAME.csv    the printed numbers, and the term of package condition that measures each here
//
// A test recomputes the reports' own tables from their printed numbers or published raw data.
package paper
