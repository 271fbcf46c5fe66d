package messages

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/rdb"
	"tidings/services/redis"
	"tidings/services/sql"
	"tidings/tests/histories"
)

// generalType is the only type of site messages that a world's Redis is set up for.
const generalType = services.DefaultMessageType

// sendMessage writes a message and the jobs that deliver it.
func sendMessage(w *fanouttest.World, users ...services.UserID) ID {
	w.TB.Helper()
	id := ID(w.IDs.Next())
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		if err := Insert(ctx, tx, id, Text{Type: generalType, Title: "t"}); err != nil {
			return err
		}
		queued, err := sendJobs(id, users, false)
		if err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, queued...)
	})
	return id
}

// readUnread is the count in a user's document, and the unread rows of their list; -1 without a document.
func readUnread(w *fanouttest.World, user services.UserID) (count int, ids []ID) {
	w.TB.Helper()
	found, err := listMessages(w.TB.Context(), w.DB, user, []string{generalType}, true, MaxID, 1000)
	w.Must(err)
	for _, message := range found {
		ids = append(ids, message.ID)
	}
	document := w.Document(user)
	if !document.Ready {
		return -1, ids
	}
	return document.Messages[0].Unread, ids
}

func TestAMessageReachesAllItsRecipients(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		newService(w, w.Fanout)
		users := w.MakeUsers(3)
		strangers := w.MakeNeverSeenUsers(600) // several chunks
		sendMessage(w, append(strangers, users...)...)
		w.RunAllJobs(w.Fanout)
		for _, user := range users {
			if count, list := readUnread(w, user); count != 1 || len(list) != 1 {
				t.Errorf("user %d: %d of %v", user, count, list)
			}
		}
		late := strangers[17]
		if count, list := readUnread(w, late); count != -1 || len(list) != 1 {
			t.Errorf("a stranger has %d of %v", count, list)
		}
		w.Must(w.Projector.Rebuild(t.Context(), late))
		if count, _ := readUnread(w, late); count != 1 {
			t.Errorf("after their first visit they have %d", count)
		}
	})
}

// A worker that died after writing the rows and before projecting the counts leaves the job to another worker, which finds the
// rows and projects the counts.
func TestAnInterruptedDeliveryIsRepeated(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		newService(w, w.Fanout)
		users := w.MakeUsers(2)
		id := sendMessage(w, users...)
		w.Write(func(ctx context.Context, tx *sql.Tx) error {
			_, err := deliver(ctx, tx, id, users, false)
			return err
		})
		w.RunAllJobs(w.Fanout)
		if _, dead := w.CountJobs(); dead > 0 {
			t.Errorf("%d jobs were given up", dead)
		}
		for _, user := range users {
			if count, list := readUnread(w, user); count != 1 || len(list) != 1 {
				t.Errorf("user %d: %d of %v", user, count, list)
			}
		}
	})
}

// messageHistory is a history of site messages of a few people, each with two devices, and its model.
type messageHistory struct {
	*fanouttest.World
	service             *Service
	users               []services.UserID
	readByMessage       map[services.UserID]map[ID]bool // each user's delivered messages, and whether they were read
	sentMessages        map[services.UserID][]ID        // also messages that are not delivered yet
	unreadByUserVersion map[string]int                  // user/version -> unread, as the facts had it
	claimedJobs         []jobs.Job                      // claimed by a slow worker, or by one that runs them twice
	unprojectedStates   [][]unreadState                 // states that have not reached a document yet
}

func newMessageHistory(w *fanouttest.World, service *Service) *messageHistory {
	m := &messageHistory{World: w, service: service, users: w.MakeUsers(3), readByMessage: map[services.UserID]map[ID]bool{}, sentMessages: map[services.UserID][]ID{}, unreadByUserVersion: map[string]int{}}
	for _, user := range m.users {
		m.readByMessage[user] = map[ID]bool{}
		m.unreadByUserVersion[fmt.Sprint(user, "/", 0)] = 0
	}
	return m
}

// drawUserAndMessages is one of the users, and some of the messages that were sent to them.
func (m *messageHistory) drawUserAndMessages(t *rapid.T) (services.UserID, []ID) {
	user := rapid.SampledFrom(m.users).Draw(t, "user")
	var ids []ID
	for _, id := range m.sentMessages[user] {
		if rapid.Bool().Draw(t, "named") {
			ids = append(ids, id)
		}
	}
	return user, ids
}

// applyMark changes a user's rows by a request of one of their devices. The projection of the change may run much later.
func (m *messageHistory) applyMark(t *rapid.T, user services.UserID, change func(context.Context, *sql.Tx) ([]unreadState, error)) {
	var states []unreadState
	m.Write(func(ctx context.Context, tx *sql.Tx) (err error) {
		if states, err = change(ctx, tx); err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, projectCountsJob(user))
	})
	if rapid.Bool().Draw(t, "slow") {
		m.unprojectedStates = append(m.unprojectedStates, states)
		return
	}
	m.Must(m.service.project(m.TB.Context(), states))
}

// markRead marks messages read in SQL; the caller updates the model.
func (m *messageHistory) markRead(t *rapid.T, user services.UserID, mark messageSelection) {
	mark.Types = []string{generalType}
	m.applyMark(t, user, func(ctx context.Context, tx *sql.Tx) ([]unreadState, error) {
		return markRead(ctx, tx, user, mark)
	})
}

// markReadInModel marks a user's messages read in the model, up to a message or all (0). A mark up to a message that is not delivered
// yet first delivers that message and the messages that were sent before it.
func (m *messageHistory) markReadInModel(user services.UserID, upTo ID) {
	if _, delivered := m.readByMessage[user][upTo]; !delivered {
		for _, id := range m.sentMessages[user] {
			if id <= upTo {
				m.readByMessage[user][id] = true
			}
		}
	}
	for id := range m.readByMessage[user] {
		m.readByMessage[user][id] = m.readByMessage[user][id] || upTo == 0 || id <= upTo
	}
}

// runJob runs a job. The model learns of a delivery from its payload.
func (m *messageHistory) runJob(job jobs.Job) {
	m.Must(m.Fanout.RunJobs(m.TB.Context(), []jobs.Job{job}))
	var chunk struct {
		Message ID
		Users   []services.UserID
	}
	if json.Unmarshal(job.Payload, &chunk) != nil {
		return
	}
	for _, user := range chunk.Users {
		if _, known := m.readByMessage[user][chunk.Message]; !known {
			m.readByMessage[user][chunk.Message] = false
		}
	}
}

// actions are the events of a random history, by name.
func (m *messageHistory) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"send": func(t *rapid.T) {
			for _, user := range m.users { // one chunk for each user
				if rapid.Bool().Draw(t, "to") {
					m.sentMessages[user] = append(m.sentMessages[user], sendMessage(m.World, user))
				}
			}
		},
		"work": func(t *rapid.T) {
			m.claimedJobs = append(m.claimedJobs, m.ClaimDueJobs()...)
			if len(m.claimedJobs) == 0 {
				return
			}
			i := rapid.IntRange(0, len(m.claimedJobs)-1).Draw(t, "job")
			m.runJob(m.claimedJobs[i])
			if rapid.Bool().Draw(t, "once") {
				m.claimedJobs = slices.Delete(m.claimedJobs, i, i+1)
			}
		},
		"late": func(t *rapid.T) {
			if len(m.unprojectedStates) > 0 {
				i := rapid.IntRange(0, len(m.unprojectedStates)-1).Draw(t, "late")
				m.Must(m.service.project(m.TB.Context(), m.unprojectedStates[i]))
			}
		},
		"read": func(t *rapid.T) {
			if user, ids := m.drawUserAndMessages(t); len(ids) > 0 {
				m.markRead(t, user, messageSelection{Generation: services.AnyMarkGeneration, IDs: ids})
				for _, id := range ids {
					m.readByMessage[user][id] = true
				}
			}
		},
		"read up to": func(t *rapid.T) {
			user, ids := m.drawUserAndMessages(t)
			mark := messageSelection{Generation: services.AnyMarkGeneration, UpTo: 0}
			if len(ids) > 0 {
				mark.UpTo = ids[0]
			}
			m.markRead(t, user, mark)
			m.markReadInModel(user, mark.UpTo)
		},
		"unread": func(t *rapid.T) {
			if user, ids := m.drawUserAndMessages(t); len(ids) > 0 {
				m.applyMark(t, user, func(ctx context.Context, tx *sql.Tx) ([]unreadState, error) {
					return markUnread(ctx, tx, user, ids)
				})
				for _, id := range ids {
					m.readByMessage[user][id] = false
				}
			}
		},
		"lose": func(t *rapid.T) {
			user, _ := m.drawUserAndMessages(t)
			switch rapid.SampledFrom([]string{"document", "inbox", "all"}).Draw(t, "what") {
			case "document":
				m.RedisServer.Do("DEL", fmt.Sprintf("{u%d}:b", user))
			case "inbox":
				m.RedisServer.Do("DEL", fmt.Sprintf("{u%d}:i", user))
			default:
				m.RedisServer.Flush()
			}
		},
		"visit": func(t *rapid.T) {
			user, _ := m.drawUserAndMessages(t)
			m.Must(m.Projector.Rebuild(m.TB.Context(), user))
		},
		"": m.compareWithModel,
	}
}

// compareWithModel compares the facts with the model, and every document with the facts of its version.
func (m *messageHistory) compareWithModel(t *rapid.T) {
	for _, user := range m.users {
		var want []ID
		for id, read := range m.readByMessage[user] {
			if !read {
				want = append(want, id)
			}
		}
		slices.Sort(want)
		slices.Reverse(want)
		_, list := readUnread(m.World, user)
		if diff := cmp.Diff(want, list); diff != "" {
			t.Fatalf("user %d's list (-model +facts):\n%s", user, diff)
		}
		found, err := readUserStates(m.TB.Context(), m.DB, user)
		m.Must(err)
		for _, state := range found {
			if state.Unread != len(list) {
				t.Fatalf("user %d: the number is %d, the list has %d", user, state.Unread, len(list))
			}
			key := fmt.Sprint(user, "/", state.Version)
			if had, known := m.unreadByUserVersion[key]; known && had != state.Unread {
				t.Fatalf("version %s has the counts %d and %d", key, had, state.Unread)
			}
			m.unreadByUserVersion[key] = state.Unread
		}
		document := m.Document(user)
		if !document.Ready {
			continue
		}
		shown := document.Messages[0]
		if had, known := m.unreadByUserVersion[fmt.Sprint(user, "/", shown.Version)]; !known || had != shown.Unread {
			t.Fatalf("the document of %d has %d at version %d, the facts had %d (known: %v)", user, shown.Unread, shown.Version, had, known)
		}
	}
}

// runAllJobsAndCheck runs all jobs, after which the documents must equal the model.
func (m *messageHistory) runAllJobsAndCheck(t *rapid.T) {
	for _, job := range m.claimedJobs {
		m.runJob(job)
	}
	m.claimedJobs = nil
	for queued := m.ClaimDueJobs(); len(queued) > 0; queued = m.ClaimDueJobs() {
		for _, job := range queued {
			m.runJob(job)
		}
	}
	for _, states := range m.unprojectedStates {
		m.Must(m.service.project(m.TB.Context(), states))
	}
	m.compareWithModel(t)
	for _, user := range m.users {
		if count, list := readUnread(m.World, user); count >= 0 && count != len(list) {
			t.Fatalf("at rest user %d's number is %d, their list %v", user, count, list)
		}
		m.Must(m.Projector.Rebuild(m.TB.Context(), user))
		if count, list := readUnread(m.World, user); count != len(list) {
			t.Fatalf("rebuilt, user %d's number is %d, their list %v", user, count, list)
		}
	}
}

// Messages are sent, marked on two devices, repeated, late and lost in any order: the count equals the list, no document
// ever shows a count that was wrong at its version, and at rest everything equals a simple model.
func TestMessagesAgreeWithTheModel(t *testing.T) {
	histories.ReduceRapidChecks(t, 6)
	w := fanouttest.New(t, fanouttest.Options{})
	service := newService(w, w.Fanout)
	rapid.Check(t, func(t *rapid.T) {
		m := newMessageHistory(w, service)
		t.Repeat(m.actions())
		m.runAllJobsAndCheck(t)
	})
}

// An older count that comes late changes nothing.
func TestAnOlderCountIsIgnored(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		service := newService(w, w.Fanout)
		user := w.MakeUsers(1)[0]
		projectCount := func(version uint64, count int) {
			t.Helper()
			w.Must(service.project(t.Context(), []unreadState{{User: user, Type: generalType, Version: version, Unread: count}}))
		}
		projectCount(3, 30)
		projectCount(2, 20)
		projectCount(3, 31)
		if got, want := w.Document(user).Messages, []services.MessageTypeState{{Type: generalType, Version: 3, Unread: 30}}; !cmp.Equal(got, want) {
			t.Errorf("the document has %+v", got)
		}
		results, err := w.Redis.PutVersionedFields(t.Context(), []rdb.VersionedFields{{User: user + 1, Fields: []rdb.VersionedField{rdb.MessagesVersionedField(services.MessageTypeState{Type: generalType, Version: 1})}}})
		w.Must(err)
		if results[0].Status != redis.Missing {
			t.Errorf("without a document: %+v", results[0])
		}
	})
}
