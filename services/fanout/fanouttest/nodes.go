package fanouttest

import (
	"context"
	"slices"

	gocmp "github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/jobs"
	"tidings/services/nodecache"
	"tidings/services/projector"
	"tidings/services/rdb"
)

// Feature makes the service of a feature for one node, and registers the service's jobs.
type Feature func(w *World, f *Fanout)

// DocumentDiff is the difference between a part of a user's document and the facts, "" when there is none.
type DocumentDiff func(w *World, user services.UserID, document rdb.Document) string

// Install makes a feature for the world's node, and for each node that is made after it.
func (w *World) Install(feature Feature) {
	w.features = append(w.features, feature)
	feature(w, w.Fanout)
}

// RegisterDocumentDiff makes DiffAgainstFacts call compare too.
func (w *World) RegisterDocumentDiff(compare DocumentDiff) {
	w.documentDiffs = append(w.documentDiffs, compare)
}

// RegisterCategoryCountsDiff makes DiffAgainstFacts compare a document's counts of notifications too; facts reads them from SQL.
func (w *World) RegisterCategoryCountsDiff(facts func(ctx context.Context, user services.UserID) ([]services.CategoryCounts, error)) {
	w.RegisterDocumentDiff(func(w *World, user services.UserID, document rdb.Document) string {
		w.TB.Helper()
		var got, want []services.CategoryCounts
		if document.Ready {
			got = slices.Clone(document.Notifications)
		}
		counts, err := facts(w.TB.Context(), user)
		w.Must(err)
		defined := slices.Clone(services.Categories)
		for _, host := range document.Categories.All() {
			defined = append(defined, host.Name)
		}
		for i, category := range defined {
			host, _ := document.Categories.Find(category)
			want = append(want, services.CategoryCounts{Category: category, HostCategoryID: host.ID})
			for _, count := range counts {
				if count.Category == category {
					want[i] = count
				}
			}
			// A version of 0 means that the count never changed, on whatever day.
			if i < len(got) && got[i].Version == 0 && want[i].Version == 0 {
				got[i].NewestDay = want[i].NewestDay
			}
		}
		return gocmp.Diff(want, got)
	})
}

// Fanout is the fan-out of one node, with the queue and the projector below it.
type Fanout struct {
	*fanout.Fanout
	*jobs.Engine
	Projector *projector.Projector
}

// AnotherFanout makes a queue, a projector and a fan-out for one more node on the same engines, with the features that are installed. It
// shares the node cache of the first node. AnotherNode makes a node with a cache of its own, which learns of changes by the changelog.
func (w *World) AnotherFanout() *Fanout {
	projectorConfig, cfg := w.projectorConfig, w.fanoutConfig
	cfg.Jobs = jobs.New(w.jobsConfig)
	projectorConfig.Jobs = cfg.Jobs
	cfg.Projector = projector.New(projectorConfig)
	f := &Fanout{Fanout: fanout.New(cfg), Engine: cfg.Jobs, Projector: cfg.Projector}
	for _, feature := range w.features {
		feature(w, f)
	}
	return f
}

// AnotherNode makes one more node on the same engines, with a node cache of its own.
func (w *World) AnotherNode() *World { return w.AnotherNodeWith(w.Redis, nil) }

// AnotherNodeWith makes one more node on the same engines. Its node cache is its own, and reads the copies of facts from redis. change
// changes the settings of its projector; nil changes nothing.
func (w *World) AnotherNodeWith(redis nodecache.CopyStore, change func(*projector.Config)) *World {
	// A copy of the world shares the engines and the clock. The fields that are set below are its own.
	other := *w
	other.Caches = nodecache.New(nodecache.Config{Facts: nodecache.SQL{DB: w.DB}, Redis: redis, Clock: w.Clock, Log: w.Log})
	other.IDs = services.NewIDClock(w.Clock, 2)
	other.projectorConfig.Activity = other.Caches.Activity
	other.projectorConfig.IDs, other.fanoutConfig.IDs = other.IDs, other.IDs
	if change != nil {
		change(&other.projectorConfig)
	}
	other.Fanout = other.AnotherFanout()
	other.Projector = other.Fanout.Projector
	return &other
}
