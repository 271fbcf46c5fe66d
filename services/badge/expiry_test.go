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
	at            time.Time
	seen          bool
	mentions, own bool            // of messages: it mentions the reader; it is the reader's own
	post          services.PostID // the ID, for posts and site messages
}

// agingModel is a reader with the sources whose items a setting can let expire, and the items that the reader was sent, in plain lists.
// siteMessages are site messages, and news are announcements.
type agingModel struct {
	node
	reader, small, huge, host, friend services.UserID
	rooms                             [2]services.ConversationID // one counted when written, and one counted when read
	feed, siteMessages, news, shows   []sentItem
	roomMessages                      [2][]sentItem    // the messages of each room
	muted                             bool             // whether the reader has muted the first room
	last                              *services.Badges // at the last check; nil before the first
}

// longShow is how long a show stays live in these tests.
const longShow = 30 * day

// withExpiry sets the ages at which items leave the counts.
func withExpiry(ages services.SourceExpiry) func(*projector.Config) {
	return func(cfg *projector.Config) { cfg.Expiry = ages }
}

// newLongShowNode makes a node on which a show stays live for long without further reports.
func newLongShowNode(w *fanouttest.World) node {
	return newNodeWith(w, nil, live.ShowLimits{LateAfter: longShow, Longest: longShow})
}

// newAgingModel makes the model of a new reader, who has no items.
func newAgingModel(n node) *agingModel {
	m := &agingModel{node: n}
	m.reader, m.huge, m.small = m.newFollower()
	others := m.MakeUsers(2)
	m.host, m.friend = others[0], others[1]
	m.Follow(m.host, m.reader)
	m.rooms = [2]services.ConversationID{m.makeRoom(m.friend, m.reader), m.makeRoom(m.friend, m.reader, m.host)}
	m.settle()
	m.read(m.reader)
	return m
}

// isCounted reports whether an item still waits: it is unseen and not older than the oldest day that counts.
func (m *agingModel) isCounted(source services.Source, one sentItem) bool {
	today, days := services.DayOf(m.Clock.Now()), m.settings.Ages[source]
	return !one.seen && !one.own && (days == 0 || services.DayOf(one.at) >= today-int64(days))
}

// truth returns the counts that the model expects.
func (m *agingModel) truth() (feed, siteMessages, news, talk, mentions, live int) {
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
			if one.mentions && m.isCounted(services.SourceConversations, one) {
				mentions++
			}
		}
	}
	talk = number(services.SourceConversations, m.roomMessages[1])
	for _, one := range m.roomMessages[0] {
		if (!m.muted || one.mentions) && m.isCounted(services.SourceConversations, one) {
			talk++
		}
	}
	return number(services.SourceHomeFeed, m.feed), number(services.SourceSiteMessages, m.siteMessages), number(services.SourceAnnouncements, m.news), talk, mentions, number(services.SourceLiveBoard, m.shows)
}

// say sends a message to a room, with or without a mention of the reader.
func (m *agingModel) say(room int, author services.UserID, mention bool) {
	var mentioned []services.UserID
	if mention {
		mentioned = []services.UserID{m.reader}
	}
	id, err := services.ParseMessageID("id", m.do(m.chat.Send(author, m.rooms[room], "hello", mentioned))[0])
	m.Must(err)
	sent, err := m.chat.MessagesByID(m.TB.Context(), []services.MessageID{id})
	m.Must(err)
	if author == m.reader {
		markAll(m.roomMessages[room])
	}
	m.roomMessages[room] = append(m.roomMessages[room], sentItem{at: sent[id].SentAt, mentions: mention, own: author == m.reader})
}

// markAll marks items as seen.
func markAll(list []sentItem) {
	for i := range list {
		list[i].seen = true
	}
}

// steps are the possible events, each with its effect on the model.
func (m *agingModel) steps(random *rand.Rand) []func() {
	return append(m.arrivals(random), m.marks(random)...)
}

// arrivals are the steps in which new items come.
func (m *agingModel) arrivals(random *rand.Rand) []func() {
	room := random.IntN(2)
	post := func(author services.UserID) {
		id := m.Post(author)
		m.feed = append(m.feed, sentItem{at: id.Time(), post: id})
	}
	return []func(){
		func() { m.Clock.Advance(time.Duration(random.IntN(40)) * time.Hour) },
		func() { m.Clock.Advance(time.Duration(random.IntN(40)) * time.Hour) },
		func() { // the clock moves exactly to the boundary, or to the last moment before it
			boundary := services.DayStart(services.DayOf(m.Clock.Now()) + 1)
			m.Clock.Advance(boundary.Sub(m.Clock.Now()) - time.Duration(random.IntN(2))*time.Microsecond)
		},
		func() { post(m.small) },
		func() { post(m.huge) },
		func() {
			id := m.send(m.reader)
			m.siteMessages = append(m.siteMessages, sentItem{at: id.Time(), post: services.PostID(id)})
		},
		func() {
			id := m.announce(0)
			state, err := m.announcements.Memory.At(m.TB.Context(), m.Clock.Now())
			m.Must(err)
			// the position may be a microsecond ahead of the clock, and therefore on the next day
			for _, announced := range state.Announcements {
				if announced.ID == id {
					m.news = append(m.news, sentItem{at: time.UnixMicro(int64(announced.Position))})
				}
			}
		},
		func() { m.say(room, m.friend, random.IntN(3) == 0) },
		func() { m.say(room, m.friend, random.IntN(3) == 0) },
		func() { m.say(room, m.reader, false) },
		func() {
			show := livetest.Schedule(m.World, m.host, time.Minute)
			m.RunAllJobs(m.World.Fanout)
			livetest.Start(m.World, show)
			m.shows = append(m.shows, sentItem{at: m.Clock.Now()})
		},
	}
}

// marks are the steps in which the reader marks items seen, read or unread, mutes or unmutes the first room, or is rebuilt.
func (m *agingModel) marks(random *rand.Rand) []func() {
	room := random.IntN(2)
	return []func(){
		func() {
			if len(m.feed) > 0 {
				upTo := random.IntN(len(m.feed))
				m.node.markFeedSeen(m.reader, m.feed[upTo].post)
				markAll(m.feed[:upTo+1])
			}
		},
		func() {
			if len(m.siteMessages) == 0 {
				return
			}
			one := &m.siteMessages[random.IntN(len(m.siteMessages))]
			one.seen = !one.seen
			ids := []messages.ID{messages.ID(one.post)}
			if one.seen {
				m.must(m.node.messages.MarkRead(m.reader, messages.Mark{IDs: ids}))
			} else {
				m.must(m.node.messages.MarkUnread(m.reader, ids))
			}
		},
		func() {
			if list := m.roomMessages[room]; len(list) > 0 {
				upTo := 1 + random.IntN(len(list))
				m.do(m.chat.MarkRead(m.reader, m.rooms[room], chat.Mark{UpTo: services.NewMessageID(m.rooms[room], int64(upTo))}))
				markAll(list[:upTo])
			}
		},
		func() { // the message that is marked unread and all later ones are unread again, even if they had become too old
			if list := m.roomMessages[room]; len(list) > 0 {
				from := 1 + random.IntN(len(list))
				m.do(m.chat.MarkUnread(m.reader, services.NewMessageID(m.rooms[room], int64(from))), nil)
				for i := from - 1; i < len(list); i++ {
					list[i].seen = false
				}
			}
		},
		func() {
			m.muted = !m.muted
			m.do(m.chat.Mute(m.reader, m.rooms[0], m.muted), nil)
		},
		func() {
			m.settle()
			m.markBoardSeen(m.reader)
			markAll(m.shows)
		},
		func() { m.Must(m.World.Projector.Rebuild(m.TB.Context(), m.reader)) },
	}
}

// check compares every count with the model, for every way of counting.
func (m *agingModel) check(what string) {
	t, ctx := m.TB, m.TB.Context()
	t.Helper()
	m.settle()
	m.Must(m.announcements.Memory.Refresh(ctx))
	feed, letters, news, talk, mentions, live := m.truth()
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
	if m.last != nil && (badges.Version < m.last.Version || badges.Version == m.last.Version && numbers(badges) != numbers(m.last)) {
		t.Fatalf("%s: version %s after %s", what, badges.Version, m.last.Version)
	}
	m.last = badges
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
	m.checkNextAt(what, badges, want)
}

// checkNextAt checks that NextAt, when subscribers are notified, is not after the next change of a count by time alone.
func (m *agingModel) checkNextAt(what string, badges *services.Badges, shown string) {
	m.TB.Helper()
	now := m.Clock.Now()
	defer func() { m.Clock.Advance(now.Sub(m.Clock.Now())) }()
	for today := services.DayOf(now) + 1; today < services.DayOf(now)+10; today++ {
		m.Clock.Advance(services.DayStart(today).Sub(m.Clock.Now()))
		feed, letters, news, talk, mentions, live := m.truth()
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
	fanouttest.EachWith(t, fanouttest.Options{Projector: withExpiry(ages)}, func(t *testing.T, w *fanouttest.World) {
		n := newLongShowNode(w)
		for seed := range uint64(6) {
			random := rand.New(rand.NewPCG(seed, 1))
			m := newAgingModel(n.restarted())
			for i := range 60 {
				steps := m.steps(random)
				step := random.IntN(len(steps))
				steps[step]()
				m.check(fmt.Sprintf("seed %d, step %d (%d)", seed, i, step))
				if i%10 == 9 {
					_, err := m.WriteVisits(t.Context())
					m.Must(err)
					m.Clock.Advance(time.Duration(random.IntN(2)) * day) // no read happens between this and the recount
					differed, err := m.World.Projector.Recount(t.Context(), m.reader)
					m.Must(err)
					if len(differed) > 0 {
						t.Fatalf("seed %d, step %d: the audit finds %v", seed, i, differed)
					}
					m.check(fmt.Sprintf("seed %d, step %d, counted anew", seed, i))
				}
			}
		}
	})
}

// Without a setting no item leaves a count, however old it is.
func TestNothingExpiresByDefault(t *testing.T) {
	fanouttest.EachWith(t, fanouttest.Options{Projector: withExpiry(nil)}, func(t *testing.T, w *fanouttest.World) {
		m := newAgingModel(newLongShowNode(w))
		random := rand.New(rand.NewPCG(1, 2))
		for i := range 30 {
			steps := m.steps(random)
			steps[random.IntN(len(steps))]()
			m.check(fmt.Sprintf("step %d", i))
		}
	})
}

// Badges are read in one round trip, whatever the settings: only the first read of a day may need more, to take out items that are
// too old.
func TestAgedBadgesAreOneRoundTrip(t *testing.T) {
	ages := services.SourceExpiry{services.SourceHomeFeed: 2, services.SourceSiteMessages: 2, services.SourceConversations: 2}
	m := newAgingModel(newLongShowNode(fanouttest.New(t, fanouttest.Options{Projector: withExpiry(ages)})))
	for _, step := range []func(){func() {}, func() { m.Clock.Advance(day) }, func() { m.Clock.Advance(day) }, func() { m.Clock.Advance(day) }} {
		step()
		m.Post(m.small)
		m.say(0, m.friend, false)
		m.say(1, m.friend, false)
		m.settle()
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
func TestMessagesLeaveTheCountOneByOne(t *testing.T) {
	ages := services.SourceExpiry{services.SourceConversations: 2}
	m := newAgingModel(newLongShowNode(fanouttest.New(t, fanouttest.Options{Projector: withExpiry(ages)})))
	for i, room := range []int{0, 0, 1} {
		m.say(room, m.friend, i == 1)
		m.check("said")
		m.Clock.Advance(day)
	}
	for range 4 {
		m.check("a day later")
		m.Clock.Advance(day)
	}
}
