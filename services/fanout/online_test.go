package fanout_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/nodecache"
	"tidings/services/people"
	"tidings/services/posts"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// workersOf are the workers of one node: for short work, for chunks, and for chunks of online followers.
func workersOf(f *fanouttest.Fanout) (quick, bulk, online *jobs.Worker) {
	workers := f.Workers(1)
	return workers[0], workers[1], workers[2]
}

// runOnce lets a worker check for jobs once.
func runOnce(w *fanouttest.World, worker *jobs.Worker) (claimed int) {
	w.TB.Helper()
	claimed, err := worker.RunOnce(w.TB.Context())
	w.Must(err)
	return claimed
}

// If a post has several chunks, online followers get it first, whatever their IDs, and online users who do not follow get
// nothing.
func TestOnlineFollowersGetAPostFirst(t *testing.T) {
	fanouttest.EachEnginePair(t, smallChunks, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(9)
		author, last, stranger := users[0], users[7], users[8]
		w.Follow(author, users[1:8]...)
		w.RunAllJobs(w.Fanout)
		w.Must(w.Redis.Presence.WriteOnlineLeases(t.Context(), []services.UserID{last, stranger}, time.Hour))
		post := w.Post(author)
		quick, bulk, online := workersOf(w.Fanout)
		runOnce(w, quick)
		if runOnce(w, online) != 1 || runOnce(w, online) != 0 {
			t.Fatal("there is not one chunk of those who are online")
		}
		for i, user := range users[1:] {
			if listed, _ := inboxListsPost(w, user, post); listed != (user == last) {
				t.Errorf("after the first chunk: follower %d has the post: %v", i+1, listed)
			}
		}
		for runOnce(w, bulk) > 0 {
		}
		w.CheckAgainstFacts(users...)
		w.Delete(post)
		w.RunAllJobs(w.Fanout)
		w.CheckAgainstFacts(users...)
	})
}

// If many more users are online than an author has followers, the chunks check the followers and not the online users. Online
// followers still come first.
func TestOnlineFollowersComeFirstAmongManyOnlineUsers(t *testing.T) {
	fanouttest.EachEnginePair(t, smallChunks, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(7)
		author, watching := users[0], []services.UserID{users[2], users[6]}
		w.Follow(author, users[1:]...)
		w.RunAllJobs(w.Fanout)
		crowd := make([]services.UserID, 200)
		for i := range crowd {
			crowd[i] = services.UserID(1000 + i)
		}
		w.Must(w.Redis.Presence.WriteOnlineLeases(t.Context(), append(crowd, watching...), time.Hour))
		post := w.Post(author)
		quick, bulk, online := workersOf(w.Fanout)
		runOnce(w, quick)
		for !allInboxesListPost(w, watching, post) {
			if runOnce(w, bulk) > 0 || runOnce(w, online) == 0 {
				t.Fatal("not all online followers are served before the others")
			}
		}
		for i, user := range users[1:] {
			if listed, _ := inboxListsPost(w, user, post); listed != slices.Contains(watching, user) {
				t.Errorf("after the online chunks: follower %d has the post: %v", i+1, listed)
			}
		}
		w.RunAllJobs(w.Fanout)
		w.CheckAgainstFacts(users...)
	})
}

// allInboxesListPost reports whether the inboxes of all these users list a post.
func allInboxesListPost(w *fanouttest.World, users []services.UserID, post services.PostID) bool {
	return !slices.ContainsFunc(users, func(user services.UserID) bool {
		listed, _ := inboxListsPost(w, user, post)
		return !listed
	})
}

// Workers of the other queue classes have no job of a post until its online followers have the post.
func TestOthersWaitForOnlineFollowers(t *testing.T) {
	fanouttest.EachEnginePair(t, smallChunks, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(9)
		w.Follow(users[0], users[1:]...)
		w.RunAllJobs(w.Fanout)
		w.Must(w.Redis.Presence.WriteOnlineLeases(t.Context(), users[8:], time.Hour))
		post := w.Post(users[0])
		quick, bulk, online := workersOf(w.Fanout)
		runOnce(w, quick)
		if claimed := runOnce(w, bulk); claimed != 0 {
			t.Fatalf("%d chunks of others are there before the online followers have the post", claimed)
		}
		if bySQL, byLog := postsOfInFlightFanouts(w); !slices.Equal(bySQL, []services.PostID{post}) || !slices.Equal(byLog, bySQL) {
			t.Errorf("%v and %v are on their way", bySQL, byLog)
		}
		runOnce(w, online)
		if runOnce(w, bulk) != 1 {
			t.Error("no chunk of others is there after the online followers have the post")
		}
		w.RunAllJobs(w.Fanout)
		w.CheckAgainstFacts(users...)
		if bySQL, byLog := postsOfInFlightFanouts(w); len(bySQL)+len(byLog) != 0 {
			t.Errorf("after all %v and %v are on their way", bySQL, byLog)
		}
	})
}

// After a chunk of online followers has failed at its last try, the others get the post, and so do the followers that it missed.
func TestAFailingOnlineChunkDoesNotHoldThePost(t *testing.T) {
	w := fanouttest.New(t, fanouttest.Options{Fanout: smallChunks})
	users := w.MakeUsers(9)
	w.Follow(users[0], users[1:]...)
	w.RunAllJobs(w.Fanout)
	w.Must(w.Redis.Presence.WriteOnlineLeases(t.Context(), users[8:], time.Hour))
	w.Post(users[0])
	quick, _, online := workersOf(w.Fanout)
	runOnce(w, quick)
	const set = "on:" // the prefix of the keys of online users; one key gets the wrong type, which is an error of the job itself
	shard := set + strconv.Itoa(int(users[8])%rdb.OnlineShards)
	w.RedisServer.Do("SET", shard, "a string")
	for range jobs.MaxTries {
		runOnce(w, online)
		w.Clock.Advance(time.Minute)
	}
	w.RunAllJobs(w.Fanout)
	w.CheckAgainstFacts(users...)
	if _, dead, _, err := jobs.JobCounts(t.Context(), w.DB); err != nil || dead != 0 {
		t.Errorf("%d jobs are dead, %v: want none", dead, err)
	}
}

// Within a post's only chunk online followers come first too: Redis's log shows the order of commands.
func TestOnlineFollowersComeFirstInOneChunk(t *testing.T) {
	w := fanouttest.New(t, fanouttest.Options{})
	users := w.MakeUsers(9)
	w.Follow(users[0], users[1:]...)
	w.RunAllJobs(w.Fanout)
	w.Must(w.Redis.Presence.WriteOnlineLeases(t.Context(), []services.UserID{users[4], users[8], 1000}, time.Hour))
	w.RedisServer.Do("CONFIG", "SET", "slowlog-max-len", "10000")
	w.RedisServer.Do("CONFIG", "SET", "slowlog-log-slower-than", "0") // every command is logged
	post := w.Post(users[0])
	w.RunAllJobs(w.Fanout)
	var order []services.UserID
	for _, entry := range slices.Backward(w.RedisServer.Do("SLOWLOG", "GET", "10000").([]any)) {
		words := fmt.Sprint(entry.([]any)[3])
		for _, user := range users[1:] {
			if strings.Contains(words, post.String()) && strings.Contains(words, fmt.Sprintf("{u%d}:i", user)) && !slices.Contains(order, user) {
				order = append(order, user)
			}
		}
	}
	want := []services.UserID{users[4], users[8], users[1], users[2], users[3], users[5], users[6], users[7]}
	if !slices.Equal(order, want) {
		t.Errorf("the followers got the post in the order %v: want %v", order, want)
	}
	w.CheckAgainstFacts(users...)
}

// postsOfInFlightFanouts returns the posts that are in flight according to SQL, and according to the changelog.
func postsOfInFlightFanouts(w *fanouttest.World) (bySQL, byLog []services.PostID) {
	w.TB.Helper()
	inFlight, err := posts.InFlightFanouts(w.TB.Context(), w.DB)
	w.Must(err)
	for _, one := range inFlight {
		bySQL = append(bySQL, one.Post)
	}
	for _, entry := range logEntries(w, nodecache.FanoutChangelogKind) {
		change, err := nodecache.ParseFanoutChange(entry)
		w.Must(err)
		byLog = slices.DeleteFunc(byLog, func(post services.PostID) bool { return post == change.Post })
		if !change.Ended {
			byLog = append(byLog, change.Post)
		}
	}
	return bySQL, byLog
}

// From its split to the end of its last chunk a post with several chunks is in flight, once according to SQL and once according to the
// changelog.
func TestAFanOutIsInFlightUntilItsEnd(t *testing.T) {
	fanouttest.EachEnginePair(t, smallChunks, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(6)
		w.Follow(users[0], users[1:]...)
		w.Follow(users[1], users[2])
		w.RunAllJobs(w.Fanout)
		known := func(when string, want ...services.PostID) {
			t.Helper()
			bySQL, byLog := postsOfInFlightFanouts(w)
			if !slices.Equal(bySQL, want) || !slices.Equal(byLog, want) {
				t.Errorf("%s: on their way are %v by SQL and %v by the log, want %v", when, bySQL, byLog, want)
			}
		}
		post := w.Post(users[0])
		w.Post(users[1]) // one chunk: it is never in flight
		known("before the split")
		quick, bulk, _ := workersOf(w.Fanout)
		runOnce(w, quick)
		known("after the split", post)
		lag, err := w.Fanout.Lag(t.Context())
		w.Must(err)
		if lag.WaitingJobs != 3 {
			t.Errorf("the lag is %+v", lag)
		}
		w.Clock.Advance(3 * time.Second)
		runOnce(w, bulk)
		runOnce(w, bulk)
		known("before the last chunk", post)
		if lag, err = w.Fanout.Lag(t.Context()); err != nil || lag.WaitingJobs != 1 || lag.OldestJobAge < 3*time.Second {
			t.Errorf("the lag is %+v, %v", lag, err)
		}
		runOnce(w, bulk)
		known("after the last chunk")
		if lag, err = w.Fanout.Lag(t.Context()); err != nil || lag != (fanout.Lag{}) {
			t.Errorf("the lag is %+v, %v", lag, err)
		}
		w.Delete(post)
		runOnce(w, quick)
		known("while it is taken out")
		w.RunAllJobs(w.Fanout)
		if entries := logEntries(w, nodecache.FanoutChangelogKind); len(entries) != 2 {
			t.Errorf("the log has %d entries of one fan-out", len(entries))
		}
	})
}

// A worker that dies in the middle of many chunks skips none, and no inbox gets a post twice. The post stays in flight until
// another worker has done the rest.
func TestACrashAmongManyChunksSkipsAndRepeatsNone(t *testing.T) {
	fanouttest.EachEnginePair(t, smallChunks, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(14)
		w.Follow(users[0], users[1:]...)
		w.RunAllJobs(w.Fanout)
		w.Must(w.Redis.Presence.WriteOnlineLeases(t.Context(), users[5:9], time.Hour))
		post := w.Post(users[0])
		quick, bulk, _ := workersOf(w.Fanout)
		runOnce(w, quick)
		runOnce(w, bulk)
		held := w.ClaimDueJobs() // a worker claims all the others, delivers half of them, and dies before it records that
		for _, job := range held[:len(held)/2] {
			ctx, die := context.WithCancel(t.Context())
			if err := w.Fanout.DeliverChunk(ctx, job); err != nil {
				t.Fatal(err)
			}
			die()
		}
		if bySQL, byLog := postsOfInFlightFanouts(w); !slices.Equal(bySQL, []services.PostID{post}) || !slices.Equal(byLog, bySQL) {
			t.Errorf("after the crash %v and %v are on their way", bySQL, byLog)
		}
		w.Clock.Advance(31 * time.Second)
		other := w.AnotherFanout()
		_, bulk, online := workersOf(other)
		runOnce(w, online)
		runOnce(w, bulk)
		for _, job := range held { // the dead worker can no longer finish the jobs that the other worker has done
			if err := w.Fanout.RunJobs(t.Context(), []jobs.Job{job}); err != nil && !services.IsUnavailable(err) {
				t.Errorf("the dead worker comes back: %v", err)
			}
			if waiting, _ := w.CountJobs(); waiting > 0 {
				if bySQL, _ := postsOfInFlightFanouts(w); !slices.Equal(bySQL, []services.PostID{post}) {
					t.Errorf("%d chunks wait, and %v are on their way", waiting, bySQL)
				}
			}
		}
		w.RunAllJobs(w.Fanout)
		w.CheckAgainstFacts(users...)
		if bySQL, byLog := postsOfInFlightFanouts(w); len(bySQL)+len(byLog) != 0 {
			t.Errorf("after all %v and %v are on their way", bySQL, byLog)
		}
		if entries := logEntries(w, nodecache.FanoutChangelogKind); len(entries) != 2 {
			t.Errorf("the log has %d entries of one fan-out", len(entries))
		}
	})
}

// A big author's post is pushed to followers who are not idle, a small author's post to followers who are not dormant. A deletion
// goes to all followers who are not dormant.
func TestIdleUsersGetNoPostsOfBigAuthors(t *testing.T) {
	fanouttest.EachEnginePair(t, smallChunks, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(6)
		big, small, idle, active := users[0], users[1], users[2:4], users[4:6]
		w.Follow(big, users[2:]...)
		w.Follow(small, users[2:]...)
		w.SetMode(big, services.AuthorBig)
		w.RunAllJobs(w.Fanout)
		w.Clock.Advance(10 * 24 * time.Hour)
		w.Write(func(ctx context.Context, tx *sql.Tx) error { return people.MarkActive(ctx, tx, active) })
		ofBig, ofSmall := w.Post(big), w.Post(small)
		w.RunAllJobs(w.Fanout)
		for _, user := range users[2:] {
			gotBig, _ := inboxListsPost(w, user, ofBig)
			gotSmall, _ := inboxListsPost(w, user, ofSmall)
			if gotBig == slices.Contains(idle, user) || !gotSmall {
				t.Errorf("user %d has the big author's post %v and the small one's %v", user, gotBig, gotSmall)
			}
			if away := w.Projector.IsOfIdleUser(w.Document(user)); !away {
				t.Errorf("user %d, whose document nobody has touched for ten days, is not away", user)
			}
		}
		for _, user := range users {
			w.Must(w.Projector.Rebuild(t.Context(), user))
			if w.Projector.IsOfIdleUser(w.Document(user)) {
				t.Errorf("user %d is away after they have returned", user)
			}
		}
		w.CheckAgainstFacts(users...)
		w.SetMode(big, services.AuthorSmall)
		w.Clock.Advance(10 * 24 * time.Hour)
		w.Delete(ofBig)
		w.RunAllJobs(w.Fanout)
		w.CheckAgainstFacts(users...)
	})
}

// Every user whose document does not count as one of an idle user had every post of a big author pushed to them, at whatever hours the
// visit, the read and the fan-out happen. So no user is left out between the cutoff of fan-out and that of IsOfIdleUser.
func TestEveryUserWhoIsNotIdleGetsPostsOfBigAuthors(t *testing.T) {
	w := newEmbeddedWorld(t, nil)
	users := w.MakeUsers(2)
	w.Follow(users[0], users[1])
	w.RunAllJobs(w.Fanout)
	w.SetMode(users[0], services.AuthorBig)
	for range 11 * 4 {
		w.Clock.Advance(6*time.Hour - time.Minute)
		post := w.Post(users[0])
		w.RunDueJobs(w.Fanout)
		if listed, _ := inboxListsPost(w, users[1], post); !listed && !w.Projector.IsOfIdleUser(w.Document(users[1])) {
			t.Fatalf("after %s the user has no post and is not away", w.Clock.Now().Sub(fanouttest.StartTime))
		}
	}
	if !w.Projector.IsOfIdleUser(w.Document(users[1])) {
		t.Error("after eleven days the user is not away")
	}
}
