package record

// schemaVersion is the database's user_version. Increase it with every change of the tables that older programs can't
// read.
const schemaVersion = 1

// applicationID is the database's application_id ("mcmw" in ASCII), by which Open and `file` recognize a record.
const applicationID = 0x6d636d77

// windowColumns are the columns of both tables of windows.
const windowColumns = `
	run     INTEGER NOT NULL REFERENCES runs (id),
	source  TEXT NOT NULL,
	start   REAL NOT NULL,
	seconds REAL NOT NULL,
	metric  TEXT NOT NULL REFERENCES metrics (name),
	value   REAL NOT NULL,
	PRIMARY KEY (run, source, metric, start)
`

// schema creates the tables. docs/record.md describes them.
const schema = `
CREATE TABLE runs (
	id         INTEGER PRIMARY KEY,
	point      INTEGER NOT NULL,
	repetition INTEGER NOT NULL,
	position   INTEGER NOT NULL,
	started    TEXT NOT NULL,
	seconds    REAL NOT NULL,
	state      TEXT NOT NULL CHECK (state IN ('complete', 'failed')),
	error      TEXT NOT NULL
);
CREATE UNIQUE INDEX one_complete_run ON runs (point, repetition) WHERE state = 'complete';
CREATE TABLE factors (
	run   INTEGER NOT NULL REFERENCES runs (id),
	name  TEXT NOT NULL,
	level TEXT NOT NULL,
	PRIMARY KEY (run, name)
) WITHOUT ROWID;
CREATE TABLE metrics (
	name TEXT PRIMARY KEY,
	unit TEXT NOT NULL,
	help TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE results (
	run    INTEGER NOT NULL REFERENCES runs (id),
	source TEXT NOT NULL,
	metric TEXT NOT NULL REFERENCES metrics (name),
	value  REAL NOT NULL,
	PRIMARY KEY (run, source, metric)
) WITHOUT ROWID;
CREATE TABLE windows (` + windowColumns + `) WITHOUT ROWID;
CREATE TABLE histograms (
	run     INTEGER NOT NULL REFERENCES runs (id),
	source  TEXT NOT NULL,
	metric  TEXT NOT NULL REFERENCES metrics (name),
	command TEXT NOT NULL,
	lower   REAL NOT NULL,
	upper   REAL NOT NULL,
	count   INTEGER NOT NULL,
	PRIMARY KEY (run, source, metric, command, lower)
) WITHOUT ROWID;
CREATE TABLE host_samples (` + windowColumns + `) WITHOUT ROWID;
CREATE TABLE warnings (
	run     INTEGER REFERENCES runs (id),
	code    TEXT NOT NULL,
	message TEXT NOT NULL
);
CREATE INDEX warnings_of_run ON warnings (run);
`
