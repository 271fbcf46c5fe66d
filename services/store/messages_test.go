package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/store"
)

// message inserts a message without recipients.
func (b *bundle) message(id services.PostID, kind string) services.SiteMessage {
	b.t.Helper()
	m := services.SiteMessage{ID: id, Type: kind, Title: fmt.Sprint("title of ", id), Content: "content"}
	b.write(func(tx *store.Tx) error { return tx.InsertSiteMessage(b.ctx, m, "") })
	m.CreatedAt, m.UpdatedAt = b.clock.Now(), b.clock.Now()
	return m
}

func (b *bundle) deliver(id services.PostID, users ...services.UserID) (states []store.MessageState) {
	b.t.Helper()
	b.write(func(tx *store.Tx) (err error) {
		states, err = tx.DeliverSiteMessage(b.ctx, id, users)
		return err
	})
	return states
}

func (b *bundle) markRead(user services.UserID, mark store.MessageMark) (states []store.MessageState) {
	b.t.Helper()
	b.write(func(tx *store.Tx) (err error) {
		states, err = tx.MarkSiteMessagesRead(b.ctx, user, mark)
		return err
	})
	return states
}

func (b *bundle) markUnread(user services.UserID, ids ...services.PostID) (states []store.MessageState) {
	b.t.Helper()
	b.write(func(tx *store.Tx) (err error) {
		states, err = tx.MarkSiteMessagesUnread(b.ctx, user, ids)
		return err
	})
	return states
}

// unreadIDs is what counts for a user, in the order of their list.
func (b *bundle) unreadIDs(user services.UserID, types ...string) (ids []services.PostID) {
	b.t.Helper()
	for _, m := range must(b.SiteMessages(b.ctx, user, types, true, services.MaxPostID, 100))(b.t) {
		ids = append(ids, m.ID)
	}
	return ids
}

func state(user services.UserID, kind string, version uint64, unread int) store.MessageState {
	state := store.MessageState{User: user, Type: kind, Version: version, Unread: unread}
	state.Days.Days[0] = unread // the ids of these tests are of the first day of 1970
	return state
}

func TestDeliverSiteMessage(t *testing.T) {
	each(t, func(b *bundle) {
		first := b.message(10, "general")
		b.message(20, "offer")
		equal(b.t, b.deliver(10, 2, 1, 2), []store.MessageState{state(1, "general", 1, 1), state(2, "general", 1, 1)})
		equal(b.t, b.deliver(10, 3, 1), []store.MessageState{state(1, "general", 1, 1), state(3, "general", 1, 1)})
		equal(b.t, b.deliver(20, 1), []store.MessageState{state(1, "offer", 1, 1)})
		equal(b.t, len(b.deliver(20)), 0)
		list := must(b.SiteMessages(b.ctx, 1, []string{"general", "offer"}, false, services.MaxPostID, 10))(b.t)
		equal(b.t, len(list), 2)
		equal(b.t, list[1], first)
		equal(b.t, must(b.MessageStates(b.ctx, 1))(b.t), []store.MessageState{state(1, "general", 1, 1), state(1, "offer", 1, 1)})
		equal(b.t, must(b.MessageStates(b.ctx, 9))(b.t), []store.MessageState(nil))
		err := b.Write(b.ctx, func(tx *store.Tx) error {
			_, err := tx.DeliverSiteMessage(b.ctx, 11, []services.UserID{1})
			return err
		})
		coded(b.t, err, services.NotFound)
	})
}

// Of many unread messages the newest are counted, so many that it shows that there are more: by a delivery, a mark and a read alike.
func TestUnreadMessagesAreCountedToABound(t *testing.T) {
	const most = services.MessagesCounted + 1
	each(t, func(b *bundle) {
		const perDay = 181193932800000 // of ids
		b.write(func(tx *store.Tx) error {
			if err := tx.Exec(b.ctx, "INSERT INTO site_message_state (user_number, type, ver) VALUES (1, 'general', 7), (1, 'offer', 8)"); err != nil {
				return err
			}
			return tx.Exec(b.ctx, fmt.Sprintf(`WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < %d)
				INSERT INTO site_message_recipients (user_number, message, type) SELECT 1, n * %d, 'general' FROM s`, 2*most, perDay/100))
		})
		b.message(2*most*perDay, "general")
		states := b.deliver(2*most*perDay, 1)
		counted := func(states []store.MessageState, want int) {
			b.t.Helper()
			state := states[0]
			days := state.Days.Older
			for _, count := range state.Days.Days {
				days += count
			}
			if state.Unread != want || days != want {
				b.t.Errorf("%d unread are counted, %d by their days, want %d", state.Unread, days, want)
			}
		}
		counted(states, most)
		counted(must(b.MessageStates(b.ctx, 1))(b.t), most)
		counted(b.markRead(1, store.MessageMark{Gen: services.AnyGen, IDs: []services.PostID{2 * most * perDay}}), most)
		counted(b.markRead(1, store.MessageMark{Gen: services.AnyGen, Types: []string{"general"}, UpTo: most * (perDay / 100)}), most)
		counted(b.markRead(1, store.MessageMark{Gen: services.AnyGen, Types: []string{"general"}, UpTo: (most + 1) * (perDay / 100)}), most-1)
		if offer := must(b.MessageStates(b.ctx, 1))(b.t)[1]; offer.Unread != 0 || offer.Version != 8 {
			b.t.Errorf("of a type without messages %+v", offer)
		}
	})
}

// A delivery that is repeated, or comes after the mark, keeps the read state.
func TestDeliverAgainKeepsReadStates(t *testing.T) {
	each(t, func(b *bundle) {
		b.message(10, "general")
		b.deliver(10, 1, 2)
		equal(b.t, b.markRead(1, store.MessageMark{Gen: services.AnyGen, IDs: []services.PostID{10}}), []store.MessageState{state(1, "general", 2, 0)})
		equal(b.t, b.deliver(10, 1, 2, 3), []store.MessageState{state(1, "general", 2, 0), state(2, "general", 1, 1), state(3, "general", 1, 1)})
		report := must(b.SiteMessage(b.ctx, 10))(b.t)
		equal(b.t, [2]int{report.Recipients, report.ReadCount}, [2]int{3, 1})
	})
}

func TestMarkSiteMessagesRead(t *testing.T) {
	each(t, func(b *bundle) {
		for id := services.PostID(1); id <= 6; id++ {
			b.message(id, []string{"general", "offer"}[id%2])
			b.deliver(id, 1, 2)
		}
		both := []string{"general", "offer"}
		equal(b.t, b.unreadIDs(1, both...), []services.PostID{6, 5, 4, 3, 2, 1})
		equal(b.t, b.unreadIDs(1, "offer"), []services.PostID{5, 3, 1})
		b.clock.advance(time.Minute)
		equal(b.t, b.markRead(1, store.MessageMark{Gen: services.AnyGen, IDs: []services.PostID{3, 4, 3}}), []store.MessageState{state(1, "general", 4, 2), state(1, "offer", 4, 2)})
		equal(b.t, b.markRead(1, store.MessageMark{Gen: services.AnyGen, IDs: []services.PostID{4}}), []store.MessageState{state(1, "general", 4, 2)}) // again
		equal(b.t, b.markRead(1, store.MessageMark{Gen: services.AnyGen, Types: []string{"offer"}, UpTo: 3}), []store.MessageState{state(1, "offer", 5, 1)})
		equal(b.t, b.unreadIDs(1, both...), []services.PostID{6, 5, 2})
		equal(b.t, b.markRead(1, store.MessageMark{Gen: services.AnyGen, Types: both, UpTo: 2}), []store.MessageState{state(1, "general", 5, 1), state(1, "offer", 5, 1)})
		equal(b.t, b.markUnread(1, 1, 6), []store.MessageState{state(1, "general", 5, 1), state(1, "offer", 6, 2)})
		equal(b.t, b.markRead(1, store.MessageMark{Gen: services.AnyGen, Types: both}), []store.MessageState{state(1, "general", 6, 0), state(1, "offer", 7, 0)})
		equal(b.t, len(b.unreadIDs(1, both...)), 0)
		equal(b.t, len(b.unreadIDs(2, both...)), 6) // the other user's stay unread
		equal(b.t, len(b.markRead(9, store.MessageMark{Gen: services.AnyGen, Types: both})), 0)
		byID := must(b.SiteMessagesByID(b.ctx, 1, []services.PostID{3, 7}))(b.t)
		equal(b.t, len(byID), 1)
		equal(b.t, byID[3].ReadAt, b.clock.Now())
	})
}

// A mark that names what the user does not have changes nothing at all.
func TestMarksOfOthersMessages(t *testing.T) {
	each(t, func(b *bundle) {
		b.message(10, "general")
		b.message(20, "general")
		b.deliver(10, 1)
		b.deliver(20, 2)
		for _, fn := range []func(tx *store.Tx) error{
			func(tx *store.Tx) error {
				_, err := tx.MarkSiteMessagesRead(b.ctx, 1, store.MessageMark{Gen: services.AnyGen, IDs: []services.PostID{10, 20}})
				return err
			},
			func(tx *store.Tx) error {
				_, err := tx.MarkSiteMessagesRead(b.ctx, 1, store.MessageMark{Gen: services.AnyGen, Types: []string{"general"}, UpTo: 20})
				return err
			},
			func(tx *store.Tx) error {
				_, err := tx.MarkSiteMessagesUnread(b.ctx, 1, []services.PostID{20})
				return err
			},
			func(tx *store.Tx) error { return tx.EditSiteMessage(b.ctx, 30, nil, nil) },
		} {
			coded(b.t, b.Write(b.ctx, fn), services.NotFound)
		}
		_, err := b.SiteMessage(b.ctx, 30)
		coded(b.t, err, services.NotFound)
		equal(b.t, must(b.MessageStates(b.ctx, 1))(b.t), []store.MessageState{state(1, "general", 1, 1)})
	})
}

func TestEditSiteMessage(t *testing.T) {
	each(t, func(b *bundle) {
		m := b.message(10, "general")
		b.deliver(10, 1, 2)
		b.markRead(1, store.MessageMark{Gen: services.AnyGen, IDs: []services.PostID{10}})
		m.ReadAt = b.clock.Now()
		b.clock.advance(time.Hour)
		title, content := "better", ""
		b.write(func(tx *store.Tx) error { return tx.EditSiteMessage(b.ctx, 10, &title, nil) })
		m.Title, m.UpdatedAt = title, b.clock.Now()
		equal(b.t, must(b.SiteMessagesByID(b.ctx, 1, []services.PostID{10}))(b.t)[10], m)
		b.write(func(tx *store.Tx) error { return tx.EditSiteMessage(b.ctx, 10, nil, &content) })
		m.Content = ""
		equal(b.t, must(b.SiteMessagesByID(b.ctx, 1, []services.PostID{10}))(b.t)[10], m)
		m.ReadAt = time.Time{}
		equal(b.t, must(b.SiteMessage(b.ctx, 10))(b.t), services.SiteMessageReport{Message: m, Recipients: 2, ReadCount: 1})
		equal(b.t, must(b.MessageStates(b.ctx, 1))(b.t), []store.MessageState{state(1, "general", 2, 0)})
	})
}

func TestSiteMessageKeys(t *testing.T) {
	each(t, func(b *bundle) {
		m := services.SiteMessage{ID: 5, Type: "general", Title: "t", Content: "c"}
		b.write(func(tx *store.Tx) error { return tx.InsertSiteMessage(b.ctx, m, "spring") })
		b.message(6, "general")
		b.message(7, "general") // no key is no name: two of them are no conflict
		got, found, err := b.SiteMessageByKey(b.ctx, "spring")
		equal(b.t, must(got, err)(b.t), m)
		equal(b.t, found, true)
		_, found, err = b.SiteMessageByKey(b.ctx, "")
		equal(b.t, must(found, err)(b.t), false)
	})
}

func TestPagesOfSiteMessages(t *testing.T) {
	each(t, func(b *bundle) {
		for id := services.PostID(1); id <= 25; id++ {
			b.message(id, "general")
			b.deliver(id, 1)
		}
		var got []services.PostID
		before := services.MaxPostID
		for {
			page := must(b.SiteMessages(b.ctx, 1, []string{"general"}, false, before, 10))(b.t)
			if len(page) == 0 {
				break
			}
			for _, m := range page {
				got = append(got, m.ID)
			}
			before = got[len(got)-1]
		}
		equal(b.t, len(got), 25)
		for i, id := range got {
			equal(b.t, id, services.PostID(25-i))
		}
		equal(b.t, len(must(b.SiteMessages(b.ctx, 1, []string{"offer"}, false, services.MaxPostID, 10))(b.t)), 0)
	})
}

// Deliveries and marks at once: no version stands for two counts, and the last state is what the rows say.
func TestSiteMessagesAtOnce(t *testing.T) {
	each(t, func(b *bundle) {
		const users, messages = 4, 12
		all := []services.UserID{4, 2, 3, 1}
		var seen sync.Map // user/version -> count
		note := func(states []store.MessageState) {
			for _, s := range states {
				key := fmt.Sprint(s.User, "/", s.Version)
				if had, loaded := seen.LoadOrStore(key, s.Unread); loaded && had != s.Unread {
					b.t.Errorf("version %d of user %d stands for %d and for %d", s.Version, s.User, had, s.Unread)
				}
			}
		}
		var work sync.WaitGroup
		for id := services.PostID(1); id <= messages; id++ {
			b.message(id, "general")
			work.Go(func() {
				for range 2 { // every delivery twice
					err := b.Write(b.ctx, func(tx *store.Tx) error {
						states, err := tx.DeliverSiteMessage(b.ctx, id, all)
						note(states)
						return err
					})
					if err != nil {
						b.t.Error(err)
					}
				}
				for _, user := range all[:2] {
					err := b.Write(b.ctx, func(tx *store.Tx) error {
						states, err := tx.MarkSiteMessagesRead(b.ctx, user, store.MessageMark{Gen: services.AnyGen, IDs: []services.PostID{id}})
						note(states)
						return err
					})
					if err != nil {
						b.t.Error(err)
					}
				}
			})
		}
		work.Wait()
		for user := services.UserID(1); user <= users; user++ {
			want := state(user, "general", messages, messages)
			if user == 2 || user == 4 {
				want = state(user, "general", 2*messages, 0)
			}
			equal(b.t, must(b.MessageStates(b.ctx, user))(b.t), []store.MessageState{want})
			equal(b.t, len(b.unreadIDs(user, "general")), want.Unread)
		}
	})
}

// A mark of a list that was shown before something was marked unread leaves that alone, and takes the rest; one that was
// made without a list, or with a later one, takes all.
func TestLateMarksOfSiteMessages(t *testing.T) {
	each(t, func(b *bundle) {
		for id := services.PostID(1); id <= 3; id++ {
			b.message(id, "general")
			b.deliver(id, 1, 2)
		}
		gen := func() uint64 { return must(b.SiteMessageGen(b.ctx, 1))(b.t) }
		types, shown := []string{"general"}, gen()
		equal(b.t, shown, uint64(0))
		b.markRead(1, store.MessageMark{IDs: []services.PostID{1}, Gen: shown})
		equal(b.t, b.markUnread(1, 1, 2), []store.MessageState{state(1, "general", 5, 3)}) // 2 is unread already, and is to stay so too
		equal(b.t, b.markRead(1, store.MessageMark{IDs: []services.PostID{1, 2}, Gen: shown}), []store.MessageState{state(1, "general", 5, 3)})
		equal(b.t, b.markRead(1, store.MessageMark{Types: types, Gen: shown}), []store.MessageState{state(1, "general", 6, 2)})
		equal(b.t, b.unreadIDs(1, types...), []services.PostID{2, 1})
		equal(b.t, []uint64{gen(), must(b.SiteMessageGen(b.ctx, 2))(b.t)}, []uint64{1, 0})
		b.markRead(1, store.MessageMark{IDs: []services.PostID{1}, Gen: gen()})
		equal(b.t, b.unreadIDs(1, types...), []services.PostID{2})
		b.markRead(1, store.MessageMark{Types: types, Gen: services.AnyGen})
		equal(b.t, len(b.unreadIDs(1, types...)), 0)
		coded(b.t, b.try(func(tx *store.Tx) error {
			_, err := tx.MarkSiteMessagesUnread(b.ctx, 1, []services.PostID{1, 99})
			return err
		}), services.NotFound)
		equal(b.t, gen(), uint64(1))
	})
}
