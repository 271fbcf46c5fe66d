// Package notifications notifies users of other users' actions on them and on their posts, and of shows that they wait for.
//
// A fact and the job that notifies its recipient are written in one transaction. This transaction never touches the recipient's
// row, so the many likers of a popular post do not wait for each other. The count of a category is absolute and versioned: a
// repeated or late job does not change it. An undone cause stops counting. The list and the count use one predicate: the count
// has exactly the notifications that the list shows as unseen and not older.
//
// The path of a cause: a feature enqueues NotifyJob in the transaction of its fact. notifyEach takes many such jobs. applyCauses
// locks their recipients, reads the supporting facts and the stored causes, and updates the rows: causes, groups, and the states
// with their versions. project writes the counts into documents; Source renders them. Marks of notifications as seen, read or unread
// change the same rows under the same lock. A host notification is stored once for all recipients, and its causes take the same path
// (host_*.go).
//
// When a mark is answered, it is committed in SQL. If Redis fails after that, the mark's job projects the counts later, and until
// then the user's badges come from SQL.
package notifications

import (
	"context"
	"log/slog"
	"sync"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/jobs"
	"tidings/services/projector"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// Config has the dependencies and settings of the service.
type Config struct {
	DB        *sql.DB
	Redis     *rdb.Projections     // gets the host categories, by which it knows the fields of documents
	Jobs      *jobs.Engine         // New registers its kinds of jobs
	Projector *projector.Projector // New registers its versioned fields
	Changelog *changelog.Follower  // the cache of host categories follows it; nil: only this node's own commands change the cache
	IDs       *services.IDClock    // makes the IDs of host notifications
	Log       *slog.Logger
	Settings
}

// Service is the service of the list of notifications and its marks. It is safe for concurrent use. All of its state is in SQL,
// except for the cache of definitions and the configured categories that are not defined yet.
type Service struct {
	Memory *CategoryMemory // this node's cache of the host application's categories

	db        *sql.DB
	redis     *rdb.Projections
	projector *projector.Projector
	ids       *services.IDClock
	log       *slog.Logger
	expiry    ExpiryDays

	// mu is held during a whole attempt to define the configured categories. toDefine has those that are not defined yet; nil for
	// none.
	mu       sync.Mutex
	toDefine []services.HostCategory

	// causesPerPage is how many causes of one actor RecountActor handles in one transaction. Tests lower it to get several pages.
	causesPerPage int
}

// New makes the service, and registers the kinds of its jobs and its versioned fields.
func New(cfg Config) *Service {
	expiry, _ := parseExpiry(cfg.Expiry) // Faults has checked it, as it has the next
	toDefine, _ := parseConfiguredCategories(cfg.Categories)
	s := &Service{
		db: cfg.DB, redis: cfg.Redis, projector: cfg.Projector, ids: cfg.IDs, log: cfg.Log, expiry: expiry,
		toDefine: toDefine, causesPerPage: causesPerPage,
	}
	// Without Redis nobody reads documents, so nobody needs to know their fields.
	var install func(*services.HostCategories)
	if cfg.Redis != nil {
		install = cfg.Redis.SetCategories
	}
	s.Memory = newCategoryMemory(cfg.DB, cfg.Changelog, install)
	// A configured category may have to wait for the removal of another category of the same name.
	if cfg.Changelog != nil {
		cfg.Changelog.RegisterPollTask(changelog.PollTask{Name: "configured categories", Phase: changelog.BeforeLogRead, Run: s.defineConfigured})
	}
	cfg.Jobs.Register(s.jobKinds()...)
	// Rebuilds use the first function of each pair, and the audit uses the second.
	cfg.Projector.AddVersionedFields("notifications", s.countVersionedFields, s.auditCounts)
	cfg.Projector.AddVersionedFields("modes of categories", s.modeVersionedFields, s.auditModes)
	return s
}

// countVersionedFields are a user's counts according to the facts, as fields of the document. A state that categoryState.documentCounts
// hides has no fields.
func (s *Service) countVersionedFields(ctx context.Context, user services.UserID) (fields []rdb.VersionedField, err error) {
	states, err := statesOfUser(ctx, s.db, user)
	if err != nil {
		return nil, err
	}
	hosts, err := s.Memory.definitionsFor(ctx, categoriesOf(states))
	for _, state := range states {
		if counts, shown := state.documentCounts(hosts); shown {
			fields = append(fields, rdb.CategoryVersionedFields(counts)...)
		}
	}
	return fields, err
}

// project projects counts into their recipients' documents. It returns an error if a document could not be written; the caller
// has enqueued a job that repeats the projection.
func (s *Service) project(ctx context.Context, states []categoryState) error {
	hosts, err := s.Memory.definitionsFor(ctx, categoriesOf(states))
	if err != nil {
		return err
	}
	var fields projector.VersionedFieldsByUser
	for _, state := range states {
		if counts, shown := state.documentCounts(hosts); shown {
			fields.Add(state.Recipient, rdb.CategoryVersionedFields(counts)...)
		}
	}
	return s.projector.PutVersionedFields(ctx, fields.All)
}

// PageQuery asks for a page of a user's list. If both filters are set, UnseenOnly applies: every unseen notification is unread.
type PageQuery struct {
	Categories []services.Category // nil: all; CategoryHost means all of the host application
	UnreadOnly bool                // only notifications that are not read, whether seen or not
	UnseenOnly bool                // exactly the notifications in the count: none of a category that the user turned off
	Before     Position            // only entries after this position; the zero position means from the first
	First      int                 // the size of the page
}

// Page reads a page of a user's notifications, the newest first. The error is INVALID for an unknown category.
func (s *Service) Page(ctx context.Context, user services.UserID, query PageQuery) (Page, error) {
	categories, err := s.checkCategories("categories", query.Categories)
	if err != nil {
		return Page{}, err
	}
	hosts := s.Memory.Current()
	only := everything
	switch {
	case query.UnseenOnly: // an unseen notification is always unread
		only = onlyUnseen
		preferences, err := preferencesOf(ctx, s.db, user)
		if err != nil {
			return Page{}, err
		}
		categories = preferences.countingCategories(categories)
	case query.UnreadOnly:
		only = onlyUnread
	}
	return readPage(ctx, s.db, listQuery{
		user: user, categories: categories, filter: only, before: query.Before, limit: query.First, expiry: s.expiry.withHostCategories(hosts),
	})
}

// NotificationsAt reads the notifications of a user that contain some positions, keyed by position, with the causes that joined
// since. A position in another user's list, or in a notification without a remaining cause, is absent. An ID is the first cause's
// position.
func (s *Service) NotificationsAt(ctx context.Context, user services.UserID, positions []services.NotificationID) (map[services.NotificationID]Notification, error) {
	if len(positions) == 0 {
		return nil, nil
	}
	return readNotificationsAt(ctx, s.db, user, positions, s.Memory.Current(), s.expiry)
}
