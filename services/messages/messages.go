// Package messages implements site messages: the host application's messages to users, and each user's read marks.
//
// A message is sent when its text and the jobs that deliver it are committed; the rows of its recipients follow in chunks. Each
// recipient has one row, however often a delivery is repeated, and a repeated delivery keeps the read state. The count of a type
// is absolute and versioned: a repeated or late job changes nothing. The list and the count come from the same rows.
//
// One message: Send writes its text and up to 40 jobs of 250 recipients each, so the call takes as long for 10,000 users as for
// one. deliver locks the state of each recipient's type, inserts the rows that are missing, raises the versions, and reads the
// counts in the same transaction; project then puts them into documents. A mark takes the same locks, so a count and its version
// never come from two moments.
//
// A mark that was answered is in SQL. If Redis fails after that, the mark's job projects the counts later, and until then the
// badges of its user come from SQL.
package messages

import (
	"context"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/projector"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// Config is what site messages need.
type Config struct {
	DB        *sql.DB
	Jobs      *jobs.Engine         // New registers its kinds of jobs
	Projector *projector.Projector // New registers the versioned fields in it
	IDs       *services.IDClock
	Settings
}

// Service is the service of site messages. It is safe for concurrent use.
type Service struct {
	db        *sql.DB
	projector *projector.Projector
	ids       *services.IDClock
	types     []string
	// If messages expire, documents hold counts by day instead of one count: see versionedField.
	expiry services.SourceExpiry
}

// New makes the service, and registers the kinds of its jobs and its versioned fields.
func New(cfg Config) *Service {
	cfg.Settings = services.WithDefaults(cfg.Settings)
	s := &Service{db: cfg.DB, projector: cfg.Projector, ids: cfg.IDs, types: cfg.Types, expiry: cfg.Projector.Expiry()}
	cfg.Jobs.Register(s.kinds()...)
	cfg.Projector.AddVersionedFields("site messages", s.versionedFields, s.audit)
	return s
}

// versionedFields are a user's counts according to the facts: what a rebuild writes, and what the job of a mark projects.
func (s *Service) versionedFields(ctx context.Context, user services.UserID) (fields []rdb.VersionedField, err error) {
	states, err := readUserStates(ctx, s.db, user)
	for _, state := range states {
		fields = append(fields, s.versionedField(state))
	}
	return fields, err
}

// versionedField is the versioned field of a state. Counts by day let a document drop expired messages without a write at each midnight.
func (s *Service) versionedField(state unreadState) rdb.VersionedField {
	if s.expiry.Expires(services.SourceSiteMessages) {
		return rdb.MessageDaysVersionedField(state.documentState())
	}
	return rdb.MessagesVersionedField(state.documentState())
}

// project writes counts into their users' documents. A document that has a newer version keeps it. A user without a document gets
// none.
func (s *Service) project(ctx context.Context, states []unreadState) error {
	var fields projector.VersionedFieldsByUser
	for _, state := range states {
		fields.Add(state.User, s.versionedField(state))
	}
	return s.projector.PutVersionedFields(ctx, fields.All)
}
