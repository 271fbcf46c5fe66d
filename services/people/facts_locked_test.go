package people_test

import (
	"testing"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// ensureLocked calls EnsureLocked in a transaction.
func ensureLocked(t *testing.T, db *sql.DB, keys []string, known map[services.UserID]string) (ids map[string]services.UserID, err error) {
	t.Helper()
	err = db.Write(t.Context(), func(tx *sql.Tx) (err error) {
		ids, err = people.EnsureLocked(t.Context(), tx, keys, known)
		return err
	})
	return ids, err
}

// runStatements runs statements in one transaction.
func runStatements(t *testing.T, db *sql.DB, texts ...string) {
	t.Helper()
	err := db.Write(t.Context(), func(tx *sql.Tx) error {
		for _, text := range texts {
			if _, err := sqltest.QueryLines(t.Context(), tx, text); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// These statements erase the user a: insertErasure and deleteErasedUser begin the erasure, and finishErasure ends it.
const (
	insertErasure = `INSERT INTO erasures (id, user_number, key, began_at, done_at, pass, step, after, found, counts)
		SELECT 'e', number, key, 1, 0, 1, '', 0, 0, 'null' FROM users WHERE key = 'a'`
	deleteErasedUser = `DELETE FROM users WHERE key = 'a'`
	finishErasure    = `UPDATE erasures SET user_number = 0, key = '', done_at = 1`
)

// Known users keep their IDs, and are not in the result. Users who were erased get new IDs; before the erasure is done, the error
// is CONFLICT.
func TestLockedUsersExist(t *testing.T) {
	sqltest.EachEngine(t, func(t *testing.T, open func() *sql.DB) {
		db := open()
		known := map[services.UserID]string{1: "a", 2: "b"}
		wantEqual(t, must(ensureLocked(t, db, []string{"a", "b"}, nil))(t), map[string]services.UserID{"a": 1, "b": 2})
		wantEqual(t, must(ensureLocked(t, db, []string{"c", "b"}, known))(t), map[string]services.UserID{"b": 2, "c": 3})
		wantEqual(t, must(ensureLocked(t, db, nil, known))(t), map[string]services.UserID{})
		runStatements(t, db, insertErasure, deleteErasedUser)
		_, err := ensureLocked(t, db, []string{"d"}, known)
		wantCode(t, err, services.Conflict)
		runStatements(t, db, finishErasure)
		wantEqual(t, must(ensureLocked(t, db, []string{"d"}, known))(t), map[string]services.UserID{"a": 5, "d": 4})
	})
}

// An erasure that begins after the IDs were read, and before the users' rows are locked, is noticed.
func TestAnErasureBeforeTheLockIsNoticed(t *testing.T) {
	for name, of := range map[string]struct {
		texts []string
		code  services.Code
		keys  []string
		known map[services.UserID]string
		want  map[string]services.UserID
	}{
		"under way":      {texts: []string{insertErasure, deleteErasedUser}, code: services.Conflict, keys: []string{"a", "b"}},
		"known":          {texts: []string{insertErasure, deleteErasedUser}, code: services.Conflict, known: map[services.UserID]string{1: "a", 2: "b"}},
		"done":           {texts: []string{deleteErasedUser}, keys: []string{"a", "b"}, want: map[string]services.UserID{"a": 3, "b": 2}},
		"done and known": {texts: []string{deleteErasedUser}, keys: []string{"b"}, known: map[services.UserID]string{1: "a"}, want: map[string]services.UserID{"a": 3, "b": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			url := sqltest.Postgres(t)
			other := sqltest.Open(t, sql.Config{URL: url})
			must(ensureLocked(t, other, []string{"a", "b"}, nil))(t)
			begun := false
			db := sqltest.Open(t, sql.Config{URL: url, Trace: func(statement string) {
				if statement == "hold and count users" && !begun {
					begun = true
					runStatements(t, other, of.texts...)
				}
			}})
			ids, err := ensureLocked(t, db, of.keys, of.known)
			wantCode(t, err, of.code)
			if !begun {
				t.Error("no user is held")
			}
			if err == nil {
				wantEqual(t, ids, of.want)
			}
		})
	}
}
