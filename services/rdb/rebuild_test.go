package rdb

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/redis"
	"tidings/services/redis/clienttest"
	"tidings/services/redis/redistest"
)

// rebuilder rebuilds one user's document step by step.
type rebuilder struct {
	ctx           context.Context
	projections   *Projections
	user          services.UserID
	random        *rand.Rand
	addedMessages int64    // messages that were added to the first conversation
	trace         []string // a line for each event, printed with a failure
}

// conversationCount is a number of conversations, each with one unread message, whose states take several calls.
const conversationCount = 2*membershipsPerCall + 10

// userSegmentBits are the segments of the user, as the facts have them.
const userSegmentBits = 5

// newRebuilder makes the rebuilder of the history with a number, which has a user of its own.
func newRebuilder(ctx context.Context, client *Projections, number int) *rebuilder {
	return &rebuilder{ctx: ctx, projections: client, user: services.UserID(1_000_000 + number), random: rand.New(rand.NewPCG(uint64(number), 1))}
}

// documentSteps are the steps that write all that the document holds beside its feed.
func (b *rebuilder) documentSteps() []redis.SequenceStep {
	states := make([]services.Membership, conversationCount)
	for i := range states {
		states[i] = services.Membership{Conversation: services.ConversationID(i + 1), User: b.user, NewestMessageNumber: 1, Version: 1}
	}
	states[0].NewestMessageNumber += b.addedMessages
	return append(VersionedFieldRebuildSteps(b.user, []VersionedField{SegmentVersionedField(services.SegmentState{Version: 7, Bits: userSegmentBits})}), MembershipRebuildSteps(states)...)
}

// addMessage adds a message to the first conversation, and projects it at once.
func (b *rebuilder) addMessage() error {
	b.addedMessages++
	_, _, err := b.projections.PutMemberships(b.ctx, []services.Membership{{Conversation: 1, User: b.user, NewestMessageNumber: 1 + b.addedMessages, Version: 1}})
	return err
}

// beginRebuild begins a rebuild and makes its steps.
func (b *rebuilder) beginRebuild() ([]redis.SequenceStep, error) {
	stamps, err := b.projections.BeginRebuild(b.ctx, []services.UserID{b.user}, RebuildMode{IsVisit: true})
	if err != nil {
		return nil, err
	}
	return rebuildSteps(FeedFacts{Reader: b.user, Stamp: stamps[0], IsVisit: true, LastActiveDay: 20_000, KeyLifetime: time.Hour, Entries: makeEntries(1, 3, countedEntry)}, b.documentSteps()), nil
}

// runSteps runs some steps, and returns the status of the last.
func (b *rebuilder) runSteps(steps ...redis.SequenceStep) (redis.ResultStatus, error) {
	replies, err := b.projections.Client.RunSequence(b.ctx, steps)
	if err != nil {
		return 0, err
	}
	result, err := redis.ParseResult(replies[len(replies)-1].Value)
	return result.Status, err
}

// checkDocumentWhole reports whether the document is ready, and returns an error if it is although a part is missing.
func (b *rebuilder) checkDocumentWhole() (ready bool, err error) {
	documents, err := b.projections.Documents(b.ctx, []services.UserID{b.user})
	if err != nil || !documents[0].Ready {
		return false, err
	}
	if d := documents[0]; d.Segments.Bits != userSegmentBits || d.Conversations.Unread != conversationCount+int(b.addedMessages) || d.FeedCount != 3 {
		return true, fmt.Errorf("shown with the segments %d, %d unread messages of %d, %d posts", d.Segments.Bits, d.Conversations.Unread, conversationCount+b.addedMessages, d.FeedCount)
	}
	return true, nil
}

// failingScript is a script that fails in place of a step.
var failingScript = redis.NewScript("broken", "return redis.error_reply('ERR out of luck')")

// If a step of a rebuild fails or is lost, and the steps after it succeed, the document is not marked good. The next rebuild makes
// it good, whatever the first one has written.
func TestARebuildWithoutAllStepsIsRefused(t *testing.T) {
	redistest.EachRedis(t, func(t *testing.T, url string) {
		b := newRebuilder(t.Context(), openProjections(t, redis.Options{URL: url, ReadTimeout: longReadTimeout}), 0)
		v := feedTest{t, b.projections}
		for _, how := range []string{"fails", "is lost"} {
			for lost := 0; ; lost++ {
				v.deleteKeys(DocumentKey(b.user), inboxKey(b.user), conversationsKey(b.user))
				steps, err := b.beginRebuild()
				v.must(err)
				if lost == len(steps)-1 {
					break
				}
				without := append([]redis.SequenceStep{}, steps...)
				if how == "fails" {
					without[lost].Script = failingScript
				} else {
					without = append(without[:lost], without[lost+1:]...)
				}
				status, err := b.runSteps(without...)
				v.must(err)
				if ready, err := b.checkDocumentWhole(); status != redis.Retry || ready {
					t.Errorf("step %d %s: answered %d, shown %v, %v", lost+1, how, status, ready, err)
				}
				steps, err = b.beginRebuild()
				v.must(err)
				status, err = b.runSteps(steps...)
				v.must(err)
				if ready, err := b.checkDocumentWhole(); status != redis.Applied || !ready || err != nil {
					t.Errorf("rebuilt after step %d %s: answered %d, shown %v, %v", lost+1, how, status, ready, err)
				}
			}
		}
	})
}

// A rebuild as a whole returns the document that it has made, and is not refused when nothing else runs.
func TestARebuildReturnsItsDocument(t *testing.T) {
	redistest.EachRedis(t, func(t *testing.T, url string) {
		b := newRebuilder(t.Context(), openProjections(t, redis.Options{URL: url, ReadTimeout: longReadTimeout}), 0)
		v := feedTest{t, b.projections}
		for range 2 {
			stamps, err := b.projections.BeginRebuild(t.Context(), []services.UserID{b.user}, RebuildMode{IsVisit: true})
			v.must(err)
			ctx, trips := redis.WithRoundTrips(t.Context())
			rebuilt, err := b.projections.EndRebuild(ctx, FeedFacts{Reader: b.user, Stamp: stamps[0], IsVisit: true, KeyLifetime: time.Hour, Entries: makeEntries(1, 3, countedEntry)}, b.documentSteps()...)
			v.must(err)
			documents, err := b.projections.Documents(t.Context(), []services.UserID{b.user})
			v.must(err)
			if rebuilt.Status != redis.Applied || fmt.Sprint(rebuilt.Document) != fmt.Sprint(documents[0]) || !rebuilt.Document.Ready || trips.Count() != 1 {
				t.Errorf("%d round trips, answered %+v, want %+v", trips.Count(), rebuilt, documents[0])
			}
			if _, err := b.checkDocumentWhole(); err != nil {
				t.Error(err)
			}
			if left := b.projections.Client.Commands().HExists(t.Context(), DocumentKey(b.user), "bp").Val(); left {
				t.Error("the step of the rebuild is still there")
			}
		}
	})
}

// runOverlappingRebuilds runs some random steps of rebuilds that overlap, with losses and messages in between.
func (b *rebuilder) runOverlappingRebuilds(steps int) error {
	var builds [][]redis.SequenceStep
	for range steps {
		var err error
		what := b.random.IntN(24)
		switch {
		case what == 0:
			key := []string{DocumentKey(b.user), inboxKey(b.user), conversationsKey(b.user)}[b.random.IntN(3)]
			b.trace = append(b.trace, "lose "+key)
			err = b.projections.Client.Commands().Del(b.ctx, key).Err()
		case what == 1:
			field := []string{segmentField, "Cu", "Ck", "rm"}[b.random.IntN(4)]
			b.trace = append(b.trace, "lose "+field)
			err = b.projections.Client.Commands().HDel(b.ctx, DocumentKey(b.user), field).Err()
		case what == 2:
			b.trace = append(b.trace, "reset")
			err = b.projections.ResetUserData(b.ctx, b.user)
		case what < 5:
			b.trace = append(b.trace, "message")
			err = b.addMessage()
		case what < 8 && len(builds) < 3 || len(builds) == 0:
			var build []redis.SequenceStep
			b.trace = append(b.trace, "begin")
			build, err = b.beginRebuild()
			builds = append(builds, build)
		default:
			at := b.random.IntN(len(builds))
			step := builds[at][0]
			builds[at] = builds[at][1:]
			if b.random.IntN(8) > 0 {
				b.trace = append(b.trace, fmt.Sprintf("%s of build %d", step.Script.Name, at))
				_, err = b.runSteps(step)
			} else {
				b.trace = append(b.trace, fmt.Sprintf("lose %s of build %d", step.Script.Name, at))
			}
			if len(builds[at]) == 0 {
				builds = append(builds[:at], builds[at+1:]...)
			}
		}
		if err == nil {
			_, err = b.checkDocumentWhole()
		}
		if err != nil {
			return fmt.Errorf("%w\nafter %q", err, b.trace)
		}
	}
	return b.rebuildAlone()
}

// rebuildAlone rebuilds while nothing else runs, and checks that the document is whole.
func (b *rebuilder) rebuildAlone() error {
	steps, err := b.beginRebuild()
	if err != nil {
		return err
	}
	if status, err := b.runSteps(steps...); err != nil || status != redis.Applied {
		return fmt.Errorf("a rebuild in quiet is answered %d, %v\nafter %q", status, err, b.trace)
	}
	ready, err := b.checkDocumentWhole()
	if err == nil && !ready {
		err = fmt.Errorf("not shown")
	}
	return err
}

// overlapBugs are the injected bugs that the histories of overlapping rebuilds must find, each by itself.
var overlapBugs = map[string]clienttest.Bug[*rebuilder]{
	"a part that nobody misses":        {Scripts: clienttest.ReplaceInScript(rebuildMerge, "if not noted(KEYS[1], ARGV[10]) then return { 3 } end", "")},
	"a step after one that is missing": {Scripts: clienttest.ReplaceInScript(conversationsPut, "number == '1' or redis.call('HGET', hash, 'bp') == chain .. (number - 1)", "true")},
	"a birth that keeps the step":      {Scripts: clienttest.ReplaceInScript(rebuildBegin, "'st', '0', 'bp', '', 'Cu'", "'st', '0', 'Cu'"), Known: 80},
	"a field born with the step":       {Scripts: clienttest.ReplaceInScript(rebuildBegin, "'st', '0', 'bp', '', ARGV[k], birth)", "'st', '0', ARGV[k], birth)"), Known: 415},
	"states lost before the end":       {Scripts: clienttest.ReplaceInScript(rebuildMerge, "~= redis.call('HLEN', KEYS[4]) then return { 3 } end", "~= nil then end"), Known: 259},
}

func TestOverlappingRebuildsNeverShowAPartialDocument(t *testing.T) {
	test := func(t *testing.T, url string, full int) {
		client := openProjections(t, redis.Options{URL: url, ReadTimeout: longReadTimeout})
		for i := range clienttest.HistoryNumbers(t, full, overlapBugs) {
			if err := newRebuilder(t.Context(), client, i).runOverlappingRebuilds(60); err != nil {
				t.Fatalf("history %d: %v", i, err)
			}
		}
	}
	t.Run("redis", func(t *testing.T) { test(t, redistest.Redis(t), 200) })
	t.Run("embedded", func(t *testing.T) { test(t, "embedded", 20) })
	t.Run("cluster", func(t *testing.T) { test(t, redistest.Cluster(t), 10) })
}

func TestTheHistoriesOfCrossingRebuildsFindEveryInjectedBug(t *testing.T) {
	client := openProjections(t, redis.Options{URL: redistest.Redis(t), ReadTimeout: longReadTimeout})
	clienttest.FindBugs(t, client.Client, overlapBugs, 500, func(number int, _ clienttest.Bug[*rebuilder]) error {
		return newRebuilder(t.Context(), client, number).runOverlappingRebuilds(60)
	})
}
