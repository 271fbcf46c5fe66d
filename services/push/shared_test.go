package push

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"tidings/services"
)

// If the hint of a shared change was lost, reconciliation finds the change, even if the document half of the version is unchanged. A
// state for which both halves agree is not rendered again.
func TestReconciliationComparesTheSharedHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.setDocument(7, 100, 1)
		config := e.config()
		learned := uint64(0)
		config.SharedChangeSequences = func(users []services.UserID) []uint64 {
			e.mu.Lock()
			defer e.mu.Unlock()
			return slices.Repeat([]uint64{learned}, len(users))
		}
		withHub(t, e, config, func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			synctest.Wait()
			wantTotal(t, states, 1, "at first")
			e.withLock(func(e *fakeBackend) {
				learned = 5
				e.docs[7] = &services.Badges{Version: services.BadgesVersion(100, 5), Learned: 5, Total: services.NewCount(2, services.Exact, time.Time{})}
			})
			passTime(1500 * time.Millisecond)
			wantTotal(t, states, 2, "after a reconciliation")
			if repairs := h.Stats().UsersRepaired; repairs != 1 {
				t.Errorf("%d repairs, want 1", repairs)
			}
			rendered := len(e.copyCalls(&e.renderCalls))
			passTime(10 * time.Second)
			if again := len(e.copyCalls(&e.renderCalls)) - rendered; again != 0 {
				t.Errorf("rendered %d times while nothing changed", again)
			}
		})
	})
}

// Reconciliation renders a sample of the users, and so finds a state that changed without a newer version. The state is sent once
// RaiseVersions has given it one. Until RaiseVersions succeeds, each sample with that user finds the state again.
func TestReconciliationSamplesFindTwoStatesOfOneVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		for user := range services.UserID(40) {
			e.setDocument(user+1, 100, 1)
		}
		config := e.config()
		refused := errBackendUnavailable
		raised := []services.UserID{}
		config.RaiseVersions = func(_ context.Context, users []services.UserID, shown []uint64) error {
			e.mu.Lock()
			defer e.mu.Unlock()
			if refused != nil {
				return refused
			}
			for i, user := range users {
				raised = append(raised, user)
				next := *e.docs[user]
				next.Version = services.BadgesVersion(shown[i]+1, 0)
				e.docs[user] = &next
			}
			return nil
		}
		withHub(t, e, config, func(h *Hub) {
			var all []<-chan *services.Badges
			for user := range services.UserID(40) {
				all = append(all, mustWatch(t, h, user+1, ""))
			}
			synctest.Wait()
			for _, states := range all {
				wantTotal(t, states, 1, "at first")
			}
			e.setDocument(7, 100, 2)
			h.HintSharedContent()
			synctest.Wait()
			wantTotal(t, all[6], -1, "the same version")
			passTime(70 * time.Second)
			if found := h.Stats().VersionConflicts; found < 3 {
				t.Errorf("it was found %d times in a minute, want once by the hint and twice by samples", found)
			}
			e.withLock(func(*fakeBackend) { refused = nil })
			passTime(35 * time.Second)
			wantTotal(t, all[6], 2, "with a version of its own")
			if !slices.Equal(raised, []services.UserID{7}) {
				t.Errorf("raised were %v", raised)
			}
			found := h.Stats().VersionConflicts
			passTime(60 * time.Second)
			if again := h.Stats().VersionConflicts - found; again != 0 {
				t.Errorf("it was found %d times more", again)
			}
		})
	})
}

// Each of these visible parts, and every count of Badges.Parts, enters the hash that tells two states apart.
func TestEveryVisiblePartIsHashed(t *testing.T) {
	state := func() *services.Badges {
		one := services.NewCount(1, services.Exact, time.Time{})
		return &services.Badges{
			Total: one, HomeFeed: one, Announcements: one, LiveBoard: one, Dots: []services.Dot{{Name: "shop"}},
			SiteMessages:  services.MessageCounts{Total: one, Types: []services.MessageTypeCount{{Type: "general", Count: one}}},
			Notifications: services.NotificationCounts{HostCounts: []services.CategoryCount{{Name: "orders", Count: one}}},
			Conversations: services.ConversationCounts{Total: one, Mentions: one},
		}
	}
	same := hashVisible(state())
	if hashVisible(state()) != same || same == 0 {
		t.Error("one state has two numbers, or none")
	}
	changes := []func(b *services.Badges){
		func(b *services.Badges) { b.Total.Value = 2 },
		func(b *services.Badges) { b.HomeFeed.Precision = services.AtLeast },
		func(b *services.Badges) { b.Announcements.InTotal = false },
		func(b *services.Badges) { b.LiveBoard.Display = "•" },
		func(b *services.Badges) { b.Notifications.Reminder.Value = 1 },
		func(b *services.Badges) { b.Notifications.Older.Like = 1 },
		func(b *services.Badges) { b.Notifications.Newest = 1 },
		func(b *services.Badges) { b.Conversations.Mentions.Value = 0 },
		func(b *services.Badges) { b.SiteMessages.Types[0].Count.Value = 0 },
		func(b *services.Badges) { b.Dots[0].Lit = true },
		func(b *services.Badges) { b.Quiet = true },
	}
	counts := func(b *services.Badges) (list []*services.Count) {
		for part := range b.Parts {
			list = append(list, part.Count)
		}
		return list
	}
	for i := range counts(state()) {
		changes = append(changes, func(b *services.Badges) { counts(b)[i].Value = 7 })
	}
	for i, change := range changes {
		changed := state()
		if change(changed); hashVisible(changed) == same {
			t.Errorf("change %d is not seen", i)
		}
	}
}
