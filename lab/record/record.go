package record

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Errors of records. Returned errors wrap these and name the file or directory.
var (
	ErrNoRecord = errors.New("not a record of mcmwlab")
	ErrExists   = errors.New("it exists already and is never replaced")
	ErrFull     = errors.New("the disk is full")
	ErrReadOnly = errors.New("it can't be written")
)

const (
	databaseName = "record.db"
	rawName      = "raw"
	// busyTimeout is the longest time, in milliseconds, that a process waits for another's transaction.
	busyTimeout = 10_000
)

// Record is an open record. It is safe for concurrent use.
type Record struct {
	dir      string
	manifest Manifest
	db       *sql.DB
	memory   bool // the database is in memory: no run can be added
	text     bool // the record is kept as text: its warnings can't be replaced either
}

// Create makes a record in a directory that doesn't exist or is empty, and opens it. It never overwrites anything: if
// the directory has content, the error is ErrExists. It creates the whole record or nothing.
func Create(dir string, m Manifest) (*Record, error) {
	dir = filepath.Clean(dir)
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return nil, fmt.Errorf("%s: %w: choose another directory, or move this one away", dir, ErrExists)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, explain(dir, err)
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, explain(parent, err)
	}
	partial, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+".partial-*")
	if err != nil {
		return nil, explain(parent, err)
	}
	if err := fill(partial, m); err != nil {
		return nil, errors.Join(explain(dir, err), os.RemoveAll(partial))
	}
	// The system call replaces an empty directory, but no other; os.Rename refuses an empty one, too.
	if err := syscall.Rename(partial, dir); err != nil {
		return nil, errors.Join(explain(dir, err), os.RemoveAll(partial))
	}
	return Open(dir)
}

// fill creates the files of a new record.
func fill(dir string, m Manifest) (err error) {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, rawName), 0o755); err != nil {
		return err
	}
	db, err := openDatabase(dir, "rwc")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.Exec(schema); err != nil {
		return err
	}
	return writeManifest(dir, m)
}

// Open opens the record in a directory for reading and, if it can be written and is not kept as text, for adding runs.
func Open(dir string) (*Record, error) {
	dir = filepath.Clean(dir)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w: no such file or directory", dir, ErrNoRecord)
	}
	m, err := readManifest(dir)
	if err != nil {
		return nil, explain(dir, err)
	}
	if _, err := os.Stat(filepath.Join(dir, databaseName)); err != nil {
		if _, err := os.Stat(filepath.Join(dir, textName)); err == nil {
			return openText(dir, m)
		}
		return nil, fmt.Errorf("%s: %w: it has no %s", dir, ErrNoRecord, databaseName)
	}
	db, err := openDatabase(dir, "rw")
	if err != nil {
		return nil, explain(dir, err)
	}
	r := &Record{dir: dir, manifest: m, db: db}
	if err := r.checkVersion(); err != nil {
		return nil, errors.Join(explain(dir, err), db.Close())
	}
	return r, nil
}

func (r *Record) checkVersion() error {
	var application, version int
	err := r.db.QueryRow("SELECT application_id, user_version FROM pragma_application_id, pragma_user_version").
		Scan(&application, &version)
	switch {
	case err != nil:
		return err
	case application != applicationID:
		return fmt.Errorf("%s: %w: it is of another program", filepath.Join(r.dir, databaseName), ErrNoRecord)
	case version != schemaVersion:
		return fmt.Errorf("%s has version %d of the tables, but this program reads version %d: use the version of "+
			"mcmwlab that made it", filepath.Join(r.dir, databaseName), version, schemaVersion)
	}
	return nil
}

// InMemory returns a record of runs that are not stored, with warnings of the set. path says in errors where they are
// from.
func InMemory(path string, m Manifest, runs []Run, warnings []Warning) (*Record, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // each connection has another database
	r := &Record{dir: path, manifest: m, db: db, memory: true}
	err = r.transact(false, func(tx *sql.Tx) error {
		if _, err := tx.Exec(schema); err != nil {
			return err
		}
		for _, run := range runs {
			renameClients(run.Factors)
			if err := add(tx, run); err != nil {
				return err
			}
		}
		return setWarnings(tx, 0, warnings)
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return r, nil
}

func openDatabase(dir, mode string) (*sql.DB, error) {
	path, err := filepath.Abs(filepath.Join(dir, databaseName))
	if err != nil {
		return nil, err
	}
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		"mode":    {mode},
		"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(" + strconv.Itoa(busyTimeout) + ")", "foreign_keys(1)", "synchronous(FULL)"},
	}.Encode()}
	return sql.Open("sqlite", dsn.String())
}

// Close closes the record.
func (r *Record) Close() error {
	return r.db.Close()
}

// Dir returns the record's directory, or the path of one in memory.
func (r *Record) Dir() string { return r.dir }

// IsText reports whether the record is kept as text, so that nothing can be added.
func (r *Record) IsText() bool { return r.text }

// Manifest returns the record's manifest.
func (r *Record) Manifest() Manifest { return r.manifest }

// RawDir creates the directory of a run's raw outputs, if it doesn't exist, and returns its path.
func (r *Record) RawDir(run int64) (string, error) {
	path := filepath.Join(r.dir, rawName, strconv.FormatInt(run, 10))
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", explain(path, err)
	}
	return path, nil
}

// ProfileFile returns the name of the raw output that has the profile of a middleware.
func ProfileFile(middleware int) string { return fmt.Sprintf("middleware-%d.pprof", middleware) }

// Raw returns a raw output of a run; fs.ErrNotExist if the run has no such file.
func (r *Record) Raw(run int64, name string) ([]byte, error) {
	if r.memory {
		return nil, fs.ErrNotExist
	}
	return os.ReadFile(filepath.Join(r.dir, rawName, strconv.FormatInt(run, 10), name))
}

// NextID returns the ID that Add gives the next run without one. The record has a database.
func (r *Record) NextID(ctx context.Context) (int64, error) {
	var id int64
	err := r.db.QueryRowContext(ctx, nextID).Scan(&id)
	return id, explain(r.dir, err)
}

const nextID = "SELECT coalesce(max(id), 0) + 1 FROM runs"

// explain adds the path to an error of the file system or of SQLite and, for known causes, one of the errors of this
// package. If err already names a file, that is the path.
func explain(path string, err error) error {
	if err == nil || errors.Is(err, ErrNoRecord) {
		return err
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		path, err = e.Path, e.Err
	}
	code := -1
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		code = e.Code() & 0xff // the primary result code
	}
	var kind error
	switch {
	case code == sqlite3.SQLITE_FULL, errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		kind = ErrFull
	case code == sqlite3.SQLITE_READONLY, errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		kind = ErrReadOnly
	case code == sqlite3.SQLITE_NOTADB, code == sqlite3.SQLITE_CORRUPT:
		kind = ErrNoRecord
	case errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, syscall.EEXIST):
		kind = ErrExists
	default:
		return fmt.Errorf("%s: %w", path, err)
	}
	return fmt.Errorf("%s: %w: %w", path, kind, err)
}

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
var schema = fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", applicationID, schemaVersion) + `
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
