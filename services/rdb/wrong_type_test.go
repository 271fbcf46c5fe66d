package rdb

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/redis"
)

// operationsOfEveryKind are operations of every kind on a reader's projection.
func (v feedTest) operationsOfEveryKind() map[string]func(context.Context) error {
	both := []services.UserID{otherUser, reader}
	state := services.Membership{User: reader, Conversation: 3, NewestMessageNumber: 4, Version: 2}
	return map[string]func(context.Context) error{
		"one document":  func(ctx context.Context) error { _, err := v.projections.Documents(ctx, both[1:]); return err },
		"two documents": func(ctx context.Context) error { _, err := v.projections.Documents(ctx, both); return err },
		"versions":      func(ctx context.Context) error { _, err := v.projections.DocumentVersions(ctx, both); return err },
		"a page":        func(ctx context.Context) error { _, err := v.projections.Inbox(ctx, reader, 9, 9); return err },
		"an author": func(ctx context.Context) error {
			_, err := v.projections.AuthorPostsInInbox(ctx, reader, author)
			return err
		},
		"pushes": func(ctx context.Context) error {
			_, err := v.projections.AddToInboxes(ctx, 9, []InboxPost{{Reader: otherUser}, {Reader: reader}})
			return err
		},
		"a mark": func(ctx context.Context) error { _, err := v.projections.MarkFeedSeen(ctx, reader, 3); return err },
		"a removal": func(ctx context.Context) error {
			_, err := v.projections.DropFromInbox(ctx, reader, author)
			return err
		},
		"a stamp": func(ctx context.Context) error { _, err := v.projections.TakeUserStamp(ctx, reader); return err },
		"a versioned field": func(ctx context.Context) error {
			_, err := v.projections.PutVersionedFields(ctx, []VersionedFields{{User: reader, Fields: []VersionedField{AnnouncementVersionedField(services.AnnouncementState{Version: 2})}}})
			return err
		},
		"a state": func(ctx context.Context) error {
			_, _, err := v.projections.PutMemberships(ctx, []services.Membership{state})
			return err
		},
		"a raise": func(ctx context.Context) error {
			_, err := v.projections.RaiseVersions(ctx, both, []uint64{1, 1})
			return err
		},
		"a loss":  func(ctx context.Context) error { return v.projections.MarkDocumentsLost(ctx, both, []uint64{1, 1}) },
		"a visit": func(ctx context.Context) error { return v.projections.MarkActive(ctx, both, 20_000, time.Hour) },
		"presence": func(ctx context.Context) error {
			return v.projections.Presence.WriteOnlineLeases(ctx, both, time.Minute)
		},
		"who is there": func(ctx context.Context) error {
			_, err := v.projections.Presence.UsersWithOpenSubscription(ctx, both)
			return err
		},
		"the end of it": func(ctx context.Context) error { return v.projections.Presence.RemoveOnlineLeases(ctx, both) },
		"a rebuild": func(ctx context.Context) error {
			_, err := v.projections.BeginRebuild(ctx, both, RebuildMode{IsVisit: true})
			return err
		},
	}
}

// Every operation that meets a key of the wrong type goes on as if the projection were missing, also within a batch. A rebuild
// repairs the projection, and no caller gets an error.
func TestAKeyOfAnotherTypeIsLostData(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		for name, act := range v.operationsOfEveryKind() {
			for _, key := range []string{DocumentKey(reader), inboxKey(reader), conversationsKey(reader), onlineKey(reader)} {
				v.deleteKeys(inboxKey(reader), DocumentKey(reader), onlineKey(reader), conversationsKey(reader))
				v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)})
				shown := v.readDocument().Version
				v.replaceWithStringKey(key)
				if err := act(v.Context()); err != nil {
					v.Errorf("%s, %s of text: %v", name, key, err)
				}
				v.must(v.projections.Presence.WriteOnlineLeases(v.Context(), []services.UserID{reader}, time.Minute))
				v.wantFeed(name+", rebuilt", v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)}), redis.Applied, "3", makeEntries(1, 3, countedEntry)...)
				if got := v.readDocument(); !got.Ready || got.Version <= shown {
					v.Errorf("%s, %s of text: version %d was shown, and then %+v", name, key, shown, got)
				}
			}
		}
	})
}

// A wrong type makes the whole projection count as being built: no reader sees the rest of it.
func TestAKeyOfTheWrongTypeEmptiesItsProjection(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		for name, act := range map[string]func(context.Context) error{
			inboxKey(reader): v.operationsOfEveryKind()["pushes"], conversationsKey(reader): v.operationsOfEveryKind()["a state"], DocumentKey(reader): v.operationsOfEveryKind()["versions"],
		} {
			v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)})
			v.replaceWithStringKey(name)
			v.must(act(v.Context()))
			if got := v.readSnapshot(); got.Wholeness != DocumentPartial {
				v.Errorf("%s: %+v, want one that is being built", name, got)
			}
		}
	})
}

// A field that scripts cannot read makes none of them fail: the state counts as missing, and a rebuild restores it.
func TestABrokenFieldStopsNoScript(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		for what, damage := range map[string]func(){
			"a state":          func() { v.overwriteState("3", "1,2,3") },
			"a state's number": func() { v.overwriteState("3", "1,2,3,x,5,6,") },
			"the version":      func() { v.writeField("n", "x") },
			"a sum":            func() { v.writeField("Cu", "x") },
			"a lease": func() {
				v.must(v.projections.Client.Commands().HSet(v.Context(), onlineKey(reader), "elsewhere", "x").Err())
			},
		} {
			v.deleteKeys(inboxKey(reader), DocumentKey(reader), onlineKey(reader), conversationsKey(reader))
			v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)})
			damage()
			for _, name := range []string{"a state", "a versioned field", "a rebuild"} {
				if err := v.operationsOfEveryKind()[name](v.Context()); err != nil {
					v.Errorf("%s is broken, %s: %v", what, name, err)
				}
			}
			v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)})
			result, _, err := v.projections.PutMemberships(v.Context(), []services.Membership{{User: reader, Conversation: 3, NewestMessageNumber: 9, Version: 7}})
			if got := v.readDocument(); err != nil || result[0].Status != redis.Applied || !got.Ready || got.Conversations.Unread != 9 {
				v.Errorf("%s was broken, and is rebuilt: %v, %+v, %+v", what, err, result, got)
			}
		}
	})
}

// replaceMark replaces the mark of the reader's inbox, which is its first member, as no script does.
func (v feedTest) replaceMark(mark string) {
	v.Helper()
	commands := v.projections.Client.Commands()
	v.must(commands.ZRemRangeByRank(v.Context(), inboxKey(reader), 0, 0).Err())
	v.must(commands.ZAdd(v.Context(), inboxKey(reader), redis.Z{Member: mark}).Err())
}

// A cut of an inbox whose mark has no floor of the right form leaves the inbox to a rebuild, which makes another mark. A cut that took
// such a floor for one would give the new floor its length.
func TestAMarkOfAWrongFormIsHealed(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		for _, mark := range []string{"!", "!0", "!4", "!" + zeroID + "0", "!zzzzzzzzzzzzz", "!7ZZZZZZZZZZZ", "!8000000000000"} {
			v.deleteKeys(DocumentKey(reader), inboxKey(reader))
			v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 340, countedEntry)})
			v.replaceMark(mark)
			v.trimInbox()
			if page, err := v.projections.Inbox(v.Context(), reader, services.MaxPostID, 10); err != nil || page.Ready {
				v.Errorf("the mark %q: %+v, %v, want a page that is not ready", mark, page, err)
			}
			if got := v.readSnapshot(); got.Wholeness != DocumentPartial {
				v.Errorf("the mark %q: the projection is %d, want one that is being built", mark, got.Wholeness)
			}
			v.wantFeed("rebuilt after the mark "+mark, v.buildFromFacts(FeedFacts{Entries: makeEntries(41, 340, countedEntry), NewestTrimmed: 40}), redis.Applied, "300", makeEntries(41, 340, countedEntry)...)
			if got := v.readSnapshot(); got.Wholeness != DocumentWhole || got.NewestTrimmed != 40 || got.StrayMembers > 0 {
				v.Errorf("the mark %q: rebuilt to %d, above %d", mark, got.Wholeness, got.NewestTrimmed)
			}
		}
	})
}

func TestCopiesOfTheWrongTypeAreMissing(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		post, user := services.Post{ID: 5, Author: author, Body: "b", UpdatedAt: time.Now()}, services.User{ID: reader, Key: "k", UpdatedAt: time.Now()}
		list := func(key string) {
			v.deleteKeys(key)
			v.must(v.projections.Client.Commands().RPush(v.Context(), key, "text").Err())
		}
		for range 2 {
			list(postKey(post.ID))
			list(profileKey(reader))
			if posts, users, err := v.projections.Copies(v.Context(), []services.PostID{post.ID}, []services.UserID{reader}); err != nil || len(posts)+len(users) > 0 {
				v.Errorf("copies: %v, %v, %v", posts, users, err)
			}
			list(postKey(post.ID))
			v.must(v.projections.PutCopies(v.Context(), []services.Post{post}, []services.User{user}))
			if posts, users, err := v.projections.Copies(v.Context(), []services.PostID{post.ID}, []services.UserID{reader}); err != nil || len(posts) != 1 || len(users) != 1 {
				v.Errorf("copies written: %v, %v, %v", posts, users, err)
			}
		}
	})
}

// The repair costs two more round trips, and only the call that meets the key pays them.
func TestRepairsCostTwoRoundTrips(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.buildFromFacts(FeedFacts{})
		v.replaceWithStringKey(DocumentKey(reader))
		for i, want := range []int{3, 1} {
			ctx, trips := redis.WithRoundTrips(v.Context())
			if _, err := v.projections.DocumentVersions(ctx, []services.UserID{otherUser, reader}); err != nil || trips.Count() != want {
				v.Errorf("%d: %d round trips, %v, want %d", i, trips.Count(), err, want)
			}
		}
	})
}

// If the projection cannot be emptied either, that error is returned: its code says whether a retry may help.
func TestErrorsOfEmptyingAKeyAreReturned(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.replaceWithStringKey(DocumentKey(reader))
		ended, cancel := context.WithCancel(v.Context())
		cancel()
		if err := v.projections.repairWrongType(ended, []string{DocumentKey(reader)}); !services.IsUnavailable(err) {
			v.Errorf("%v, want UNAVAILABLE", err)
		}
		if err := v.projections.repairWrongType(ended, []string{postKey(3)}); !services.IsUnavailable(err) {
			v.Errorf("a copy: %v, want UNAVAILABLE", err)
		}
	})
}

func TestUserOfDataKey(t *testing.T) {
	for key, want := range map[string]services.UserID{
		DocumentKey(reader): reader, inboxKey(1 << 31): 1 << 31, conversationsKey(otherUser): otherUser, onlineKey(1): 1,
		profileKey(reader): 0, postKey(7): 0, "v:{u7}:b/x": 0, "{u7": 0, "{ux}:b": 0, "{u99999999999}:b": 0, "": 0,
	} {
		if got, ok := userOfDataKey(key); ok != (want != 0) || ok && got != want {
			t.Errorf("%q: %d, %v, want %d", key, got, ok, want)
		}
	}
	for text, want := range map[string]bool{
		"WRONGTYPE Operation against a key holding the wrong kind of value":                                                         true,
		"ERR Error running script (call to f_1): @user_script:9: WRONGTYPE Operation against a key holding the wrong kind of value": true,
		"ERR user_script:3: attempt to compare nil with number":                                                                     false,
	} {
		if got := redis.IsWrongType(fmt.Errorf("%s", text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if redis.IsWrongType(nil) || redis.IsWrongType(redis.Nil) || !strings.HasPrefix(DocumentKey(1), "{u") {
		t.Error("nothing is of another type")
	}
}
