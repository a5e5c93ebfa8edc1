// Package paper sets published reports on memcached and its middlewares beside records of their repeated experiments:
// the report's tables, figures of the records, and the report's findings with their verdicts.
//
//	experiments/reports/NAME.yaml   what it found, with conditions that decide it, and the titles of its tables
//	experiments/reports/NAME.csv    the printed numbers, and the term of package condition that measures each here
//
//	Load -> Report -> Decide(evidence) -> verdicts with their numbers -> Of(evidence), Page
//
// Only valid runs decide: those without violations of the checks in invalid. Runs that saturated the processors of the
// machine that emulates the others decide no finding about throughput or time: they show the limit of the emulation.
//
// A test recomputes the reports' own tables from their printed numbers or published raw data.
package paper
