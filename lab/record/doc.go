// Package record stores the measurements of experiments: they are measured once and analysed as often as needed.
//
// # On disk
//
// An experiment is one directory:
//
//	manifest.json      experiment, testbed, versions; written once, when the record is created
//	record.db          one SQLite database: the runs and everything measured in them
//	raw/RUN/...        the unchanged outputs of a run, from which the tables were made
//	record.csv         in place of both, if the record is kept as text: a line for each run
//
// A record can also be in memory, made of the runs in a file of another program (InMemory).
//
// The tables are long (one value per row, named by source and metric), so that a new metric or factor needs no new
// column. docs/record.md describes them for people who query them with SQL, pandas or DuckDB.
//
// Values are in base units: seconds, bytes, operations, operations per second, ratios from 0 to 1. The code that
// displays a value formats it.
//
// # Failures
//
// A record is created completely or not at all, and a run is added in one transaction: if the process is killed, the
// runs added so far remain, each complete. Any number of processes can read while one writes. A directory without a
// record, an existing file or run, a full disk and a directory that can't be written have their own errors:
// ErrNoRecord, ErrExists, ErrFull and ErrReadOnly.
package record
