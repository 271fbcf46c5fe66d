// Package notificationstest adds notifications to the worlds of tests.
package notificationstest

import (
	"context"
	"strconv"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/notifications"
	"tidings/services/posts"
	"tidings/services/projector"
	"tidings/services/rdb"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// New makes the notifications of a world's node, and lets CheckAgainstFacts compare their counts with the facts.
func New(w *fanouttest.World) *notifications.Service {
	registerCountsComparison(w)
	return makeService(w, w.Fanout)
}

// Install makes the notifications of the world's node and of nodes made later, and lets CheckAgainstFacts compare their counts with the
// facts.
func Install(w *fanouttest.World) {
	registerCountsComparison(w)
	w.Install(func(w *fanouttest.World, f *fanouttest.Fanout) { makeService(w, f) })
}

// makeService makes the notifications of one node.
func makeService(w *fanouttest.World, f *fanouttest.Fanout) *notifications.Service {
	return notifications.New(notifications.Config{DB: w.DB, Redis: w.Redis, Jobs: f.Engine, Projector: f.Projector, IDs: w.IDs, Log: w.Log})
}

// registerCountsComparison lets CheckAgainstFacts compare the counts in documents with the facts.
func registerCountsComparison(w *fanouttest.World) {
	w.RegisterCategoryCountsDiff(func(_ context.Context, user services.UserID) ([]services.CategoryCounts, error) {
		return CountsFromFacts(w, user), nil
	})
}

// CountsFromFacts are a user's counts according to the facts. A category that never had a notification or a mark is absent.
func CountsFromFacts(w *fanouttest.World, user services.UserID) []services.CategoryCounts {
	w.TB.Helper()
	// The service has jobs of its own, because the world's jobs can have one service of notifications, and may have one already.
	engine := jobs.New(jobs.Config{DB: w.DB, Clock: w.Clock, Log: w.Log})
	projections := projector.New(projector.Config{Jobs: engine, DB: w.DB, Clock: w.Clock, IDs: w.IDs})
	service := notifications.New(notifications.Config{DB: w.DB, Jobs: engine, Projector: projections, IDs: w.IDs, Log: w.Log})
	var documents [1]rdb.Document
	w.Must(service.Source().Facts(w.TB.Context(), []services.UserID{user}, 0, documents[:]))
	return documents[0].Notifications
}

// Subjects are the subjects of the notifications in one category of a user's list, the newest first.
func Subjects(w *fanouttest.World, user services.UserID, category services.Category) (subjects []services.SortableID) {
	w.TB.Helper()
	lines, err := sqltest.QueryLines(w.TB.Context(), w.DB,
		"SELECT subject FROM notification_groups WHERE recipient = $1 AND category = $2 AND newest > 0 ORDER BY at DESC, subject DESC", user, string(category))
	w.Must(err)
	for _, line := range lines {
		subject, err := strconv.ParseInt(line, 10, 64)
		w.Must(err)
		subjects = append(subjects, services.SortableID(subject))
	}
	return subjects
}

// Like writes a like and its job.
func Like(w *fanouttest.World, post services.PostID, author, liker services.UserID) {
	w.TB.Helper()
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		if _, err := posts.InsertLike(ctx, tx, post, liker, tx.Now); err != nil {
			return err
		}
		job, err := notifications.NotifyJob(notifications.Cause{Recipient: author, Category: services.CategoryLike, Subject: services.SortableID(post), Actor: liker})
		if err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, job)
	})
}
