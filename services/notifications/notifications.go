// Package notifications notifies users of what others did to them and to their posts, and of shows that they wait for.
//
// A fact and the job that notifies its recipient are one transaction, which never touches the recipient's row, so that a post
// that everybody likes delays nobody. The count of a category is absolute and versioned: a repeated or late job does not change
// it. An undone cause stops counting. The list and the count come from one predicate: the count has exactly the notifications
// that the list shows as unseen and not older.
//
// A mark that was answered is in SQL. If Redis fails after that, the mark's job projects the counts later, and until then the
// badges of its user come from SQL.
package notifications

import (
	"context"
	"log/slog"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/projector"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// Config is what notifications need.
type Config struct {
	DB        *sql.DB
	Jobs      *jobs.Engine         // New registers its kinds of jobs
	Projector *projector.Projector // New registers its versioned fields
	Log       *slog.Logger
	Expiry    Expiry // of each category; nil means the default
}

// Service is the service of the list of notifications and its marks. It is safe for concurrent use.
type Service struct {
	db        *sql.DB
	projector *projector.Projector
	log       *slog.Logger
	expiry    Expiry

	causesAtOnce int // how many causes of one actor one transaction handles
}

// New makes the service, and registers the kinds of its jobs and its versioned fields.
func New(cfg Config) *Service {
	s := &Service{db: cfg.DB, projector: cfg.Projector, log: cfg.Log, expiry: cfg.Expiry, causesAtOnce: causesPerPage}
	cfg.Jobs.Register(s.kinds()...)
	cfg.Projector.RegisterRegisters("notifications", s.registers, s.audit)
	return s
}

// registers are a user's counts according to the facts.
func (s *Service) registers(ctx context.Context, user services.UserID) (registers []rdb.Register, err error) {
	states, err := statesOfUser(ctx, s.db, user)
	for _, state := range states {
		registers = append(registers, rdb.CategoryRegisters(state.counts())...)
	}
	return registers, err
}

// audit repeats registers without counts, so that the audit of views finds errors in its choice of fields. Both use
// statesOfUser: an error there is not found.
func (s *Service) audit(ctx context.Context, user services.UserID) (registers []rdb.Register, err error) {
	states, err := statesOfUser(ctx, s.db, user)
	for _, state := range states {
		registers = append(registers, rdb.CategoryRegisters(services.CategoryCounts{
			Category: state.Category, Version: state.Version, Newest: state.Head, Older: state.Older, Day: state.Day, Days: state.Days,
		})...)
	}
	return registers, err
}

// project projects counts into their recipients' documents.
func (s *Service) project(ctx context.Context, states []State) error {
	var fields projector.Fields
	for _, state := range states {
		fields.Add(state.Recipient, rdb.CategoryRegisters(state.counts())...)
	}
	return s.projector.Put(ctx, fields.All)
}

// Query asks for a page of a user's list.
type Query struct {
	Categories []services.Category // empty: all
	UnreadOnly bool
	UnseenOnly bool     // exactly the notifications in the count
	Before     Position // only entries after it; the zero position: from the first
	First      int
}

// Page reads a page of a user's notifications, the newest first. INVALID for an unknown category.
func (s *Service) Page(ctx context.Context, user services.UserID, query Query) (Page, error) {
	categories, err := CheckCategories("categories", query.Categories)
	if err != nil {
		return Page{}, err
	}
	only := everything
	switch {
	case query.UnseenOnly: // an unseen notification is always unread
		only = onlyUnseen
	case query.UnreadOnly:
		only = onlyUnread
	}
	return readPage(ctx, s.db, listQuery{
		user: user, categories: categories, only: only, before: query.Before, limit: query.First, expiry: s.expiry,
	})
}

// At reads a user's notifications by positions in them, whatever has joined them since. A position in another list, or in a
// notification without a remaining cause, is absent.
func (s *Service) At(ctx context.Context, user services.UserID, places []services.PostID) (map[services.PostID]Notification, error) {
	if len(places) == 0 {
		return nil, nil
	}
	return readAt(ctx, s.db, user, places, s.expiry)
}
