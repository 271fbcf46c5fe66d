package rdb

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/redis"
)

// snapshot reads the reader's view, beside that of a user who has none.
func (v view) snapshot() UserSnapshot {
	v.Helper()
	snapshots, err := v.c.ReadUserSnapshots(v.Context(), []services.UserID{other, reader})
	v.must(err)
	if snapshots[0].Wholeness != Absent {
		v.Errorf("of nobody: %+v", snapshots[0])
	}
	return snapshots[1]
}

func TestASnapshotHoldsTheWholeView(t *testing.T) {
	eachView(t, func(v view) {
		if got := v.snapshot(); got.Wholeness != Absent {
			v.Errorf("before the first rebuild: %+v", got)
		}
		v.begin(false)
		if got := v.snapshot(); got.Wholeness != Partial {
			v.Errorf("while it is being built: %+v", got)
		}
		v.build(FeedFacts{Seen: 4, Entries: []services.FeedEntry{counted(5), listed(7), counted(9)}, Floor: 3, TrimmedCounted: 2})
		v.register(MessagesRegister(services.MessageTypeState{Type: services.DefaultMessageType, Version: 3, Unread: 12}))
		v.must(v.c.Commands().ZAdd(v.Context(), inboxKey(reader), redis.Z{Member: "stray"}).Err())
		states := map[services.ConversationID]services.Membership{}
		for i, state := range []services.Membership{
			{Head: 9, Base: 3, K: -1, Version: 4, Mentions: 2, WayVersion: 1}, {Head: 5, Version: 2, ReadSide: true, WayVersion: 2}, {Left: true}, {Muted: true, Inside: true},
		} {
			state.Conversation = services.ConversationID(i + 1)
			states[state.Conversation] = state
			state.User = reader
			_, _, err := v.c.PutMemberships(v.Context(), []services.Membership{state})
			v.must(err)
		}
		got := v.snapshot()
		if time.Since(got.RemovedAt).Abs() > time.Minute {
			v.Errorf("born at %s", got.RemovedAt)
		}
		if got.Fields["Sgeneral"] != "3;12" || got.Fields["st"] != "1" {
			v.Errorf("fields: %v", got.Fields)
		}
		want := UserSnapshot{
			Wholeness: Whole, Document: v.document(), Entries: []services.FeedEntry{counted(9), listed(7), counted(5)}, Strays: 1, Floor: 3, TrimmedCounted: 2,
			NewestUncounted: 7, RemovedAt: got.RemovedAt, Fields: got.Fields, Conversations: states,
		}
		if difference := cmp.Diff(want, got); difference != "" {
			v.Error(difference)
		}
	})
}

// A snapshot tells an incomplete view from one with a value that only a reset repairs. After a reset, a rebuild makes both whole.
func TestASnapshotReportsABrokenView(t *testing.T) {
	eachView(t, func(v view) {
		for what, c := range map[string]struct {
			spoil func()
			want  Wholeness
		}{
			"a field lost":       {func() { v.must(v.c.Commands().HDel(v.Context(), DocumentKey(reader), "fc").Err()) }, Partial},
			"pulled lost":        {func() { v.must(v.c.Commands().HDel(v.Context(), DocumentKey(reader), "F").Err()) }, Partial},
			"pulled broken":      {func() { v.set("F", "12345678901") }, Partial},
			"a script's own":     {func() { v.must(v.c.Commands().HDel(v.Context(), DocumentKey(reader), "fq").Err()) }, Partial},
			"a field broken":     {func() { v.set("NL", "?") }, Partial},
			"the inbox lost":     {func() { v.deleteKeys(inboxKey(reader)) }, Partial},
			"no sentinel":        {func() { v.must(v.c.Commands().ZRem(v.Context(), inboxKey(reader), "!"+zeroID).Err()) }, Partial},
			"a broken sentinel":  {func() { v.must(v.c.Commands().ZAdd(v.Context(), inboxKey(reader), redis.Z{Member: "!!"}).Err()) }, Partial},
			"a state lost":       {func() { v.set("Ck", "1") }, Partial},
			"a state broken":     {func() { v.setState("1", "1,2,3") }, WrongType},
			"a state of letters": {func() { v.setState("1", "1,2,3,4,5,6,x") }, WrongType},
			"a state of nobody":  {func() { v.setState("x", "1,2,3,4,5,6,") }, WrongType},
			"states of text":     {func() { v.retype(conversationsKey(reader)) }, WrongType},
			"the document lost":  {func() { v.deleteKeys(DocumentKey(reader)) }, Absent},
			"a document of text": {func() { v.retype(DocumentKey(reader)) }, WrongType},
			"an inbox of text":   {func() { v.retype(inboxKey(reader)) }, WrongType},
			"a presence of text": {func() { v.retype(onlineKey(reader)) }, WrongType},
		} {
			v.deleteKeys(inboxKey(reader), DocumentKey(reader), onlineKey(reader), conversationsKey(reader))
			v.build(FeedFacts{Entries: makeEntries(1, 3, counted)})
			c.spoil()
			if got := v.snapshot(); got.Wholeness != c.want {
				v.Errorf("%s: %d, want %d: %+v", what, got.Wholeness, c.want, got)
			}
			v.must(v.c.Reset(v.Context(), reader))
			if d := v.document(); d.Ready || v.snapshot().Wholeness != Partial {
				v.Errorf("%s: after a reset it is %+v", what, v.snapshot())
			}
			v.want(what+", rebuilt", v.build(FeedFacts{Entries: makeEntries(1, 3, counted)}), redis.Applied, "3", makeEntries(1, 3, counted)...)
		}
	})
}

// setState overwrites the reader's state in a conversation, as the only one that they have.
func (v view) setState(conversation, text string) {
	v.Helper()
	v.must(v.c.Commands().HSet(v.Context(), conversationsKey(reader), conversation, text).Err())
	v.set("Ck", "1")
}

// retype replaces a key by a key of another type.
func (v view) retype(key string) {
	v.Helper()
	v.deleteKeys(key)
	v.must(v.c.Commands().Set(v.Context(), key, "text", 0).Err())
}

// A reset keeps the version rising and the presence, refuses earlier reads, and leaves nothing else: a broken value would survive a
// merge, in which the newer version wins.
func TestAResetKeepsOnlyTheVersion(t *testing.T) {
	eachView(t, func(v view) {
		v.c.SetDots([]string{"shop"})
		v.build(FeedFacts{Seen: 9, Entries: makeEntries(1, 12, counted)})
		v.must(v.c.Enter(v.Context(), []services.UserID{reader}, time.Minute))
		v.register(DotRegister("shop", 1<<60), MessagesRegister(services.MessageTypeState{Type: services.DefaultMessageType, Version: 1 << 60, Unread: 12}))
		v.set("n", strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)) // as after a fallback version without Redis
		before, stamp := v.field("n"), v.stamp()
		v.must(v.c.Reset(v.Context(), reader))
		if after := v.field("n"); after <= before {
			v.Errorf("the version was %s and is %s", before, after)
		}
		fields, err := v.c.Commands().HKeys(v.Context(), DocumentKey(reader)).Result()
		v.must(err)
		if slices.Sort(fields); !slices.Equal(fields, []string{"n", "rm", "st"}) {
			v.Errorf("left are %v", fields)
		}
		if left, err := v.c.Commands().TTL(v.Context(), DocumentKey(reader)).Result(); err != nil || left <= 0 || left > resetLifetime {
			v.Errorf("it lives for %s, %v", left, err)
		}
		v.begin(false)
		v.want("an add read before", v.add(stamp, counted(13)), redis.Retry, "0")
		result := v.build(FeedFacts{Seen: 2, Entries: makeEntries(1, 3, counted)})
		v.want("rebuilt", result, redis.Applied, "1", makeEntries(1, 3, counted)...)
		if !slices.Equal(result.Nodes, []string{v.c.Node()}) {
			v.Errorf("its rebuild tells %v: the presence is lost", result.Nodes)
		}
		if d := v.document(); d.Seen != 2 || d.Messages[0].Unread != 0 || d.DotsSeen != nil {
			v.Errorf("rebuilt: %+v", d)
		}
	})
}

// A stamp of the future refuses every add; a reset ends that.
func TestAResetRepairsAStampInTheFuture(t *testing.T) {
	eachView(t, func(v view) {
		v.build(FeedFacts{})
		v.set("rm", strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10))
		if got := v.snapshot(); time.Until(got.RemovedAt) < 50*time.Minute {
			v.Errorf("removed at %s", got.RemovedAt)
		}
		v.must(v.c.Reset(v.Context(), reader))
		v.build(FeedFacts{})
		if got := v.snapshot(); time.Until(got.RemovedAt) > time.Minute {
			v.Errorf("removed at %s", got.RemovedAt)
		}
	})
}

func TestVersionedFieldNamesAreThoseOfEveryDocument(t *testing.T) {
	eachView(t, func(v view) {
		v.c.SetDots([]string{"shop"})
		v.build(FeedFacts{})
		fields := v.c.VersionedFieldNames()
		if len(fields) != 6+2*len(services.Categories)+1 || slices.Contains(fields, "Dshop") {
			v.Errorf("%v", fields)
		}
		for _, field := range fields {
			want := InitialValue
			if strings.HasPrefix(field, "H") || field == viewsField || field == categoryModesField { // its category's counts come with it; few users have views or modes
				want = ""
			}
			if v.field(field) != want {
				v.Errorf("%s is born as %q, want %q", field, v.field(field), want)
			}
		}
	})
}
