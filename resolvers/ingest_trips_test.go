package resolvers

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
)

// madeIDs has the IDs of the objects that the events of a test have made, by the name of the kind of event.
type madeIDs map[string][]string

// pick returns the i-th ID of a kind, and begins anew after the last. If there is none, it returns an ID that no post has.
func (t madeIDs) pick(kind string, i int) string {
	if ids := t[kind]; len(ids) > 0 {
		return ids[i%len(ids)]
	}
	return "post:0000000000001"
}

// kindOfEvent is a kind of event: make makes its i-th event.
type kindOfEvent struct {
	name string
	make func(t madeIDs, i int) event
}

// withActor adds an actor to the fields of an event: the i-th of the people.
func withActor(people, i int, more event) event {
	more["as"] = fmt.Sprint("user:u", i%people)
	return more
}

// eventKinds returns the kinds of events, in such an order that each finds the objects that it needs: those that delete or end something
// (endingKinds) come late. people is the number of users who act.
func eventKinds(people int, now time.Time) []kindOfEvent {
	m := kindMaker{people, now}
	return slices.Concat(m.postKinds(), m.conversationKinds(), m.showKinds(), m.announcementKinds(), m.endingKinds(), m.editKinds())
}

// kindMaker makes kinds of events for a number of people. simpleKind makes one with an actor, plainKind one without other fields, userKind one
// about another user, objectKind one about an earlier object, and hostKind one without an actor. other returns a user who is not the actor.
type kindMaker struct {
	people int
	now    time.Time
}

func (m kindMaker) other(i int) string { return fmt.Sprint("user:u", (i+1+i/m.people)%m.people) }

func (m kindMaker) simpleKind(name string, more func(t madeIDs, i int) event) kindOfEvent {
	return kindOfEvent{name, func(t madeIDs, i int) event { return event{name: withActor(m.people, i, more(t, i))} }}
}

func (m kindMaker) objectKind(name, field, kind string) kindOfEvent {
	return m.simpleKind(name, func(t madeIDs, i int) event { return event{field: t.pick(kind, i)} })
}

func (m kindMaker) userKind(name string) kindOfEvent {
	return m.simpleKind(name, func(_ madeIDs, i int) event { return event{"userId": m.other(i)} })
}

func (m kindMaker) hostKind(name string, more func(t madeIDs, i int) event) kindOfEvent {
	return kindOfEvent{name, func(t madeIDs, i int) event { return event{name: more(t, i)} }}
}

func (m kindMaker) plainKind(name string) kindOfEvent {
	return m.simpleKind(name, func(madeIDs, int) event { return event{} })
}

func (m kindMaker) postKinds() []kindOfEvent {
	return []kindOfEvent{
		m.simpleKind("publishPost", func(t madeIDs, i int) event {
			post := event{"body": fmt.Sprint("hello ", i), "key": fmt.Sprint("k", i/2), "mentions": []string{m.other(i)}}
			if i%3 == 0 && len(t["publishPost"]) > 0 {
				post["parentId"] = t.pick("publishPost", i)
			}
			return post
		}),
		m.userKind("follow"), m.simpleKind("setFollowMode", func(_ madeIDs, i int) event {
			return event{"userId": m.other(i), "mode": []string{"LIVE_ONLY", "NONE", "ALL"}[i%3]}
		}), m.userKind("mute"), m.userKind("unmute"), m.userKind("hideFrom"), m.userKind("unhideFrom"),
		m.objectKind("likePost", "postId", "publishPost"), m.objectKind("unlikePost", "postId", "publishPost"),
		m.simpleKind("editPost", func(t madeIDs, i int) event {
			return event{"postId": t.pick("publishPost", i), "body": fmt.Sprint("mended ", i), "mentions": []string{m.other(i)}}
		}),
		m.simpleKind("setProfile", func(_ madeIDs, i int) event { return event{"name": fmt.Sprint("N", i)} }),
		m.plainKind("markHomeFeedSeen"), m.plainKind("markNotificationsSeen"), m.plainKind("markAllRead"), m.plainKind("undoMarkAllRead"),
		m.simpleKind("markNotificationsRead", func(madeIDs, int) event { return event{"all": true} }),
	}
}

func (m kindMaker) conversationKinds() []kindOfEvent {
	return []kindOfEvent{
		m.simpleKind("createConversation", func(_ madeIDs, i int) event {
			kind := []string{"DIRECT", "GROUP", "ROOM"}[i%3]
			return event{"kind": kind, "memberIds": []string{m.other(i)}}
		}),
		m.simpleKind("sendMessage", func(t madeIDs, i int) event {
			return event{"conversationId": t.pick("createConversation", i), "body": "hello", "mentionIds": []string{m.other(i)}}
		}),
		m.objectKind("joinConversation", "conversationId", "createConversation"),
		m.simpleKind("addMembers", func(t madeIDs, i int) event {
			return event{"conversationId": t.pick("createConversation", i), "userIds": []string{m.other(i + 1)}}
		}),
		m.objectKind("enterConversation", "conversationId", "createConversation"), m.objectKind("leaveConversation", "conversationId", "createConversation"),
		m.objectKind("markConversationRead", "conversationId", "createConversation"), m.objectKind("markConversationUnread", "fromMessageId", "sendMessage"),
		m.simpleKind("muteConversation", func(t madeIDs, i int) event {
			return event{"conversationId": t.pick("createConversation", i)}
		}),
		m.objectKind("recallMessage", "messageId", "sendMessage"),
		m.simpleKind("removeMembers", func(t madeIDs, i int) event {
			return event{"conversationId": t.pick("createConversation", i), "userIds": []string{m.other(i)}}
		}),
		m.objectKind("quitConversation", "conversationId", "createConversation"),
	}
}

func (m kindMaker) showKinds() []kindOfEvent {
	return []kindOfEvent{
		m.simpleKind("scheduleShow", func(_ madeIDs, i int) event {
			return event{"title": "show", "plannedAt": m.now.Add(time.Duration(i+60) * time.Minute).Format(time.RFC3339)}
		}),
		m.objectKind("remindMe", "showId", "scheduleShow"),
		m.simpleKind("rescheduleShow", func(t madeIDs, i int) event { return event{"showId": t.pick("scheduleShow", i), "title": "another"} }),
		m.objectKind("startShow", "showId", "scheduleShow"), m.objectKind("endShow", "showId", "scheduleShow"),
		m.simpleKind("setReplay", func(t madeIDs, i int) event {
			return event{"showId": t.pick("scheduleShow", i), "replayUrl": "https://example.com/r"}
		}),
		m.objectKind("cancelShow", "showId", "scheduleShow"), m.plainKind("markLiveBoardSeen"),
	}
}

func (m kindMaker) announcementKinds() []kindOfEvent {
	return []kindOfEvent{
		m.hostKind("sendSiteMessage", func(_ madeIDs, i int) event {
			return event{"title": "t", "content": "c", "to": []string{m.other(i), m.other(i + 1)}}
		}),
		m.hostKind("editSiteMessage", func(t madeIDs, i int) event {
			return event{"siteMessageId": t.pick("sendSiteMessage", i), "title": fmt.Sprint("t", i)}
		}),
		m.simpleKind("markSiteMessagesRead", func(madeIDs, int) event { return event{"all": true} }),
		m.simpleKind("markSiteMessagesUnread", func(t madeIDs, i int) event { return event{"ids": []string{t.pick("sendSiteMessage", i)}} }),
		m.hostKind("publishAnnouncement", func(_ madeIDs, i int) event { return event{"title": fmt.Sprint("a", i), "content": "c"} }),
		m.hostKind("editAnnouncement", func(t madeIDs, i int) event {
			return event{"announcementId": t.pick("publishAnnouncement", i), "title": fmt.Sprint("b", i)}
		}),
		m.plainKind("markAnnouncementsRead"),
		m.hostKind("withdrawAnnouncement", func(t madeIDs, i int) event { return event{"announcementId": t.pick("publishAnnouncement", i)} }),
		m.hostKind("raiseDot", func(_ madeIDs, i int) event { return event{"name": fmt.Sprint("dot", i%3)} }),
		m.simpleKind("clearDot", func(_ madeIDs, i int) event { return event{"name": fmt.Sprint("dot", i%3)} }),
		m.hostKind("setSegments", func(_ madeIDs, i int) event {
			return event{"userId": m.other(i), "segments": []string{fmt.Sprint("s", i%3)}}
		}),
		m.simpleKind("setGroupPolicy", func(_ madeIDs, i int) event {
			return event{"policy": []string{"EVERYONE", "WHO_I_FOLLOW", "NOBODY"}[i%3]}
		}),
		m.simpleKind("setDisplayPolicy", func(madeIDs, int) event { return event{"sources": []event{{"source": "HOME_FEED", "style": "DOT"}}} }),
		m.simpleKind("setCategoryPreference", func(_ madeIDs, i int) event {
			return event{"category": "LIKE", "mode": []string{"DOT", "OFF"}[i%2]}
		}),
		m.hostKind("addViewItem", func(_ madeIDs, i int) event {
			return event{"code": "orders", "view": "o1", "item": fmt.Sprint(i), "at": m.now.Format(time.RFC3339)}
		}),
		m.simpleKind("touchView", func(madeIDs, int) event { return event{"code": "orders", "view": "o1"} }),
		m.hostKind("removeViewItem", func(_ madeIDs, i int) event { return event{"code": "orders", "view": "o1", "item": fmt.Sprint(i)} }),
	}
}

// editKinds returns kinds that edit one field each, of objects whose rows are read and written as a whole.
func (m kindMaker) editKinds() (edits []kindOfEvent) {
	for _, field := range []string{"title", "content"} {
		edits = append(edits,
			m.hostKind("editSiteMessage", func(t madeIDs, i int) event {
				return event{"siteMessageId": t.pick("sendSiteMessage", i), field: fmt.Sprint(field, i)}
			}),
			m.hostKind("editAnnouncement", func(t madeIDs, i int) event {
				return event{"announcementId": t.pick("publishAnnouncement", i), field: fmt.Sprint(field, i)}
			}))
	}
	return edits
}

func (m kindMaker) endingKinds() []kindOfEvent {
	return []kindOfEvent{
		m.objectKind("deletePost", "postId", "publishPost"), m.userKind("block"), m.userKind("unblock"), m.userKind("unfollow"),
	}
}

// newcomerKinds returns kinds whose input names users who do not exist yet, each time other ones. They need the host application's category
// promo.
func (m kindMaker) newcomerKinds() []kindOfEvent {
	newcomer := func(field string, i int) string { return fmt.Sprint("user:", field, i) }
	return []kindOfEvent{
		{"a post", func(_ madeIDs, i int) event {
			return event{"publishPost": withActor(m.people, i, event{"body": fmt.Sprint("hello ", i), "mentions": []string{newcomer("mentioned", i)}})}
		}},
		m.simpleKind("editPost", func(t madeIDs, i int) event {
			return event{"postId": t.pick("a post", i), "body": fmt.Sprint("mended ", i), "mentions": []string{newcomer("mentionedLater", i)}}
		}),
		m.simpleKind("follow", func(_ madeIDs, i int) event { return event{"userId": newcomer("followed", i)} }),
		m.simpleKind("createConversation", func(_ madeIDs, i int) event {
			return event{"kind": "DIRECT", "memberIds": []string{newcomer("member", i)}}
		}),
		m.hostKind("sendSiteMessage", func(_ madeIDs, i int) event {
			return event{"title": "t", "content": "c", "to": []string{newcomer("recipient", i), newcomer("another", i)}}
		}),
		m.hostKind("notify", func(_ madeIDs, i int) event {
			return event{"category": "promo", "title": "t", "to": []string{newcomer("notified", i)}, "actorId": newcomer("actor", i)}
		}),
	}
}

// ingestKinds sends events and adds the IDs that they made to t. It returns the codes of their errors. No event may fail because of the
// database.
func (a *api) ingestKinds(t madeIDs, kinds []string, events []event) (answers []string) {
	a.t.Helper()
	got := a.ingest(events...)
	if len(got.Errors) > 0 {
		a.t.Fatalf("%+v", got.Errors)
	}
	for i := range events {
		code := fmt.Sprint(got.at("ingest", "results", i, "error", "code"))
		answers = append(answers, code)
		if code == string(services.Unavailable) || code == string(services.Internal) {
			a.t.Fatalf("%v: %v\n%s", events[i], got.at("ingest", "results", i), a.log)
		}
		if id, made := got.at("ingest", "results", i, "id").(string); made && len(t[kinds[i]]) < maxEvents {
			t[kinds[i]] = append(t[kinds[i]], id)
		}
	}
	return answers
}

// On PostgreSQL 500 events of any mixture take at most 30 round trips, and so do many events of one kind (500 in the full set), also if
// they name users who do not exist yet.
func TestRoundTripsOfABatch(t *testing.T) {
	url, trips := sqltest.CountTrips(t, sqltest.Postgres(t))
	a := newAPIOn(t, fanouttest.New(t, fanouttest.Options{SQL: url}), 3, 5)
	a.Clock.Flow() // so that a function that reads the clock anew in each pass never settles, and is found
	a.ask("root", []services.Scope{services.ScopeAdmin}, `mutation { defineCategory(input: {name: "promo"}) { created } }`, nil)
	// Events that name users who do not exist yet may take 30, because it takes some trips to make the users. Others may take 24: so
	// they stay within 30 if new connections, which prepare statements, add some.
	const most, mostWithNewcomers = 24, 30
	ofOne := histories.Number(t, 160, maxEvents)
	made := madeIDs{}
	kinds, newcomers := eventKinds(50, a.Clock.Now()), kindMaker{50, a.Clock.Now()}.newcomerKinds()
	for k, kind := range slices.Concat(kinds, newcomers) {
		most := most
		if k >= len(kinds) {
			most = mostWithNewcomers
		}
		names, events := make([]string, ofOne), make([]event, ofOne)
		for i := range events {
			names[i], events[i] = kind.name, kind.make(made, i)
		}
		trips.Take()
		began := time.Now()
		answers := a.ingestKinds(made, names, events)
		n := trips.Take()
		t.Logf("%-24s %3d round trips %s %v", kind.name, n, time.Since(began).Round(time.Millisecond), tally(answers))
		if n > most {
			t.Errorf("%d events of %s took %d round trips, want %d at most", ofOne, kind.name, n, most)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		names, events := make([]string, maxEvents), make([]event, maxEvents)
		for i := range events {
			kind := kinds[random.IntN(len(kinds))]
			names[i], events[i] = kind.name, kind.make(made, random.IntN(200))
		}
		trips.Take()
		began := time.Now()
		answers := a.ingestKinds(made, names, events)
		n := trips.Take()
		t.Logf("a mixture: %d round trips %s %v", n, time.Since(began).Round(time.Millisecond), tally(answers))
		if n > most {
			t.Errorf("a mixture of %d events took %d round trips, want %d at most", maxEvents, n, most)
		}
	}
}

// A batch on PostgreSQL, whose events go out together, has the same result as on SQLite, where they run one by one. Few people
// act on few objects, so that many events of a batch concern the same objects.
func TestABatchIsAsItsEventsOneByOne(t *testing.T) {
	const people, batch = 5, 70
	for seed := range uint64(histories.Number(t, 2, 4)) {
		one := newAPIOn(t, fanouttest.New(t, fanouttest.Options{Redis: "embedded"}), 3, 5)
		together := newAPIOn(t, fanouttest.New(t, fanouttest.Options{SQL: sqltest.Postgres(t)}), 3, 5)
		apis := []*api{one, together}
		kinds := eventKinds(people, one.Clock.Now())
		made := []madeIDs{{}, {}}
		random := rand.New(rand.NewPCG(seed, 3))
		for round := range 6 {
			chosen, places, names := make([]kindOfEvent, batch), make([]int, batch), make([]string, batch)
			for i := range chosen {
				chosen[i], places[i] = kinds[random.IntN(len(kinds))], random.IntN(12)
				switch {
				case round%2 == 1 && i%7 > 0: // several of a kind, side by side
					chosen[i] = chosen[i-1]
				case round == 0: // the first objects
					name := []string{kinds[0].name, "createConversation", "scheduleShow", "sendSiteMessage", "publishAnnouncement"}[i%5]
					chosen[i] = kinds[slices.IndexFunc(kinds, func(kind kindOfEvent) bool { return kind.name == name })]
				case round == 2: // two edits of each object, in parallel
					edits := kinds[len(kinds)-4:]
					chosen[i], places[i] = edits[i%4], i/4
				}
				names[i] = chosen[i].name
			}
			var answers [2][]string
			for k, a := range apis {
				events := make([]event, batch)
				for i := range events {
					events[i] = chosen[i].make(made[k], places[i])
				}
				answers[k] = a.ingestKinds(made[k], names, events)
				a.RunAllJobs(a.Fanout)
				if left := a.Fanout.UpdateStaleViews(t.Context()); left > 0 {
					t.Fatalf("the views of %d users are stale", left)
				}
				_, err := a.Caches.Changelog.RunOnce(t.Context())
				a.Must(err)
			}
			for i := range batch {
				if answers[0][i] != answers[1][i] {
					t.Fatalf("seed %d, round %d, event %d, %s %d: one by one %s, together %s", seed, round, i, names[i], places[i], answers[0][i], answers[1][i])
				}
			}
			for user := range people {
				key := fmt.Sprint("u", user)
				if alone, both := one.readAllShown(key), together.readAllShown(key); alone != both {
					t.Fatalf("seed %d, round %d, %s is shown something else together than one by one (-one by one +together):\n%s", seed, round, key, gocmp.Diff(strings.Split(alone, "\n"), strings.Split(both, "\n")))
				}
			}
			one.Clock.Advance(time.Second)
			together.Clock.Advance(time.Second)
		}
	}
}

// readAllShown returns everything that a user is shown, as text. IDs are replaced by names, and values that differ between databases are left
// out.
func (a *api) readAllShown(key string) string {
	a.t.Helper()
	all := newSelector(a.t)
	viewer := all.schema.Types["Viewer"]
	var whole []byte
	for _, field := range viewer.Fields {
		got := a.must(key, "{ viewer { "+all.selectField(viewer, field, "")+" } }", nil)
		dropVaried(got.Data)
		text, err := json.MarshalIndent(got.Data, "", " ")
		a.Must(err)
		whole = append(append(whole, text...), '\n')
	}
	names := map[string]string{}
	return idsInText.ReplaceAllStringFunc(string(whole), func(id string) string {
		if names[id] == "" { // named in the order in which they occur
			names[id] = fmt.Sprint("id", len(names))
		}
		return names[id]
	})
}

var idsInText = regexp.MustCompile(`\b(post|show|conversation|announcement|notification|siteMessage|message):\w+`)

// dropVaried deletes the fields whose values come from IDs and clocks.
func dropVaried(value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range []string{"version", "cursor", "startCursor", "endCursor", "sessionId"} {
			delete(value, name)
		}
		for _, field := range value {
			dropVaried(field)
		}
	case []any:
		for _, one := range value {
			dropVaried(one)
		}
	}
}

func tally(answers []string) map[string]int {
	counts := map[string]int{}
	for _, answer := range answers {
		counts[answer]++
	}
	return counts
}
