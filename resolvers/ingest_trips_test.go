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

// createdIDsByKind has the IDs of the objects that the events of a test have made, by the name of the kind of event.
type createdIDsByKind map[string][]string

// idOfKind returns the i-th ID of a kind, and begins anew after the last. If there is none, it returns an ID that no post has.
func (t createdIDsByKind) idOfKind(kind string, i int) string {
	if ids := t[kind]; len(ids) > 0 {
		return ids[i%len(ids)]
	}
	return "post:0000000000001"
}

// kindOfEvent is a kind of event, of which a test makes as many as it needs.
type kindOfEvent struct {
	name     string                                // the name of the mutation, except that "a post" is a publishPost
	newEvent func(t createdIDsByKind, i int) event // makes the i-th event; t has the objects of earlier events
}

// withActor adds an actor to the fields of an event: the users u0, u1 and so on, in turn. people is their number.
func withActor(people, i int, more event) event {
	more["as"] = fmt.Sprint("user:u", i%people)
	return more
}

// eventKinds returns the kinds of events, in such an order that each finds the objects that it needs: those that delete or end
// something (endingKinds) come late. people is the number of users who act.
func eventKinds(people int, now time.Time) []kindOfEvent {
	m := eventKindMaker{people, now}
	return slices.Concat(m.postKinds(), m.conversationKinds(), m.showKinds(), m.announcementKinds(), m.endingKinds(), m.editKinds())
}

// eventKindMaker makes the kinds of events for a number of users, whose keys are u0, u1 and so on.
type eventKindMaker struct {
	actorCount int       // the number of users who act, in turn
	now        time.Time // the time when the test began
}

// otherUserID returns the ID of a user who is not the actor of the i-th event.
func (m eventKindMaker) otherUserID(i int) string {
	return fmt.Sprint("user:u", (i+1+i/m.actorCount)%m.actorCount)
}

// kindWithActor makes a kind of event with an actor. more makes the other fields of its input.
func (m eventKindMaker) kindWithActor(name string, more func(t createdIDsByKind, i int) event) kindOfEvent {
	return kindOfEvent{name, func(t createdIDsByKind, i int) event { return event{name: withActor(m.actorCount, i, more(t, i))} }}
}

// kindAboutObject makes a kind with an actor and the ID of an object that events of another kind have made.
func (m eventKindMaker) kindAboutObject(name, field, kind string) kindOfEvent {
	return m.kindWithActor(name, func(t createdIDsByKind, i int) event { return event{field: t.idOfKind(kind, i)} })
}

// kindAboutUser makes a kind in which the actor acts on another user.
func (m eventKindMaker) kindAboutUser(name string) kindOfEvent {
	return m.kindWithActor(name, func(_ createdIDsByKind, i int) event { return event{"userId": m.otherUserID(i)} })
}

// kindWithoutActor makes a kind of event of the host application itself.
func (m eventKindMaker) kindWithoutActor(name string, more func(t createdIDsByKind, i int) event) kindOfEvent {
	return kindOfEvent{name, func(t createdIDsByKind, i int) event { return event{name: more(t, i)} }}
}

// kindWithActorOnly makes a kind whose input has no field but the actor.
func (m eventKindMaker) kindWithActorOnly(name string) kindOfEvent {
	return m.kindWithActor(name, func(createdIDsByKind, int) event { return event{} })
}

func (m eventKindMaker) postKinds() []kindOfEvent { // about posts, other users and the profile, and marks in feeds and of notifications
	return []kindOfEvent{
		m.kindWithActor("publishPost", func(t createdIDsByKind, i int) event {
			post := event{"body": fmt.Sprint("hello ", i), "key": fmt.Sprint("k", i/2), "mentions": []string{m.otherUserID(i)}}
			if i%3 == 0 && len(t["publishPost"]) > 0 {
				post["parentId"] = t.idOfKind("publishPost", i)
			}
			return post
		}),
		m.kindAboutUser("follow"), m.kindWithActor("setFollowMode", func(_ createdIDsByKind, i int) event {
			return event{"userId": m.otherUserID(i), "mode": []string{"LIVE_ONLY", "NONE", "ALL"}[i%3]}
		}), m.kindAboutUser("mute"), m.kindAboutUser("unmute"), m.kindAboutUser("hideFrom"), m.kindAboutUser("unhideFrom"),
		m.kindAboutObject("likePost", "postId", "publishPost"), m.kindAboutObject("unlikePost", "postId", "publishPost"),
		m.kindWithActor("editPost", func(t createdIDsByKind, i int) event {
			return event{"postId": t.idOfKind("publishPost", i), "body": fmt.Sprint("mended ", i), "mentions": []string{m.otherUserID(i)}}
		}),
		m.kindWithActor("setProfile", func(_ createdIDsByKind, i int) event { return event{"name": fmt.Sprint("N", i)} }),
		m.kindWithActorOnly("markHomeFeedSeen"), m.kindWithActorOnly("markNotificationsSeen"), m.kindWithActorOnly("markAllRead"), m.kindWithActorOnly("undoMarkAllRead"),
		m.kindWithActor("markNotificationsRead", func(createdIDsByKind, int) event { return event{"all": true} }),
	}
}

func (m eventKindMaker) conversationKinds() []kindOfEvent {
	return []kindOfEvent{
		m.kindWithActor("createConversation", func(_ createdIDsByKind, i int) event {
			kind := []string{"DIRECT", "GROUP", "ROOM"}[i%3]
			return event{"kind": kind, "memberIds": []string{m.otherUserID(i)}}
		}),
		m.kindWithActor("sendMessage", func(t createdIDsByKind, i int) event {
			return event{"conversationId": t.idOfKind("createConversation", i), "body": "hello", "mentionIds": []string{m.otherUserID(i)}}
		}),
		m.kindAboutObject("joinConversation", "conversationId", "createConversation"),
		m.kindWithActor("addMembers", func(t createdIDsByKind, i int) event {
			return event{"conversationId": t.idOfKind("createConversation", i), "userIds": []string{m.otherUserID(i + 1)}}
		}),
		m.kindAboutObject("enterConversation", "conversationId", "createConversation"), m.kindAboutObject("leaveConversation", "conversationId", "createConversation"),
		m.kindAboutObject("markConversationRead", "conversationId", "createConversation"), m.kindAboutObject("markConversationUnread", "fromMessageId", "sendMessage"),
		m.kindWithActor("muteConversation", func(t createdIDsByKind, i int) event {
			return event{"conversationId": t.idOfKind("createConversation", i)}
		}),
		m.kindAboutObject("recallMessage", "messageId", "sendMessage"),
		m.kindWithActor("removeMembers", func(t createdIDsByKind, i int) event {
			return event{"conversationId": t.idOfKind("createConversation", i), "userIds": []string{m.otherUserID(i)}}
		}),
		m.kindAboutObject("quitConversation", "conversationId", "createConversation"),
	}
}

func (m eventKindMaker) showKinds() []kindOfEvent {
	return []kindOfEvent{
		m.kindWithActor("scheduleShow", func(_ createdIDsByKind, i int) event {
			return event{"title": "show", "plannedAt": m.now.Add(time.Duration(i+60) * time.Minute).Format(time.RFC3339)}
		}),
		m.kindAboutObject("remindMe", "showId", "scheduleShow"),
		m.kindWithActor("rescheduleShow", func(t createdIDsByKind, i int) event {
			return event{"showId": t.idOfKind("scheduleShow", i), "title": "another"}
		}),
		m.kindAboutObject("startShow", "showId", "scheduleShow"), m.kindAboutObject("endShow", "showId", "scheduleShow"),
		m.kindWithActor("setReplay", func(t createdIDsByKind, i int) event {
			return event{"showId": t.idOfKind("scheduleShow", i), "replayUrl": "https://example.com/r"}
		}),
		m.kindAboutObject("cancelShow", "showId", "scheduleShow"), m.kindWithActorOnly("markLiveBoardSeen"),
	}
}

func (m eventKindMaker) announcementKinds() []kindOfEvent { // about announcements, site messages, dots, views and settings
	return []kindOfEvent{
		m.kindWithoutActor("sendSiteMessage", func(_ createdIDsByKind, i int) event {
			return event{"title": "t", "content": "c", "to": []string{m.otherUserID(i), m.otherUserID(i + 1)}}
		}),
		m.kindWithoutActor("editSiteMessage", func(t createdIDsByKind, i int) event {
			return event{"siteMessageId": t.idOfKind("sendSiteMessage", i), "title": fmt.Sprint("t", i)}
		}),
		m.kindWithActor("markSiteMessagesRead", func(createdIDsByKind, int) event { return event{"all": true} }),
		m.kindWithActor("markSiteMessagesUnread", func(t createdIDsByKind, i int) event { return event{"ids": []string{t.idOfKind("sendSiteMessage", i)}} }),
		m.kindWithoutActor("publishAnnouncement", func(_ createdIDsByKind, i int) event { return event{"title": fmt.Sprint("a", i), "content": "c"} }),
		m.kindWithoutActor("editAnnouncement", func(t createdIDsByKind, i int) event {
			return event{"announcementId": t.idOfKind("publishAnnouncement", i), "title": fmt.Sprint("b", i)}
		}),
		m.kindWithActorOnly("markAnnouncementsRead"),
		m.kindWithoutActor("withdrawAnnouncement", func(t createdIDsByKind, i int) event {
			return event{"announcementId": t.idOfKind("publishAnnouncement", i)}
		}),
		m.kindWithoutActor("raiseDot", func(_ createdIDsByKind, i int) event { return event{"name": fmt.Sprint("dot", i%3)} }),
		m.kindWithActor("clearDot", func(_ createdIDsByKind, i int) event { return event{"name": fmt.Sprint("dot", i%3)} }),
		m.kindWithoutActor("setSegments", func(_ createdIDsByKind, i int) event {
			return event{"userId": m.otherUserID(i), "segments": []string{fmt.Sprint("s", i%3)}}
		}),
		m.kindWithActor("setGroupPolicy", func(_ createdIDsByKind, i int) event {
			return event{"policy": []string{"EVERYONE", "WHO_I_FOLLOW", "NOBODY"}[i%3]}
		}),
		m.kindWithActor("setDisplayPolicy", func(createdIDsByKind, int) event {
			return event{"sources": []event{{"source": "HOME_FEED", "style": "DOT"}}}
		}),
		m.kindWithActor("setCategoryPreference", func(_ createdIDsByKind, i int) event {
			return event{"category": "LIKE", "mode": []string{"DOT", "OFF"}[i%2]}
		}),
		m.kindWithoutActor("addViewItem", func(_ createdIDsByKind, i int) event {
			return event{"code": "orders", "view": "o1", "item": fmt.Sprint(i), "at": m.now.Format(time.RFC3339)}
		}),
		m.kindWithActor("touchView", func(createdIDsByKind, int) event { return event{"code": "orders", "view": "o1"} }),
		m.kindWithoutActor("removeViewItem", func(_ createdIDsByKind, i int) event {
			return event{"code": "orders", "view": "o1", "item": fmt.Sprint(i)}
		}),
	}
}

// editKinds returns kinds that edit one field each, of objects whose rows are read and written as a whole.
func (m eventKindMaker) editKinds() (edits []kindOfEvent) {
	for _, field := range []string{"title", "content"} {
		edits = append(edits,
			m.kindWithoutActor("editSiteMessage", func(t createdIDsByKind, i int) event {
				return event{"siteMessageId": t.idOfKind("sendSiteMessage", i), field: fmt.Sprint(field, i)}
			}),
			m.kindWithoutActor("editAnnouncement", func(t createdIDsByKind, i int) event {
				return event{"announcementId": t.idOfKind("publishAnnouncement", i), field: fmt.Sprint(field, i)}
			}))
	}
	return edits
}

func (m eventKindMaker) endingKinds() []kindOfEvent { // that delete posts and end follows
	return []kindOfEvent{
		m.kindAboutObject("deletePost", "postId", "publishPost"), m.kindAboutUser("block"), m.kindAboutUser("unblock"), m.kindAboutUser("unfollow"),
	}
}

// newUserKinds returns kinds whose input names users who do not exist yet, each time other ones. They need the host application's
// category promo.
func (m eventKindMaker) newUserKinds() []kindOfEvent {
	newcomer := func(field string, i int) string { return fmt.Sprint("user:", field, i) }
	return []kindOfEvent{
		{"a post", func(_ createdIDsByKind, i int) event {
			return event{"publishPost": withActor(m.actorCount, i, event{"body": fmt.Sprint("hello ", i), "mentions": []string{newcomer("mentioned", i)}})}
		}},
		m.kindWithActor("editPost", func(t createdIDsByKind, i int) event {
			return event{"postId": t.idOfKind("a post", i), "body": fmt.Sprint("mended ", i), "mentions": []string{newcomer("mentionedLater", i)}}
		}),
		m.kindWithActor("follow", func(_ createdIDsByKind, i int) event { return event{"userId": newcomer("followed", i)} }),
		m.kindWithActor("createConversation", func(_ createdIDsByKind, i int) event {
			return event{"kind": "DIRECT", "memberIds": []string{newcomer("member", i)}}
		}),
		m.kindWithoutActor("sendSiteMessage", func(_ createdIDsByKind, i int) event {
			return event{"title": "t", "content": "c", "to": []string{newcomer("recipient", i), newcomer("another", i)}}
		}),
		m.kindWithoutActor("notify", func(_ createdIDsByKind, i int) event {
			return event{"category": "promo", "title": "t", "to": []string{newcomer("notified", i)}, "actorId": newcomer("actor", i)}
		}),
	}
}

// ingestAndKeepIDs sends events and adds the IDs that they made to t. It returns the codes of their errors. No event may fail
// because of the database.
func (a *testAPI) ingestAndKeepIDs(t createdIDsByKind, kinds []string, events []event) (answers []string) {
	a.t.Helper()
	got := a.ingest(events...)
	if len(got.Errors) > 0 {
		a.t.Fatalf("%+v", got.Errors)
	}
	for i := range events {
		code := fmt.Sprint(got.valueAt("ingest", "results", i, "error", "code"))
		answers = append(answers, code)
		if code == string(services.Unavailable) || code == string(services.Internal) {
			a.t.Fatalf("%v: %v\n%s", events[i], got.valueAt("ingest", "results", i), a.log)
		}
		if id, made := got.valueAt("ingest", "results", i, "id").(string); made && len(t[kinds[i]]) < maxIngestEvents {
			t[kinds[i]] = append(t[kinds[i]], id)
		}
	}
	return answers
}

// On PostgreSQL 500 events of any mixture take at most 30 round trips, and so do many events of one kind (500 in the full set),
// also if they name users who do not exist yet.
func TestRoundTripsOfABatch(t *testing.T) {
	url, trips := sqltest.CountRoundTrips(t, sqltest.Postgres(t))
	a := newAPIOn(t, fanouttest.New(t, fanouttest.Options{SQLURL: url}), 3, 5)
	a.Clock.RunInRealTime() // so that a function that reads the clock anew in each pass of the batch never settles, and is found
	a.ask("root", []services.Scope{services.ScopeAdmin}, `mutation { defineCategory(input: {name: "promo"}) { created } }`, nil)
	// Events that name users who do not exist yet may take 30 round trips, because it takes some to make the users. Others may take 24:
	// so they stay within 30 if new connections, which prepare statements, add some.
	const most, mostWithNewcomers = 24, 30
	ofOne := histories.ShortOrFull(t, 160, maxIngestEvents)
	made := createdIDsByKind{}
	kinds, newcomers := eventKinds(50, a.Clock.Now()), eventKindMaker{50, a.Clock.Now()}.newUserKinds()
	for k, kind := range slices.Concat(kinds, newcomers) {
		most := most
		if k >= len(kinds) {
			most = mostWithNewcomers
		}
		names, events := make([]string, ofOne), make([]event, ofOne)
		for i := range events {
			names[i], events[i] = kind.name, kind.newEvent(made, i)
		}
		trips.TakeRoundTrips()
		began := time.Now()
		answers := a.ingestAndKeepIDs(made, names, events)
		n := trips.TakeRoundTrips()
		t.Logf("%-24s %3d round trips %s %v", kind.name, n, time.Since(began).Round(time.Millisecond), tally(answers))
		if n > most {
			t.Errorf("%d events of %s took %d round trips, want %d at most", ofOne, kind.name, n, most)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		names, events := make([]string, maxIngestEvents), make([]event, maxIngestEvents)
		for i := range events {
			kind := kinds[random.IntN(len(kinds))]
			names[i], events[i] = kind.name, kind.newEvent(made, random.IntN(200))
		}
		trips.TakeRoundTrips()
		began := time.Now()
		answers := a.ingestAndKeepIDs(made, names, events)
		n := trips.TakeRoundTrips()
		t.Logf("a mixture: %d round trips %s %v", n, time.Since(began).Round(time.Millisecond), tally(answers))
		if n > most {
			t.Errorf("a mixture of %d events took %d round trips, want %d at most", maxIngestEvents, n, most)
		}
	}
}

// A batch on PostgreSQL, whose events go out together, has the same result as on SQLite, where they run one by one. Few people
// act on few objects, so that many events of a batch concern the same objects.
func TestABatchEqualsItsEventsOneByOne(t *testing.T) {
	const people, batch = 5, 70
	for seed := range uint64(histories.ShortOrFull(t, 2, 4)) {
		one := newAPIOn(t, fanouttest.New(t, fanouttest.Options{RedisURL: "embedded"}), 3, 5)
		together := newAPIOn(t, fanouttest.New(t, fanouttest.Options{SQLURL: sqltest.Postgres(t)}), 3, 5)
		apis := []*testAPI{one, together}
		kinds := eventKinds(people, one.Clock.Now())
		made := []createdIDsByKind{{}, {}}
		random := rand.New(rand.NewPCG(seed, 3))
		for round := range 6 {
			chosen, indexes, names := make([]kindOfEvent, batch), make([]int, batch), make([]string, batch)
			for i := range chosen {
				chosen[i], indexes[i] = kinds[random.IntN(len(kinds))], random.IntN(12)
				switch {
				case round%2 == 1 && i%7 > 0: // several of a kind, side by side
					chosen[i] = chosen[i-1]
				case round == 0: // the first objects
					name := []string{kinds[0].name, "createConversation", "scheduleShow", "sendSiteMessage", "publishAnnouncement"}[i%5]
					chosen[i] = kinds[slices.IndexFunc(kinds, func(kind kindOfEvent) bool { return kind.name == name })]
				case round == 2: // two edits of each object, in parallel
					edits := kinds[len(kinds)-4:]
					chosen[i], indexes[i] = edits[i%4], i/4
				}
				names[i] = chosen[i].name
			}
			var answers [2][]string
			for k, a := range apis {
				events := make([]event, batch)
				for i := range events {
					events[i] = chosen[i].newEvent(made[k], indexes[i])
				}
				answers[k] = a.ingestAndKeepIDs(made[k], names, events)
				a.RunAllJobs(a.Fanout)
				if left := a.Fanout.UpdateStaleProjections(t.Context()); left > 0 {
					t.Fatalf("the projections of %d users are stale", left)
				}
				_, err := a.Caches.Changelog.RunOnce(t.Context())
				a.Must(err)
			}
			for i := range batch {
				if answers[0][i] != answers[1][i] {
					t.Fatalf("seed %d, round %d, event %d, %s %d: one by one %s, together %s", seed, round, i, names[i], indexes[i], answers[0][i], answers[1][i])
				}
			}
			for user := range people {
				key := fmt.Sprint("u", user)
				if alone, both := one.readWholeViewer(key), together.readWholeViewer(key); alone != both {
					t.Fatalf("seed %d, round %d, %s is shown something else together than one by one (-one by one +together):\n%s", seed, round, key, gocmp.Diff(strings.Split(alone, "\n"), strings.Split(both, "\n")))
				}
			}
			one.Clock.Advance(time.Second)
			together.Clock.Advance(time.Second)
		}
	}
}

// readWholeViewer returns everything that a user is shown, as text. IDs are replaced by names, and values that differ between
// databases are left out.
func (a *testAPI) readWholeViewer(key string) string {
	a.t.Helper()
	all := newSelectionBuilder(a.t)
	viewer := all.schema.Types["Viewer"]
	var whole []byte
	for _, field := range viewer.Fields {
		got := a.must(key, "{ viewer { "+all.selectField(viewer, field, "")+" } }", nil)
		dropVaryingFields(got.Data)
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

// idsInText matches the IDs that readWholeViewer replaces by names.
var idsInText = regexp.MustCompile(`\b(post|show|conversation|announcement|notification|siteMessage|message):\w+`)

func tally(answers []string) map[string]int { // how often each code occurs
	counts := map[string]int{}
	for _, answer := range answers {
		counts[answer]++
	}
	return counts
}
