package main

import (
	"path/filepath"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/chat"
	"tidings/services/people"
	"tidings/services/sql"
)

// openSeededDatabase opens the SQLite database in a file, and closes it after the test.
func openSeededDatabase(t *testing.T, file string) *sql.DB {
	t.Helper()
	s, err := sql.Open(t.Context(), sql.Config{URL: "sqlite:" + file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestSeedUsers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tidings.db")
	if err := seedUsers(t.Context(), file, 1234); err != nil {
		t.Fatal(err)
	}
	if ids, err := findUserIDs(t.Context(), file, []string{memberKey(7), memberKey(1234)}); err != nil || ids[0] != 7 || ids[1] != 1234 {
		t.Errorf("numbers %v, %v", ids, err)
	}
	if _, err := findUserIDs(t.Context(), file, []string{memberKey(7), memberKey(1235)}); err == nil {
		t.Error("a user who was not seeded has a number")
	}
	s := openSeededDatabase(t, file)
	active, err := people.ActiveUsers(t.Context(), s, 0, 10_000, time.Now().Add(-time.Hour))
	if err != nil || len(active) != 1234 || active[1233] != 1234 {
		t.Errorf("%d active users, %v", len(active), err)
	}
	// Without a position, or after a long absence, the user's first visit would write one.
	var markedAt, seenAt, position int64
	_, err = s.One(t.Context(), sql.AdHoc("a position", `SELECT n.ver, u.seen_at, n.position FROM user_notices n JOIN users u ON u.number = n.user_number
		WHERE n.user_number = 99`), nil, &markedAt, &seenAt, &position)
	if recent := sql.Micros(time.Now().Add(-time.Hour)); err != nil || markedAt == 0 || max(markedAt, seenAt) < recent || position != 0 {
		t.Errorf("position %d, marked at %d, seen at %d, %v", position, markedAt, seenAt, err)
	}
	// The next user that is made gets the ID after the seeded ones.
	err = s.Write(t.Context(), func(tx *sql.Tx) error {
		known, err := people.Ensure(t.Context(), tx, []string{"new"})
		if known["new"] != 1235 {
			t.Errorf("the next user has the number %d", known["new"])
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestSeedConversations(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tidings.db")
	if err := seedUsers(t.Context(), file, 5); err != nil {
		t.Fatal(err)
	}
	readers := [][]services.UserID{{1, 2}, {3, 4}}
	for i, conversations := range []int{10, 4} {
		if err := seedConversations(t.Context(), file, readers[i], 5, conversations); err != nil {
			t.Fatal(err)
		}
	}
	s := openSeededDatabase(t, file)
	for user, want := range map[services.UserID]int{1: 10, 2: 10, 3: 4, 4: 4, 5: 14} {
		states, err := chat.MembershipsOf(t.Context(), s, user, 0, time.Now(), 100)
		if err != nil {
			t.Fatal(err)
		}
		unread, read := 0, 0
		for _, state := range states {
			unread += int(state.Unread())
			if state.CountedOnRead {
				read++
			}
		}
		wantUnread := want * unreadPerConversation
		if user == 5 {
			wantUnread = 0 // their own message
		}
		if len(states) != want || unread != wantUnread || read != want/2 {
			t.Errorf("user %d is in %d conversations with %d unread messages, %d counted when read; want %d, %d", user, len(states), unread, read, want, wantUnread)
		}
	}
}

func TestSeedUsersWithoutAFolderIsAnError(t *testing.T) {
	if err := seedUsers(t.Context(), filepath.Join(t.TempDir(), "nowhere", "tidings.db"), 1); err == nil {
		t.Error("no error")
	}
}

func TestAnInstallationDeletesOnlyItsOwnRedisData(t *testing.T) {
	engine, client := startMiniredis(t)
	b := &bench{dataFolder: t.TempDir(), redisURL: "redis://" + engine.Addr()}
	p, err := b.newInstallation("row", 3)
	if err != nil {
		t.Fatal(err)
	}
	own, err := p.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	for _, one := range []func() error{
		func() error { return own.Set(t.Context(), "mine", "1", 0).Err() }, func() error { return client.Set(t.Context(), "theirs", "1", 0).Err() },
		func() error { return p.deleteRedisData(t.Context()) },
	} {
		if err := one(); err != nil {
			t.Fatal(err)
		}
	}
	if engine.DB(3).Exists("mine") || !engine.Exists("theirs") {
		t.Error("an installation deletes what is its own, and nothing else")
	}
	if home := b.sharedInstallation(); home.databasePath() == p.databasePath() || home.nodeName == p.nodeName {
		t.Errorf("two installations are one: %+v, %+v", home, p)
	}
	if err := seedUsers(t.Context(), p.databasePath(), 3); err != nil {
		t.Errorf("the folder of an installation takes a database: %v", err)
	}
}
