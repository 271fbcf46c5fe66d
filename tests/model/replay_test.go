package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tidings/services/node"
	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
	"tidings/tests/world"
)

// replayNode is one of two nodes that get the same history: one gets each event live, the other all events later, with their times.
type replayNode struct {
	*world.Node
	conversationID string                // the ID of the conversation of all people, on this node
	objectIDs      map[eventIndex]string // this node's ID of the object that each event made
	errorCodes     []string              // the error code of each event; "" for none, "-" if the event was not sent
}

// advanceClockTo moves the clock forward to a time.
func (r *replayNode) advanceClockTo(at time.Time) {
	if ahead := at.Sub(r.Clock.Now()); ahead > 0 {
		r.Clock.Advance(ahead)
	}
}

// runDueJobsTwice runs the due jobs, and two seconds later the jobs that are due then, such as jobs that are tried again.
func (r *replayNode) runDueJobsTwice() {
	r.RunJobsAndTailChangelog()
	r.Clock.Advance(2 * time.Second)
	r.RunJobsAndTailChangelog()
}

// resolveIDs returns an input with this node's IDs in place of eventIndex values and of the text group, which stands for the
// conversation. ok is false if one of the objects does not exist on this node.
func (r *replayNode) resolveIDs(input map[string]any, group string) (_ map[string]any, ok bool) {
	input, ok = maps.Clone(input), true
	for name, value := range input {
		if of, is := value.(eventIndex); is {
			input[name], ok = r.objectIDs[of], ok && r.objectIDs[of] != ""
		}
		if value == group {
			input[name] = r.conversationID
		}
	}
	return input, ok
}

// ingest sends events, and records the IDs and errors in the answer. first is the index of the first event in the history.
func (r *replayNode) ingest(t *rapid.T, first int, events []map[string]any) {
	var data struct {
		Ingest struct {
			Results []struct {
				ID    *string
				Error *struct{ Code, Message string }
			}
		}
	}
	r.MustAsk("host:ingest", `mutation($e:[IngestEvent!]!){ingest(events:$e){results{id error{code message}}}}`, map[string]any{"e": events}, &data)
	for i, result := range data.Ingest.Results {
		code := ""
		if result.ID != nil {
			r.objectIDs[eventIndex(first+i)] = *result.ID
		}
		if result.Error != nil && !isUndoMarkAllRead(events[i]) {
			code = result.Error.Code
			t.Logf("event %d: %s", first+i, result.Error.Message)
		}
		r.errorCodes = append(r.errorCodes, code)
	}
}

// ingestEvent returns an event as the mutation ingest takes it, with its time if dated is true.
func ingestEvent(e pastEvent, input map[string]any, dated bool) map[string]any {
	event := map[string]any{"do": map[string]any{e.name: input}}
	if e.actor != "" {
		event["as"] = userID(e.actor)
	}
	if e.device != "" {
		event["device"] = e.device
	}
	if dated {
		event["at"] = e.at.UTC().Format(time.RFC3339Nano)
	}
	return event
}

// runJobsUntil moves the clock to a time, and runs the jobs that become due on the way.
func (r *replayNode) runJobsUntil(h *history, at time.Time) {
	for _, due := range slices.SortedFunc(slices.Values(h.jobDueTimes), time.Time.Compare) {
		if due.After(r.Clock.Now()) && due.Before(at) {
			r.advanceClockTo(due.Add(time.Second))
			r.runDueJobsTwice()
		}
	}
	r.advanceClockTo(at)
	r.RunJobsAndTailChangelog()
}

// sendEventsLive sends each event when it happens, and lets its jobs end before the next.
func (r *replayNode) sendEventsLive(t *rapid.T, h *history) {
	for i, e := range h.events {
		r.runJobsUntil(h, e.at)
		input, known := r.resolveIDs(e.input, h.conversationID)
		if !known { // the event that would have made the object was refused
			r.errorCodes = append(r.errorCodes, "-")
			continue
		}
		r.ingest(t, i, []map[string]any{ingestEvent(e, input, false)})
		r.runDueJobsTwice()
	}
}

// sendEventsLater sends all events in batches, after the last event happened. An event that refers to the object of an earlier
// event is sent once that event's answer has the ID.
func (r *replayNode) sendEventsLater(t *rapid.T, h *history) {
	r.runJobsUntil(h, h.presentTime)
	for done := 0; done < len(h.events); {
		size := rapid.IntRange(1, 40).Draw(t, "batch")
		var batch []map[string]any
		first := done
		for ; done < len(h.events) && len(batch) < size; done++ {
			input, known := r.resolveIDs(h.events[done].input, h.conversationID)
			if !known {
				break
			}
			batch = append(batch, ingestEvent(h.events[done], input, true))
		}
		if len(batch) == 0 { // the event that would have made the object was refused
			r.errorCodes = append(r.errorCodes, "-")
			done++
			continue
		}
		r.ingest(t, first, batch)
		if rapid.Bool().Draw(t, "jobs") {
			r.RunJobsAndTailChangelog()
		}
	}
}

// createPeopleAndRoom creates the people of a history on this node by their first visits, and the ROOM in which they talk.
func (r *replayNode) createPeopleAndRoom(people []string) {
	r.objectIDs, r.errorCodes = map[eventIndex]string{}, nil
	for _, person := range people {
		r.Badges(person)
		r.MutateShow(person, "cancelShow", r.ScheduleShow(person, "first", r.Clock.Now().Add(time.Hour))) // so that boards know the person as a host
	}
	var data struct {
		CreateConversation struct{ Conversation struct{ ID string } }
	}
	members := make([]string, len(people))
	for i, person := range people {
		members[i] = userID(person)
	}
	r.MustAsk(people[0], `mutation($m:[ID!]!){createConversation(input:{kind:ROOM,title:"room",memberIds:$m}){conversation{id}}}`, map[string]any{"m": members}, &data)
	r.conversationID = data.CreateConversation.Conversation.ID
	r.runDueJobsTwice()
}

// checkReplayEqualsLive sends random histories to two nodes, to one each event when it happens and to the other all events later, and
// compares what every person sees.
func checkReplayEqualsLive(t *testing.T, live, later *replayNode) {
	histories.ReduceRapidChecks(t, 4)
	number := 0
	var due []time.Time // of all histories, because jobs of one history may become due during the next
	rapid.Check(t, func(t *rapid.T) {
		number++
		h := &history{t: t, objectEventsByAction: map[string][]eventIndex{}, actorOf: map[eventIndex]string{}, jobDueTimes: slices.Clip(due)}
		for i := range 4 {
			h.people = append(h.people, fmt.Sprintf("r%dp%d", number, i))
		}
		begin := live.Clock.Now()
		if now := later.Clock.Now(); now.After(begin) {
			begin = now
		}
		begin = begin.Truncate(time.Hour).Add(time.Hour)
		for _, node := range []*replayNode{live, later} {
			node.runJobsUntil(h, begin)
			node.createPeopleAndRoom(h.people)
		}
		h.conversationID = "group"
		h.presentTime = begin.Add(30 * time.Minute)
		for range rapid.IntRange(5, 60).Draw(t, "events") {
			h.addRandomEvent()
		}
		due = h.jobDueTimes
		live.sendEventsLive(t, h)
		h.presentTime = h.presentTime.Add(time.Hour)
		later.sendEventsLater(t, h)
		end := h.presentTime.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "hours after")) * time.Hour)
		for _, node := range []*replayNode{live, later} {
			node.runJobsUntil(h, end)
			node.runDueJobsTwice()
		}
		if diff := cmp.Diff(live.errorCodes, later.errorCodes); diff != "" {
			t.Fatalf("other answers (- live, + replayed):\n%s\n%s", diff, h.eventsText())
		}
		for _, person := range h.people {
			if diff := cmp.Diff(live.readEverythingShown(t, person), later.readEverythingShown(t, person)); diff != "" {
				t.Fatalf("%s sees something else (- live, + replayed):\n%s\n%s", person, diff, h.eventsText())
			}
		}
	})
}

// eventsText returns the events as text, one in a line.
func (h *history) eventsText() string {
	var lines []string
	for i, e := range h.events {
		lines = append(lines, fmt.Sprintf("%2d %s %s %s %v", i, e.at.UTC().Format("02T15:04"), e.actor, e.name, e.input))
	}
	return strings.Join(lines, "\n")
}

// setBadgeExpiry sets short expiries, so that unread items expire while a history runs.
func setBadgeExpiry(cfg *node.Config) {
	cfg.Badge.BadgeExpiry = []string{"HOME_FEED=2", "SITE_MESSAGES=1", "ANNOUNCEMENTS=2", "CONVERSATIONS=1"}
	cfg.Notifications.Expiry = []string{"LIKE=1", "FOLLOW=2"}
}

// A history of events that is reported later, in order and with the times of its events, leads to the same state as if each event were
// reported when it happened: the same counts, lists, orders and times for everyone. The counts also equal the facts.
func TestAReplayLeadsToTheSameState(t *testing.T) {
	t.Run("sqlite-redis", func(t *testing.T) {
		start := func() *replayNode {
			return &replayNode{Node: world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: redistest.NewServer(t).URL(), ManualStepping: true, ChangeConfig: setBadgeExpiry})}
		}
		checkReplayEqualsLive(t, start(), start())
	})
	t.Run("postgres-embedded", func(t *testing.T) {
		start := func() *replayNode {
			return &replayNode{Node: world.StartNode(t, world.NodeOptions{Database: sqltest.Postgres(t), Redis: "embedded", ManualStepping: true, ChangeConfig: setBadgeExpiry})}
		}
		checkReplayEqualsLive(t, start(), start())
	})
}

// Events that are reported late are pushed like others, and the versions of the badges rise, which world.BadgeSubscription checks.
func TestLateEventsArePushed(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded"})
	n.Badges("author")
	watch := world.OpenBadgeSubscription(t, n.URL, "reader")
	watch.WaitCounts(t, world.RedisLossRecoveryTimeout, 0, 0)
	tell := func(ago time.Duration, as, name string, input map[string]any) string {
		t.Helper()
		var data struct {
			Ingest struct {
				Results []struct {
					ID    string
					Error *struct{ Message string }
				}
			}
		}
		event := ingestEvent(pastEvent{actor: as, name: name, input: input, at: n.Clock.Now().Add(-ago)}, input, true)
		n.MustAsk("host:ingest", `mutation($e:[IngestEvent!]!){ingest(events:$e){results{id error{message}}}}`, map[string]any{"e": []any{event}}, &data)
		if failed := data.Ingest.Results[0].Error; failed != nil {
			t.Fatalf("%s: %s", name, failed.Message)
		}
		return data.Ingest.Results[0].ID
	}
	tell(30*time.Hour, "reader", "follow", map[string]any{"userId": userID("author")})
	tell(29*time.Hour, "author", "publishPost", map[string]any{"body": "late"})
	watch.WaitCounts(t, world.RedisLossRecoveryTimeout, 1, 0)
	own := tell(28*time.Hour, "reader", "publishPost", map[string]any{"body": "own"})
	tell(27*time.Hour, "author", "likePost", map[string]any{"postId": own})
	watch.WaitCounts(t, world.RedisLossRecoveryTimeout, 1, 1)
	tell(27*time.Hour+time.Minute, "reader", "markNotificationsSeen", map[string]any{})
	tell(26*time.Hour, "reader", "markHomeFeedSeen", map[string]any{})
	watch.WaitCounts(t, world.RedisLossRecoveryTimeout, 0, 1)
	tell(25*time.Hour, "reader", "markNotificationsSeen", map[string]any{})
	watch.WaitCounts(t, world.RedisLossRecoveryTimeout, 0, 0)
}

// A cause of a notification, such as a like, that begins, ends and begins again keeps its first time and position in the list, even if
// all its events are reported before any is applied. So a user who marked the list as seen in between has seen the cause.
func TestARepeatedCauseKeepsItsPositionInAReplay(t *testing.T) {
	for _, test := range []struct {
		name string
		acts func(post string) [3]pastEvent // acts of "fan" that begin, end and again begin the cause
	}{
		{name: "like", acts: func(post string) [3]pastEvent {
			input := map[string]any{"postId": post}
			return [3]pastEvent{{name: "likePost", input: input}, {name: "unlikePost", input: input}, {name: "likePost", input: input}}
		}},
		{name: "follow", acts: func(string) [3]pastEvent {
			input := map[string]any{"userId": userID("author")}
			return [3]pastEvent{{name: "follow", input: input}, {name: "unfollow", input: input}, {name: "follow", input: input}}
		}},
		{name: "mention", acts: func(string) (acts [3]pastEvent) {
			for i, mentions := range [][]string{{userID("author")}, {}, {userID("author")}} {
				acts[i] = pastEvent{name: "editPost", input: map[string]any{"postId": "post:ref:own", "body": "b", "mentions": mentions}}
			}
			return acts
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ManualStepping: true})
			n.Badges("author")
			n.Clock.Advance(40 * time.Hour)
			now := n.Clock.Now()
			tell := func(events ...pastEvent) {
				t.Helper()
				said := make([]map[string]any, len(events))
				for i, e := range events {
					said[i] = ingestEvent(e, e.input, true)
				}
				var data struct {
					Ingest struct {
						Results []struct{ Error *struct{ Message string } }
					}
				}
				n.MustAsk("host:ingest", `mutation($e:[IngestEvent!]!){ingest(events:$e){results{error{message}}}}`, map[string]any{"e": said}, &data)
				for i, result := range data.Ingest.Results {
					if result.Error != nil {
						t.Fatalf("%s: %s", events[i].name, result.Error.Message)
					}
				}
				n.RunJobsAndTailChangelog()
			}
			at := func(e pastEvent, as string, ago time.Duration) pastEvent {
				e.actor, e.at = as, now.Add(-ago)
				return e
			}
			tell(at(pastEvent{name: "publishPost", input: map[string]any{"body": "a", "ref": "post"}}, "author", 36*time.Hour),
				at(pastEvent{name: "publishPost", input: map[string]any{"body": "b", "ref": "own"}}, "fan", 35*time.Hour))
			acts := test.acts("post:ref:post")
			tell(at(acts[0], "fan", 30*time.Hour), at(acts[1], "fan", 29*time.Hour))
			tell(at(pastEvent{name: "markNotificationsSeen", input: map[string]any{}}, "author", 28*time.Hour), at(acts[2], "fan", 2*time.Hour))
			var data struct {
				Viewer struct {
					Notifications struct {
						Nodes []struct {
							At   time.Time
							Seen bool
						}
					}
				}
			}
			n.MustAsk("author", `{viewer{notifications(first:2){nodes{at seen}}}}`, nil, &data)
			nodes := data.Viewer.Notifications.Nodes
			if len(nodes) != 1 || nodes[0].At.Sub(now.Add(-30*time.Hour)).Abs() > time.Millisecond || !nodes[0].Seen {
				t.Errorf("%+v are listed, want one that was seen, of the first beginning", nodes)
			}
		})
	}
}
