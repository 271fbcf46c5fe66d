// Package peopletest gives tests a database with users, follows and restrictions.
package peopletest

import (
	"context"
	"regexp"
	"testing"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// TestStore is a database with helpers for tests of facts. A step that fails ends the test. Its clock is stopped: a test advances it.
type TestStore struct {
	*sql.DB
	T     *testing.T
	Ctx   context.Context
	Clock *sqltest.Clock
	URL   string // of the database
}

// EachTestStore runs a test on both engines, each time on a new database with a stopped clock.
func EachTestStore(t *testing.T, test func(b *TestStore)) {
	t.Helper()
	sqltest.EachURL(t, func(t *testing.T, url string) { test(NewTestStore(t, url)) })
}

// NewTestStore opens a database with a stopped clock; the test's end closes it.
func NewTestStore(t *testing.T, url string) *TestStore {
	t.Helper()
	clock := sqltest.NewClock()
	return &TestStore{sqltest.Open(t, sql.Config{URL: url, Clock: clock}), t, t.Context(), clock, url}
}

// MustWrite runs one transaction that must succeed.
func (b *TestStore) MustWrite(fn func(tx *sql.Tx) error) {
	b.T.Helper()
	if err := b.Write(b.Ctx, fn); err != nil {
		b.T.Fatal(err)
	}
}

// MakeUsers makes users with these keys, and returns their IDs.
func (b *TestStore) MakeUsers(keys ...string) []services.UserID {
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
func (b *TestStore) MakeFollows(edges ...services.FollowEdge) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) error {
		_, err := people.ImportFollows(b.Ctx, tx, edges)
		return err
	})
}

// Restrict makes a restriction, and reports whether it is new and which follows it ended.
func (b *TestStore) Restrict(r services.Restriction) (created bool, ended []services.FollowEdge) {
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
func (b *TestStore) Unrestrict(r services.Restriction) (ended bool) {
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

// QueryPlan returns the steps by which SQLite would run a statement, for a TestStore on SQLite. A test looks for the index that the
// statement is written for. The parameters are NULL: a plan does not depend on them.
func (b *TestStore) QueryPlan(name string) (steps []string) {
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
