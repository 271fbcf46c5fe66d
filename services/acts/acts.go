// Package acts keeps what operators do: who, when, what, on what, with which outcome.
//
// An act is written before its work begins, so that none is lost, and an act that cannot be written is not done. Its outcome is
// written in the transaction of the work itself, where the work has one: it says DONE exactly if the work is committed. An act whose
// node was killed in the middle stays STARTED. Acts are kept for a bounded time. They hold no token, no secret and no text of users, and
// no name of a user who is not there.
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

// keepFor is how long an act is kept: a yearly review finds the acts of the whole year before it, with a month to spare.
const keepFor = 400 * 24 * time.Hour

const (
	endWithin  = 2 * time.Second // for the outcome, whatever became of the caller
	dropAtOnce = 10_000          // acts
	maxDetails = 200             // characters
	maxTarget  = 2000            // characters: longer than any ID
)

// The outcomes beside the codes of errors.
const (
	Started = "STARTED" // its outcome is not known
	Done    = "DONE"
)

// Act is one act.
type Act struct {
	ID      services.PostID // has the time at which it began
	Actor   string          // the subject of the token; "": it names nobody
	Action  string          // the name of the mutation, or of an act of the console or the command line
	Target  string          // a global ID, or the name of a webhook; "": the installation
	Details string          // what was set; never a secret
	Outcome string          // Started, Done or the code of an error

	// Made is the ID of the object that the work made, the target of an act without one; it is asked for when the work is done. nil: none.
	Made func() string
}

// Config is what a Service works with. IDs and DB are required.
type Config struct {
	DB        *sql.DB
	IDs       *services.IDClock
	Projector *projector.Projector // whose janitor drops old acts; nil drops none
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
		cfg.Projector.RegisterLimitedRows("acts", s.forgetOld)
	}
	return s
}

// Do does an act and keeps it. work gets a context whose writes keep the outcome beside them. The error is that of the work, or says
// that the act could not be written and was not done.
func (s *Service) Do(ctx context.Context, act Act, work func(ctx context.Context) error) error {
	act.ID, act.Target, act.Details = s.ids.Next(), plain(act.Target, maxTarget), plain(act.Details, maxDetails)
	// A transaction of its own, committed before the work: a node that dies in the work leaves STARTED behind.
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Run(ctx, insertAct, act.ID, act.Actor, act.Action, act.Target, act.Details, Started)
		return err
	})
	if err != nil {
		return err
	}
	// The first write of the work takes the outcome along: both are committed, or neither.
	within, beside := sql.WithBeside(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return act.end(ctx, tx, Done)
	})
	err = work(within)
	outcome := Done
	if err != nil {
		// Only the code: a message may have a user's text in it.
		outcome = string(services.CodeOf(err))
	} else if beside.Committed() {
		return nil
	}
	// The caller may be gone, which is no reason to lose the outcome.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	left := s.db.Write(ending, func(tx *sql.Tx) error { return act.end(ending, tx, outcome) })
	if left != nil {
		s.log.Warn("the outcome of an operator's act was not written: it stays STARTED", "action", act.Action, "target", act.Target, "outcome", outcome, "error", left)
	}
	return err
}

// end writes the outcome of an act. One on a user who is not there keeps no name: they may have been erased.
func (a Act) end(ctx context.Context, tx *sql.Tx, outcome string) error {
	if outcome == string(services.NotFound) && strings.HasPrefix(a.Target, services.UserType+":") {
		_, err := tx.Run(ctx, setNobody, a.ID, outcome)
		return err
	}
	target := ""
	if a.Target == "" && a.Made != nil && outcome == Done {
		target = a.Made()
	}
	_, err := tx.Run(ctx, setOutcome, a.ID, outcome, target)
	return err
}

// List lists up to limit acts before an act, the newest first; services.MaxPostID is before none.
func (s *Service) List(ctx context.Context, before services.PostID, limit int) (list []Act, err error) {
	err = s.db.Each(ctx, listActs, []any{before, limit}, func(scan func(...any) error) error {
		var act Act
		err := scan(&act.ID, &act.Actor, &act.Action, &act.Target, &act.Details, &act.Outcome)
		list = append(list, act)
		return err
	})
	return list, err
}

// forgetOld drops acts that are older than keepFor.
func (s *Service) forgetOld(ctx context.Context) (dropped int, err error) {
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		dropped, err = tx.Run(ctx, dropActs, services.PostIDAt(tx.Now.Add(-keepFor)), dropAtOnce)
		return err
	})
	return dropped, err
}

// ForgetTarget takes a name out of the acts on it, and answers from how many: when a user is erased, the acts stay and say no more on
// whom they were.
func ForgetTarget(ctx context.Context, tx *sql.Tx, target string) (changed int, err error) {
	return tx.Run(ctx, forgetTarget, target)
}

// plain is a text of at most so many characters, without those that a database refuses: an act is kept whatever it was about.
func plain(text string, most int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}
