package sqltest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"tidings/services/sql"
)

// The tables are made once in a test binary, for each engine that it asks for, because making them takes longer than most tests.
// Every database of a test is a copy.

// migratedFile returns the content of a SQLite file with all tables, which are empty.
var migratedFile = sync.OnceValues(func() (content []byte, err error) {
	folder, err := os.MkdirTemp("", "sqltest-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	path := filepath.Join(folder, "tidings.db")
	if err := makeTables("sqlite:" + path); err != nil {
		return nil, err
	}
	return os.ReadFile(path) // after Close the file is complete, and has no write-ahead log beside it
})

// templateDatabase is the name of the database from which the others are copied.
const templateDatabase = "tables"

// sharedServer returns the PostgreSQL server that all tests of the binary share. The first call starts it and makes its template.
var sharedServer = sync.OnceValues(func() (*Server, error) {
	server, err := startServer(nonDurableSettings)
	if err == nil {
		err = server.createFromTemplate(context.Background(), templateDatabase, "template0")
	}
	if err == nil {
		err = makeTables(server.url(templateDatabase))
	}
	return server, err
})

// makeTables lets the program make its tables in an empty database. It uses no test's context, because all tests share the result.
func makeTables(url string) error {
	s, err := sql.Open(context.Background(), sql.Config{URL: url})
	if err != nil {
		return err
	}
	return s.Close()
}
