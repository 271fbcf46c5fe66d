package people_test

import (
	"errors"
	"testing"

	"tidings/services"
	"tidings/services/people/peopletest"
	"tidings/services/sql/sqltest"
)

// testDB is a database of a test, with helpers of this package.
type testDB struct{ *peopletest.TestDB }

// eachTestDB runs a test on both engines, each time on a new database with a stopped clock.
func eachTestDB(t *testing.T, test func(b *testDB)) {
	t.Helper()
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) { test(&testDB{b}) })
}

// tester has the methods that Go's tests and rapid's tests share.
type tester = sqltest.Tester

// must returns a function that fails the test if err is not nil, and returns value.
func must[T any](value T, err error) func(t tester) T { return sqltest.Must(value, err) }

func wantEqual(t tester, got, want any) {
	t.Helper()
	sqltest.Equal(t, got, want)
}

// wantCode checks that an error has a code.
func wantCode(t tester, err error, want services.Code) {
	t.Helper()
	sqltest.WantCode(t, err, want)
}

var errTest = errors.New("mine") // an error that the tests return from their own functions
