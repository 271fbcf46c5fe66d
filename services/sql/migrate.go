package sql

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"tidings/services"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the tables up to date. Nodes that start together take turns. Each migration is a transaction of its own: if one
// fails, the earlier ones stay applied, and the next start continues with the failed one.
func (s *DB) migrate(ctx context.Context, db *sql.DB) error {
	steps, err := s.Dialect.migrationProvider(db)
	if err != nil {
		return MapError("read the migrations", err)
	}
	current, target, err := steps.GetVersions(ctx)
	if err != nil {
		return MapError("read the version of "+s.name, err)
	}
	// A newer program may have changed the meaning of rows: an older one must not write them.
	if current > target {
		return services.Errorf(services.Conflict, "the tables of %s have version %d and this program knows %d: use a newer program",
			s.name, current, target)
	}
	began := time.Now()
	done, err := steps.Up(ctx)
	if current == 0 && err == nil { // An operator who upgrades wants to know which step took long. A new database has no such step.
		if len(done) > 0 {
			s.log.Info("migrated", "steps", len(done), "version", target, "took", time.Since(began))
		}
		return nil
	}
	for _, step := range done {
		s.log.Info("migrated", "step", cmp.Or(step.Source.Path, fmt.Sprint(step.Source.Version)), "took", step.Duration)
	}
	return MapError("migrate "+s.name, err)
}

// migrationProvider are the migrations, to be applied to a database.
func (d dialect) migrationProvider(db *sql.DB) (*goose.Provider, error) {
	folder, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	options := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()), d.goMigrations()}
	engine := goose.DialectSQLite3
	if d == Postgres {
		engine = goose.DialectPostgres
		// Nodes wait up to a minute for the node that migrates. The lock belongs to the session, so a node that dies releases it.
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60), lock.WithUnlockTimeout(1, 5))
		if err != nil {
			return nil, err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	return goose.NewProvider(engine, db, migrationFS{folder, d}, options...)
}

// migrationFS is the folder of the migrations in the SQL of one engine. The library reads files, so the translation is a file system.
type migrationFS struct {
	fs.FS
	dialect dialect
}

// Open opens one migration, or the folder itself.
func (s migrationFS) Open(name string) (fs.File, error) {
	file, err := s.FS.Open(name)
	if err != nil || !strings.HasSuffix(name, ".sql") {
		return file, err
	}
	// The original file still serves Stat and Close. Its size is wrong, but readers use the size only as a hint.
	text, err := fs.ReadFile(s.FS, name)
	return migrationFile{file, strings.NewReader(s.dialect.translateMigration(string(text)))}, err
}

// migrationFile is a migration whose text was translated.
type migrationFile struct {
	fs.File
	text *strings.Reader // in the engine's SQL
}

// Read reads the engine's text instead of the file's.
func (s migrationFile) Read(into []byte) (int, error) { return s.text.Read(into) }
