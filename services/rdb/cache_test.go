package rdb

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/redis"
)

func timeAtMicros(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// postUpdatedAt is a post that changed last at a time in microseconds, which is the version of its copy.
func postUpdatedAt(id services.PostID, micros int64) services.Post {
	return services.Post{ID: id, Author: author, Kind: services.PostKindPost, Body: "version " + timeAtMicros(micros).String(), UpdatedAt: timeAtMicros(micros)}
}

// userUpdatedAt is a user whose profile changed last at a time in microseconds, which is the version of its copy.
func userUpdatedAt(id services.UserID, micros int64) services.User {
	return services.User{ID: id, Key: "alice", Name: "version " + timeAtMicros(micros).String(), UpdatedAt: timeAtMicros(micros)}
}

func TestCopiesAreReadAsTheyWereWritten(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		long := postUpdatedAt(1, 1_700_000_000_000_001)
		long.Body = strings.Repeat("日本 \"\\\n\u2028<&>", 400)
		gone := services.Post{ID: services.MaxPostID, Author: ^services.UserID(0), Kind: services.PostKindPost, Deleted: true, UpdatedAt: timeAtMicros(0)}
		alice := userUpdatedAt(1, 1_700_000_000_000_001)
		alice.AvatarURL = "https://example.org/a?b=\"c\"&d"
		nobody := services.User{ID: ^services.UserID(0), Key: "x", UpdatedAt: timeAtMicros(5)}
		v.must(v.projections.PutCopies(v.Context(), []services.Post{long, gone}, []services.User{alice, nobody}))
		ctx, trips := redis.WithRoundTrips(v.Context())
		posts, users, err := v.projections.Copies(ctx, []services.PostID{2, long.ID, gone.ID, long.ID}, []services.UserID{alice.ID, 2, nobody.ID})
		v.must(err)
		if len(posts) != 2 || posts[long.ID] != long || posts[gone.ID] != gone || len(users) != 2 || users[alice.ID] != alice || users[nobody.ID] != nobody {
			v.Errorf("%+v and %+v, want %+v, %+v, %+v and %+v", posts, users, long, gone, alice, nobody)
		}
		if trips.Count() != 1 {
			v.Errorf("both kinds in %d round trips, want 1", trips.Count())
		}
		for _, key := range []string{postKey(long.ID), profileKey(alice.ID)} {
			if left, err := v.projections.Client.Commands().TTL(v.Context(), key).Result(); err != nil || left <= copyLifetime-time.Hour || left > copyLifetime {
				v.Errorf("%s lives for %s, %v: want %s", key, left, err, copyLifetime)
			}
		}
	})
}

func TestZeroCopiesCostNoRoundTrip(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		ctx, trips := redis.WithRoundTrips(v.Context())
		posts, users, err := v.projections.Copies(ctx, nil, nil)
		if err != nil || posts == nil || users == nil || len(posts)+len(users) != 0 {
			v.Errorf("%v, %v, %v", posts, users, err)
		}
		v.must(v.projections.PutCopies(ctx, nil, nil))
		if trips.Count() != 0 {
			v.Errorf("%d round trips for nothing", trips.Count())
		}
	})
}

func TestTheNewestCopyWinsInAnyOrder(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		random := rand.New(rand.NewPCG(1, 3))
		// The stamps lie before 1970, near 0, and where the number of digits changes.
		stamps := []int64{-5, 0, 1, 9, 10, 999_999_999_999_999, 1_000_000_000_000_000, 1_700_000_000_000_000, 1_700_000_000_000_001, 9_999_999_999_999_999}
		newest := stamps[len(stamps)-1]
		for i := range 10 {
			random.Shuffle(len(stamps), func(i, j int) { stamps[i], stamps[j] = stamps[j], stamps[i] })
			id, userID := services.PostID(i), services.UserID(i)
			highest := int64(-1 << 62)
			for _, stamp := range stamps {
				v.must(v.projections.PutCopies(v.Context(), []services.Post{postUpdatedAt(id, stamp)}, []services.User{userUpdatedAt(userID, stamp)}))
				highest = max(highest, stamp)
				posts, users, err := v.projections.Copies(v.Context(), []services.PostID{id}, []services.UserID{userID})
				v.must(err)
				if want := max(highest, 0); posts[id].UpdatedAt != timeAtMicros(want) || users[userID].UpdatedAt != timeAtMicros(want) {
					v.Fatalf("%v: after %d the copies are of %s and %s", stamps, stamp, posts[id].UpdatedAt, users[userID].UpdatedAt)
				}
			}
			posts, users, err := v.projections.Copies(v.Context(), []services.PostID{id}, []services.UserID{userID})
			if err != nil || posts[id] != postUpdatedAt(id, newest) || users[userID] != userUpdatedAt(userID, newest) {
				v.Errorf("%v: the copies are %+v, %+v, %v", stamps, posts[id], users[userID], err)
			}
		}
	})
}

func TestACopyOfTheSameVersionIsWrittenAgain(t *testing.T) {
	// Of two changes within a microsecond the later writer wins, because it read the facts later.
	eachRedis(t, func(v feedTest) {
		first, second := postUpdatedAt(1, 10), postUpdatedAt(1, 10)
		second.Body = "second"
		v.must(v.projections.PutCopies(v.Context(), []services.Post{first}, nil))
		v.must(v.projections.PutCopies(v.Context(), []services.Post{second}, nil))
		posts, _, err := v.projections.Copies(v.Context(), []services.PostID{1}, nil)
		if err != nil || posts[1] != second {
			v.Errorf("%+v, %v", posts, err)
		}
	})
}

func TestABrokenCopyCountsAsMissing(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		for _, text := range []string{"", "1", "1700000000000001", "1700000000000001{", "1700000000000001[]", "1700000000000001\"text\"",
			"17000000000000x1{}", "-700000000000001{}", "170000000000001{}", "1700000000000001{\"a\":-1,\"k\":1}", "garbage and more garbage"} {
			text = text[:min(copyVersionDigits, len(text))] + v.projections.Client.Epoch() + text[min(copyVersionDigits, len(text)):]
			v.must(v.projections.Client.Commands().Set(v.Context(), postKey(1), text, 0).Err())
			v.must(v.projections.Client.Commands().Set(v.Context(), profileKey(1), text, 0).Err())
			posts, users, err := v.projections.Copies(v.Context(), []services.PostID{1}, []services.UserID{1})
			if err != nil || len(posts)+len(users) != 0 {
				v.Errorf("%q is read as %+v, %+v, %v", text, posts, users, err)
			}
		}
	})
}

// No text is read as a copy of another post or user, or as a copy from before 1970.
func FuzzParseCopy(f *testing.F) {
	for _, seed := range []string{"", "170000000000000147{\"a\":1,\"k\":\"POST\"}", "999999999999999947{}", "000000000000000047null"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, ok := range []bool{
			func() bool {
				post, ok := parsePostCopy("47", 7, text)
				return ok && (post.ID != 7 || post.UpdatedAt.UnixMicro() < 0)
			}(),
			func() bool {
				user, ok := parseUserCopy("47", 7, text)
				return ok && (user.ID != 7 || user.UpdatedAt.UnixMicro() < 0)
			}(),
		} {
			if ok {
				t.Errorf("%q is read as another's copy, or one from before 1970", text)
			}
		}
		if _, ok := parsePostCopy("47", 7, text); ok && len(text) <= copyVersionDigits {
			t.Errorf("%q is read as a copy", text)
		}
	})
}
