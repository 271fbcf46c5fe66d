package notifications

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/refs"
	"tidings/services/sql"
)

// The bounds of a host notification. Texts are bounded in characters.
const (
	// maxRecipients also bounds the payloads of the jobs, 40 chunks, which are written in the command's own transaction.
	maxRecipients = 10_000
	maxTitle      = 255
	maxBody       = 4096
	// MaxGroupKey bounds a group key: it is stored with every notification, and its hash stands for it in the rows of recipients.
	MaxGroupKey = 128
)

// HostNotification is a notification that the host application sends in one of its categories. All recipients get the same text.
type HostNotification struct {
	Category      services.Category
	RecipientKeys []string        // the keys of 1 to 10,000 users; a user who is named twice gets it once
	Actor         services.UserID // the user who acted, and who is not notified; 0 means nobody
	About         services.Object // a post or a show, or the zero value
	Title         string
	Body          string // "" for none
	GroupKey      string // in a grouped category, notifications with one key in one half day are one row; "" for none
}

// CheckRecipients checks the number of recipients of a notification. Callers check it before they create the users.
func CheckRecipients(recipients int) error {
	if recipients < 1 || recipients > maxRecipients {
		return services.Errorf(services.Invalid, "to: 1 to %d are allowed, got %d", maxRecipients, recipients)
	}
	return nil
}

// check returns INVALID for a notification that can never be sent. Whether the category is defined is checked in the transaction.
func (n HostNotification) check() error {
	if err := CheckRecipients(len(n.RecipientKeys)); err != nil {
		return err
	}
	if err := services.CheckHostCategory("category", n.Category); err != nil {
		return err
	}
	for _, key := range n.RecipientKeys {
		if err := services.CheckUserKey(key); err != nil {
			return services.Errorf(services.Invalid, "to: %s", err)
		}
	}
	if err := services.CheckFilled("title", n.Title, maxTitle); err != nil {
		return err
	}
	if err := services.CheckText("body", n.Body, 0, maxBody); err != nil {
		return err
	}
	return services.CheckText("groupKey", n.GroupKey, 0, MaxGroupKey)
}

// subjectOf is the subject of the causes: causes with the same subject are one row of a list for half a day. For a group key it is
// a hash, because subjects are numbers; two keys with one hash would share rows, at odds of one in 2^63.
func (n HostNotification) subjectOf(id services.HostNotificationID, grouped bool) services.SortableID {
	if !grouped || n.GroupKey == "" {
		return services.SortableID(id)
	}
	// The category is part of the hash, because keys are unique within one category. 0 is no subject, so the least result is 1.
	sum := sha256.Sum256([]byte(string(n.Category) + "\n" + n.GroupKey))
	return services.SortableID(max(1, binary.BigEndian.Uint64(sum[:])&uint64(services.MaxSortableID)))
}

// Notify is the command of the host application that notifies users in one of its categories. Its result is the notification's
// ID. Jobs write the recipients' rows, one chunk each: ten thousand of them in one transaction would hold up every other
// notification of these users. The error is NOT_FOUND if the category is not defined.
func (s *Service) Notify(notification HostNotification) (*jobs.Command, error) {
	if err := notification.check(); err != nil {
		return nil, err
	}
	return &jobs.Command{
		Name: "notify",
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			var grouped bool
			// Until the commit, the category stays defined and its value of grouped does not change.
			defined, err := tx.One(ctx, lockDefinition, []any{string(notification.Category)}, &grouped)
			if err == nil && !defined {
				err = services.Errorf(services.NotFound, "category: there is no category %s: define it first", services.Quote(string(notification.Category)))
			}
			if err != nil {
				return nil, err
			}
			users, err := people.EnsureRecipients(ctx, tx, notification.RecipientKeys)
			if err != nil {
				return nil, err
			}
			// Nobody is notified of their own act.
			users = slices.DeleteFunc(users, func(user services.UserID) bool { return user == notification.Actor })
			made, err := tx.NewIDInTable(ctx, s.ids, newestOfMillisecond)
			if err != nil {
				return nil, err
			}
			id := services.HostNotificationID(made)
			_, err = tx.Run(ctx, insertHostNotification, id, string(notification.Category), notification.subjectOf(id, grouped), notification.GroupKey, notification.Actor,
				notification.About.Type, int64(notification.About.Number), notification.Title, notification.Body, tx.EventTime(), len(users))
			if err != nil {
				return nil, err
			}
			queued, err := notifyChunkJobs(id, users, tx.EventMoment())
			if err != nil {
				return nil, err
			}
			return []string{hostNotificationObject(id).GlobalID()}, jobs.Enqueue(ctx, tx, queued...)
		},
	}, nil
}

// Withdraw is the command of the host application that takes a notification back from all of its recipients. The notification
// leaves their lists and counts when the job has run. If nobody has it yet, its texts, its url and its data are deleted. The error is
// NOT_FOUND if there is no such notification.
func (s *Service) Withdraw(id services.HostNotificationID) *jobs.Command {
	return &jobs.Command{
		Name: "withdrawNotification",
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			ids := []string{hostNotificationObject(id).GlobalID()}
			changed, err := tx.Run(ctx, withdrawHostNotification, id, tx.EventTime())
			if err != nil {
				return nil, err
			}
			if changed > 0 {
				if err := blankIfUndelivered(ctx, tx, id); err != nil {
					return nil, err
				}
				return ids, jobs.Enqueue(ctx, tx, jobs.KeyedJob(jobWithdraw, id.String()))
			}
			if _, found, err := readHostNotification(ctx, tx.Runner, id); err != nil || !found {
				if err == nil {
					err = services.Errorf(services.NotFound, "hostNotificationId: there is no %s", ids[0])
				}
				return nil, err
			}
			// The notification was withdrawn before: a repetition is a success without a job.
			return ids, jobs.ErrUnchanged
		},
	}
}

// blankIfUndelivered deletes the content of a withdrawn notification that no recipient has. The withdrawal has waited for the jobs
// that were writing it to recipients, and no later job writes it.
func blankIfUndelivered(ctx context.Context, tx *sql.Tx, id services.HostNotificationID) error {
	blanked, err := tx.Run(ctx, blankUndelivered, id)
	if err == nil && blanked > 0 {
		err = refs.ClearLabel(ctx, tx, hostNotificationObject(id))
	}
	return err
}

// SentNotification is a notification of the host application, as the host application sees it.
type SentNotification struct {
	Category services.Category
	// Recipients is the number of recipients when it was sent, without the actor. It stays when users are erased, and includes users
	// whose job has not run yet.
	Recipients int
	Withdrawn  bool
}

// readHostNotification reads a host notification; found is false if there is none, or it was deleted with its category.
func readHostNotification(ctx context.Context, r sql.Reader, id services.HostNotificationID) (t SentNotification, found bool, err error) {
	var withdrawn int64
	found, err = r.One(ctx, hostNotificationByID, []any{id}, &t.Category, &t.Recipients, &withdrawn)
	t.Withdrawn = withdrawn != 0
	return t, found, err
}

// SentNotification reads a host notification. The error is NOT_FOUND if there is none.
func (s *Service) SentNotification(ctx context.Context, id services.HostNotificationID) (SentNotification, error) {
	t, found, err := readHostNotification(ctx, s.db, id)
	if err == nil && !found {
		err = services.Errorf(services.NotFound, "hostNotificationId: there is no %s", hostNotificationObject(id).GlobalID())
	}
	return t, err
}
