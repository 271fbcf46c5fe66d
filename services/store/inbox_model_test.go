package store_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/store"
)

// inboxModel is one person's notifications by the plainest means.
type inboxModel struct {
	likes   map[store.Cause]time.Time // that stand
	deleted map[services.PostID]bool
	known   map[store.Cause]*known
	state   store.NotificationState
}

type known struct {
	place    services.PostID
	group    string
	day      int64
	standing bool
}

func (m *inboxModel) apply(now time.Time, causes []store.Cause) {
	var named []store.Cause
	for _, cause := range causes {
		for other := range m.likes {
			if other.Subject == cause.Subject && (cause.Actor == 0 || cause.Actor == other.Actor) {
				named = append(named, other)
			}
		}
		for other := range m.known {
			if other.Subject == cause.Subject && (cause.Actor == 0 || cause.Actor == other.Actor) {
				named = append(named, other)
			}
		}
	}
	slices.SortFunc(named, func(a, b store.Cause) int {
		return cmp.Or(m.likes[a].Compare(m.likes[b]), cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Actor, b.Actor))
	})
	changed := false
	for _, cause := range named {
		at, stands := m.likes[cause]
		stands = stands && !m.deleted[cause.Subject]
		if m.known[cause] == nil && stands {
			m.state.Head = max(m.state.Head+1, services.PostIDAt(now))
			m.known[cause] = &known{place: m.state.Head, day: at.Unix() / 86400,
				group: fmt.Sprint(cause.Subject, at.Unix()/86400, at.UTC().Hour()/12)}
		}
		if k := m.known[cause]; k != nil && k.standing != stands {
			k.standing, changed = stands, true
		}
	}
	if changed {
		m.state.Version++
	}
}

func (m *inboxModel) see(upTo services.PostID) {
	if upTo == 0 {
		upTo = m.state.Head
	}
	if upTo > m.state.Seen {
		m.state.Seen = upTo
		m.state.Version++
	}
}

func (m *inboxModel) read(now time.Time) store.NotificationState {
	state := m.state
	state.Day, state.Days, state.Older = now.Unix()/86400, [8]int{}, 0
	groups := map[string]bool{}
	for _, k := range m.known {
		if !k.standing || k.place <= state.Seen || groups[k.group] {
			continue
		}
		groups[k.group] = true
		if ago := state.Day - k.day; ago < 8 {
			state.Days[ago]++
		} else {
			state.Older++
		}
	}
	return state
}

// TestNotificationsAgainstModel likes, unlikes and deletes at random, lets the causes come late, doubled and in any
// order, and compares after each of them. In the end, when everything has come, what stands is what the facts say.
func TestNotificationsAgainstModel(t *testing.T) {
	each(t, func(b *bundle) {
		history := services.UserNumber(0)
		rapid.Check(b.t, func(t *rapid.T) {
			history++
			recipient := history * 100
			m := &inboxModel{likes: map[store.Cause]time.Time{}, deleted: map[services.PostID]bool{}, known: map[store.Cause]*known{},
				state: store.NotificationState{Recipient: recipient, Category: like}}
			posts := []services.PostID{services.PostID(recipient) + 1, services.PostID(recipient) + 2}
			b.post(recipient, posts...)
			var late []store.Cause
			draw := func() store.Cause {
				return store.Cause{Recipient: recipient, Category: like, Subject: rapid.SampledFrom(posts).Draw(t, "post"),
					Actor: recipient + services.UserNumber(rapid.IntRange(1, 2).Draw(t, "actor"))}
			}
			deliver := func(causes ...store.Cause) {
				m.apply(b.clock.Now(), causes)
				equal(t, b.apply(causes...), []store.NotificationState{m.read(b.clock.Now())})
			}
			for _, step := range rapid.SliceOfN(rapid.IntRange(0, 15), 1, 40).Draw(t, "steps") {
				cause := draw()
				switch {
				case step <= 4:
					b.like(cause.Subject, cause.Actor)
					if _, stands := m.likes[cause]; !stands {
						m.likes[cause] = b.clock.Now()
					}
				case step <= 6:
					b.unlike(cause.Subject, cause.Actor)
					delete(m.likes, cause)
				case step == 7:
					b.remove(cause.Subject)
					m.deleted[cause.Subject] = true
					cause.Actor = 0
				case step == 8:
					b.clock.advance(time.Duration(rapid.IntRange(0, 100).Draw(t, "hours")) * time.Hour)
				case step == 9:
					upTo := m.state.Head - min(m.state.Head, services.PostID(rapid.IntRange(0, 3).Draw(t, "back")))
					m.see(upTo)
					b.write(func(tx *store.Tx) error {
						_, err := tx.RaiseNotificationsSeen(b.ctx, recipient, like, upTo)
						return err
					})
				default:
					if len(late) > 0 {
						deliver(rapid.SliceOfN(rapid.SampledFrom(late), 1, 4).Draw(t, "delivered")...)
					}
				}
				late = append(late, cause)
			}
			deliver(rapid.Permutation(late).Draw(t, "in the end")...)
			for cause := range m.likes {
				if k := m.known[cause]; (k != nil && k.standing) == m.deleted[cause.Subject] {
					t.Fatalf("the like %v is known as %+v", cause, k)
				}
			}
			equal(t, must(b.NotificationStates(b.ctx, recipient))(t), []store.NotificationState{m.read(b.clock.Now())})
		})
	})
}
