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

// What can be wrong with a record. The errors returned wrap these and say where.
var (
	ErrNoRecord = errors.New("this is no record of mcmwlab")
	ErrExists   = errors.New("there is something already, which is never replaced")
	ErrFull     = errors.New("the disk is full")
	ErrReadOnly = errors.New("it can't be written")
)

const (
	databaseName = "record.db"
	rawName      = "raw"
	// busyTimeout is how long, in milliseconds, one process waits for another's transaction.
	busyTimeout = 10_000
)

// Record is an open record. It may be used by several goroutines.
type Record struct {
	dir      string
	manifest Manifest
	db       *sql.DB
}

// Create makes a record in a directory that doesn't exist or is empty, and returns it open. It never overwrites: if there is
// something, the error is ErrExists. The record is there whole or not at all.
func Create(dir string, m Manifest) (*Record, error) {
	dir = filepath.Clean(dir)
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return nil, fmt.Errorf("%s: %w: choose another directory, or move it away", dir, ErrExists)
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
	// The system call replaces an empty directory and no other; os.Rename refuses that one, too.
	if err := syscall.Rename(partial, dir); err != nil {
		return nil, errors.Join(explain(dir, err), os.RemoveAll(partial))
	}
	return Open(dir)
}

// fill makes the files of a new record.
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
	for _, statement := range []string{
		schema,
		"PRAGMA application_id = " + strconv.Itoa(applicationID),
		"PRAGMA user_version = " + strconv.Itoa(schemaVersion),
	} {
		if _, err := db.Exec(statement); err != nil {
			return err
		}
	}
	return writeManifest(dir, m)
}

// Open opens the record in a directory: to read, and to add runs where it can be written.
func Open(dir string) (*Record, error) {
	dir = filepath.Clean(dir)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w: there is no such file or directory", dir, ErrNoRecord)
	}
	m, err := readManifest(dir)
	if err != nil {
		return nil, explain(dir, err)
	}
	if _, err := os.Stat(filepath.Join(dir, databaseName)); err != nil {
		return nil, fmt.Errorf("%s: %w: there is no %s in it", dir, ErrNoRecord, databaseName)
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
	err := r.db.QueryRow("SELECT application_id, user_version FROM pragma_application_id, pragma_user_version").Scan(&application, &version)
	switch {
	case err != nil:
		return err
	case application != applicationID:
		return fmt.Errorf("%w: %s is another program's", ErrNoRecord, databaseName)
	case version != schemaVersion:
		return fmt.Errorf("%s has version %d of the tables, this program reads version %d: use the mcmwlab that made it", databaseName, version, schemaVersion)
	}
	return nil
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

// Close ends the use of the record.
func (r *Record) Close() error { return r.db.Close() }

// Dir returns the record's directory.
func (r *Record) Dir() string { return r.dir }

// Manifest returns what the record is of.
func (r *Record) Manifest() Manifest { return r.manifest }

// RawDir makes the directory for a run's raw outputs, if it isn't there, and returns its path.
func (r *Record) RawDir(run int64) (string, error) {
	path := filepath.Join(r.dir, rawName, strconv.FormatInt(run, 10))
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", explain(path, err)
	}
	return path, nil
}

// NextID returns the number that the next run without one will get.
func (r *Record) NextID(ctx context.Context) (int64, error) {
	var id int64
	err := r.db.QueryRowContext(ctx, nextID).Scan(&id)
	return id, explain(r.dir, err)
}

const nextID = "SELECT coalesce(max(id), 0) + 1 FROM runs"

// explain says what an error of the file system or of SQLite means, and where.
func explain(path string, err error) error {
	if err == nil || errors.Is(err, ErrNoRecord) {
		return err
	}
	code := -1
	if e := (*sqlite.Error)(nil); errors.As(err, &e) {
		code = e.Code() & 0xff // without SQLite's extension
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
