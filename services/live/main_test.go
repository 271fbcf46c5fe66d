package live

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/notifications/notificationstest"
	"tidings/services/positions"
	"tidings/services/sql"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// configOf is the configuration of the shows of a world's node.
func configOf(w *fanouttest.World, f *fanouttest.Fanout) Config {
	return Config{
		DB: w.DB, Redis: w.Redis, Reader: w.Caches.Reader, Changelog: w.Caches.Changelog, Jobs: f.Engine, Projector: f.Projector, Fanout: f.Fanout, IDs: w.IDs, Clock: w.Clock,
	}
}

// installShowService adds notifications and shows to a world's node and to the nodes made later.
func installShowService(w *fanouttest.World) *fanouttest.World {
	notificationstest.Install(w)
	w.RegisterDocumentDiff(diffBoardWithFacts)
	w.Install(func(w *fanouttest.World, f *fanouttest.Fanout) {
		cfg := configOf(w, f)
		if former, made := w.ShowService.(*Service); made && former.reader == w.Caches.Reader { // this node has a service already
			cfg.Memory = former.Memory
		}
		w.ShowService = New(cfg)
	})
	return w
}

// showServiceOf is the service that installShowService made last.
func showServiceOf(w *fanouttest.World) *Service { return w.ShowService.(*Service) }

// eachEnginePair runs a test on both engine pairs, in worlds with shows.
func eachEnginePair(t *testing.T, settings func(*fanout.Config), test func(t *testing.T, w *fanouttest.World)) {
	t.Helper()
	fanouttest.EachEnginePair(t, settings, func(t *testing.T, w *fanouttest.World) { test(t, installShowService(w)) })
}

// redisServerWorld is a world on a redis-server, which the test may flush and kill.
func redisServerWorld(t *testing.T, settings func(*fanout.Config)) *fanouttest.World {
	t.Helper()
	return installShowService(fanouttest.New(t, fanouttest.Options{Fanout: settings}))
}

// boardNode is a node that serves boards on real engines.
type boardNode struct {
	*fanouttest.World
	boards *Service
}

// newBoardNode makes the service with a long wait for rebuilds; change, if not nil, changes its configuration.
func newBoardNode(w *fanouttest.World, change func(*Config)) boardNode {
	cfg := configOf(w, w.Fanout)
	cfg.RebuildWait = 10 * time.Second
	if change != nil {
		change(&cfg)
	}
	s := New(cfg)
	w.ShowService = s
	return boardNode{w, s}
}

// smallChunks makes chunks of two followers: five followers are three chunks.
func smallChunks(cfg *fanout.Config) { cfg.ChunkSize = 2 }

// lowModeThresholds makes authors big with 3 followers and huge with 5, in small chunks.
func lowModeThresholds(cfg *fanout.Config) {
	smallChunks(cfg)
	cfg.BigFollowers, cfg.HugeFollowers = 3, 5
}

func enqueue(w *fanouttest.World, queued ...jobs.NewJob) {
	w.TB.Helper()
	w.Write(func(ctx context.Context, tx *sql.Tx) error { return jobs.Enqueue(ctx, tx, queued...) })
}

// factScenarios together cause every kind of job of shows.
func factScenarios() []fanouttest.FactScenario {
	follow := func(w *fanouttest.World, users []services.UserID) { w.Follow(users[0], users[1:]...) }
	return []fanouttest.FactScenario{
		{Name: "a host's first shows", Prepare: follow, CommitFact: func(w *fanouttest.World, users []services.UserID) {
			planShow(w, users[0], time.Hour)
			startShows(w, planShow(w, users[0], time.Hour))
			newReplay(w, users[0])
		}},
		{Name: "a replay", Prepare: func(w *fanouttest.World, users []services.UserID) {
			follow(w, users)
			newReplay(w, users[0])
			w.RunAllJobs(w.Fanout)
			for _, user := range users {
				readOrRebuildBoard(w, user)
			}
		}, CommitFact: func(w *fanouttest.World, users []services.UserID) { newReplay(w, users[0]) }},
		{Name: "a follow of a host", Prepare: func(w *fanouttest.World, users []services.UserID) {
			w.Follow(users[1], users[2:]...)
			newReplay(w, users[0])
			newReplay(w, users[1])
			w.RunAllJobs(w.Fanout)
			for _, user := range users {
				readOrRebuildBoard(w, user)
			}
		}, CommitFact: func(w *fanouttest.World, users []services.UserID) {
			follow(w, users)
			w.Unfollow(users[1], users[2:]...)
		}},
		{Name: "a look at the board", Prepare: follow, CommitFact: func(w *fanouttest.World, users []services.UserID) {
			w.Write(func(ctx context.Context, tx *sql.Tx) error {
				if _, err := positions.Advance(ctx, tx, users[1], positions.LiveBoardView, 7); err != nil {
					return err
				}
				return jobs.Enqueue(ctx, tx, projectSeenJob(users[1]))
			})
		}},
	}
}

// Every kind of job makes the projections equal to the facts, and repeating all of them changes nothing.
func TestEveryJobOfShowsMakesTheProjectionsEqualTheFacts(t *testing.T) {
	eachEnginePair(t, smallChunks, func(t *testing.T, w *fanouttest.World) {
		for _, step := range factScenarios() {
			t.Run(step.Name, func(t *testing.T) { step.CheckConverges(t, w) })
		}
	})
}

// A worker may die between any two steps of any job. When its leases have expired another worker finishes the job, and
// readers see the facts.
func TestACrashInAJobOfShowsIsRepaired(t *testing.T) {
	for _, step := range factScenarios() {
		t.Run(step.Name, func(t *testing.T) { step.CheckAfterEachCrash(t, redisServerWorld(t, smallChunks)) })
	}
}
