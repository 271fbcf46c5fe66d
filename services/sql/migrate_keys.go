package sql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pressly/goose/v3"

	"tidings/services"
)

// importKeysMigrationVersion is the version of the migration that copies the keys of imported objects to their refs. It is written
// in Go, because SQL cannot check whether a key is a valid ref: an import allowed any text as a key. Other keys stay in the column
// import_key, which nothing else reads but the export.
const importKeysMigrationVersion = 75

// importKeyTables are the tables with keys of imports. owner is the SQL expression of the user who owns a row, 0 for none. This package
// names tables of features here alone: the migration is history, and the names never change.
var importKeyTables = []struct{ kind, table, owner string }{
	{services.PostType, "posts", "author"},
	{services.ShowType, "shows", "host"},
	{services.SiteMessageType, "site_messages", "0"},
}

// goMigrations are the steps that are written in Go.
func (d dialect) goMigrations() goose.ProviderOption {
	return goose.WithGoMigrations(goose.NewGoMigration(importKeysMigrationVersion, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		return copyImportKeysToRefs(ctx, Runner{Dialect: d, db: transaction{tx}})
	}}, nil))
}

// copyImportKeysToRefs copies the keys that are valid refs, except those that other objects already have as their refs. Ingest
// created those other objects, and they keep their refs.
func copyImportKeysToRefs(ctx context.Context, r Runner) error {
	for _, t := range importKeyTables {
		keys := AdHoc("the keys of "+t.table, fmt.Sprintf(`SELECT import_key FROM %s WHERE import_key <> ''`, t.table))
		// An object with a label has a row in refs already, with an empty ref.
		name := AdHoc("name labelled "+t.table, fmt.Sprintf(`UPDATE refs SET ref = o.import_key, owner = o.owner
			FROM (SELECT id, import_key, %[3]s AS owner FROM %[2]s WHERE import_key <> '') AS o
			WHERE refs.type = '%[1]s' AND refs.object = o.id AND refs.ref = '' AND NOT {in o.import_key $1 TEXT}
			AND NOT EXISTS (SELECT 1 FROM refs AS taken WHERE taken.type = '%[1]s' AND taken.ref = o.import_key AND taken.ref <> '')`, t.kind, t.table, t.owner))
		label := AdHoc("name "+t.table, fmt.Sprintf(`INSERT INTO refs (type, object, ref, owner, url, data)
			SELECT '%[1]s', id, import_key, %[3]s, '', '' FROM %[2]s WHERE import_key <> '' AND NOT {in import_key $1 TEXT} ORDER BY id
			ON CONFLICT DO NOTHING`, t.kind, t.table, t.owner))
		// A key could be any text, but a ref has rules: a key that breaks them does not become a ref.
		invalid := []string{}
		err := r.Each(ctx, keys, nil, func(scan func(...any) error) error {
			var key string
			err := scan(&key)
			if err == nil && services.CheckRef(key) != nil {
				invalid = append(invalid, key)
			}
			return err
		})
		if err != nil {
			return err
		}
		// Both statements skip a ref that is taken. Labelled objects go first, so that the second statement finds their rows in refs
		// and skips them.
		for _, st := range []Statement{name, label} {
			if _, err := r.Run(ctx, st, invalid); err != nil {
				return err
			}
		}
	}
	return nil
}
