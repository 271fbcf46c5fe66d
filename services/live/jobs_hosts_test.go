package live

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/positions"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// documentNamesHost reports whether a reader's document names a host.
func documentNamesHost(w *fanouttest.World, reader, host services.UserID) bool {
	w.TB.Helper()
	return slices.ContainsFunc(w.Document(reader).Hosts, func(f services.FollowedAuthor) bool { return f.Author == host })
}

// onBoardsSinceVersion is the version of the log since which boards have a show in its present state; 0 if no board has the show.
func onBoardsSinceVersion(w *fanouttest.World, show services.ShowID) uint64 {
	w.TB.Helper()
	shows, err := readShows(w.TB.Context(), w.DB.Runner, []services.ShowID{show})
	w.Must(err)
	return shows[show].Version
}

// runJobsOfKind runs up to most waiting jobs of one kind, and returns their number. It claims all due jobs: afterwards the leases of the
// others have ended.
func runJobsOfKind(w *fanouttest.World, kind string, most int) (done int) {
	w.TB.Helper()
	for _, job := range w.ClaimDueJobs() {
		if job.Kind == kind && done < most {
			done++
			w.Must(w.Fanout.RunJobs(w.TB.Context(), []jobs.Job{job}))
		}
	}
	w.Clock.Advance(31 * time.Second)
	return done
}

// No board has a show before every follower's document names its host, for any number of chunks and with new followers in
// between. After that, all boards have all shows of the host that were not cancelled.
func TestDocumentsNameAHostBeforeBoardsHaveItsShows(t *testing.T) {
	eachEnginePair(t, smallChunks, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(7)
		host, late := users[0], users[6]
		w.Follow(host, users[1:6]...)
		w.RunAllJobs(w.Fanout)
		dormant := users[5]
		w.Must(w.Redis.ResetUserData(t.Context(), dormant))
		upcoming, live, cancelled, over := planShow(w, host, time.Hour), planShow(w, host, time.Hour), planShow(w, host, time.Hour), planShow(w, host, time.Hour)
		startShows(w, live, over)
		endShows(w, over)
		changeShows(w, []services.ShowID{cancelled}, func(show Show, now time.Time) (Show, bool, error) { return show.cancel(now) })
		if n := runJobsOfKind(w, "host.name", 9); n != 1 {
			t.Fatalf("a host with four shows is named by %d jobs", n)
		}
		if n := runJobsOfKind(w, "host.chunk", 2); n != 2 || onBoardsSinceVersion(w, upcoming) != 0 || onBoardsSinceVersion(w, live) != 0 {
			t.Fatalf("%d chunks were done, the shows have the versions %d and %d", n, onBoardsSinceVersion(w, upcoming), onBoardsSinceVersion(w, live))
		}
		w.Follow(host, late)
		w.Must(w.Fanout.ReconcileFollow(t.Context(), late, host))
		w.Must(w.Projector.Rebuild(t.Context(), dormant))
		if !documentNamesHost(w, late, host) || !documentNamesHost(w, dormant, host) {
			t.Error("who follows or returns meanwhile is not shown the host")
		}
		enqueue(w, hostIntoDocumentsJob(host)) // a repeated job begins nothing
		w.RunAllJobs(w.Fanout)
		for _, user := range users {
			if got, want := documentNamesHost(w, user, host), user != host; got != want {
				t.Errorf("the document of %d names the host: %v, want %v", user, got, want)
			}
		}
		if known, named, err := readHost(t.Context(), w.DB.Runner, host); err != nil || !known || !named {
			t.Errorf("the host is known %v, named %v: %v", known, named, err)
		}
		if onBoardsSinceVersion(w, upcoming) != 1 || onBoardsSinceVersion(w, live) != 2 || onBoardsSinceVersion(w, over) != 3 || onBoardsSinceVersion(w, cancelled) != 0 {
			t.Errorf("the versions are %d, %d, %d and %d", onBoardsSinceVersion(w, upcoming), onBoardsSinceVersion(w, live), onBoardsSinceVersion(w, over), onBoardsSinceVersion(w, cancelled))
		}
		if _, err := w.Caches.Changelog.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		count := func(user services.UserID, seen uint64) services.LiveCount {
			return showServiceOf(w).Memory.CountLive(w.Document(user).Hosts, seen)
		}
		if got := count(users[1], 0); got.NewShows != 1 || got.VersionSum == 0 || got.VersionSum != count(late, 0).VersionSum {
			t.Errorf("a follower has %+v shows to see", got)
		}
		if seen, before := count(users[1], 2), count(late, 0); seen.NewShows != 0 || before.NewShows != 0 {
			t.Errorf("who has seen the board up to then has %+v, who followed after the start %+v", seen, before)
		}
		if read := readOrRebuildBoard(w, late); len(read.Replays) != 1 || read.Replays[0].Position.ID != over {
			t.Errorf("the replays are %+v, want that of %s", read.Replays, over)
		}
		w.CheckAgainstFacts(users...)
	})
}

func TestAHostWithoutFollowersIsOnBoardsAtOnce(t *testing.T) {
	eachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(2)
		show := planShow(w, users[0], time.Hour)
		w.RunAllJobs(w.Fanout)
		if onBoardsSinceVersion(w, show) != 1 {
			t.Errorf("the show has the version %d", onBoardsSinceVersion(w, show))
		}
		if next := planShow(w, users[0], time.Hour); onBoardsSinceVersion(w, next) != 2 {
			t.Errorf("the next show has the version %d", onBoardsSinceVersion(w, next))
		}
		w.Follow(users[0], users[1])
		w.RunAllJobs(w.Fanout)
		w.CheckAgainstFacts(users...)
		w.Unfollow(users[0], users[1])
		w.RunAllJobs(w.Fanout)
		w.CheckAgainstFacts(users...)
		if documentNamesHost(w, users[1], users[0]) {
			t.Error("who follows no longer has the host")
		}
	})
}

// The seen position of a board is in the document after its job, and again after a rebuild of a lost document.
func TestTheSeenPositionOfABoardIsProjected(t *testing.T) {
	eachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		user := w.MakeUsers(1)[0]
		see := func(version services.ShowID) {
			w.Write(func(ctx context.Context, tx *sql.Tx) error {
				_, err := positions.Advance(ctx, tx, user, positions.LiveBoardView, version)
				return err
			})
		}
		want := func(seen uint64) {
			t.Helper()
			if d := w.Document(user); !d.Ready || d.LiveSeenUpTo != seen {
				t.Errorf("seen up to %d, want %d", d.LiveSeenUpTo, seen)
			}
		}
		see(7)
		want(0)
		enqueue(w, projectSeenJob(user))
		w.RunAllJobs(w.Fanout)
		want(7)
		see(5)
		w.Must(showServiceOf(w).projectSeen(t.Context(), user))
		want(7)
		w.Must(w.Redis.ResetUserData(t.Context(), user))
		w.Must(w.Projector.Rebuild(t.Context(), user))
		want(7)
	})
}

// The audit finds an extra host, a host with a wrong time of the follow, a wrong seen position and a wrong list, and reports nothing
// if all are right.
func TestTheAuditFindsWrongBoards(t *testing.T) {
	w := redisServerWorld(t, nil)
	users := w.MakeUsers(4)
	reader := users[0]
	for _, host := range users[1:3] {
		w.Follow(host, reader)
		newReplay(w, host)
	}
	newReplay(w, users[3])
	w.RunAllJobs(w.Fanout)
	first := readOrRebuildBoard(w, reader)
	key := func(part string) string { return fmt.Sprintf("{u%d}:%s", reader, part) }
	differed := func(what string, want ...string) {
		t.Helper()
		got, err := w.Projector.Recount(t.Context(), reader)
		w.Must(err)
		if !slices.Equal(got, want) {
			t.Errorf("%s: it differed in %q, want %q", what, got, want)
		}
		w.CheckAgainstFacts(reader)
		if read := readOrRebuildBoard(w, reader); !slices.Equal(read.Replays, first.Replays) {
			t.Errorf("%s: the replays are %v after that", what, read.Replays)
		}
	}
	differed("right")
	host := func(id services.UserID) {
		stamp, err := w.Redis.TakeUserStamp(t.Context(), reader)
		w.Must(err)
		_, err = w.Redis.MergeAuthors(t.Context(), rdb.HostsField, stamp, []rdb.AuthorAddition{{Reader: reader, Author: services.FollowedAuthor{Author: id, ItemsCountAfter: 1}}})
		w.Must(err)
	}
	host(users[3])
	differed("one too many", "live board: hosts")
	host(users[2])
	differed("since another time", "live board: hosts")
	merge := func(entry replayEntry) {
		stamp, err := w.Redis.TakeUserStamp(t.Context(), reader)
		w.Must(err)
		_, err = showServiceOf(w).redis.mergeReplays(t.Context(), []replayMerge{{Reader: reader, Stamp: stamp, Entries: []replayEntry{entry}}})
		w.Must(err)
	}
	merge(replayEntry{Position: ShowPosition{Replay: true, Score: 1, ID: 1}, Host: users[3]})
	differed("a replay too many", "live board: replays")
	w.RedisServer.Do("ZREMRANGEBYRANK", key("r"), "1", "1")
	differed("one too few", "live board: replays")
	w.RedisServer.Do("ZADD", key("r"), "0", "0stray")
	differed("what is none", "live board: replays")
	w.RedisServer.Do("HSET", key("b"), "B", "7;")
	differed("a mark", "versioned field B")
	w.RedisServer.Do("SET", key("r"), "x")
	differed("a key of another type", "a key that cannot be read")
	if _, err := w.Caches.Changelog.RunOnce(t.Context()); err != nil || showServiceOf(w).Memory.Version() == 0 {
		t.Errorf("memory is at version %d: %v", showServiceOf(w).Memory.Version(), err)
	}
}
