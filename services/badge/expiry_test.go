package badge

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/chat"
	"tidings/services/fanout/fanouttest"
	"tidings/services/live"
	"tidings/services/live/livetest"
	"tidings/services/messages"
	"tidings/services/projector"
	"tidings/services/redis"
)

// sentItem is one item that a reader may not have seen. The model of expiry is a list of such items for each count.
type sentItem struct {
	sentAt                time.Time
	seen                  bool
	mentionsReader, isOwn bool                // of messages: it mentions the reader; it is the reader's own
	itemID                services.SortableID // the ID, for posts and site messages
}

// expiryModel is a reader with the sources whose items a setting can let expire, and the items that the reader was sent, in plain
// lists.
type expiryModel struct {
	node
	reader, smallAuthor, hugeAuthor, host, friend services.UserID            // friend makes the rooms and writes in them
	rooms                                         [2]services.ConversationID // the first is counted on write, the second on read
	feed, siteMessages, announcementItems, shows  []sentItem                 // what the reader was sent
	roomMessages                                  [2][]sentItem              // the messages of each room
	firstRoomMuted                                bool                       // whether the reader has muted the first room
	lastBadges                                    *services.Badges           // at the last check; nil before the first
}

// longShowDuration is how long a show stays live in these tests.
const longShowDuration = 30 * day

// withExpiry sets the ages at which items leave the counts.
func withExpiry(ages services.SourceExpiry) func(*projector.Config) {
	return func(cfg *projector.Config) { cfg.Expiry = ages }
}

// newLongShowNode makes a node on which a show stays live for long without further reports.
func newLongShowNode(w *fanouttest.World) node {
	return newNodeWith(w, nil, live.ShowLimits{CloseUnstartedAfter: longShowDuration, CloseLiveAfter: longShowDuration})
}

// newExpiryModel makes the model of a new reader, who has no items.
func newExpiryModel(n node) *expiryModel {
	m := &expiryModel{node: n}
	m.reader, m.hugeAuthor, m.smallAuthor = m.MakeReader()
	others := m.MakeUsers(2)
	m.host, m.friend = others[0], others[1]
	m.Follow(m.host, m.reader)
	m.rooms = [2]services.ConversationID{m.makeRoom(m.friend, m.reader), m.makeRoom(m.friend, m.reader, m.host)}
	m.RunJobsAndReadLog()
	m.read(m.reader)
	return m
}

// isCounted reports whether an item still waits: it is unseen and not older than the oldest day that counts.
func (m *expiryModel) isCounted(source services.Source, one sentItem) bool {
	today, days := services.DayOf(m.Clock.Now()), m.settings.Expiry[source]
	return !one.seen && !one.isOwn && (days == 0 || services.DayOf(one.sentAt) >= today-int64(days))
}

// expectedCounts returns the counts that the model expects.
func (m *expiryModel) expectedCounts() (feed, siteMessages, news, talk, mentions, live int) {
	number := func(source services.Source, list []sentItem) (n int) {
		for _, one := range list {
			if m.isCounted(source, one) {
				n++
			}
		}
		return n
	}
	for _, list := range m.roomMessages {
		for _, one := range list {
			if one.mentionsReader && m.isCounted(services.SourceConversations, one) {
				mentions++
			}
		}
	}
	talk = number(services.SourceConversations, m.roomMessages[1])
	for _, one := range m.roomMessages[0] {
		if (!m.firstRoomMuted || one.mentionsReader) && m.isCounted(services.SourceConversations, one) {
			talk++
		}
	}
	return number(services.SourceHomeFeed, m.feed), number(services.SourceSiteMessages, m.siteMessages), number(services.SourceAnnouncements, m.announcementItems), talk, mentions, number(services.SourceLiveBoard, m.shows)
}

// sendRoomMessage sends a message to a room, with or without a mention of the reader.
func (m *expiryModel) sendRoomMessage(room int, author services.UserID, mention bool) {
	var mentioned []services.UserID
	if mention {
		mentioned = []services.UserID{m.reader}
	}
	id, err := services.ParseMessageID("id", m.commitForIDs(m.chat.Send(author, m.rooms[room], "hello", mentioned))[0])
	m.Must(err)
	sent, err := m.chat.MessagesByID(m.TB.Context(), []services.MessageID{id})
	m.Must(err)
	if author == m.reader {
		markAllSeen(m.roomMessages[room])
	}
	m.roomMessages[room] = append(m.roomMessages[room], sentItem{sentAt: sent[id].SentAt, mentionsReader: mention, isOwn: author == m.reader})
}

// markAllSeen marks items as seen.
func markAllSeen(list []sentItem) {
	for i := range list {
		list[i].seen = true
	}
}

// steps are the possible events, each with its effect on the model.
func (m *expiryModel) steps(random *rand.Rand) []func() {
	return append(m.arrivalSteps(random), m.markSteps(random)...)
}

// arrivalSteps are the steps in which new items come.
func (m *expiryModel) arrivalSteps(random *rand.Rand) []func() {
	room := random.IntN(2)
	post := func(author services.UserID) {
		id := m.Post(author)
		m.feed = append(m.feed, sentItem{sentAt: id.Time(), itemID: services.SortableID(id)})
	}
	return []func(){
		func() { m.Clock.Advance(time.Duration(random.IntN(40)) * time.Hour) },
		func() { m.Clock.Advance(time.Duration(random.IntN(40)) * time.Hour) },
		func() { // the clock moves exactly to the next midnight (UTC), or to the last microsecond before it
			boundary := services.DayStart(services.DayOf(m.Clock.Now()) + 1)
			m.Clock.Advance(boundary.Sub(m.Clock.Now()) - time.Duration(random.IntN(2))*time.Microsecond)
		},
		func() { post(m.smallAuthor) },
		func() { post(m.hugeAuthor) },
		func() {
			id := m.sendSiteMessage(m.reader)
			m.siteMessages = append(m.siteMessages, sentItem{sentAt: id.Time(), itemID: services.SortableID(id)})
		},
		func() {
			id := m.announce(0)
			state, err := m.announcements.Memory.At(m.TB.Context(), m.Clock.Now())
			m.Must(err)
			// the position may be a microsecond ahead of the clock, and therefore on the next day
			for _, announced := range state.Announcements {
				if announced.ID == id {
					m.announcementItems = append(m.announcementItems, sentItem{sentAt: time.UnixMicro(int64(announced.Position))})
				}
			}
		},
		func() { m.sendRoomMessage(room, m.friend, random.IntN(3) == 0) },
		func() { m.sendRoomMessage(room, m.friend, random.IntN(3) == 0) },
		func() { m.sendRoomMessage(room, m.reader, false) },
		func() {
			show := livetest.ScheduleShow(m.World, m.host, time.Minute)
			m.RunAllJobs(m.World.Fanout)
			livetest.StartShows(m.World, show)
			m.shows = append(m.shows, sentItem{sentAt: m.Clock.Now()})
		},
	}
}

// markSteps are the steps in which the reader marks items seen, read or unread, mutes or unmutes the first room, or is rebuilt.
func (m *expiryModel) markSteps(random *rand.Rand) []func() {
	room := random.IntN(2)
	return []func(){
		func() {
			if len(m.feed) > 0 {
				upTo := random.IntN(len(m.feed))
				m.node.markFeedSeen(m.reader, services.PostID(m.feed[upTo].itemID))
				markAllSeen(m.feed[:upTo+1])
			}
		},
		func() {
			if len(m.siteMessages) == 0 {
				return
			}
			one := &m.siteMessages[random.IntN(len(m.siteMessages))]
			one.seen = !one.seen
			ids := []messages.ID{messages.ID(one.itemID)}
			if one.seen {
				m.mustCommit(m.node.messages.MarkRead(m.reader, messages.MarkReadRequest{IDs: ids}))
			} else {
				m.mustCommit(m.node.messages.MarkUnread(m.reader, ids))
			}
		},
		func() {
			if list := m.roomMessages[room]; len(list) > 0 {
				upTo := 1 + random.IntN(len(list))
				m.commitForIDs(m.chat.MarkRead(m.reader, m.rooms[room], chat.ReadMark{UpTo: services.NewMessageID(m.rooms[room], int64(upTo))}))
				markAllSeen(list[:upTo])
			}
		},
		func() { // the message that is marked unread and all later ones are unread again, even if they had become too old
			if list := m.roomMessages[room]; len(list) > 0 {
				from := 1 + random.IntN(len(list))
				m.commitForIDs(m.chat.MarkUnread(m.reader, services.NewMessageID(m.rooms[room], int64(from))), nil)
				for i := from - 1; i < len(list); i++ {
					list[i].seen = false
				}
			}
		},
		func() {
			m.firstRoomMuted = !m.firstRoomMuted
			m.commitForIDs(m.chat.Mute(m.reader, m.rooms[0], m.firstRoomMuted), nil)
		},
		func() {
			m.RunJobsAndReadLog()
			m.markBoardSeen(m.reader)
			markAllSeen(m.shows)
		},
		func() { m.Must(m.World.Projector.Rebuild(m.TB.Context(), m.reader)) },
	}
}

// checkCounts compares every count with the model: in the badges from Redis, in those counted in SQL, and in the explanations.
func (m *expiryModel) checkCounts(what string) {
	t, ctx := m.TB, m.TB.Context()
	t.Helper()
	m.RunJobsAndReadLog()
	m.Must(m.announcements.Memory.Refresh(ctx))
	feed, letters, news, talk, mentions, live := m.expectedCounts()
	want := fmt.Sprint([]int{feed, letters, news, talk, mentions, live, feed + letters + news + talk + live})
	numbers := func(b *services.Badges) string {
		return fmt.Sprint([]int{b.HomeFeed.Value, b.SiteMessages.Total.Value, b.Announcements.Value, b.Conversations.Total.Value, b.Conversations.Mentions.Value, b.LiveBoard.Value, b.Total.Value})
	}
	badges := m.read(m.reader)
	if got := numbers(badges); got != want {
		t.Fatalf("%s: the badges are %s, want %s", what, got, want)
	}
	if badges.Total.Precision != services.Exact {
		t.Fatalf("%s: the total is %+v", what, badges.Total)
	}
	if m.lastBadges != nil && (badges.Version < m.lastBadges.Version || badges.Version == m.lastBadges.Version && numbers(badges) != numbers(m.lastBadges)) {
		t.Fatalf("%s: version %s after %s", what, badges.Version, m.lastBadges.Version)
	}
	m.lastBadges = badges
	facts, err := m.ReadFacts(ctx, m.reader)
	m.Must(err)
	if got := numbers(facts); got != want {
		t.Fatalf("%s: the facts are %s, want %s", what, got, want)
	}
	explained, err := m.Explain(ctx, m.reader)
	m.Must(err)
	for _, one := range explained {
		items := 0
		for _, item := range one.Items {
			items += item.Count
		}
		if items != one.Count.Value {
			t.Fatalf("%s: %d items are behind %s, %+v", what, items, one.Source, one.Count)
		}
	}
	m.checkNextChangeTime(what, badges, want)
}

// checkNextChangeTime checks that NextAt, when subscribers are notified, is not after the next change of a count by time alone.
func (m *expiryModel) checkNextChangeTime(what string, badges *services.Badges, shown string) {
	m.TB.Helper()
	now := m.Clock.Now()
	defer func() { m.Clock.Advance(now.Sub(m.Clock.Now())) }()
	for today := services.DayOf(now) + 1; today < services.DayOf(now)+10; today++ {
		m.Clock.Advance(services.DayStart(today).Sub(m.Clock.Now()))
		feed, letters, news, talk, mentions, live := m.expectedCounts()
		if fmt.Sprint([]int{feed, letters, news, talk, mentions, live, feed + letters + news + talk + live}) == shown {
			continue
		}
		if badges.NextAt.IsZero() || badges.NextAt.After(m.Clock.Now()) {
			m.TB.Fatalf("%s: the badges change at %s, and say %s", what, m.Clock.Now(), badges.NextAt)
		}
		return
	}
}

// Every item leaves its count when it is older than its source allows. Parts, total, mentions, the counts of SQL without Redis
// and the explanations agree at every moment, whatever was read or marked unread; the audit finds nothing wrong.
func TestItemsLeaveEveryCountByAge(t *testing.T) {
	ages := services.SourceExpiry{
		services.SourceHomeFeed: 2, services.SourceSiteMessages: 3, services.SourceAnnouncements: 1, services.SourceConversations: 2, services.SourceLiveBoard: 1,
	}
	fanouttest.EachEnginePairWith(t, fanouttest.Options{Projector: withExpiry(ages)}, func(t *testing.T, w *fanouttest.World) {
		n := newLongShowNode(w)
		for seed := range uint64(6) {
			random := rand.New(rand.NewPCG(seed, 1))
			m := newExpiryModel(n.restarted())
			for i := range 60 {
				steps := m.steps(random)
				step := random.IntN(len(steps))
				steps[step]()
				m.checkCounts(fmt.Sprintf("seed %d, step %d (%d)", seed, i, step))
				if i%10 == 9 {
					_, err := m.WriteVisits(t.Context())
					m.Must(err)
					m.Clock.Advance(time.Duration(random.IntN(2)) * day) // no read happens between this and the recount
					differed, err := m.World.Projector.Recount(t.Context(), m.reader)
					m.Must(err)
					if len(differed) > 0 {
						t.Fatalf("seed %d, step %d: the audit finds %v", seed, i, differed)
					}
					m.checkCounts(fmt.Sprintf("seed %d, step %d, counted anew", seed, i))
				}
			}
		}
	})
}

// Without a setting no item leaves a count, however old it is.
func TestNothingExpiresByDefault(t *testing.T) {
	fanouttest.EachEnginePairWith(t, fanouttest.Options{Projector: withExpiry(nil)}, func(t *testing.T, w *fanouttest.World) {
		m := newExpiryModel(newLongShowNode(w))
		random := rand.New(rand.NewPCG(1, 2))
		for i := range 30 {
			steps := m.steps(random)
			steps[random.IntN(len(steps))]()
			m.checkCounts(fmt.Sprintf("step %d", i))
		}
	})
}

// Badges are read in one round trip, whatever the settings: only the first read of a day may need more, to take out items that are
// too old.
func TestAgedBadgesAreOneRoundTrip(t *testing.T) {
	ages := services.SourceExpiry{services.SourceHomeFeed: 2, services.SourceSiteMessages: 2, services.SourceConversations: 2}
	m := newExpiryModel(newLongShowNode(fanouttest.New(t, fanouttest.Options{Projector: withExpiry(ages)})))
	for _, step := range []func(){func() {}, func() { m.Clock.Advance(day) }, func() { m.Clock.Advance(day) }, func() { m.Clock.Advance(day) }} {
		step()
		m.Post(m.smallAuthor)
		m.sendRoomMessage(0, m.friend, false)
		m.sendRoomMessage(1, m.friend, false)
		m.RunJobsAndReadLog()
		m.read(m.reader)
		ctx, trips := redis.WithRoundTrips(t.Context())
		badges, err := m.Read(ctx, m.reader)
		m.Must(err)
		if trips.Count() != 1 || badges.HomeFeed.Value == 0 || badges.Conversations.Total.Value == 0 {
			t.Errorf("%d round trips for %+v", trips.Count(), badges)
		}
	}
}

// Once a message has left the count, the next one to leave is found among all conversations.
func TestMessagesOfAllConversationsExpireOneByOne(t *testing.T) {
	ages := services.SourceExpiry{services.SourceConversations: 2}
	m := newExpiryModel(newLongShowNode(fanouttest.New(t, fanouttest.Options{Projector: withExpiry(ages)})))
	for i, room := range []int{0, 0, 1} {
		m.sendRoomMessage(room, m.friend, i == 1)
		m.checkCounts("said")
		m.Clock.Advance(day)
	}
	for range 4 {
		m.checkCounts("a day later")
		m.Clock.Advance(day)
	}
}
