package notify

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/jobs"
	"tidings/services/sql"
	"tidings/services/store"
)

// MessagesConfig is what site messages need.
type MessagesConfig struct {
	Store  *store.Store
	Fanout *fanout.Fanout
	IDs    *services.IDClock
	Types  []string // the types there are, the default first; none means services.DefaultMessageType alone
}

// Messages is the service of site messages: the host application's messages to users, and each user's read marks. A message is
// sent when its text and the list of its recipients are on disk; the rows of the recipients follow in chunks. It is safe for
// concurrent use.
type Messages struct {
	store  *store.Store
	fanout *fanout.Fanout
	ids    *services.IDClock
	types  []string
}

// NewMessages makes the service.
func NewMessages(cfg MessagesConfig) *Messages {
	if len(cfg.Types) == 0 {
		cfg.Types = []string{services.DefaultMessageType}
	}
	return &Messages{store: cfg.Store, fanout: cfg.Fanout, ids: cfg.IDs, types: cfg.Types}
}

// NewMessage is a message to be sent.
type NewMessage struct {
	Type    string // "" is the default: the first that is configured
	Title   string
	Content string
	To      []string // the keys of 1 to 10,000 users; one that is named twice gets it once
}

// Check checks that the message can be sent, given the existing types.
func (m *NewMessage) Check(types []string) error {
	if m.Type == "" {
		m.Type = types[0]
	}
	if err := services.CheckMessageType(m.Type, types); err != nil {
		return err
	}
	if err := services.CheckMessageTitle(m.Title); err != nil {
		return err
	}
	return services.CheckMessageContent(m.Content)
}

// Send is the command of the host application that sends a message; its id is the command's.
func (s *Messages) Send(m NewMessage) (*jobs.Command, error) {
	if n := len(m.To); n == 0 || n > services.MaxMessageRecipients {
		return nil, services.Errorf(services.Invalid, "to: 1 to %d recipients are allowed, got %d", services.MaxMessageRecipients, n)
	}
	for _, key := range m.To {
		if err := services.CheckUserKey(key); err != nil {
			return nil, services.Errorf(services.Invalid, "to: %s", err)
		}
	}
	if err := m.Check(s.types); err != nil {
		return nil, err
	}
	return &jobs.Command{
		Name: "sendSiteMessage",
		Apply: func(ctx context.Context, in *sql.Tx) ([]string, error) {
			tx := store.In(in)
			numbers, err := tx.EnsureUsers(ctx, m.To)
			if err != nil {
				return nil, err
			}
			message := services.SiteMessage{ID: tx.NewID(s.ids), Type: m.Type, Title: m.Title, Content: m.Content}
			if err := tx.InsertSiteMessage(ctx, message, ""); err != nil {
				return nil, err
			}
			queued, err := fanout.DeliverJobs(message.ID, recipients(m.To, numbers))
			if err != nil {
				return nil, err
			}
			return []string{message.GlobalID()}, jobs.Enqueue(ctx, tx.Tx, queued...)
		},
	}, nil
}

// recipients are the IDs of some keys, each once, in their order.
func recipients(keys []string, numbers map[string]services.UserID) []services.UserID {
	users := make([]services.UserID, len(keys))
	for i, key := range keys {
		users[i] = numbers[key]
	}
	slices.Sort(users)
	return slices.Compact(users)
}

// Edit is the command that changes the text of a message for everyone who has it; nil leaves a text. Nobody's read state
// changes.
func (s *Messages) Edit(id services.PostID, title, content *string) (*jobs.Command, error) {
	if title == nil && content == nil {
		return nil, services.Errorf(services.Invalid, "title and content: at least one of them is needed")
	}
	if title != nil {
		if err := services.CheckMessageTitle(*title); err != nil {
			return nil, err
		}
	}
	if content != nil {
		if err := services.CheckMessageContent(*content); err != nil {
			return nil, err
		}
	}
	return &jobs.Command{
		Name: "editSiteMessage",
		Apply: func(ctx context.Context, in *sql.Tx) ([]string, error) {
			tx := store.In(in)
			return nil, tx.EditSiteMessage(ctx, id, title, content)
		},
	}, nil
}

// MessageMark names some of a user's messages: those of IDs, or all, those of one type only, and those up to one only.
type MessageMark struct {
	IDs  []services.PostID
	Type *string
	All  bool
	UpTo services.PostID // 0: all there are at that moment
	// Token is the readToken of the list that was shown; "" for none.
	Token string
}

const maxMarked = 500

// MarkRead is the command by which a user marks messages read. NOT_FOUND if the user does not have a named message; messages
// that are read already keep their time.
func (s *Messages) MarkRead(user services.UserID, mark MessageMark) (*jobs.Command, error) {
	gen, err := services.ParseReadToken(mark.Token)
	if err != nil {
		return nil, err
	}
	facts := store.MessageMark{IDs: mark.IDs, Types: s.types, UpTo: mark.UpTo, Gen: gen}
	switch {
	case mark.IDs != nil && (mark.Type != nil || mark.All || mark.UpTo != 0):
		return nil, services.Errorf(services.Invalid, "ids: they exclude type, all and upTo")
	case mark.IDs != nil:
		if err := checkMarked(mark.IDs); err != nil {
			return nil, err
		}
	case mark.Type != nil && mark.All:
		return nil, services.Errorf(services.Invalid, "type and all: only one of them can be given")
	case mark.Type != nil:
		if err := services.CheckMessageType(*mark.Type, s.types); err != nil {
			return nil, err
		}
		facts.Types = []string{*mark.Type}
	case !mark.All && mark.UpTo == 0:
		return nil, services.Errorf(services.Invalid, "ids, type, all or upTo: one of them is needed")
	}
	return s.mark("markSiteMessagesRead", user, func(ctx context.Context, tx *store.Tx) ([]store.MessageState, error) {
		return tx.MarkSiteMessagesRead(ctx, user, facts)
	}), nil
}

// MarkUnread is the command by which a user marks messages unread again. NOT_FOUND if the user does not have one of them.
func (s *Messages) MarkUnread(user services.UserID, ids []services.PostID) (*jobs.Command, error) {
	if err := checkMarked(ids); err != nil {
		return nil, err
	}
	return s.mark("markSiteMessagesUnread", user, func(ctx context.Context, tx *store.Tx) ([]store.MessageState, error) {
		return tx.MarkSiteMessagesUnread(ctx, user, ids)
	}), nil
}

func checkMarked(ids []services.PostID) error {
	if n := len(ids); n == 0 || n > maxMarked {
		return services.Errorf(services.Invalid, "ids: 1 to %d are allowed, got %d", maxMarked, n)
	}
	return nil
}

func (s *Messages) mark(name string, user services.UserID, change func(context.Context, *store.Tx) ([]store.MessageState, error)) *jobs.Command {
	var states []store.MessageState
	return &jobs.Command{
		Name: name, Actor: user,
		Apply: func(ctx context.Context, in *sql.Tx) (_ []string, err error) {
			tx := store.In(in)
			if states, err = change(ctx, tx); err != nil {
				return nil, err
			}
			return nil, jobs.Enqueue(ctx, tx.Tx, fanout.MessagesJob(user))
		},
		AfterCommit: func(ctx context.Context) error { return s.fanout.ProjectMessageStates(ctx, states) },
	}
}

// MessagePage is a page of a user's messages, the newest first.
type MessagePage struct {
	Messages []services.SiteMessage
	HasNext  bool
	Gen      uint64 // see Token
}

// Page lists at most size of a user's messages before a position, of one type and the unread only, if requested. The unread
// ones are those that the badge counts.
func (s *Messages) Page(ctx context.Context, user services.UserID, kind *string, unreadOnly bool, before services.PostID, size int) (MessagePage, error) {
	types := s.types
	if kind != nil {
		if err := services.CheckMessageType(*kind, s.types); err != nil {
			return MessagePage{}, err
		}
		types = []string{*kind}
	}
	// Read the generation before the list: a message marked unread between the two reads is shown as unread, and at worst a
	// late mark of it is ignored.
	gen, err := s.store.SiteMessageGen(ctx, user)
	if err != nil {
		return MessagePage{}, err
	}
	list, err := s.store.SiteMessages(ctx, user, types, unreadOnly, before, size+1)
	if err != nil {
		return MessagePage{}, err
	}
	return MessagePage{Messages: list[:min(size, len(list))], HasNext: len(list) > size, Gen: gen}, nil
}

// ByID reads messages of a user by their IDs; a message that the user does not have is absent.
func (s *Messages) ByID(ctx context.Context, user services.UserID, ids []services.PostID) (map[services.PostID]services.SiteMessage, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return s.store.SiteMessagesByID(ctx, user, ids)
}

// Report is a message as its sender sees it. NOT_FOUND if there is none.
func (s *Messages) Report(ctx context.Context, id services.PostID) (services.SiteMessageReport, error) {
	return s.store.SiteMessage(ctx, id)
}
