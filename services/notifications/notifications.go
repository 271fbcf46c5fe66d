// Package notifications notifies users of what others did to them and to their posts, and of shows that they wait for.
//
// A fact and the job that notifies its recipient are one transaction, which never touches the recipient's row, so that a post
// that everybody likes delays nobody. The count of a category is absolute and versioned: a repeated or late job does not change
// it. An undone cause stops counting. The list and the count come from one predicate: the count has exactly the notifications
// that the list shows as unseen and not older.
//
// The path of a cause: a feature enqueues Job in the transaction of its fact. notifyEach takes many such jobs; applyCauses locks
// their recipients, reads what the facts support and what is stored, and brings the rows in line: causes, groups, and the states
// with their versions. project writes the counts into documents; Source renders them. Marks change the same rows under the same
// lock. A host notification is stored once for all recipients, and its causes take the same path (host_*.go).
//
// A mark that was answered is in SQL. If Redis fails after that, the mark's job projects the counts later, and until then the
// badges of its user come from SQL.
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

// Config is what notifications need.
type Config struct {
	DB         *sql.DB
	Redis      *rdb.Projections     // is told which categories documents have
	Jobs       *jobs.Engine         // New registers its kinds of jobs
	Projector  *projector.Projector // New registers its versioned fields
	Changes    *changelog.Follower  // the node cache follows it; nil: it changes by this node's own commands alone
	IDs        *services.IDClock
	Log        *slog.Logger
	Expiry     Expiry                  // of each of services.Categories; nil means the default
	Categories []services.HostCategory // of the configuration: Begin defines them
}

// Service is the service of the list of notifications and its marks. It is safe for concurrent use. All of its state is in SQL,
// except for the cache of definitions and the configured categories that are not defined yet.
type Service struct {
	Memory *Memory // this node's cache of the host application's categories

	db        *sql.DB
	redis     *rdb.Projections
	projector *projector.Projector
	ids       *services.IDClock
	log       *slog.Logger
	expiry    Expiry

	// mu is held for a whole try to define what is configured. configured are those that are not defined yet: nil once all are.
	mu         sync.Mutex
	configured []services.HostCategory

	// causesOfAPage is causesPerPage, which tests lower to need several pages.
	causesOfAPage int
}

// New makes the service, and registers the kinds of its jobs and its versioned fields.
func New(cfg Config) *Service {
	s := &Service{
		db: cfg.DB, redis: cfg.Redis, projector: cfg.Projector, ids: cfg.IDs, log: cfg.Log, expiry: cfg.Expiry,
		configured: cfg.Categories, causesOfAPage: causesPerPage,
	}
	// Without Redis nobody reads documents, so nobody has to know their fields.
	var install func(*services.HostCategories)
	if cfg.Redis != nil {
		install = cfg.Redis.SetCategories
	}
	s.Memory = newMemory(cfg.DB, cfg.Changes, install)
	// A configured category may have to wait for the removal of one of its name.
	if cfg.Changes != nil {
		cfg.Changes.RegisterTurn(changelog.Turn{Name: "configured categories", When: changelog.BeforeLog, Run: s.defineConfigured})
	}
	cfg.Jobs.Register(s.kinds()...)
	// Rebuilds and the audit read the fields by these; see registers and audit.
	cfg.Projector.AddRegisters("notifications", s.registers, s.audit)
	cfg.Projector.AddRegisters("modes of categories", s.modesRegisters, s.auditModes)
	return s
}

// registers are a user's counts according to the facts, as fields of the document. A state that must not be shown has none.
func (s *Service) registers(ctx context.Context, user services.UserID) (registers []rdb.Register, err error) {
	states, err := statesOfUser(ctx, s.db, user)
	if err != nil {
		return nil, err
	}
	hosts, err := s.Memory.knowing(ctx, categoriesOf(states))
	for _, state := range states {
		if counts, shown := state.shown(hosts); shown {
			registers = append(registers, rdb.CategoryRegisters(counts)...)
		}
	}
	return registers, err
}

// audit computes what registers does without State.shown, so that the audit finds errors in shown's choice of fields. Both use
// statesOfUser: an error there is not found.
func (s *Service) audit(ctx context.Context, user services.UserID) (registers []rdb.Register, err error) {
	states, err := statesOfUser(ctx, s.db, user)
	if err != nil {
		return nil, err
	}
	hosts, err := s.Memory.knowing(ctx, categoriesOf(states))
	for _, state := range states {
		host, defined := hosts.Find(state.Category)
		if state.Category.IsHostCategory() && (!defined || state.Head == 0) {
			continue
		}
		registers = append(registers, rdb.CategoryRegisters(services.CategoryCounts{
			Category: state.Category, Host: host.ID, Version: state.Version, Newest: state.Head, Older: state.Older, Day: state.Day, Days: state.Days,
		})...)
	}
	return registers, err
}

// project projects counts into their recipients' documents. It returns an error if one could not be written; the caller has left
// a job for that.
func (s *Service) project(ctx context.Context, states []State) error {
	hosts, err := s.Memory.knowing(ctx, categoriesOf(states))
	if err != nil {
		return err
	}
	var fields projector.Fields
	for _, state := range states {
		if counts, shown := state.shown(hosts); shown {
			fields.Add(state.Recipient, rdb.CategoryRegisters(counts)...)
		}
	}
	return s.projector.Put(ctx, fields.All)
}

// Query asks for a page of a user's list. The two filters exclude each other: what is unseen is unread.
type Query struct {
	Categories []services.Category // nil: all; CategoryHost is every one of the host application
	UnreadOnly bool
	UnseenOnly bool     // exactly the notifications in the count: none of a category that the user turned off
	Before     Position // only entries after it; the zero position: from the first
	First      int
}

// Page reads a page of a user's notifications, the newest first. INVALID for an unknown category.
func (s *Service) Page(ctx context.Context, user services.UserID, query Query) (Page, error) {
	categories, err := s.checkCategories("categories", query.Categories)
	if err != nil {
		return Page{}, err
	}
	hosts := s.Memory.Now()
	only := everything
	switch {
	case query.UnseenOnly: // an unseen notification is always unread
		only = onlyUnseen
		preferences, err := preferencesOf(ctx, s.db, user)
		if err != nil {
			return Page{}, err
		}
		categories = preferences.counted(categories)
	case query.UnreadOnly:
		only = onlyUnread
	}
	return readPage(ctx, s.db, listQuery{
		user: user, categories: categories, only: only, before: query.Before, limit: query.First, expiry: s.expiry.with(hosts),
	})
}

// At reads a user's notifications by positions in them, whatever has joined them since. A position in another list, or in a
// notification without a remaining cause, is absent. An ID is such a position: the first one.
func (s *Service) At(ctx context.Context, user services.UserID, places []services.PostID) (map[services.PostID]Notification, error) {
	if len(places) == 0 {
		return nil, nil
	}
	return readAt(ctx, s.db, user, places, s.Memory.Now(), s.expiry)
}
