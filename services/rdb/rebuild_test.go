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

// builder rebuilds one user's document step by step.
type builder struct {
	ctx    context.Context
	c      *Projections
	user   services.UserID
	random *rand.Rand
	added  int64    // messages that were added to the first conversation
	said   []string // a line for each event, printed with a failure
}

// manyStates is a number of conversations, each with one unread message, whose states take several calls.
const manyStates = 2*statesPerCall + 10

// segmentBits are the segments of the user, as the facts have them.
const segmentBits = 5

// newBuilder makes the builder of the history with a number, which has a user of its own.
func newBuilder(ctx context.Context, client *Projections, number int) *builder {
	return &builder{ctx: ctx, c: client, user: services.UserID(1_000_000 + number), random: rand.New(rand.NewPCG(uint64(number), 1))}
}

// parts are the steps that write all that the document holds beside its feed.
func (b *builder) parts() []redis.Step {
	states := make([]services.Membership, manyStates)
	for i := range states {
		states[i] = services.Membership{Conversation: services.ConversationID(i + 1), User: b.user, Head: 1, Version: 1}
	}
	states[0].Head += b.added
	return append(VersionedFieldParts(b.user, []Register{SegmentRegister(services.SegmentState{Version: 7, Bits: segmentBits})}), MembershipParts(states)...)
}

// message adds a message to the first conversation, and projects it at once.
func (b *builder) message() error {
	b.added++
	_, _, err := b.c.PutMemberships(b.ctx, []services.Membership{{Conversation: 1, User: b.user, Head: 1 + b.added, Version: 1}})
	return err
}

// begin begins a rebuild and makes its steps.
func (b *builder) begin() ([]redis.Step, error) {
	stamps, err := b.c.BeginRebuild(b.ctx, []services.UserID{b.user}, RebuildMode{Visit: true})
	if err != nil {
		return nil, err
	}
	return rebuildSteps(FeedFacts{Reader: b.user, Stamp: stamps[0], Visit: true, Day: 20_000, Lifetime: time.Hour, Entries: makeEntries(1, 3, counted)}, b.parts()), nil
}

// run runs some steps, and returns the status of the last.
func (b *builder) run(steps ...redis.Step) (redis.Status, error) {
	replies, err := b.c.RunSequence(b.ctx, steps)
	if err != nil {
		return 0, err
	}
	result, err := redis.ParseResult(replies[len(replies)-1].Value)
	return result.Status, err
}

// checkWhole reports whether the document is ready, and returns an error if it is although a part is missing.
func (b *builder) checkWhole() (ready bool, err error) {
	documents, err := b.c.Documents(b.ctx, []services.UserID{b.user})
	if err != nil || !documents[0].Ready {
		return false, err
	}
	if d := documents[0]; d.Segments.Bits != segmentBits || d.Conversations.Unread != manyStates+int(b.added) || d.FeedCount != 3 {
		return true, fmt.Errorf("shown with the segments %d, %d unread messages of %d, %d posts", d.Segments.Bits, d.Conversations.Unread, manyStates+b.added, d.FeedCount)
	}
	return true, nil
}

// broken is a script that fails in place of a step.
var broken = redis.NewScript("broken", "return redis.error_reply('ERR out of luck')")

// If a step of a rebuild fails or is lost, and the steps after it succeed, the document is not marked good. The next rebuild makes
// it good, whatever the first one has written.
func TestARebuildWithoutAllStepsIsRefused(t *testing.T) {
	redistest.Each(t, func(t *testing.T, url string) {
		b := newBuilder(t.Context(), connect(t, redis.Options{URL: url, ReadTimeout: patience}), 0)
		v := view{t, b.c}
		for _, how := range []string{"fails", "is lost"} {
			for lost := 0; ; lost++ {
				v.deleteKeys(DocumentKey(b.user), inboxKey(b.user), conversationsKey(b.user))
				steps, err := b.begin()
				v.must(err)
				if lost == len(steps)-1 {
					break
				}
				without := append([]redis.Step{}, steps...)
				if how == "fails" {
					without[lost].Script = broken
				} else {
					without = append(without[:lost], without[lost+1:]...)
				}
				status, err := b.run(without...)
				v.must(err)
				if ready, err := b.checkWhole(); status != redis.Retry || ready {
					t.Errorf("step %d %s: answered %d, shown %v, %v", lost+1, how, status, ready, err)
				}
				steps, err = b.begin()
				v.must(err)
				status, err = b.run(steps...)
				v.must(err)
				if ready, err := b.checkWhole(); status != redis.Applied || !ready || err != nil {
					t.Errorf("rebuilt after step %d %s: answered %d, shown %v, %v", lost+1, how, status, ready, err)
				}
			}
		}
	})
}

// A rebuild as a whole returns the document that it has made, and is not refused when nothing else runs.
func TestARebuildReturnsItsDocument(t *testing.T) {
	redistest.Each(t, func(t *testing.T, url string) {
		b := newBuilder(t.Context(), connect(t, redis.Options{URL: url, ReadTimeout: patience}), 0)
		v := view{t, b.c}
		for range 2 {
			stamps, err := b.c.BeginRebuild(t.Context(), []services.UserID{b.user}, RebuildMode{Visit: true})
			v.must(err)
			ctx, trips := redis.WithRoundTrips(t.Context())
			rebuilt, err := b.c.EndRebuild(ctx, FeedFacts{Reader: b.user, Stamp: stamps[0], Visit: true, Lifetime: time.Hour, Entries: makeEntries(1, 3, counted)}, b.parts()...)
			v.must(err)
			documents, err := b.c.Documents(t.Context(), []services.UserID{b.user})
			v.must(err)
			if rebuilt.Status != redis.Applied || fmt.Sprint(rebuilt.Document) != fmt.Sprint(documents[0]) || !rebuilt.Document.Ready || trips.Count() != 1 {
				t.Errorf("%d round trips, answered %+v, want %+v", trips.Count(), rebuilt, documents[0])
			}
			if _, err := b.checkWhole(); err != nil {
				t.Error(err)
			}
			if left := b.c.Commands().HExists(t.Context(), DocumentKey(b.user), "bp").Val(); left {
				t.Error("the step of the rebuild is still there")
			}
		}
	})
}

// runCrossing runs some random steps of rebuilds that overlap, with losses and messages in between.
func (b *builder) runCrossing(steps int) error {
	var builds [][]redis.Step
	for range steps {
		var err error
		what := b.random.IntN(24)
		switch {
		case what == 0:
			key := []string{DocumentKey(b.user), inboxKey(b.user), conversationsKey(b.user)}[b.random.IntN(3)]
			b.said = append(b.said, "lose "+key)
			err = b.c.Commands().Del(b.ctx, key).Err()
		case what == 1:
			field := []string{segmentField, "Cu", "Ck", "rm"}[b.random.IntN(4)]
			b.said = append(b.said, "lose "+field)
			err = b.c.Commands().HDel(b.ctx, DocumentKey(b.user), field).Err()
		case what == 2:
			b.said = append(b.said, "reset")
			err = b.c.Reset(b.ctx, b.user)
		case what < 5:
			b.said = append(b.said, "message")
			err = b.message()
		case what < 8 && len(builds) < 3 || len(builds) == 0:
			var build []redis.Step
			b.said = append(b.said, "begin")
			build, err = b.begin()
			builds = append(builds, build)
		default:
			at := b.random.IntN(len(builds))
			step := builds[at][0]
			builds[at] = builds[at][1:]
			if b.random.IntN(8) > 0 {
				b.said = append(b.said, fmt.Sprintf("%s of build %d", step.Script.Name, at))
				_, err = b.run(step)
			} else {
				b.said = append(b.said, fmt.Sprintf("lose %s of build %d", step.Script.Name, at))
			}
			if len(builds[at]) == 0 {
				builds = append(builds[:at], builds[at+1:]...)
			}
		}
		if err == nil {
			_, err = b.checkWhole()
		}
		if err != nil {
			return fmt.Errorf("%w\nafter %q", err, b.said)
		}
	}
	return b.settle()
}

// settle rebuilds while nothing else runs, and checks that the document is whole.
func (b *builder) settle() error {
	steps, err := b.begin()
	if err != nil {
		return err
	}
	if status, err := b.run(steps...); err != nil || status != redis.Applied {
		return fmt.Errorf("a rebuild in quiet is answered %d, %v\nafter %q", status, err, b.said)
	}
	ready, err := b.checkWhole()
	if err == nil && !ready {
		err = fmt.Errorf("not shown")
	}
	return err
}

// crossingBugs are the injected bugs that the histories of crossing rebuilds must find, each by itself.
var crossingBugs = map[string]clienttest.Bug[*builder]{
	"a part that nobody misses":        {Scripts: clienttest.Replace(rebuildMerge, "if not noted(KEYS[1], ARGV[10]) then return { 3 } end", "")},
	"a step after one that is missing": {Scripts: clienttest.Replace(conversationsPut, "number == '1' or redis.call('HGET', hash, 'bp') == chain .. (number - 1)", "true")},
	"a birth that keeps the step":      {Scripts: clienttest.Replace(rebuildBegin, "'st', '0', 'bp', '', 'Cu'", "'st', '0', 'Cu'"), Known: 80},
	"a field born with the step":       {Scripts: clienttest.Replace(rebuildBegin, "'st', '0', 'bp', '', ARGV[k], birth)", "'st', '0', ARGV[k], birth)"), Known: 415},
	"states lost before the end":       {Scripts: clienttest.Replace(rebuildMerge, "~= redis.call('HLEN', KEYS[4]) then return { 3 } end", "~= nil then end"), Known: 259},
}

func TestOverlappingRebuildsNeverShowAPartialDocument(t *testing.T) {
	test := func(t *testing.T, url string, full int) {
		client := connect(t, redis.Options{URL: url, ReadTimeout: patience})
		for i := range clienttest.HistoryNumbers(t, full, crossingBugs) {
			if err := newBuilder(t.Context(), client, i).runCrossing(60); err != nil {
				t.Fatalf("history %d: %v", i, err)
			}
		}
	}
	t.Run("redis", func(t *testing.T) { test(t, redistest.Redis(t), 200) })
	t.Run("embedded", func(t *testing.T) { test(t, "embedded", 20) })
	t.Run("cluster", func(t *testing.T) { test(t, redistest.Cluster(t), 10) })
}

func TestTheHistoriesOfCrossingRebuildsFindEveryInjectedBug(t *testing.T) {
	client := connect(t, redis.Options{URL: redistest.Redis(t), ReadTimeout: patience})
	clienttest.FindBugs(t, client.Client, crossingBugs, 500, func(number int, _ clienttest.Bug[*builder]) error {
		return newBuilder(t.Context(), client, number).runCrossing(60)
	})
}
