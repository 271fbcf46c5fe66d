package audit_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/announcements"
	"tidings/services/audit"
	"tidings/services/chat"
	"tidings/services/fanout"
	"tidings/services/notifications/notificationstest"
	"tidings/services/people"
	"tidings/services/positions"
	"tidings/services/projector"
	"tidings/services/rdb"
	"tidings/services/rdb/rdbtest"
	"tidings/services/sql"
	"tidings/services/views"
	"tidings/tests/eventually"
)

// auditLapTime is the time of a lap of the audits of these tests.
const auditLapTime = 10 * time.Minute

// runLap runs a whole lap of an audit, and the second checks of the suspects.
func runLap(w node, a *audit.Audit) {
	w.TB.Helper()
	everyone, err := people.ActiveUsers(w.TB.Context(), w.DB, 0, 10_000, time.Time{})
	w.Must(err)
	w.Clock.Advance(auditLapTime)
	for until := a.Stats().VisitedUsers + uint64(len(everyone)); a.Stats().VisitedUsers < until; w.Clock.Advance(3 * time.Second) {
		_, err := a.RunOnce(w.TB.Context())
		w.Must(err)
	}
	_, err = a.RunOnce(w.TB.Context())
	w.Must(err)
}

// newUserWithFullDocument returns a user with posts, notifications, a site message, a dot, views, conversations and a display
// policy, and an author that the user follows and who was huge for a time.
func newUserWithFullDocument(w node) (user, author services.UserID) {
	w.TB.Helper()
	users := w.MakeUsers(3)
	user, author = users[0], users[1]
	w.SetMode(author, services.AuthorHuge)
	w.SetMode(author, services.AuthorSmall)
	w.Follow(author, user)
	w.RunAllJobs(w.Fanout)
	first := w.Post(author)
	for range 3 {
		w.Post(author)
	}
	notificationstest.Like(w.World, w.Post(user), user, author)
	sendSiteMessage(w, user, author)
	w.commit(w.announcements.SetSegments(author, []string{"a", "b", "c"}))
	w.commit(w.announcements.SetSegments(user, []string{"a", "c"}))
	w.commit(w.announcements.RaiseDot("shop", nil))
	w.commit(w.announcements.ClearDot(user, "shop"))
	news := views.View{Code: "news", ID: "town"}
	w.commit(w.views.Touch(user, news, nil))
	w.commit(w.views.Add(news, "a", w.Clock.Now()))
	w.commit(w.views.Add(news, "b", w.Clock.Now()))
	w.Write(func(ctx context.Context, tx *sql.Tx) (err error) {
		if _, err = positions.Advance(ctx, tx, user, positions.HomeFeedView, first); err != nil {
			return err
		}
		if _, err = projector.ChangePolicy(ctx, tx, user, func(policy *services.DisplayPolicy) error { policy.QuietToMinute = 60; return nil }); err != nil {
			return err
		}
		return nil
	})
	// The first conversation is counted on read. The second has fewer members, and is counted on write.
	for _, others := range [][]services.UserID{users, users[:1]} {
		id, err := services.ParseConversationID("id", w.commit(w.chat.Create(author, chat.Group, "g", others))[0])
		w.Must(err)
		w.commit(w.chat.Send(author, id, "hello", users[:1]))
	}
	enqueue(w, fanout.ProjectSeenJob(user), projector.DisplayPolicyJob(user), announcements.UserJob(user))
	w.RunAllJobs(w.Fanout)
	_, err := w.Projector.Recount(w.TB.Context(), user) // this writes the last CountedOnReadVersion, which no job projects
	w.Must(err)
	return user, author
}

// snapshotOf reads the projection of a user.
func snapshotOf(w node, user services.UserID) rdb.UserSnapshot {
	w.TB.Helper()
	return rdbtest.Snapshot(w.TB, w.Redis, user)
}

// withoutVolatileFields returns a projection without the parts that every rebuild changes.
func withoutVolatileFields(shown rdb.UserSnapshot) rdb.UserSnapshot {
	shown.Fields = maps.Clone(shown.Fields)
	for _, field := range []string{"n", "rm", "d", "Cv"} {
		delete(shown.Fields, field)
	}
	shown.LastInboxRemovalAt = time.Time{}
	shown.Document.Version, shown.Document.LastActiveDay, shown.Document.Conversations.Version = 0, 0, 0
	return shown
}

// withLaterVersion returns the value of a versioned field with a later version.
func withLaterVersion(value string) string { return "9" + value }

// wrongFieldValues returns wrong and well-formed values of the fields of a document, by the names that the fields have in Redis.
func wrongFieldValues(fields map[string]string) map[string][]string {
	wrong := map[string][]string{
		"T": {"0000000000000", fields["HL"][strings.IndexByte(fields["HL"], ';')+1:]}, "fc": {"0", "2", "4", "3+", "300+"},
		"F": {"", fields["F"][:11] + "\x00", fields["F"] + "\x00\x00\x00\x4d\x00\x00\x00\x00\x00\x00\x00\x01"},
		"L": {"\x00\x00\x00\x4d\x00\x00\x00\x00\x00\x00\x00\x01"}, "B": {"7;"},
		"fq": {"0000000000000"}, "ft": {"0000000000001"}, "rm": {"9000000000000000"}, "d": {"99999"},
		"Cu": {"0", "2", "7"}, "Cm": {"0", "9"}, "R": {"", "\x00\x00\x00\x01\x00\x00\x00\x09"},
		"P": {"0", withLaterVersion(fields["P"]), strings.TrimSuffix(fields["P"], ";0") + ";60"}, "A": {"0", withLaterVersion(fields["A"]), fields["A"] + "0"},
		"G": {"0", withLaterVersion(fields["G"]), fields["G"] + "0"}, "Sgeneral": {"0", withLaterVersion(fields["Sgeneral"]), fields["Sgeneral"] + "0"}, "Dshop": {withLaterVersion(fields["Dshop"]), fields["Dshop"] + "0"},
		"Dtoy": {"9000000000000000;9000000000000000"},
		"V":    {"0", withLaterVersion(fields["V"]), strings.TrimSuffix(fields["V"], "0") + "1", strings.Replace(fields["V"], ";2;", ";3;", 1)},
	}
	for _, category := range services.Categories {
		counts, newest := "N"+string(category[:1]), "H"+string(category[:1])
		if fields[counts] == rdb.InitialValue {
			wrong[counts], wrong[newest] = []string{"3;0;20484;1,0,0,0,0,0,0,0"}, []string{"3;0000000000009"}
			continue
		}
		wrong[counts] = []string{"0", withLaterVersion(fields[counts]), fields[counts] + "1", strings.Replace(fields[counts], "1,0", "0,1", 1)}
		wrong[newest] = []string{"0", withLaterVersion(fields[newest])}
	}
	return wrong
}

// The audit finds, repairs and counts every value in Redis that is well-formed and wrong; once all are right it finds
// nothing.
func TestAuditRepairsEveryWrongField(t *testing.T) {
	w := redisServerNode(t, nil)
	user, _ := newUserWithFullDocument(w)
	a := newAudit(w, auditLapTime)
	runLap(w, a)
	if got := a.Stats(); got.DriftedUsers != 0 || got.VisitedUsers != 3 || got.RestoredUsers != 0 {
		t.Fatalf("of three right ones: %+v; %+v", got, snapshotOf(w, user))
	}
	good := snapshotOf(w, user)
	wrong := wrongFieldValues(good.Fields)
	for field := range good.Fields {
		if _, has := wrong[field]; !has && field != "n" && field != "st" && field != "e" && field != "Ck" && field != "Cv" { // every value of Cv counts as right
			t.Errorf("nobody tries the field %s", field)
		}
	}
	drifted := uint64(0)
	for field, values := range wrong {
		for _, value := range values {
			before := snapshotOf(w, user)
			if value == before.Fields[field] {
				t.Errorf("%s = %q is right", field, value)
			}
			put := []any{"HSET", fmt.Sprintf("{u%d}:b", user), field, value}
			if newest := "H" + field[1:]; field[0] == 'N' && before.Fields[newest] == "" { // without the newest the document would be incomplete
				put = append(put, newest, "3;0000000000009")
			}
			w.RedisServer.Do(put...)
			runLap(w, a)
			drifted++
			after := snapshotOf(w, user)
			if got := a.Stats(); got.DriftedUsers != drifted {
				t.Fatalf("%s = %q after %q: %+v, want %d", field, value, before.Fields[field], got, drifted)
			}
			if difference := cmp.Diff(withoutVolatileFields(good), withoutVolatileFields(after)); difference != "" {
				t.Fatalf("%s = %q was made:\n%s", field, value, difference)
			}
			if after.Document.Version <= before.Document.Version {
				t.Errorf("%s = %q: version %d after %d", field, value, after.Document.Version, before.Document.Version)
			}
		}
	}
	runLap(w, a)
	if got := a.Stats(); got.DriftedUsers != drifted {
		t.Errorf("in the end %+v, want %d", got, drifted)
	}
}

// The audit repairs a user's other keys as it repairs the document: missing, additional and different entries and states, and keys of
// another type.
func TestAuditRepairsEveryWrongKey(t *testing.T) {
	w := redisServerNode(t, nil)
	user, _ := newUserWithFullDocument(w)
	a := newAudit(w, auditLapTime)
	runLap(w, a)
	good := snapshotOf(w, user)
	key := func(part string) string { return fmt.Sprintf("{u%d}:%s", user, part) }
	members, _ := w.RedisServer.Do("ZRANGE", key("i"), "0", "-1").([]any)
	newest := members[len(members)-1].(string)
	drifted := a.Stats().DriftedUsers
	for what, corrupt := range map[string]func(){
		"an entry lost":     func() { w.RedisServer.Do("ZREM", key("i"), members[2]) },
		"an entry too many": func() { w.RedisServer.Do("ZADD", key("i"), "0", "0000000000001!!!!$+") },
		"an entry's flag": func() {
			w.RedisServer.Do("ZREM", key("i"), newest)
			w.RedisServer.Do("ZADD", key("i"), "0", newest[:18]+"+")
		},
		"an entry's author": func() {
			w.RedisServer.Do("ZREM", key("i"), newest)
			w.RedisServer.Do("ZADD", key("i"), "0", newest[:13]+"!!!!~-")
		},
		"a stray": func() { w.RedisServer.Do("ZADD", key("i"), "0", "stray") },
		"a floor too high": func() {
			w.RedisServer.Do("ZREM", key("i"), members[0])
			w.RedisServer.Do("ZADD", key("i"), "0", "!"+newest[:13])
		},
		"a document of text": func() { w.RedisServer.Do("SET", key("b"), "text") },
		"an inbox of text":   func() { w.RedisServer.Do("SET", key("i"), "text") },
		"states of text":     func() { w.RedisServer.Do("SET", key("c"), "text") },
		"presence of text":   func() { w.RedisServer.Do("SET", key("on"), "text") },
		"another state":      func() { w.RedisServer.Do("HSET", key("c"), "2", "7,0,0,9,1,0,") },
		"a broken state":     func() { w.RedisServer.Do("HSET", key("c"), "2", "1,2") },
		"a state too many": func() {
			w.RedisServer.Do("HSET", key("c"), "9", "7,0,0,9,1,0,")
			w.RedisServer.Do("HINCRBY", key("b"), "Ck", "1")
		},
		"a state too few": func() { w.RedisServer.Do("HDEL", key("c"), "2"); w.RedisServer.Do("HINCRBY", key("b"), "Ck", "-1") },
	} {
		corrupt()
		runLap(w, a)
		drifted++
		if got := a.Stats(); got.DriftedUsers != drifted {
			t.Fatalf("%s: %+v, want %d", what, got, drifted)
		}
		if difference := cmp.Diff(withoutVolatileFields(good), withoutVolatileFields(snapshotOf(w, user))); difference != "" {
			t.Fatalf("%s was made:\n%s", what, difference)
		}
		w.CheckAgainstFacts(user)
	}
}

// Lost data is not a wrong number, because its next reader restores it. The audit restores a projection that is lost in part. One
// that is lost completely is left to its reader.
func TestAuditRestoresLostProjections(t *testing.T) {
	w := redisServerNode(t, nil)
	user, _ := newUserWithFullDocument(w)
	a := newAudit(w, auditLapTime)
	key := func(part string) string { return fmt.Sprintf("{u%d}:%s", user, part) }
	good := withoutVolatileFields(snapshotOf(w, user))
	for i, corrupt := range []func(){
		func() { w.RedisServer.Do("HDEL", key("b"), "NL") },
		func() { w.RedisServer.Do("HSET", key("b"), "st", "0") },
		func() { w.RedisServer.Do("HSET", key("b"), "e", "7") },
		func() { w.RedisServer.Do("HSET", key("b"), "P", "broken") },
		func() { w.RedisServer.Do("HSET", key("b"), "Cv", "broken") },
		func() { w.RedisServer.Do("HDEL", key("b"), "Cv") },
		func() { w.RedisServer.Do("DEL", key("i")) },
		func() { w.RedisServer.Do("DEL", key("c")) },
	} {
		corrupt()
		runLap(w, a)
		if difference := cmp.Diff(good, withoutVolatileFields(snapshotOf(w, user))); difference != "" {
			t.Errorf("loss %d was brought back as:\n%s", i, difference)
		}
		if got := a.Stats(); got.RestoredUsers != uint64(i+1) || got.DriftedUsers != 0 {
			t.Errorf("loss %d: %+v", i, got)
		}
	}
	w.RedisServer.Do("DEL", key("b"))
	runLap(w, a)
	if got := a.Stats(); snapshotOf(w, user).Wholeness != rdb.DocumentAbsent || got.RestoredUsers != 8 || got.DriftedUsers != 0 {
		t.Errorf("of nobody: %+v", got)
	}
}

// Counts of notifications belong to a day and may be compared on a later day. That is no difference.
func TestCountsOfAnEarlierDayAreNoDrift(t *testing.T) {
	w := redisServerNode(t, nil)
	newUserWithFullDocument(w)
	a := newAudit(w, auditLapTime)
	for range 10 {
		w.Clock.Advance(24 * time.Hour)
		runLap(w, a)
	}
	if got := a.Stats(); got.DriftedUsers != 0 || got.VisitedUsers < 30 {
		t.Errorf("%+v", got)
	}
}

// Lag is not drift: while a job explains a difference, the audit waits, and rebuilds nothing.
func TestAuditWaitsForJobs(t *testing.T) {
	w := redisServerNode(t, nil)
	user, author := newUserWithFullDocument(w)
	a := newAudit(w, auditLapTime)
	notificationstest.Like(w.World, w.Post(author), author, user)
	sendSiteMessage(w, user, author)
	w.Unfollow(author, user)
	for range 5 {
		runLap(w, a) // no worker runs meanwhile
	}
	if got := a.Stats(); got.DriftedUsers != 0 {
		t.Errorf("what jobs were to bring is taken for drift: %+v", got)
	}
	w.RunAllJobs(w.Fanout)
	runLap(w, a)
	if got := a.Stats(); got.DriftedUsers != 0 {
		t.Errorf("what jobs have brought: %+v", got)
	}
	w.CheckAgainstFacts(user, author)
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		_, err := positions.Advance(ctx, tx, user, positions.HomeFeedView, services.MaxPostID-1)
		return err
	})
	runLap(w, a)
	if got := a.Stats(); got.DriftedUsers != 1 {
		t.Errorf("a mark that no job projects: %+v", got)
	}
	w.CheckAgainstFacts(user, author)
}

// A job's lease may end later than a lease that is taken now: the job was claimed after the audit read its clock, or by a node
// whose clock is ahead. Such a job still explains a difference.
func TestAuditWaitsForJobsThatAreClaimedByALaterClock(t *testing.T) {
	w := redisServerNode(t, nil)
	user, author := newUserWithFullDocument(w)
	a := newAudit(w, auditLapTime)
	notificationstest.Like(w.World, w.Post(author), author, user)
	for range 2 {
		runLap(w, a)
	}
	w.Clock.Advance(2 * time.Second)
	claimed := w.ClaimDueJobs()
	w.Clock.Advance(-2 * time.Second)
	for range 3 {
		_, err := a.RunOnce(t.Context())
		w.Must(err)
	}
	if got := a.Stats(); got.DriftedUsers != 0 {
		t.Errorf("what a claimed job is to bring is taken for drift: %+v", got)
	}
	w.Must(w.Fanout.RunJobs(t.Context(), claimed))
	w.RunAllJobs(w.Fanout)
	w.CheckAgainstFacts(user, author)
}

// A user who changes between any two checks is not repaired, because no two checks saw the same state.
func TestAuditSkipsUsersWhoChange(t *testing.T) {
	w := redisServerNode(t, nil)
	user, _ := newUserWithFullDocument(w)
	a := newAudit(w, auditLapTime)
	w.RedisServer.Do("HSET", fmt.Sprintf("{u%d}:b", user), "Cu", "77")
	w.Clock.Advance(auditLapTime)
	for range 30 {
		_, err := a.RunOnce(t.Context())
		w.Must(err)
		w.Clock.Advance(3 * time.Second)
		w.RedisServer.Do("HINCRBY", fmt.Sprintf("{u%d}:b", user), "n", "1")
	}
	if got := a.Stats(); got.DriftedUsers != 0 {
		t.Errorf("%+v", got)
	}
	runLap(w, a)
	if got := a.Stats(); got.DriftedUsers != 1 {
		t.Errorf("once it stands still: %+v", got)
	}
}

// Without Redis an audit waits, and forgets no user.
func TestAuditWithoutRedisForgetsNoUser(t *testing.T) {
	w := redisServerNode(t, nil)
	user, _ := newUserWithFullDocument(w)
	a := newAudit(w, auditLapTime)
	w.RedisServer.Do("HSET", fmt.Sprintf("{u%d}:b", user), "fc", "77")
	_, err := a.RunOnce(t.Context())
	w.Must(err)
	w.RedisServer.Pause()
	w.Clock.Advance(3 * time.Second)
	if _, err := a.RunOnce(t.Context()); !services.IsUnavailable(err) {
		t.Errorf("without Redis: %v", err)
	}
	w.RedisServer.Resume()
	eventually.Holds(t, "it is repaired", func() bool {
		_, err := a.RunOnce(t.Context())
		return err == nil && a.Stats().DriftedUsers == 1
	})
	w.CheckAgainstFacts(user)
}
