// Package peopletest gives tests a database with users, follows and restrictions.
package peopletest

import (
	"regexp"
	"testing"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// TestDB is a sqltest.TestDB with helpers for tests of users and their follows.
type TestDB struct{ *sqltest.TestDB }

// EachTestDB runs a test on both engines, each time on a new database with a stopped clock.
func EachTestDB(t *testing.T, test func(b *TestDB)) {
	t.Helper()
	sqltest.EachTestDB(t, func(b *sqltest.TestDB) { test(&TestDB{b}) })
}

// NewTestDB opens a database with a stopped clock; the test's end closes it.
func NewTestDB(t *testing.T, url string) *TestDB {
	t.Helper()
	return &TestDB{sqltest.NewTestDB(t, url)}
}

// MakeUsers makes users with these keys, and returns their IDs.
func (b *TestDB) MakeUsers(keys ...string) []services.UserID {
	b.T.Helper()
	var list []services.UserID
	b.MustWrite(func(tx *sql.Tx) error {
		ids, err := people.Ensure(b.Ctx, tx, keys)
		list = nil
		for _, key := range keys {
			list = append(list, ids[key])
		}
		return err
	})
	return list
}

// MakeFollows writes follows.
func (b *TestDB) MakeFollows(edges ...services.FollowEdge) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) error {
		_, err := people.ImportFollows(b.Ctx, tx, edges)
		return err
	})
}

// Restrict makes a restriction, and reports whether it is new and which follows it ended.
func (b *TestDB) Restrict(r services.Restriction) (created bool, ended []services.FollowEdge) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) (err error) {
		if err = people.LockRestrictions(b.Ctx, tx, r.Owner, r.Other); err != nil {
			return err
		}
		put, err := people.Restrict(b.Ctx, tx, r)
		created, ended = put.Created, put.EndedFollows
		return err
	})
	return created, ended
}

// Unrestrict ends a restriction, and reports whether there was one.
func (b *TestDB) Unrestrict(r services.Restriction) (ended bool) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) (err error) {
		if err = people.LockRestrictions(b.Ctx, tx, r.Owner, r.Other); err != nil {
			return err
		}
		ended, err = people.Unrestrict(b.Ctx, tx, r)
		return err
	})
	return ended
}

// planStepNumbers matches the numbers before each step of a query plan of SQLite.
var planStepNumbers = regexp.MustCompile(`^\d+ \d+ \d+ `)

// QueryPlan returns the steps by which SQLite would run a statement, for a TestDB on SQLite. A test looks for the index that the
// statement is written for. The parameters are NULL: a plan does not depend on them.
func (b *TestDB) QueryPlan(name string) (steps []string) {
	b.T.Helper()
	lines, err := sqltest.QueryLines(b.Ctx, b, "EXPLAIN QUERY PLAN "+sql.Statements()[name].Text(sql.SQLite), make([]any, 20)...)
	if err != nil {
		b.T.Fatal(err)
	}
	for _, line := range lines {
		steps = append(steps, planStepNumbers.ReplaceAllString(line, ""))
	}
	return steps
}
