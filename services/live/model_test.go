package live

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/sql"
)

// hostHistory is a history of hosts, of which some become big and huge, and of their followers.
type hostHistory struct {
	*fanouttest.World
	t              *rapid.T
	hosts          []services.UserID
	readers        []services.UserID           // the followers of the hosts; one of them is a host too
	liveShows      []services.ShowID           // the shows that are live now
	follows        map[[2]services.UserID]bool // by reader and host
	muted          map[[2]services.UserID]bool // by reader and host
	pendingFollows map[[2]services.UserID]bool // pairs whose follow or unfollow has a pending job
}

// Hosts, followers and keys change in any order, and workers die at any step. If the shows of a host are on boards, then the document
// of each follower of the host names the host, unless a job for that follow is pending. When all jobs have run, every board equals the
// facts, and the audit finds nothing.
func TestBoardsEqualTheFactsAfterCrashes(t *testing.T) {
	settings := func(cfg *fanout.Config) {
		cfg.ChunkSize = 1
		cfg.BigFollowers, cfg.HugeFollowers = 100, 200
	}
	eachEnginePair(t, settings, func(t *testing.T, w *fanouttest.World) {
		fanouttest.ReduceRapidChecks(t, w, 4)
		rapid.Check(t, func(t *rapid.T) {
			users := w.MakeUsers(4)
			none := func() map[[2]services.UserID]bool { return map[[2]services.UserID]bool{} }
			b := &hostHistory{World: w, t: t, hosts: users[:2], readers: users[1:], follows: none(), muted: none(), pendingFollows: none()}
			b.startFollows(rapid.Bool().Draw(t, "with lists"))
			for range rapid.IntRange(5, 30).Draw(t, "steps") {
				b.runRandomStep()
				b.checkDocumentsNameHosts()
			}
			b.Clock.Advance(31 * time.Second)
			b.RunAllJobs(b.AnotherFanout())
			for _, host := range b.hosts {
				if known, named, err := readHost(b.TB.Context(), b.DB.Runner, host); err != nil || known && !named {
					t.Fatalf("host %d is known %v and named %v: %v", host, known, named, err)
				}
			}
			for _, user := range users {
				readOrRebuildBoard(b.World, user)
				if difference := b.DiffAgainstFacts(user); difference != "" {
					t.Fatalf("user %d is shown something else than the facts (-facts +shown):\n%s", user, difference)
				}
				if differed, err := b.Projector.Recount(b.TB.Context(), user); err != nil || len(differed) > 0 {
					t.Fatalf("the audit finds of user %d: %v, %v", user, differed, err)
				}
			}
			if _, dead := b.CountJobs(); dead > 0 {
				t.Fatalf("%d jobs are dead", dead)
			}
		})
	})
}

// startFollows lets all readers follow the hosts. If withReplays is set, shows exist already and every board has been read.
func (b *hostHistory) startFollows(withReplays bool) {
	for _, host := range b.hosts {
		for _, reader := range b.readers {
			if reader != host {
				b.Follow(host, reader)
				b.follows[[2]services.UserID{reader, host}] = true
			}
		}
		if withReplays {
			newReplay(b.World, host)
		}
	}
	b.RunAllJobs(b.Fanout)
	for _, reader := range b.readers {
		if withReplays {
			readOrRebuildBoard(b.World, reader)
		}
	}
}

// runRandomStep runs one random change of the facts or the keys.
func (b *hostHistory) runRandomStep() {
	host := rapid.SampledFrom(b.hosts).Draw(b.t, "host")
	reader := rapid.SampledFrom(b.readers).Draw(b.t, "reader")
	pair := [2]services.UserID{reader, host}
	switch step := rapid.SampledFrom([]string{
		"follow", "follow", "follow", "unfollow", "unfollow", "mute", "start", "end", "replay", "replay", "replay", "replay",
		"work", "work", "work", "crash", "crash", "board", "board", "board", "lose", "drop", "later", "away", "mode",
	}).Draw(b.t, "step"); step {
	case "follow":
		if reader != host && !b.follows[pair] {
			b.Follow(host, reader)
			b.follows[pair], b.pendingFollows[pair] = true, true
		}
	case "unfollow":
		if b.follows[pair] {
			b.Unfollow(host, reader)
			delete(b.follows, pair)
			b.pendingFollows[pair] = true
		}
	case "mute":
		b.toggleMute(pair)
	case "start":
		id := planShow(b.World, host, time.Hour)
		startShows(b.World, id)
		b.liveShows = append(b.liveShows, id)
	case "end":
		if len(b.liveShows) > 0 {
			i := rapid.IntRange(0, len(b.liveShows)-1).Draw(b.t, "show")
			endShows(b.World, b.liveShows[i])
			b.liveShows = slices.Delete(b.liveShows, i, i+1)
		}
	case "replay":
		newReplay(b.World, host)
	case "work":
		b.runJobsOrCrash(rapid.IntRange(1, 6).Draw(b.t, "jobs"), -1)
	case "crash":
		b.runJobsOrCrash(rapid.IntRange(1, 6).Draw(b.t, "jobs"), rapid.IntRange(1, 60).Draw(b.t, "looks"))
	case "board":
		readOrRebuildBoard(b.World, reader)
	case "later":
		b.Clock.Advance(rapid.SampledFrom([]time.Duration{time.Second, 6 * time.Second, 31 * time.Second}).Draw(b.t, "by"))
	case "mode":
		mode := services.AuthorMode(rapid.IntRange(0, 2).Draw(b.t, "mode"))
		b.Must(b.Fanout.PinMode(b.TB.Context(), host, &mode))
	default:
		b.loseData(step, reader)
	}
}

// loseData removes keys, or makes a reader idle by a long absence.
func (b *hostHistory) loseData(what string, reader services.UserID) {
	ctx := b.TB.Context()
	switch what {
	case "lose":
		part := rapid.SampledFrom([]string{"b", "i", "r", "r"}).Draw(b.t, "part")
		if b.RedisServer != nil {
			b.RedisServer.Do("DEL", fmt.Sprintf("{u%d}:%s", reader, part))
		} else if part == "r" {
			deleteReplayLists(b.World, reader)
		}
	case "drop":
		for _, user := range b.readers {
			_, err := b.Redis.DropUsers(ctx, []services.UserID{user}, 1<<40)
			b.Must(err)
		}
	case "away":
		b.Clock.Advance(8 * 24 * time.Hour)
		b.Must(b.Projector.Rebuild(ctx, reader))
	}
}

// toggleMute makes a reader mute a host, or ends the mute if there is one.
func (b *hostHistory) toggleMute(pair [2]services.UserID) {
	restriction := services.Restriction{Kind: services.Mute, Owner: pair[0], Other: pair[1], MadeAt: b.IDs.Next()}
	if pair[0] == pair[1] {
		return
	}
	b.Write(func(ctx context.Context, tx *sql.Tx) (err error) {
		if b.muted[pair] {
			_, err = people.Unrestrict(ctx, tx, restriction)
		} else {
			_, err = people.Restrict(ctx, tx, restriction)
		}
		if err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, fanout.FollowJob(pair[0], pair[1]))
	})
	b.muted[pair], b.pendingFollows[pair] = !b.muted[pair], true
}

// runJobsOrCrash runs up to count due jobs by a worker that dies when its context has been checked looks times. If looks is
// negative, it lives.
func (b *hostHistory) runJobsOrCrash(count, looks int) {
	if err := b.RunSomeJobs(count, looks); err != nil {
		b.t.Fatal(err)
	}
}

// checkDocumentsNameHosts checks the rule that keeps boards complete: each document of a follower names every followed host whose
// shows are on boards.
func (b *hostHistory) checkDocumentsNameHosts() {
	published := map[services.UserID]bool{}
	for _, host := range b.hosts {
		_, named, err := readHost(b.TB.Context(), b.DB.Runner, host)
		b.Must(err)
		published[host] = named
	}
	for pair := range b.follows {
		if reader, host := pair[0], pair[1]; published[host] && !b.pendingFollows[pair] && documentLacksHost(b.World, reader, host) {
			b.t.Fatalf("host %d is on boards, and the document of their follower %d does not name them", host, reader)
		}
	}
}

// documentLacksHost reports whether a reader's document does not name a host and would be shown as it is. A document of an idle user
// may lack hosts, because it is rebuilt before it is shown.
func documentLacksHost(w *fanouttest.World, reader, host services.UserID) bool {
	w.TB.Helper()
	document := w.Document(reader)
	return document.Ready && !w.Projector.IsOfIdleUser(document) && !documentNamesHost(w, reader, host)
}

// A dormant follower can still have a document if its keys outlive the thresholds. A new host is not written into it. Such a
// document counts as absent, and names the host after the rebuild at its next read.
func TestADormantFollowersDocumentNamesANewHostWhenItIsRead(t *testing.T) {
	eachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(3)
		host, dormant, active := users[0], users[1], users[2]
		w.Follow(host, dormant, active)
		w.RunAllJobs(w.Fanout)
		w.Clock.Advance(w.Projector.ActivityThresholds().DormantAfter + 48*time.Hour)
		w.Must(w.Projector.Rebuild(t.Context(), active))
		show := newReplay(w, host)
		w.RunAllJobs(w.Fanout)
		if !documentNamesHost(w, active, host) || onBoardsSinceVersion(w, show) == 0 {
			t.Fatalf("the active follower's document names the host: %v; the show has version %d", documentNamesHost(w, active, host), onBoardsSinceVersion(w, show))
		}
		if document := w.Document(dormant); !document.Ready || documentNamesHost(w, dormant, host) || documentLacksHost(w, dormant, host) {
			t.Errorf("the dormant follower's document: ready %v, names the host %v, would be shown without it %v",
				document.Ready, documentNamesHost(w, dormant, host), documentLacksHost(w, dormant, host))
		}
		if read := readOrRebuildBoard(w, dormant); len(read.Replays) != 1 || read.Replays[0].Position.ID != show || !documentNamesHost(w, dormant, host) {
			t.Errorf("the board that is read has %+v, and the document names the host: %v", read.Replays, documentNamesHost(w, dormant, host))
		}
		w.CheckAgainstFacts(dormant, active)
	})
}
