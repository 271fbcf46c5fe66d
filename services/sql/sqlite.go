package sql

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	sqlitedriver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"tidings/services"
)

// The settings of SQLite's connections. FULL makes a commit wait for the disk. The write-ahead log is truncated after a burst,
// and gathers some pages before they are copied into the file.
var (
	writerPragmas = []string{"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(5000)", "foreign_keys(0)",
		"cache_size(-65536)", "temp_store(MEMORY)", "wal_autocheckpoint(4000)", "journal_size_limit(67108864)"}
	readerPragmas = []string{"query_only(1)", "busy_timeout(5000)", "cache_size(-16384)", "temp_store(MEMORY)"}
)

// openSQLite locks the file, migrates it through the writing connection, then opens readers. A reader sees the last commit and
// never blocks the writer.
func (s *DB) openSQLite(ctx context.Context, file string) (err error) {
	s.Dialect = SQLite
	if file == "" || file == ":memory:" {
		return services.Errorf(services.Invalid, "database URL: sqlite:%s does not name a file; expected sqlite:FILE", file)
	}
	// The path is made absolute, because the lock is on the file, by whatever name it is opened.
	path, err := filepath.Abs(file)
	if err != nil {
		return services.Wrapf(services.Unavailable, err, "the database file %s cannot be opened", services.Quote(file))
	}
	s.name = path
	if err := checkSQLiteHeader(path); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = s.closeAll() // the error of opening is the one that matters
		}
	}()
	// The lock comes first: a second process must not even migrate.
	if s.fileLock, err = lockFile(path); err != nil {
		return err
	}
	// This comes before SQLite opens the file: SQLite would create it with the default permissions.
	if err := makeOwnerOnly(path); err != nil {
		return openFault(path, err)
	}
	// The writer migrates; readers come after it and find the newest tables.
	s.writer, err = openWriter(ctx, s, sqliteDSN(path, "rwc", writerPragmas))
	if err != nil {
		return openFault(path, err)
	}
	s.db, err = sql.Open("sqlite", sqliteDSN(path, "ro", readerPragmas))
	if err != nil {
		return openFault(path, err)
	}
	// There are twice as many readers as processors, at least four, so that readers that wait for the disk do not delay reads of pages
	// in memory.
	readers := max(4, 2*runtime.GOMAXPROCS(0))
	s.db.SetMaxOpenConns(readers)
	s.db.SetMaxIdleConns(readers)
	s.Runner.db = &preparedPool{db: s.db}
	return openFault(path, s.db.PingContext(ctx))
}

// makeOwnerOnly creates the file, unless it exists, and makes it and the files beside it readable by their owner only, whatever
// the permissions of the folder. SQLite creates the files beside it with the mode of the file itself.
func makeOwnerOnly(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	for _, name := range []string{path, path + "-wal", path + "-shm", path + "-journal"} {
		if err := os.Chmod(name, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// sqliteDSN is the driver's address of a file. _dqs=0 refuses texts in double quotes, which would otherwise hide a
// misspelt column.
func sqliteDSN(path, mode string, pragmas []string) string {
	query := url.Values{"mode": {mode}, "_pragma": pragmas, "_dqs": {"0"}, "_error_rc": {"1"}}
	if absolute, err := filepath.Abs(path); err == nil { // without a working folder the path is tried as it is
		path = absolute
	}
	return (&url.URL{Scheme: "file", Path: uriPath(filepath.ToSlash(path)), RawQuery: query.Encode()}).String()
}

// uriPath makes a path start with a slash, which C:/data does not have. Without it, the first part of the path would be the host
// name of the URL.
func uriPath(path string) string { return "/" + strings.TrimPrefix(path, "/") }

// openFault adds the name of the file to an error of opening it. The operator has to correct an INVALID error; an UNAVAILABLE
// error may pass.
func openFault(path string, err error) error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*services.Error](err); ok && known.Code != services.Unavailable {
		return err
	}
	if file, ok := errors.AsType[*sqlitedriver.Error](err); ok {
		switch file.Code() & 0xff {
		case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
			return services.Wrapf(services.Invalid, err, "the file %s is not a SQLite database, or is damaged", path)
		}
	}
	return services.Wrapf(services.Unavailable, err, "the database file %s cannot be opened", path)
}

// checkSQLiteHeader rejects a file that is no SQLite database, before anything is written beside it.
func checkSQLiteHeader(path string) error {
	// Every file of SQLite 3 begins with magic. A file of 0 bytes is an empty database.
	const magic = "SQLite format 3\x00"
	file, err := os.Open(path)
	if err != nil {
		return nil // it will be created, or opening it for writing reports the error
	}
	defer func() { _ = file.Close() }()
	header := make([]byte, len(magic))
	if n, _ := io.ReadFull(file, header); n > 0 && string(header[:n]) != magic {
		return services.Errorf(services.Invalid, "database URL: the file %s is not a SQLite database", path)
	}
	return nil
}
