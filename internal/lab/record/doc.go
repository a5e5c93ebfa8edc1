// Package record keeps what experiments measured: measured once, analysed as often as one likes.
//
// # On disk
//
// An experiment is one directory:
//
//	manifest.json      what was run, where, with which versions; written once, when the record is created
//	record.db          one SQLite database: the runs and everything measured in them
//	raw/RUN/...        the outputs of a run as they came, for whoever doubts the tables
//
// The tables are long (one value per row, named by source and metric), so that a new metric or factor needs no new column.
// docs/record.md describes them for people who query them by SQL, pandas or DuckDB.
//
// Units are base units: seconds, bytes, operations, operations per second, ratios from 0 to 1. Formatting is for whoever shows
// a value.
//
// # What can go wrong
//
// A record is created whole or not at all, and a run is one transaction: a process that is killed leaves the runs that it had
// added, each complete. Any number of processes may read while one writes. A full disk, a directory that can't be written
// and a file that is no record are errors that say so; see ErrNoRecord, ErrExists, ErrFull and ErrReadOnly.
package record
