package messages

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// testDB is a database with messages.
type testDB struct{ *peopletest.TestDB }

// eachTestDB runs a test on both engines.
func eachTestDB(t *testing.T, test func(b testDB)) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) { test(testDB{b}) })
}

// runSQL runs a statement of a test.
func runSQL(ctx context.Context, tx *sql.Tx, text string) error {
	_, err := tx.Run(ctx, sql.AdHoc("test", text))
	return err
}

// addMessage inserts a message without recipients.
func (b testDB) addMessage(id ID, kind string) Message {
	b.T.Helper()
	m := Message{ID: id, Type: kind, Title: fmt.Sprint("title of ", id), Content: "content"}
	b.MustWrite(func(tx *sql.Tx) error { return Insert(b.Ctx, tx, m.ID, Text{m.Type, m.Title, m.Content}) })
	m.CreatedAt, m.UpdatedAt = b.Clock.Now(), b.Clock.Now()
	return m
}

// deliverTo delivers a message to users.
func (b testDB) deliverTo(id ID, users ...services.UserID) (found []unreadState) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) (err error) {
		found, err = deliver(b.Ctx, tx, id, users, false)
		return err
	})
	return found
}

func (b testDB) markRead(user services.UserID, mark messageSelection) (found []unreadState) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) (err error) {
		found, err = markRead(b.Ctx, tx, user, mark)
		return err
	})
	return found
}

func (b testDB) markUnread(user services.UserID, ids ...ID) (found []unreadState) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) (err error) {
		found, err = markUnread(b.Ctx, tx, user, ids)
		return err
	})
	return found
}

// unreadIDs are the messages that count for a user, in the order of their list.
func (b testDB) unreadIDs(user services.UserID, types ...string) (ids []ID) {
	b.T.Helper()
	for _, m := range sqltest.Must(listMessages(b.Ctx, b.DB, user, types, true, MaxID, 100))(b.T) {
		ids = append(ids, m.ID)
	}
	return ids
}

// stateWithUnreadOnDay0 is a state whose unread messages are all of the first day.
func stateWithUnreadOnDay0(user services.UserID, kind string, version uint64, unread int) unreadState {
	state := unreadState{User: user, Type: kind, Version: version, Unread: unread}
	state.Days.CountByDay[0] = unread // the ids of these tests are of the first day of 1970
	return state
}

func TestDeliveryGivesEachRecipientOneRow(t *testing.T) {
	eachTestDB(t, func(b testDB) {
		first := b.addMessage(10, "general")
		b.addMessage(20, "offer")
		sqltest.Equal(b.T, b.deliverTo(10, 2, 1, 2), []unreadState{stateWithUnreadOnDay0(1, "general", 1, 1), stateWithUnreadOnDay0(2, "general", 1, 1)})
		sqltest.Equal(b.T, b.deliverTo(10, 3, 1), []unreadState{stateWithUnreadOnDay0(1, "general", 1, 1), stateWithUnreadOnDay0(3, "general", 1, 1)})
		sqltest.Equal(b.T, b.deliverTo(20, 1), []unreadState{stateWithUnreadOnDay0(1, "offer", 1, 1)})
		sqltest.Equal(b.T, len(b.deliverTo(20)), 0)
		shown := sqltest.Must(listMessages(b.Ctx, b.DB, 1, []string{"general", "offer"}, false, MaxID, 10))(b.T)
		sqltest.Equal(b.T, len(shown), 2)
		sqltest.Equal(b.T, shown[1], first)
		sqltest.Equal(b.T, sqltest.Must(readUserStates(b.Ctx, b.DB, 1))(b.T), []unreadState{stateWithUnreadOnDay0(1, "general", 1, 1), stateWithUnreadOnDay0(1, "offer", 1, 1)})
		sqltest.Equal(b.T, sqltest.Must(readUserStates(b.Ctx, b.DB, 9))(b.T), []unreadState(nil))
		err := b.Write(b.Ctx, func(tx *sql.Tx) error {
			_, err := deliver(b.Ctx, tx, 11, []services.UserID{1}, false)
			return err
		})
		sqltest.WantCode(b.T, err, services.NotFound)
	})
}

// Only the newest unread messages are counted, one more than the bound: by a delivery, a mark and a read alike.
func TestUnreadMessagesAreCountedToABound(t *testing.T) {
	const most = services.MaxCountedSiteMessages + 1
	eachTestDB(t, func(b testDB) {
		const perDay = 181193932800000 // IDs in a day
		b.MustWrite(func(tx *sql.Tx) error {
			if err := runSQL(b.Ctx, tx, "INSERT INTO site_message_state (user_number, type, ver) VALUES (1, 'general', 7), (1, 'offer', 8)"); err != nil {
				return err
			}
			return runSQL(b.Ctx, tx, fmt.Sprintf(`WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < %d)
				INSERT INTO site_message_recipients (user_number, message, type) SELECT 1, n * %d, 'general' FROM s`, 2*most, perDay/100))
		})
		b.addMessage(2*most*perDay, "general")
		given := b.deliverTo(2*most*perDay, 1)
		counted := func(found []unreadState, want int) {
			b.T.Helper()
			state := found[0]
			days := state.Days.OlderCount
			for _, count := range state.Days.CountByDay {
				days += count
			}
			if state.Unread != want || days != want {
				b.T.Errorf("%d unread are counted, %d by their days, want %d", state.Unread, days, want)
			}
		}
		counted(given, most)
		counted(sqltest.Must(readUserStates(b.Ctx, b.DB, 1))(b.T), most)
		counted(b.markRead(1, messageSelection{Generation: services.AnyMarkGeneration, IDs: []ID{2 * most * perDay}}), most)
		counted(b.markRead(1, messageSelection{Generation: services.AnyMarkGeneration, Types: []string{"general"}, UpTo: most * (perDay / 100)}), most)
		counted(b.markRead(1, messageSelection{Generation: services.AnyMarkGeneration, Types: []string{"general"}, UpTo: (most + 1) * (perDay / 100)}), most-1)
		if offer := sqltest.Must(readUserStates(b.Ctx, b.DB, 1))(b.T)[1]; offer.Unread != 0 || offer.Version != 8 {
			b.T.Errorf("of a type without messages %+v", offer)
		}
	})
}

// A delivery that is repeated, or comes after the mark, keeps the read state.
func TestDeliverAgainKeepsReadStates(t *testing.T) {
	eachTestDB(t, func(b testDB) {
		b.addMessage(10, "general")
		b.deliverTo(10, 1, 2)
		sqltest.Equal(b.T, b.markRead(1, messageSelection{Generation: services.AnyMarkGeneration, IDs: []ID{10}}), []unreadState{stateWithUnreadOnDay0(1, "general", 2, 0)})
		sqltest.Equal(b.T, b.deliverTo(10, 1, 2, 3), []unreadState{stateWithUnreadOnDay0(1, "general", 2, 0), stateWithUnreadOnDay0(2, "general", 1, 1), stateWithUnreadOnDay0(3, "general", 1, 1)})
		messageReport := sqltest.Must(readReport(b.Ctx, b.DB, 10))(b.T)
		sqltest.Equal(b.T, [2]int{messageReport.Recipients, messageReport.ReadCount}, [2]int{3, 1})
	})
}

func TestMarksChangeTheNamedMessagesOfOneUser(t *testing.T) {
	eachTestDB(t, func(b testDB) {
		for id := ID(1); id <= 6; id++ {
			b.addMessage(id, []string{"general", "offer"}[id%2])
			b.deliverTo(id, 1, 2)
		}
		both := []string{"general", "offer"}
		sqltest.Equal(b.T, b.unreadIDs(1, both...), []ID{6, 5, 4, 3, 2, 1})
		sqltest.Equal(b.T, b.unreadIDs(1, "offer"), []ID{5, 3, 1})
		b.Clock.Advance(time.Minute)
		sqltest.Equal(b.T, b.markRead(1, messageSelection{Generation: services.AnyMarkGeneration, IDs: []ID{3, 4, 3}}), []unreadState{stateWithUnreadOnDay0(1, "general", 4, 2), stateWithUnreadOnDay0(1, "offer", 4, 2)})
		sqltest.Equal(b.T, b.markRead(1, messageSelection{Generation: services.AnyMarkGeneration, IDs: []ID{4}}), []unreadState{stateWithUnreadOnDay0(1, "general", 4, 2)}) // again
		sqltest.Equal(b.T, b.markRead(1, messageSelection{Generation: services.AnyMarkGeneration, Types: []string{"offer"}, UpTo: 3}), []unreadState{stateWithUnreadOnDay0(1, "offer", 5, 1)})
		sqltest.Equal(b.T, b.unreadIDs(1, both...), []ID{6, 5, 2})
		sqltest.Equal(b.T, b.markRead(1, messageSelection{Generation: services.AnyMarkGeneration, Types: both, UpTo: 2}), []unreadState{stateWithUnreadOnDay0(1, "general", 5, 1), stateWithUnreadOnDay0(1, "offer", 5, 1)})
		sqltest.Equal(b.T, b.markUnread(1, 1, 6), []unreadState{stateWithUnreadOnDay0(1, "general", 5, 1), stateWithUnreadOnDay0(1, "offer", 6, 2)})
		sqltest.Equal(b.T, b.markRead(1, messageSelection{Generation: services.AnyMarkGeneration, Types: both}), []unreadState{stateWithUnreadOnDay0(1, "general", 6, 0), stateWithUnreadOnDay0(1, "offer", 7, 0)})
		sqltest.Equal(b.T, len(b.unreadIDs(1, both...)), 0)
		sqltest.Equal(b.T, len(b.unreadIDs(2, both...)), 6) // the other user's messages stay unread
		sqltest.Equal(b.T, len(b.markRead(9, messageSelection{Generation: services.AnyMarkGeneration, Types: both})), 0)
		found := sqltest.Must(readMessages(b.Ctx, b.DB, 1, []ID{3, 7}))(b.T)
		sqltest.Equal(b.T, len(found), 1)
		sqltest.Equal(b.T, found[3].ReadAt, b.Clock.Now())
	})
}

// A mark that names a message that the user does not have changes nothing at all.
func TestAMarkOfAMissingMessageChangesNothing(t *testing.T) {
	eachTestDB(t, func(b testDB) {
		b.addMessage(10, "general")
		b.addMessage(20, "general")
		b.deliverTo(10, 1)
		b.deliverTo(20, 2)
		for _, fn := range []func(tx *sql.Tx) error{
			func(tx *sql.Tx) error {
				_, err := markRead(b.Ctx, tx, 1, messageSelection{Generation: services.AnyMarkGeneration, IDs: []ID{10, 20}})
				return err
			},
			func(tx *sql.Tx) error {
				_, err := markRead(b.Ctx, tx, 1, messageSelection{Generation: services.AnyMarkGeneration, Types: []string{"general"}, UpTo: 20})
				return err
			},
			func(tx *sql.Tx) error {
				_, err := markUnread(b.Ctx, tx, 1, []ID{20})
				return err
			},
			func(tx *sql.Tx) error { return edit(b.Ctx, tx, 30, nil, nil) },
		} {
			sqltest.WantCode(b.T, b.Write(b.Ctx, fn), services.NotFound)
		}
		_, err := readReport(b.Ctx, b.DB, 30)
		sqltest.WantCode(b.T, err, services.NotFound)
		sqltest.Equal(b.T, sqltest.Must(readUserStates(b.Ctx, b.DB, 1))(b.T), []unreadState{stateWithUnreadOnDay0(1, "general", 1, 1)})
	})
}

func TestAnEditKeepsReadStates(t *testing.T) {
	eachTestDB(t, func(b testDB) {
		m := b.addMessage(10, "general")
		b.deliverTo(10, 1, 2)
		b.markRead(1, messageSelection{Generation: services.AnyMarkGeneration, IDs: []ID{10}})
		m.ReadAt = b.Clock.Now()
		b.Clock.Advance(time.Hour)
		title, content := "better", ""
		b.MustWrite(func(tx *sql.Tx) error { return edit(b.Ctx, tx, 10, &title, nil) })
		m.Title, m.UpdatedAt = title, b.Clock.Now()
		sqltest.Equal(b.T, sqltest.Must(readMessages(b.Ctx, b.DB, 1, []ID{10}))(b.T)[10], m)
		b.MustWrite(func(tx *sql.Tx) error { return edit(b.Ctx, tx, 10, nil, &content) })
		m.Content = ""
		sqltest.Equal(b.T, sqltest.Must(readMessages(b.Ctx, b.DB, 1, []ID{10}))(b.T)[10], m)
		m.ReadAt = time.Time{}
		sqltest.Equal(b.T, sqltest.Must(readReport(b.Ctx, b.DB, 10))(b.T), SentMessage{Message: m, Recipients: 2, ReadCount: 1})
		sqltest.Equal(b.T, sqltest.Must(readUserStates(b.Ctx, b.DB, 1))(b.T), []unreadState{stateWithUnreadOnDay0(1, "general", 2, 0)})
	})
}

func TestTextOfAMessage(t *testing.T) {
	eachTestDB(t, func(b testDB) {
		text := Text{Type: "general", Title: "t", Content: "c"}
		b.MustWrite(func(tx *sql.Tx) error { return Insert(b.Ctx, tx, 5, text) })
		b.addMessage(6, "general")
		got, found, err := readText(b.Ctx, b.DB, 5)
		sqltest.Equal(b.T, sqltest.Must(got, err)(b.T), text)
		sqltest.Equal(b.T, found, true)
		_, found, err = readText(b.Ctx, b.DB, 7)
		sqltest.Equal(b.T, sqltest.Must(found, err)(b.T), false)
	})
}

func TestPagesListEveryMessageOnce(t *testing.T) {
	eachTestDB(t, func(b testDB) {
		for id := ID(1); id <= 25; id++ {
			b.addMessage(id, "general")
			b.deliverTo(id, 1)
		}
		var got []ID
		before := MaxID
		for {
			page := sqltest.Must(listMessages(b.Ctx, b.DB, 1, []string{"general"}, false, before, 10))(b.T)
			if len(page) == 0 {
				break
			}
			for _, m := range page {
				got = append(got, m.ID)
			}
			before = got[len(got)-1]
		}
		sqltest.Equal(b.T, len(got), 25)
		for i, id := range got {
			sqltest.Equal(b.T, id, ID(25-i))
		}
		sqltest.Equal(b.T, len(sqltest.Must(listMessages(b.Ctx, b.DB, 1, []string{"offer"}, false, MaxID, 10))(b.T)), 0)
	})
}

// Under concurrent deliveries and marks no version has two counts, and the last state equals the rows.
func TestConcurrentChangesKeepOneCountPerVersion(t *testing.T) {
	eachTestDB(t, func(b testDB) {
		const users, messages = 4, 12
		all := []services.UserID{4, 2, 3, 1}
		var seen sync.Map // user/version -> count
		note := func(found []unreadState) {
			for _, s := range found {
				key := fmt.Sprint(s.User, "/", s.Version)
				if had, loaded := seen.LoadOrStore(key, s.Unread); loaded && had != s.Unread {
					b.T.Errorf("version %d of user %d has the counts %d and %d", s.Version, s.User, had, s.Unread)
				}
			}
		}
		var work sync.WaitGroup
		for id := ID(1); id <= messages; id++ {
			b.addMessage(id, "general")
			work.Go(func() {
				for range 2 { // every delivery twice
					err := b.Write(b.Ctx, func(tx *sql.Tx) error {
						states, err := deliver(b.Ctx, tx, id, all, false)
						note(states)
						return err
					})
					if err != nil {
						b.T.Error(err)
					}
				}
				for _, user := range all[:2] {
					err := b.Write(b.Ctx, func(tx *sql.Tx) error {
						states, err := markRead(b.Ctx, tx, user, messageSelection{Generation: services.AnyMarkGeneration, IDs: []ID{id}})
						note(states)
						return err
					})
					if err != nil {
						b.T.Error(err)
					}
				}
			})
		}
		work.Wait()
		for user := services.UserID(1); user <= users; user++ {
			want := stateWithUnreadOnDay0(user, "general", messages, messages)
			if user == 2 || user == 4 {
				want = stateWithUnreadOnDay0(user, "general", 2*messages, 0)
			}
			sqltest.Equal(b.T, sqltest.Must(readUserStates(b.Ctx, b.DB, user))(b.T), []unreadState{want})
			sqltest.Equal(b.T, len(b.unreadIDs(user, "general")), want.Unread)
		}
	})
}

// A mark with the generation of a list that was read before a message was marked unread skips that message and marks the rest. A mark
// without a generation, or with a later one, marks all.
func TestAMarkOfAnOlderListKeepsMessagesUnread(t *testing.T) {
	eachTestDB(t, func(b testDB) {
		for id := ID(1); id <= 3; id++ {
			b.addMessage(id, "general")
			b.deliverTo(id, 1, 2)
		}
		gen := func() uint64 { return sqltest.Must(readGeneration(b.Ctx, b.DB, 1))(b.T) }
		types, shown := []string{"general"}, gen()
		sqltest.Equal(b.T, shown, uint64(0))
		b.markRead(1, messageSelection{IDs: []ID{1}, Generation: shown})
		// Message 2 is unread already, and must stay so.
		sqltest.Equal(b.T, b.markUnread(1, 1, 2), []unreadState{stateWithUnreadOnDay0(1, "general", 5, 3)})
		sqltest.Equal(b.T, b.markRead(1, messageSelection{IDs: []ID{1, 2}, Generation: shown}), []unreadState{stateWithUnreadOnDay0(1, "general", 5, 3)})
		sqltest.Equal(b.T, b.markRead(1, messageSelection{Types: types, Generation: shown}), []unreadState{stateWithUnreadOnDay0(1, "general", 6, 2)})
		sqltest.Equal(b.T, b.unreadIDs(1, types...), []ID{2, 1})
		sqltest.Equal(b.T, []uint64{gen(), sqltest.Must(readGeneration(b.Ctx, b.DB, 2))(b.T)}, []uint64{1, 0})
		b.markRead(1, messageSelection{IDs: []ID{1}, Generation: gen()})
		sqltest.Equal(b.T, b.unreadIDs(1, types...), []ID{2})
		b.markRead(1, messageSelection{Types: types, Generation: services.AnyMarkGeneration})
		sqltest.Equal(b.T, len(b.unreadIDs(1, types...)), 0)
		sqltest.WantCode(b.T, b.Write(b.Ctx, func(tx *sql.Tx) error {
			_, err := markUnread(b.Ctx, tx, 1, []ID{1, 99})
			return err
		}), services.NotFound)
		sqltest.Equal(b.T, gen(), uint64(1))
	})
}
