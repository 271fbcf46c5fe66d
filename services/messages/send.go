package messages

import (
	"context"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/sql"
)

// Draft is a message to be sent.
type Draft struct {
	Text
	To []string // the keys of 1 to 10,000 users; a key that occurs twice counts once
}

// Send is the command by which the host application sends a message; the command's one ID is the message's.
func (s *Service) Send(draft Draft) (*jobs.Command, error) {
	if err := CheckRecipients(len(draft.To)); err != nil {
		return nil, err
	}
	for _, key := range draft.To {
		if err := services.CheckUserKey(key); err != nil {
			return nil, services.Errorf(services.Invalid, "to: %s", err)
		}
	}
	if err := draft.Check(s.types); err != nil {
		return nil, err
	}
	return &jobs.Command{
		Name: "sendSiteMessage",
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			// Users that the application names for the first time get their IDs here.
			users, err := people.EnsureRecipients(ctx, tx, draft.To)
			if err != nil {
				return nil, err
			}
			made, err := tx.NewIDInTable(ctx, s.ids, newestOfMillisecond)
			if err != nil {
				return nil, err
			}
			id := ID(made)
			if err := Insert(ctx, tx, id, draft.Text); err != nil {
				return nil, err
			}
			queued, err := sendJobs(id, users, tx.EventMoment() != 0)
			if err != nil {
				return nil, err
			}
			// The jobs are committed with the message. From then on the message is sent: each job runs at least once, whatever
			// becomes of this process.
			return []string{id.GlobalID()}, jobs.Enqueue(ctx, tx, queued...)
		},
	}, nil
}

// Edit is the command that changes the text of a message for everyone who has it; nil leaves a text as it is. No read state
// changes. The error is NOT_FOUND if there is no such message.
func (s *Service) Edit(id ID, title, content *string) (*jobs.Command, error) {
	if title == nil && content == nil {
		return nil, services.Errorf(services.Invalid, "title, content, url and data: at least one of them is needed")
	}
	// The texts are checked before the transaction, so that a bad text costs no lock.
	if title != nil {
		if err := checkTitle(*title); err != nil {
			return nil, err
		}
	}
	if content != nil {
		if err := checkContent(*content); err != nil {
			return nil, err
		}
	}
	return &jobs.Command{
		Name: "editSiteMessage",
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			return nil, edit(ctx, tx, id, title, content)
		},
	}, nil
}

// Relabel is the command that changes the labels of a message. The message itself does not change. The error is NOT_FOUND if it
// does not exist.
func (s *Service) Relabel(id ID) *jobs.Command {
	return &jobs.Command{
		Name: "editSiteMessage",
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			var kind string
			found, err := tx.One(ctx, typeOf, []any{id}, &kind)
			if err == nil && !found {
				err = notFound("siteMessageId", id)
			}
			// The caller writes the labels in this transaction; the message itself is unchanged.
			if err == nil {
				err = jobs.ErrUnchanged
			}
			return nil, err
		},
	}
}
