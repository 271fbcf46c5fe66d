package messages

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// commitMark commits a user's request to mark messages read, and returns the error.
func (b messageNode) commitMark(user services.UserID, mark MarkReadRequest) error {
	b.TB.Helper()
	cmd, err := b.service.MarkRead(user, mark)
	b.Must(err)
	return b.Fanout.Commit(b.TB.Context(), cmd)[0]
}

// userID is the user ID of a key.
func (b messageNode) userID(key string) services.UserID {
	b.TB.Helper()
	return b.MakeNamedUsers(key)[0]
}

// A message to thousands has many jobs, and no job replaces another. A mark of any recipient finds the recipient's job.
func TestAnyRecipientMarksAMessageBeforeItIsDelivered(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		b := newMessageNode(w)
		keys := newUserKeys(maxRecipients)
		id := b.send(Draft{Text: Text{Title: "to all"}, To: keys})
		if waiting, _ := w.CountJobs(); waiting != maxChunksPerMessage {
			t.Fatalf("%d jobs deliver a message to all, want %d", waiting, maxChunksPerMessage)
		}
		marked := []string{keys[0], keys[recipientsPerDelivery-1], keys[recipientsPerDelivery], keys[maxRecipients/2], keys[maxRecipients-1]}
		for _, key := range marked {
			if err := b.commitMark(b.userID(key), MarkReadRequest{IDs: []ID{id}}); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
		sqltest.WantCode(t, b.commitMark(b.userID("stranger"), MarkReadRequest{IDs: []ID{id}}), services.NotFound)
		w.RunAllJobs(w.Fanout)
		report, err := b.service.Report(t.Context(), id)
		w.Must(err)
		if report.Recipients != maxRecipients || report.ReadCount != len(marked) {
			t.Errorf("%d have it, %d have read it, want %d and %d", report.Recipients, report.ReadCount, maxRecipients, len(marked))
		}
		sqltest.WantCode(t, b.commitMark(b.userID("stranger"), MarkReadRequest{IDs: []ID{id}}), services.NotFound)
	})
}

// A mark that names a message that is being delivered and another user's message changes nothing: the first message stays
// undelivered.
func TestARefusedMarkDeliversNothing(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		b := newMessageNode(w)
		users := w.MakeUsers(2)
		mine, others := sendMessage(w, users[0]), sendMessage(w, users[1])
		for _, mark := range []MarkReadRequest{{IDs: []ID{mine, others}}, {IDs: []ID{others}}, {UpTo: others}, {UpTo: others + 1}} {
			sqltest.WantCode(t, b.commitMark(users[0], mark), services.NotFound)
			if _, list := readUnread(w, users[0]); len(list) > 0 {
				t.Errorf("%+v delivered %v", mark, list)
			}
		}
		w.RunAllJobs(w.Fanout)
		if count, list := readUnread(w, users[0]); count != 1 || len(list) != 1 {
			t.Errorf("in the end they have %d of %v", count, list)
		}
	})
}

// A mark finds its message at any moment of the delivery: as a job, and as a row.
func TestAMarkFindsAMessageWhileItIsDelivered(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		b := newMessageNode(w)
		users := w.MakeUsers(4)
		for range 10 {
			id := sendMessage(w, users...)
			var work sync.WaitGroup
			work.Go(func() { w.RunAllJobs(w.Fanout) })
			for _, user := range users {
				work.Go(func() {
					if err := b.commitMark(user, MarkReadRequest{IDs: []ID{id}}); err != nil {
						t.Errorf("user %d: %v", user, err)
					}
				})
			}
			work.Wait()
			w.RunAllJobs(w.Fanout)
			report, err := b.service.Report(t.Context(), id)
			w.Must(err)
			if report.Recipients != len(users) || report.ReadCount != len(users) {
				t.Fatalf("%d have it, %d have read it", report.Recipients, report.ReadCount)
			}
		}
		for _, user := range users {
			if count, list := readUnread(w, user); count != 0 || len(list) > 0 {
				t.Errorf("user %d has %d of %v", user, count, list)
			}
		}
	})
}

// A delivery names its recipients, and nobody whose ID its key resembles: an erasure would delete it if it were dead.
func TestDeliveriesNameTheirRecipientsAlone(t *testing.T) {
	kinds := (&Service{}).kinds()
	delivery := kinds[slices.IndexFunc(kinds, func(kind jobs.Kind) bool { return kind.Name == jobDeliver })]
	const recipient = 1000
	queued, err := sendJobs(17, slices.Repeat([]services.UserID{recipient}, 20*recipientsPerDelivery), false)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i, job := range queued {
		for _, user := range []services.UserID{17, services.UserID(i), recipient} {
			if got := delivery.NamesUser(jobs.Job{Key: job.Key, Payload: job.Payload}, user); got != (user == recipient) {
				t.Errorf("%s names user %d: %t", job.Key, user, got)
			}
		}
		if seen[job.Key] || !strings.HasPrefix(job.Key, services.SortableID(17).String()) {
			t.Errorf("the key %s", job.Key)
		}
		seen[job.Key] = true
	}
}

// A mark covers messages of its types that are delivered later and are older than the marked ones. It does not cover newer messages,
// messages of other types, or messages that were not sent at a past time.
func TestAMarkCoversWhatIsDeliveredLaterAndIsOlder(t *testing.T) {
	general, both := []string{"general"}, []string{"general", "offer"}
	for _, c := range []struct {
		name   string
		mark   messageSelection
		unread []ID
	}{
		{"all", messageSelection{Types: both}, []ID{42, 41, 9}},
		{"one type", messageSelection{Types: general}, []ID{42, 41, 40, 36, 35, 11, 9}}, // at the mark the newest general one is 30
		{"the other type", messageSelection{Types: both[1:]}, []ID{42, 41, 35, 30, 20, 12, 10, 9}},
		{"up to a message", messageSelection{Types: both, UpTo: 20}, []ID{42, 41, 40, 36, 35, 30, 9}},
		{"up to a message, of one type", messageSelection{Types: general, UpTo: 20}, []ID{42, 41, 40, 36, 35, 30, 11, 9}},
		{"one message", messageSelection{IDs: []ID{40}}, []ID{42, 41, 36, 35, 30, 20, 12, 11, 10, 9}},
	} {
		eachTestDB(t, func(b testDB) {
			given := func(dated bool, kind string, ids ...ID) {
				b.T.Helper()
				for _, id := range ids {
					b.addMessage(id, kind)
					b.MustWrite(func(tx *sql.Tx) error {
						_, err := deliver(b.Ctx, tx, id, []services.UserID{1, 2}, dated)
						return err
					})
				}
			}
			given(false, "general", 20, 30)
			given(false, "offer", 40)
			c.mark.Generation = services.AnyMarkGeneration
			b.markRead(1, c.mark)
			given(true, "general", 10, 12, 35, 41)
			given(true, "offer", 11, 36, 42)
			given(false, "general", 9)
			if got := b.unreadIDs(1, both...); !slices.Equal(got, c.unread) {
				b.T.Errorf("%s: %v are unread, want %v", c.name, got, c.unread)
			}
			sqltest.Equal(b.T, len(b.unreadIDs(2, both...)), 11) // the other user has read nothing
			unread := 0
			for _, state := range sqltest.Must(readUserStates(b.Ctx, b.DB, 1))(b.T) {
				unread += state.Unread
			}
			sqltest.Equal(b.T, unread, len(c.unread))
		})
	}
}

// A message that is delivered after several marks was read at the first mark that covers it, whatever the order of the marks. A
// repetition of the last mark is not kept.
func TestALateMessageIsReadAtTheFirstMarkThatCoversIt(t *testing.T) {
	eachTestDB(t, func(b testDB) {
		all := []string{"general", "offer"}
		b.addMessage(20, "general")
		b.addMessage(30, "general")
		b.addMessage(40, "offer")
		for _, id := range []ID{20, 30, 40} {
			b.deliverTo(id, 1)
		}
		start := b.Clock.Now().Truncate(time.Millisecond) // the precision of tx.SetEventMoment, which takes an ID
		minute := func(n int) time.Time { return start.Add(time.Duration(n) * time.Minute) }
		for _, mark := range []struct {
			minute int
			upTo   ID
		}{{2, 30}, {1, 20}, {3, 0}, {4, 0}, {5, 20}, {6, 30}} {
			b.MustWrite(func(tx *sql.Tx) error {
				tx.SetEventMoment(services.SortableIDAt(minute(mark.minute)))
				defer tx.SetEventMoment(0)
				chosen := messageSelection{Types: all, UpTo: mark.upTo, Generation: services.AnyMarkGeneration}
				_, err := markRead(b.Ctx, tx, 1, chosen)
				return err
			})
		}
		b.Clock.Advance(time.Hour)
		for range 40 {
			b.markRead(1, messageSelection{Types: all, Generation: services.AnyMarkGeneration})
		}
		for id, kind := range map[ID]string{10: "general", 25: "general", 35: "general", 15: "offer", 31: "offer"} {
			b.addMessage(id, kind)
			b.MustWrite(func(tx *sql.Tx) error {
				_, err := deliver(b.Ctx, tx, id, []services.UserID{1, 2}, true)
				return err
			})
		}
		want := map[ID]int{10: 1, 15: 1, 25: 2, 31: 3, 35: 3}
		for _, message := range sqltest.Must(listMessages(b.Ctx, b.DB, 1, all, false, MaxID, 100))(b.T) {
			if at, late := want[message.ID]; late && !message.ReadAt.Equal(minute(at)) {
				b.T.Errorf("%d was read at %v, want %v", message.ID, message.ReadAt, minute(at))
			}
		}
		sqltest.Equal(b.T, len(b.unreadIDs(1, all...)), 0)
		sqltest.Equal(b.T, len(b.unreadIDs(2, all...)), len(want))
	})
}

// The column marks has a bounded length. A mark at its end that is cut off does not count.
func TestFirstMarkTime(t *testing.T) {
	const none = 7
	for _, c := range []struct {
		marks string
		want  int64
	}{
		{"", none},
		{"9@100 ", none},
		{"10@100 ", 100},
		{"12@300 11@200 10@100 ", 100},
		{"12@300 11@200 9@100 ", 200},
		{"11@200 12@300 ", 200},
		{"12@300 11@20", 300},
		{"12@300 11@", 300},
		{"12@300 11", 300},
		{"x@1 12@y 18446744073709551615@300 ", 300},
	} {
		if got := firstMarkTime(c.marks, 10, none); got != c.want {
			t.Errorf("firstMarkTime(%q) = %d, want %d", c.marks, got, c.want)
		}
	}
}

// The oldest marks are dropped when there is no room. A message whose first mark was dropped then counts as read at the first mark
// that is left.
func TestTheOldestMarksAreDropped(t *testing.T) {
	eachTestDB(t, func(b testDB) {
		const marks = 60
		for id := ID(1); id <= marks; id++ {
			b.addMessage(2*id, "general")
			b.deliverTo(2*id, 1)
			b.markRead(1, messageSelection{Types: []string{"general"}, Generation: services.AnyMarkGeneration})
			b.Clock.Advance(time.Minute)
		}
		end := b.Clock.Now()
		readBefore := func(id ID) time.Duration {
			b.addMessage(id, "general")
			b.MustWrite(func(tx *sql.Tx) error {
				_, err := deliver(b.Ctx, tx, id, []services.UserID{1}, true)
				return err
			})
			for _, message := range sqltest.Must(listMessages(b.Ctx, b.DB, 1, []string{"general"}, false, id+1, 1))(b.T) {
				return end.Sub(message.ReadAt)
			}
			return 0
		}
		sqltest.Equal(b.T, readBefore(2*marks-1), time.Minute)
		sqltest.Equal(b.T, readBefore(2*marks-31), 16*time.Minute)
		if got := readBefore(1); got < 17*time.Minute || got == marks*time.Minute {
			b.T.Errorf("the oldest message was read %v before the end", got)
		}
	})
}

// A mark of all messages by a user without messages makes no state: their badge has nothing to show.
func TestAMarkWithoutMessagesStoresNoState(t *testing.T) {
	eachTestDB(t, func(b testDB) {
		sqltest.Equal(b.T, len(b.markRead(1, messageSelection{Generation: services.AnyMarkGeneration, Types: []string{"general", "offer"}})), 0)
		sqltest.Equal(b.T, len(sqltest.Must(readUserStates(b.Ctx, b.DB, 1))(b.T)), 0)
	})
}
