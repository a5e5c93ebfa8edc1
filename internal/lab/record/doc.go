// Package record keeps the measurements of experiments: measured once, analysed as often as needed.
//
// # On disk
//
// An experiment is one directory:
//
//	manifest.json      what was run, where, with which versions; written once, when the record is created
//	record.db          one SQLite database: the runs and everything measured in them
//	raw/RUN/...        the unchanged outputs of a run, from which the tables were made
//
// The tables are long (one value per row, named by source and metric), so that a new metric or factor needs no new column.
// docs/record.md describes them for people who query them by SQL, pandas or DuckDB.
//
// Units are base units: seconds, bytes, operations, operations per second, ratios from 0 to 1. Formatting is up to whoever
// displays a value.
//
// # Failures
//
// A record is created completely or not at all, and a run is one transaction: a process that is killed leaves the runs that
// it had added, each complete. Any number of processes may read while one writes. A full disk, a directory that can't be
// written and a file that is not a record have errors of their own: ErrNoRecord, ErrExists, ErrFull and ErrReadOnly.
package record
