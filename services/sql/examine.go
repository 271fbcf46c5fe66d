package sql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jackc/pgx/v5/pgconn"

	"tidings/services"
)

// The limits beyond which the examination reports a fault.
const (
	oldestPostgresVersion = 140000      // PostgreSQL 14, in the form of server_version_num
	clockTolerance        = time.Second // of the difference between the clocks of node and server; beyond 2 s a node takes no requests
	lowDiskBytes          = 1 << 30     // 1 GiB of free space
)

// Examine checks the database of a configuration for an operator and changes nothing that lasts: it leaves no file and no
// table behind.
func Examine(ctx context.Context, cfg Config) []services.Finding {
	x := &examination{clock: cmp.Or[services.Clock](cfg.Clock, services.SystemClock{})}
	cfg.Clock = x.clock
	// s is not opened, because opening would migrate.
	s := &DB{clock: x.clock}
	scheme, file, _ := strings.Cut(cfg.URL, ":")
	if scheme == "sqlite" {
		x.examineSQLite(ctx, s, file)
		return x.findings
	}
	cfg.MaxConns = 1
	if err := s.dialPostgres(ctx, cfg); err != nil {
		x.add(services.Failure, err.Error(), "Look at --database (DATABASE_URL), and whether this machine reaches the server.")
		return x.findings
	}
	defer func() { _ = s.closeAll() }() // nothing was written, so its error does not matter
	x.examinePostgres(ctx, s)
	return x.findings
}

// examination collects the findings of one Examine.
type examination struct {
	clock    services.Clock
	findings []services.Finding
}

// add adds one finding; advice is "" where there is nothing to do.
func (x *examination) add(severity services.Severity, text, advice string) {
	x.findings = append(x.findings, services.Finding{Severity: severity, Subject: "database", Text: text, Advice: advice})
}

// addCheckResult adds a finding: with the severity and the advice if bad is true, else with the severity Fine and no advice.
func (x *examination) addCheckResult(bad bool, severity services.Severity, text, advice string) {
	if !bad {
		severity, advice = services.Fine, ""
	}
	x.add(severity, text, advice)
}

// postgresServerQuery reads everything about the server in one row: settings, rights and the time.
const postgresServerQuery = `SELECT current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery(),
	current_setting('default_transaction_read_only') = 'on', current_setting('fsync') = 'on', current_setting('max_connections')::int,
	has_schema_privilege(current_schema(), 'CREATE'), pg_encoding_to_char(encoding), (extract(epoch FROM clock_timestamp()) * 1e6)::bigint
	FROM pg_database WHERE datname = current_database()`

// examinePostgres examines a server that answers.
func (x *examination) examinePostgres(ctx context.Context, s *DB) {
	var version, most int
	var name, encoding string
	var standby, readOnly, synced, creates bool
	var now int64
	asked := x.clock.Now()
	// An error of this query ends the examination, since nothing more can be asked. A fault that the answer shows does not end it.
	err := s.db.QueryRowContext(ctx, postgresServerQuery).Scan(&version, &name, &standby, &readOnly, &synced, &most, &creates, &encoding, &now)
	if err != nil {
		x.add(services.Failure, MapError("read the settings of "+s.name, err).Error(), "Give the user the right to connect to the database and to use its schema.")
		return
	}
	// The duration of the query bounds the error of the clock comparison below.
	took := x.clock.Now().Sub(asked)
	x.addCheckResult(version < oldestPostgresVersion, services.Warning, fmt.Sprintf("%s, version %s", s.name, name),
		"Use PostgreSQL 14 or newer: older ones hold the row locks of a node that died for longer.")
	if standby || readOnly {
		x.add(services.Failure, "it takes no writes", "Connect to the primary, and look at default_transaction_read_only.")
	}
	if !creates {
		x.add(services.Failure, "the user cannot create tables", "GRANT CREATE ON SCHEMA to the user: each version may add tables.")
	}
	x.addCheckResult(encoding != "UTF8", services.Failure, "the encoding is "+encoding, "Create the database with ENCODING 'UTF8'.")
	if !synced {
		x.add(services.Failure, "fsync is off: a power failure loses data that was acknowledged", "Set fsync = on.")
	}
	x.addCheckResult(most < 2*defaultMaxConns, services.Warning, fmt.Sprintf("max_connections is %d, and a node uses up to %d", most, defaultMaxConns+1),
		fmt.Sprintf("Allow %d for each node, and some for yourself.", defaultMaxConns+1))
	// The server read its clock at some time between the query and the answer: the middle is the best guess, and the error is at most
	// took.
	ahead := asked.Add(took / 2).Sub(FromMicros(now))
	x.addCheckResult(ahead.Abs() > clockTolerance+took, services.Failure, fmt.Sprintf("the clocks of this machine and of the server differ by %s", ahead.Abs().Round(time.Millisecond)),
		"Run an NTP client on both: beyond 2 s a node takes no requests.")
	x.checkTablesVersion(ctx, s.db)
}

// checkTablesVersion compares the version of the tables with this program's. It reads the table of the migrations directly, because
// the migration library would create it.
func (x *examination) checkTablesVersion(ctx context.Context, db *sql.DB) {
	var have int64
	newest := newestMigrationVersion()
	err := db.QueryRowContext(ctx, "SELECT COALESCE(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&have)
	switch {
	// Goose makes its table with the first migration.
	case err != nil && noSuchTable(err):
		x.add(services.Fine, "it has no tables yet: the first node creates them", "")
	case err != nil:
		x.add(services.Failure, MapError("read the version of the tables", err).Error(), "Give the user the rights to all tables: best make it their owner.")
	case have > newest:
		x.add(services.Failure, fmt.Sprintf("the tables have version %d and this program knows %d", have, newest), "Use the program that wrote them, or a newer one.")
	case have < newest:
		x.add(services.Fine, fmt.Sprintf("the tables have version %d: the next node to start brings them to %d", have, newest), "")
	default:
		x.add(services.Fine, fmt.Sprintf("the tables have version %d, this program's", have), "")
	}
}

// noSuchTable reports whether a statement failed because its table does not exist.
func noSuchTable(err error) bool {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return refused.Code == "42P01"
	}
	return strings.Contains(err.Error(), "no such table")
}

// newestMigrationVersion is the version of the tables that this program works with: the greatest number of a file, or of the
// step in Go.
func newestMigrationVersion() int64 {
	newest := int64(importKeysMigrationVersion)
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for _, name := range names {
		digits, _, _ := strings.Cut(filepath.Base(name), "_")
		version, _ := strconv.ParseInt(digits, 10, 64)
		newest = max(newest, version)
	}
	return newest
}

// examineSQLite examines a file and its folder. It must not leave anything beside the file, which may be a backup.
func (x *examination) examineSQLite(ctx context.Context, s *DB, file string) {
	folder, err := nearestExistingFolder(filepath.Dir(file))
	if err != nil {
		x.add(services.Failure, err.Error(), "Choose another --data folder.")
		return
	}
	x.checkDiskSpace(folder)
	x.addWriteResult(services.Quote(folder), CheckFolderWritable(folder))
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		x.add(services.Fine, "SQLite: "+file+" does not exist yet: the first start creates it", "")
		return
	}
	// The header is checked before SQLite opens the file, because SQLite may leave files beside it.
	if err := checkSQLiteHeader(file); err != nil {
		x.add(services.Failure, err.Error(), "Choose another file.")
		return
	}
	holder, dsn := lockHolder(file), sqliteDSN(file, "ro", readerPragmas)
	if holder != "" {
		x.add(services.Warning, "SQLite: "+file+" is in use"+holder+"; SQLite serves one process", "If a node runs here, this is what it looks like. Otherwise stop that process.")
	}
	if holder == "" { // beside a running node nothing is opened that SQLite may have locked
		x.checkFilesWritable(file)
	}
	_, err = os.Stat(file + "-wal")
	if holder == "" && errors.Is(err, fs.ErrNotExist) {
		dsn += "&immutable=1" // otherwise SQLite makes -wal and -shm, and leaves them
	}
	if s.db, err = sql.Open("sqlite", dsn); err == nil {
		defer func() { _ = s.db.Close() }() // nothing was written, so its error does not matter
		// quick_check reads all pages and compares no index with its table, which saves minutes for a large file.
		var verdict string
		if err = s.db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err == nil && verdict != "ok" {
			err = errors.New(verdict)
		}
	}
	if ctx.Err() != nil {
		x.add(services.Warning, "SQLite: "+file+" is too large to be checked in the time of this command", "Run PRAGMA quick_check in sqlite3 while no node runs.")
		return
	}
	if err != nil {
		x.add(services.Failure, openFault(file, err).Error(), "Restore it from a backup; see the permissions of the file and its folder first.")
		return
	}
	x.add(services.Fine, "SQLite: "+file+" is whole", "")
	x.checkTablesVersion(ctx, s.db)
}

// nearestExistingFolder goes up to the nearest folder that exists: the missing ones would be created in it.
func nearestExistingFolder(folder string) (string, error) {
	for {
		info, err := os.Stat(folder)
		if err == nil && !info.IsDir() {
			return "", fmt.Errorf("%s is not a folder", services.Quote(folder))
		}
		parent := filepath.Dir(folder)
		if err == nil || parent == folder {
			return folder, nil
		}
		folder = parent
	}
}

// CheckFolderWritable checks that this process can store something in a folder, or in the nearest one above that exists. It leaves
// nothing behind. Only an attempt tells: root may write where permissions forbid it, but not on a read-only or a full file system.
func CheckFolderWritable(folder string) error {
	folder, err := nearestExistingFolder(folder)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(folder, ".tidings-doctor-*")
	if err == nil {
		_, err = file.Write(make([]byte, 4096)) // the name of a file fits on a full disk
		err = cmp.Or(err, file.Close(), os.Remove(file.Name()))
	}
	return errorWithoutPath(err)
}

// errorWithoutPath is the reason in an error of a file, without the file's name.
func errorWithoutPath(err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return of.Err
	}
	return err
}

// checkFilesWritable checks that the files of a database that is not in use can be written. Files of another user are left beside the
// database when somebody has looked at it with another program.
func (x *examination) checkFilesWritable(file string) {
	for _, name := range []string{file, file + "-wal", file + "-shm", file + ".lock"} {
		opened, err := os.OpenFile(name, os.O_RDWR, 0)
		if err == nil {
			err = opened.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			x.addWriteResult(name, errorWithoutPath(err))
		}
	}
}

// addWriteResult adds the finding of an attempt to write.
func (x *examination) addWriteResult(what string, err error) {
	if err != nil {
		x.add(services.Failure, fmt.Sprintf("%s cannot be written: %v", what, err), AdviceToWrite)
		return
	}
	x.add(services.Fine, what+" can be written", "")
}

// AdviceToWrite is the advice for a folder or a file that cannot be written.
const AdviceToWrite = "Give this user the right to write there, and room on the disk, or choose another --data folder."

// checkDiskSpace checks the space of a folder's file system. A full disk is the one fault of SQLite that is easy to foresee.
func (x *examination) checkDiskSpace(folder string) {
	free, err := freeSpace(folder)
	if err != nil {
		x.add(services.Failure, fmt.Sprintf("%s cannot be read: %v", services.Quote(folder), err), "Choose another --data folder, or give this user the right to read it.")
		return
	}
	x.addCheckResult(free < lowDiskBytes, services.Warning, fmt.Sprintf("%s are free in %s", humanize.IBytes(free), services.Quote(folder)), "Make room: without it writes are refused.")
}

// lockHolder names the process that has a SQLite file open, "" if none has. It tries for a shared lock, so that two
// examinations do not take each other for the holder.
func lockHolder(path string) string {
	file, err := os.Open(path + ".lock")
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	if held, _ := tryLock(file, false); held {
		return cmp.Or(readLockHolder(file), " by another process")
	}
	return ""
}
