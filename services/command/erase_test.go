package command

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/erasures"
	"tidings/services/people"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// The command begins an erasure, and the server does the rest. A second command finds the first erasure; an unknown user is an error.
func TestErase(t *testing.T) {
	url := sqltest.SQLite(t)
	db, err := sql.Open(t.Context(), sql.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := people.Ensure(t.Context(), tx, []string{"ann", "bob"})
		return err
	})
	if err != nil || db.Close() != nil {
		t.Fatal(err)
	}
	run := func(key string) (exit int, said string) {
		var out, faults bytes.Buffer
		exit = Run(t.Context(), []string{"erase", key, "--database", url}, environmentOf(nil), &out, &faults)
		return exit, out.String() + faults.String()
	}
	exit, first := run("ann")
	if exit != 0 || !strings.Contains(first, "The server removes the rest when it runs") || !strings.Contains(first, "The erasure is ") {
		t.Errorf("%d %s", exit, first)
	}
	if exit, again := run("ann"); exit != 0 || again != first {
		t.Errorf("%d %s", exit, again)
	}
	if exit, text := run("cyd"); exit != 1 || !strings.Contains(text, "there is no user") {
		t.Errorf("%d %s", exit, text)
	}
	if db, err = sql.Open(t.Context(), sql.Config{URL: url}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if known, err := people.IDs(t.Context(), db, []string{"ann", "bob"}); err != nil || len(known) != 1 || known["bob"] == 0 {
		t.Errorf("%v, %v", known, err)
	}
	err = db.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := people.Ensure(t.Context(), tx, []string{"ann"})
		return err
	})
	if services.CodeOf(err) != services.Conflict {
		t.Errorf("the key is given again: %v", err)
	}
}

// The command waits until the erasure is done, for at most the given time, or until it is interrupted.
func TestEraseWaitsUntilDoneOrTimeout(t *testing.T) {
	db, err := sql.Open(t.Context(), sql.Config{URL: sqltest.SQLite(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		ctx  context.Context
		most time.Duration
	}{{t.Context(), 0}, {t.Context(), 2 * erasePoll}, {ended, time.Hour}} {
		if got, err := awaitErasure(c.ctx, db, erasures.Erasure{Name: "x"}, c.most); err != nil || got.Done() {
			t.Errorf("%+v, %v", got, err)
		}
	}
	done := erasures.Erasure{Name: "x", DoneAt: time.Now(), Removed: map[string]int{"posts": 3, "likes": 1, "shows": 0}}
	if got, err := awaitErasure(t.Context(), db, done, time.Hour); err != nil || !got.Done() {
		t.Errorf("%+v, %v", got, err)
	}
	var out strings.Builder
	if err := printErasure(done, false, &out); err != nil || out.String() != "Nothing is left of the user. Removed:\n       1 likes\n       3 posts\nThe erasure is x.\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	out.Reset()
	if err := printErasure(erasures.Erasure{Name: "x"}, false, &out); err != nil || !strings.Contains(out.String(), "The servers go on") {
		t.Errorf("%q, %v", out.String(), err)
	}
}
