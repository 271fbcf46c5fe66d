// Package acts records the acts of operators: the actor, the action, the time, the target and the outcome.
//
// An act is written before its work begins, so that no act is lost. An act that cannot be written is not done. If the work has a
// transaction, the outcome is written in it: the outcome is DONE exactly if the work is committed. If the node is killed during the
// work, the act stays STARTED. Acts are kept for a bounded time. They hold no token, no secret and no text of users, and no name of
// a user who does not exist.
package acts

import (
	"context"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"tidings/services"
	"tidings/services/projector"
	"tidings/services/sql"
)

// actRetention is how long an act is kept: a yearly review finds the acts of the whole year before it, with a month to spare.
const actRetention = 400 * 24 * time.Hour

const (
	outcomeTimeout        = 2 * time.Second // for writing the outcome, even if the caller is gone
	maxActsDroppedPerTurn = 10_000          // the most acts that are dropped at once: see dropOldActs
	maxDetailsCharacters  = 200             // characters of Details
	maxTargetCharacters   = 2000            // characters of Target: longer than any ID
)

// These are the outcomes that are not codes of errors.
const (
	OutcomeStarted = "STARTED" // the work has begun, and nothing more is known
	OutcomeDone    = "DONE"    // the work succeeded
)

// Act is one act.
type Act struct {
	ID      services.SortableID // contains the time at which the act began
	Actor   string              // the subject of the token; "" if it has none
	Action  string              // the name of the mutation, or of an act of the console or the command line
	Target  string              // a global ID, or the name of a webhook; "" means the installation
	Details string              // the values that were set; never a secret
	Outcome string              // OutcomeStarted, OutcomeDone or the code of an error

	// MadeID returns the ID of the object that the work made. If the act has no target, that ID becomes the target. MadeID is
	// called when the work is done. nil: the work makes no object.
	MadeID func() string
}

// Config has the dependencies of a Service. IDs and DB are required.
type Config struct {
	DB        *sql.DB
	IDs       *services.IDClock    // makes the IDs of acts
	Projector *projector.Projector // calls dropOldActs regularly; if nil, no act is dropped
	Log       *slog.Logger         // default slog.Default()
}

// Service keeps the acts. It is safe for concurrent use.
type Service struct {
	db  *sql.DB
	ids *services.IDClock
	log *slog.Logger
}

// New makes the service.
func New(cfg Config) *Service {
	s := &Service{db: cfg.DB, ids: cfg.IDs, log: cfg.Log}
	if s.log == nil {
		s.log = slog.Default()
	}
	if cfg.Projector != nil {
		cfg.Projector.RegisterExpiringRows("acts", s.dropOldActs)
	}
	return s
}

// Do does the work of an act and records the act. work gets a context whose writes record the outcome in their own transactions.
// The error is the error of work, or says that the act could not be written; then work was not called.
func (s *Service) Do(ctx context.Context, act Act, work func(ctx context.Context) error) error {
	act.ID, act.Target, act.Details = s.ids.Next(), cleanText(act.Target, maxTargetCharacters), cleanText(act.Details, maxDetailsCharacters)
	// This transaction is committed before the work: if the node dies during the work, the act stays STARTED.
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Run(ctx, insertAct, act.ID, act.Actor, act.Action, act.Target, act.Details, OutcomeStarted)
		return err
	})
	if err != nil {
		return err
	}
	// Each write of the work writes the outcome in its own transaction: both are committed, or neither.
	within, beside := sql.WithAddedWrite(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return act.writeOutcome(ctx, tx, OutcomeDone)
	})
	err = work(within)
	outcome := OutcomeDone
	if err != nil {
		// Only the code is recorded: a message may contain a user's text.
		outcome = string(services.CodeOf(err))
	} else if beside.Committed() {
		return nil
	}
	// The outcome is written even if the caller is gone.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeTimeout)
	defer cancel()
	left := s.db.Write(ending, func(tx *sql.Tx) error { return act.writeOutcome(ending, tx, outcome) })
	if left != nil {
		s.log.Warn("the outcome of an operator's act was not written: it stays STARTED", "act", act.ID, "action", act.Action, "outcome", outcome, "error", left)
	}
	return err
}

// writeOutcome writes the outcome of an act. If the target is a user who does not exist, it removes the name: the user may have been
// erased.
func (a Act) writeOutcome(ctx context.Context, tx *sql.Tx, outcome string) error {
	if outcome == string(services.NotFound) && strings.HasPrefix(a.Target, services.UserType+":") {
		_, err := tx.Run(ctx, setOutcomeWithoutTarget, a.ID, outcome)
		return err
	}
	target := ""
	if a.Target == "" && a.MadeID != nil && outcome == OutcomeDone {
		target = a.MadeID()
	}
	_, err := tx.Run(ctx, setOutcome, a.ID, outcome, target)
	return err
}

// List lists up to limit acts with IDs below before, the newest first; services.MaxSortableID begins at the newest.
func (s *Service) List(ctx context.Context, before services.SortableID, limit int) ([]Act, error) {
	return sql.ReadRows(ctx, s.db, listActs, []any{before, limit}, func(scan sql.Scan, act *Act) error {
		return scan(&act.ID, &act.Actor, &act.Action, &act.Target, &act.Details, &act.Outcome)
	})
}

// dropOldActs drops acts that are older than actRetention. The projector's janitor, which deletes old rows every ten minutes, calls it.
func (s *Service) dropOldActs(ctx context.Context) (dropped int, err error) {
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		dropped, err = tx.Run(ctx, dropActs, services.SortableIDAt(tx.Now.Add(-actRetention)), maxActsDroppedPerTurn)
		return err
	})
	return dropped, err
}

// emptyTarget empties the target and the details of the acts on a target, and returns their number: when a user is erased, the
// acts on them stay, without their name.
func emptyTarget(ctx context.Context, tx *sql.Tx, target string) (changed int, err error) {
	return tx.Run(ctx, forgetTarget, target)
}

// cleanText cuts a text to most characters, and replaces characters that a database refuses: so every act can be recorded.
func cleanText(text string, most int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}
