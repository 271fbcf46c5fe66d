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

// readSnapshot reads a snapshot of the reader's projection, together with that of a user who has no projection.
func (v feedTest) readSnapshot() UserSnapshot {
	v.Helper()
	snapshots, err := v.projections.ReadUserSnapshots(v.Context(), []services.UserID{otherUser, reader})
	v.must(err)
	if snapshots[0].Wholeness != DocumentAbsent {
		v.Errorf("of nobody: %+v", snapshots[0])
	}
	return snapshots[1]
}

func TestASnapshotHoldsTheWholeProjection(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		if got := v.readSnapshot(); got.Wholeness != DocumentAbsent {
			v.Errorf("before the first rebuild: %+v", got)
		}
		v.beginRebuild(false)
		if got := v.readSnapshot(); got.Wholeness != DocumentPartial {
			v.Errorf("while it is being built: %+v", got)
		}
		v.buildFromFacts(FeedFacts{SeenUpTo: 4, Entries: []services.FeedEntry{countedEntry(5), uncountedEntry(7), countedEntry(9)}, NewestTrimmed: 3, NewestTrimmedCounted: 2})
		v.putVersionedFields(MessagesVersionedField(services.MessageTypeState{Type: services.DefaultMessageType, Version: 3, Unread: 12}))
		v.must(v.projections.Client.Commands().ZAdd(v.Context(), inboxKey(reader), redis.Z{Member: "stray"}).Err())
		states := map[services.ConversationID]services.Membership{}
		for i, state := range []services.Membership{
			{NewestMessageNumber: 9, ReadUpTo: 3, UnreadAdjustment: -1, Version: 4, Mentions: 2, CountedOnReadVersion: 1}, {NewestMessageNumber: 5, Version: 2, CountedOnRead: true, CountedOnReadVersion: 2}, {HasLeft: true}, {Muted: true, IsOpen: true},
		} {
			state.Conversation = services.ConversationID(i + 1)
			states[state.Conversation] = state
			state.User = reader
			_, _, err := v.projections.PutMemberships(v.Context(), []services.Membership{state})
			v.must(err)
		}
		got := v.readSnapshot()
		if time.Since(got.LastInboxRemovalAt).Abs() > time.Minute {
			v.Errorf("born at %s", got.LastInboxRemovalAt)
		}
		if got.Fields["Sgeneral"] != "3;12" || got.Fields["st"] != "1" {
			v.Errorf("fields: %v", got.Fields)
		}
		want := UserSnapshot{
			Wholeness: DocumentWhole, Document: v.readDocument(), Entries: []services.FeedEntry{countedEntry(9), uncountedEntry(7), countedEntry(5)}, StrayMembers: 1, NewestTrimmed: 3, NewestTrimmedCounted: 2,
			NewestUncounted: 7, LastInboxRemovalAt: got.LastInboxRemovalAt, Fields: got.Fields, Conversations: states,
		}
		if difference := cmp.Diff(want, got); difference != "" {
			v.Error(difference)
		}
	})
}

// A snapshot distinguishes a projection that is incomplete from one with a value that only ResetUserData repairs. After a reset, a
// rebuild makes either projection whole.
func TestASnapshotReportsABrokenProjection(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		for what, c := range map[string]struct {
			damage func()
			want   Wholeness
		}{
			"a field lost":   {func() { v.must(v.projections.Client.Commands().HDel(v.Context(), DocumentKey(reader), "fc").Err()) }, DocumentPartial},
			"pulled lost":    {func() { v.must(v.projections.Client.Commands().HDel(v.Context(), DocumentKey(reader), "F").Err()) }, DocumentPartial},
			"pulled broken":  {func() { v.writeField("F", "12345678901") }, DocumentPartial},
			"a script's own": {func() { v.must(v.projections.Client.Commands().HDel(v.Context(), DocumentKey(reader), "fq").Err()) }, DocumentPartial},
			"a field broken": {func() { v.writeField("NL", "?") }, DocumentPartial},
			"the inbox lost": {func() { v.deleteKeys(inboxKey(reader)) }, DocumentPartial},
			"no sentinel":    {func() { v.must(v.projections.Client.Commands().ZRem(v.Context(), inboxKey(reader), "!"+zeroID).Err()) }, DocumentPartial},
			"a broken sentinel": {func() {
				v.must(v.projections.Client.Commands().ZAdd(v.Context(), inboxKey(reader), redis.Z{Member: "!!"}).Err())
			}, DocumentPartial},
			"a state lost":       {func() { v.writeField("Ck", "1") }, DocumentPartial},
			"a state broken":     {func() { v.overwriteState("1", "1,2,3") }, DocumentWrongType},
			"a state of letters": {func() { v.overwriteState("1", "1,2,3,4,5,6,x") }, DocumentWrongType},
			"a state of nobody":  {func() { v.overwriteState("x", "1,2,3,4,5,6,") }, DocumentWrongType},
			"states of text":     {func() { v.replaceWithStringKey(conversationsKey(reader)) }, DocumentWrongType},
			"the document lost":  {func() { v.deleteKeys(DocumentKey(reader)) }, DocumentAbsent},
			"a document of text": {func() { v.replaceWithStringKey(DocumentKey(reader)) }, DocumentWrongType},
			"an inbox of text":   {func() { v.replaceWithStringKey(inboxKey(reader)) }, DocumentWrongType},
			"a presence of text": {func() { v.replaceWithStringKey(onlineKey(reader)) }, DocumentWrongType},
		} {
			v.deleteKeys(inboxKey(reader), DocumentKey(reader), onlineKey(reader), conversationsKey(reader))
			v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)})
			c.damage()
			if got := v.readSnapshot(); got.Wholeness != c.want {
				v.Errorf("%s: %d, want %d: %+v", what, got.Wholeness, c.want, got)
			}
			v.must(v.projections.ResetUserData(v.Context(), reader))
			if d := v.readDocument(); d.Ready || v.readSnapshot().Wholeness != DocumentPartial {
				v.Errorf("%s: after a reset it is %+v", what, v.readSnapshot())
			}
			v.wantFeed(what+", rebuilt", v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)}), redis.Applied, "3", makeEntries(1, 3, countedEntry)...)
		}
	})
}

// overwriteState overwrites the reader's state in a conversation, as the only one that they have.
func (v feedTest) overwriteState(conversation, text string) {
	v.Helper()
	v.must(v.projections.Client.Commands().HSet(v.Context(), conversationsKey(reader), conversation, text).Err())
	v.writeField("Ck", "1")
}

// replaceWithStringKey replaces a key by a key of another type.
func (v feedTest) replaceWithStringKey(key string) {
	v.Helper()
	v.deleteKeys(key)
	v.must(v.projections.Client.Commands().Set(v.Context(), key, "text", 0).Err())
}

// ResetUserData keeps the version, which only rises, and the online leases; it refuses facts that were read before. It removes all else,
// since a broken value with a high version would survive a rebuild.
func TestAResetKeepsOnlyTheVersion(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.projections.SetDots([]string{"shop"})
		v.buildFromFacts(FeedFacts{SeenUpTo: 9, Entries: makeEntries(1, 12, countedEntry)})
		v.must(v.projections.Presence.WriteOnlineLeases(v.Context(), []services.UserID{reader}, time.Minute))
		v.putVersionedFields(DotVersionedField("shop", 1<<60), MessagesVersionedField(services.MessageTypeState{Type: services.DefaultMessageType, Version: 1 << 60, Unread: 12}))
		v.writeField("n", strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)) // as after a fallback version without Redis
		before, stamp := v.readField("n"), v.takeStamp()
		v.must(v.projections.ResetUserData(v.Context(), reader))
		if after := v.readField("n"); after <= before {
			v.Errorf("the version was %s and is %s", before, after)
		}
		fields, err := v.projections.Client.Commands().HKeys(v.Context(), DocumentKey(reader)).Result()
		v.must(err)
		if slices.Sort(fields); !slices.Equal(fields, []string{"n", "rm", "st"}) {
			v.Errorf("left are %v", fields)
		}
		if left, err := v.projections.Client.Commands().TTL(v.Context(), DocumentKey(reader)).Result(); err != nil || left <= 0 || left > resetUserDataLifetime {
			v.Errorf("it lives for %s, %v", left, err)
		}
		v.beginRebuild(false)
		v.wantFeed("an add read before", v.addEntry(stamp, countedEntry(13)), redis.Retry, "0")
		result := v.buildFromFacts(FeedFacts{SeenUpTo: 2, Entries: makeEntries(1, 3, countedEntry)})
		v.wantFeed("rebuilt", result, redis.Applied, "1", makeEntries(1, 3, countedEntry)...)
		if !slices.Equal(result.OnlineNodes, []string{v.projections.Client.NodeID()}) {
			v.Errorf("its rebuild tells %v: the presence is lost", result.OnlineNodes)
		}
		if d := v.readDocument(); d.FeedSeenUpTo != 2 || d.Messages[0].Unread != 0 || d.DismissedUpToByDot != nil {
			v.Errorf("rebuilt: %+v", d)
		}
	})
}

// A stamp in the future (rm) makes the inbox refuse every add, until ResetUserData removes it.
func TestAResetRepairsAStampInTheFuture(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{})
		v.writeField("rm", strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10))
		if got := v.readSnapshot(); time.Until(got.LastInboxRemovalAt) < 50*time.Minute {
			v.Errorf("removed at %s", got.LastInboxRemovalAt)
		}
		v.must(v.projections.ResetUserData(v.Context(), reader))
		v.buildFromFacts(FeedFacts{})
		if got := v.readSnapshot(); time.Until(got.LastInboxRemovalAt) > time.Minute {
			v.Errorf("removed at %s", got.LastInboxRemovalAt)
		}
	})
}

func TestEveryNewDocumentHasAllVersionedFields(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.projections.SetDots([]string{"shop"})
		v.buildFromFacts(FeedFacts{})
		fields := v.projections.VersionedFieldNames()
		if len(fields) != len(fixedVersionedFields)+2*len(services.Categories)+1 || slices.Contains(fields, "Dshop") {
			v.Errorf("%v", fields)
		}
		for _, field := range fields {
			want := InitialValue
			if strings.HasPrefix(field, "H") || mayBeAbsent(field) { // the counts of a category come with its newest position
				want = ""
			}
			if v.readField(field) != want {
				v.Errorf("%s is born as %q, want %q", field, v.readField(field), want)
			}
		}
	})
}
