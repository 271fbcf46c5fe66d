// Package chat implements conversations: their members, their messages, and each member's read position.
//
// The number of unread messages is exact in both ways of counting: on write, where each message is projected to each member, and on
// read, where positions are compared with the conversation's last sequence, the number of its newest message. A position goes back
// only by "mark unread", which opens a new generation, so that late marks have no effect. Only members see anything. A message and
// the job that projects it are one transaction. When Redis does not answer, messages are still accepted and the counts follow.
//
// A member's row (services.Membership) holds ReadUpTo, the position up to which they have read, and UnreadAdjustment, a correction
// for own and recalled messages above it: unread = NewestMessageNumber - ReadUpTo + UnreadAdjustment. In SQL a message raises only
// the last sequence of its conversation, whatever the number of its members.
//
// The path of a message that is counted on write: Send raises the last sequence and inserts the row (insertMessage), moves the author's own
// position, and queues the job chat.carry. projectIfCountedOnWrite reads the last sequence and the rows of all active members, one snapshot
// per page, and puts them into their documents, where the newer version wins and the sums move by the difference. At most ten
// passes a second run over one conversation. Above 500 members, or 20,000 messages x members a minute, a conversation is counted on
// read: documents hold the positions, and every half second each node reads the last sequences of the conversations that its users follow
// (SequenceCache). wantedCountingWay chooses the way of counting, and changeCountingWay switches it.
//
// Being inside is not the same as being a member. A device that enters a conversation opens it: messages that arrive are seen and
// do not count until the device leaves, or its lease ends. Users become members by joining, and stop being members by quitting.
//
// Locks are taken in this order: the row of the conversation, rows of members, messages. The lock of a user's restrictions comes
// before a DIRECT conversation, which a block closes, and after a GROUP or ROOM, which no block touches.
package chat

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/projector"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// Config configures conversations. Zero numbers mean their defaults.
type Config struct {
	DB        *sql.DB
	Redis     *rdb.Projections
	Changelog *changelog.Follower  // each of its polls refreshes Sequences
	Jobs      *jobs.Engine         // New registers the kinds of jobs of conversations in it
	Projector *projector.Projector // New registers the conversations' part of rebuilds and audits
	Clock     services.Clock
	// Facts reads the numbers of conversations' newest messages; nil reads them from DB.
	Facts SequenceFacts

	Settings
}

// Service implements conversations. It is safe for concurrent use.
type Service struct {
	Config
	Sequences *SequenceCache // the numbers of conversations' newest messages, in this node's cache

	expiry             services.SourceExpiry                  // after how many days unread items leave their counts
	projectionThrottle jobs.Throttle[services.ConversationID] // limits how often a conversation's states are projected to all members
	// newestExpiredMessages remembers which messages are too old today, so that the members of a conversation share one search.
	newestExpiredMessages newestExpiredCache
}

const (
	// These are the bounds of inputs. The bounds of texts are in characters.
	maxTitleCharacters = 255                        // of a conversation
	maxMembersPerCall  = 500                        // members named in one call
	maxMentions        = 50                         // users mentioned in one message
	maxBodyCharacters  = services.MaxBodyCharacters // of a message
)

// New makes the service of a node, and registers its kinds of jobs, its part of rebuilds and of audits.
func New(cfg Config) *Service {
	cfg.Settings = services.WithDefaults(cfg.Settings)
	if cfg.Facts == nil {
		cfg.Facts = sequenceFacts{cfg.DB}
	}
	s := &Service{Config: cfg, Sequences: newSequences(cfg.Changelog, cfg.Facts), expiry: cfg.Projector.Expiry()}
	cfg.Jobs.Register(s.kinds()...)
	cfg.Projector.RegisterRebuildPart("conversations", s.rebuildSteps)
	cfg.Projector.RegisterAuditPart("conversations", s.audit)
	return s
}

// Create is the command that creates a conversation of its creator and others, and returns its id. Two users have one DIRECT:
// creating it again returns the same conversation, and reopens it if a block had closed it. INVALID for a title that is too long
// or of a DIRECT conversation, and for members that do not fit the kind. NOT_FOUND while there is a block between the creator and
// one of the others, and for a GROUP or ROOM also while the group policy of one of the others keeps the creator from adding them.
func (s *Service) Create(creator services.UserID, kind Kind, title string, others []services.UserID) (*jobs.Command, error) {
	if err := services.CheckText("title", title, 0, maxTitleCharacters); err != nil {
		return nil, err
	}
	members := distinct(append(slices.Clone(others), creator))
	switch {
	case kind == Direct && title != "":
		return nil, services.Errorf(services.Invalid, "title: a DIRECT conversation has none")
	case kind == Direct && len(members) != 2:
		return nil, services.Errorf(services.Invalid, "memberIds: a DIRECT conversation has exactly one other member, got %d", len(members)-1)
	case kind == Group && len(members) > s.MaxGroupMembers:
		return nil, services.Errorf(services.Invalid, "memberIds: a GROUP has up to %d members, got %d", s.MaxGroupMembers, len(members))
	case len(others) > maxMembersPerCall:
		return nil, services.Errorf(services.Invalid, "memberIds: up to %d can be named at once, got %d", maxMembersPerCall, len(others))
	}
	// Apply sets id, and AfterApply reads it.
	var id services.ConversationID
	return &jobs.Command{
		Name: "createConversation", Actor: creator,
		Apply: func(ctx context.Context, tx *sql.Tx) (ids []string, err error) {
			// A DIRECT conversation is not an addition to a group: only a block refuses it.
			var refused refusedFinder = people.ListBlockedEitherWay
			if kind != Direct {
				refused = unaddableFinder(0)
			}
			if err := checkMayInvolve(ctx, tx, creator, "memberIds", members, refused); err != nil {
				return nil, err
			}
			var created bool
			id, created, err = insert(ctx, tx, conversationDraft{Kind: kind, Title: title, Creator: creator, Members: members})
			if err != nil {
				return nil, err
			}
			// The conversation is read after the insert, with the number of members that the insert has counted.
			c, err := lock(ctx, tx, id)
			if err != nil {
				return nil, err
			}
			// The DIRECT conversation exists. Both users are members, or a block has closed it and both come back as new members.
			if !created {
				opened, err := insertMembers(ctx, tx, c, members)
				if err == nil && len(opened) == 0 {
					err = jobs.ErrUnchanged
				}
				if err != nil {
					return []string{id.GlobalID()}, err
				}
				c.Members += len(opened)
				ids = []string{jobs.ExistingObjectMarker}
			}
			return append([]string{id.GlobalID()}, ids...), s.queueProjectionJobs(ctx, tx, c, members...)
		},
		AfterApply: func(ctx context.Context) error { return s.projectMember(ctx, id, creator) },
	}, nil
}

// refusedFinder finds the users, among the given others, that the user may not involve in an operation.
type refusedFinder func(ctx context.Context, tx *sql.Tx, user services.UserID, others []services.UserID) ([]services.UserID, error)

// unaddableFinder returns the function that finds the users that the user may not add to a GROUP or ROOM; id is 0 for a
// conversation that does not exist yet.
func unaddableFinder(id services.ConversationID) refusedFinder {
	return func(ctx context.Context, tx *sql.Tx, user services.UserID, others []services.UserID) ([]services.UserID, error) {
		return findUnaddable(ctx, tx, user, id, others)
	}
}

// checkMayInvolve returns an error if a user may not involve one of the others: NOT_FOUND, as for an unknown user. A block and a
// policy give the same error, so that neither is disclosed. Blocks between the user and others cannot change until the
// transaction ends: LockRestrictionsShared takes a lock that a new block by the user or of the user needs too. The error names the
// least ID, so that it is the same in each try.
func checkMayInvolve(ctx context.Context, tx *sql.Tx, user services.UserID, argument string, others []services.UserID, refused refusedFinder) error {
	if err := people.LockRestrictionsShared(ctx, tx, user); err != nil {
		return err
	}
	found, err := refused(ctx, tx, user, others)
	if err != nil || len(found) == 0 {
		return err
	}
	return people.NoUserError(ctx, tx, argument, slices.Min(found))
}

// distinct sorts users and drops repetitions, in place: callers clone a list that they do not own.
func distinct(users []services.UserID) []services.UserID {
	slices.Sort(users)
	return slices.Compact(users)
}

// queueProjectionJobs adds the jobs that project a conversation whose members or last message changed, and changes its way of counting
// where its size and traffic require it.
func (s *Service) queueProjectionJobs(ctx context.Context, tx *sql.Tx, c Conversation, users ...services.UserID) error {
	var queued []jobs.NewJob
	// In a conversation that is counted on read, nodes read the number of its newest message by themselves. Only changed rows are projected:
	// of the author, of mentioned and of new members.
	if c.Way == OnRead {
		for _, user := range users {
			queued = append(queued, projectMemberJob(c.ID, user))
		}
	} else {
		queued = append(queued, s.projectJob(c.ID))
	}
	// The way of counting (WRITE, TO_READ or READ) is chosen here, because every message and every change of members comes here. So no
	// pass over all conversations is needed.
	if way := s.wantedCountingWay(c); way != c.Way {
		if _, err := changeCountingWay(ctx, tx, c, way); err != nil {
			return err
		}
		queued = append(queued, projectAllAndSwitchJob(c.ID))
	}
	return jobs.Enqueue(ctx, tx, queued...)
}

// wantedCountingWay is how a conversation should be counted. A conversation returns to counting on write only well below the threshold,
// so that its way does not alternate. The return takes one step: messages are projected from then on, and each member counts by the flag
// CountedOnRead in their own document.
func (s *Service) wantedCountingWay(c Conversation) CountingWay {
	load := c.Members * c.MessagesPerMinute
	switch {
	// The switch goes through switchingToRead, because writing may stop only when every member's document has the flag: members
	// without it would miss messages.
	case c.Way == OnWrite && (c.Members > s.MaxMembersCountedOnWrite || load >= s.MaxLoadCountedOnWrite):
		return switchingToRead
	case c.Way != OnWrite && c.Members <= s.MaxMembersCountedOnWrite/2 && load < s.MaxLoadCountedOnWrite/2:
		return OnWrite
	}
	return c.Way
}

// Send is the command that adds a message and returns its id. The author has read up to it. Only mentions of members count.
// NOT_FOUND if the author is no member, CONFLICT if the author has left.
func (s *Service) Send(author services.UserID, id services.ConversationID, body string, mentions []services.UserID) (*jobs.Command, error) {
	if err := services.CheckFilled("body", body, maxBodyCharacters); err != nil {
		return nil, err
	}
	mentions = distinct(slices.Clone(mentions))
	if len(mentions) > maxMentions {
		return nil, services.Errorf(services.Invalid, "mentionIds: up to %d are allowed, got %d", maxMentions, len(mentions))
	}
	var last LastSequence
	cmd := s.memberCommand("sendMessage", author, id, func(ctx context.Context, tx *sql.Tx) ([]string, error) {
		message, c, reached, err := insertMessage(ctx, tx, id, author, body, mentions)
		if err != nil {
			return nil, err
		}
		last = LastSequence{Conversation: id, NewestNumber: c.NewestNumber, SentAt: c.LastActiveAt}
		// The mentioned members are included: in a conversation that is counted on read, nothing else projects their rows.
		return []string{message.ID.GlobalID()}, s.queueProjectionJobs(ctx, tx, c, append(reached, author)...)
	})
	return s.notifyWatchersAfter(cmd, &last), nil
}

// notifyWatchersAfter shows a command's change of a conversation to this node's watchers at once; last is its state at the end of the
// transaction, which Apply writes and AfterApply reads. Other nodes see the change with their next read of SQL.
func (s *Service) notifyWatchersAfter(cmd *jobs.Command, last *LastSequence) *jobs.Command {
	// Each kind of command that wakes watchers has its own key. Of an actor's commands with one key that are committed together, only the
	// last one runs its AfterApply. If that were a command without one, such as a mark of messages as read, no watcher would be woken. Of
	// two commands of one kind, the last has the newest sequence.
	cmd.CoalesceKey = cmd.Name + " in " + cmd.CoalesceKey
	cmd.AfterApply = func(context.Context) error {
		s.Sequences.Advance(*last)
		return nil
	}
	return cmd
}

// memberCommand is a member's command in a conversation. The member's own state is projected at once. If several commands are
// committed together, the last projection serves all, since it reads the row.
func (s *Service) memberCommand(name string, user services.UserID, id services.ConversationID, apply func(context.Context, *sql.Tx) ([]string, error)) *jobs.Command {
	return &jobs.Command{
		Name: name, Actor: user, CoalesceKey: "conversation " + id.String(),
		Apply:       func(ctx context.Context, tx *sql.Tx) ([]string, error) { return apply(ctx, tx) },
		AfterCommit: func(ctx context.Context) error { return s.projectMember(ctx, id, user) },
	}
}

// ownStateCommand is a command that changes only the user's own state: it needs no pass over the other members.
func (s *Service) ownStateCommand(name string, user services.UserID, id services.ConversationID, apply func(context.Context, *sql.Tx) error) *jobs.Command {
	return s.memberCommand(name, user, id, func(ctx context.Context, tx *sql.Tx) ([]string, error) {
		if err := apply(ctx, tx); err != nil {
			return nil, err
		}
		return nil, jobs.Enqueue(ctx, tx, projectMemberJob(id, user))
	})
}

// Recall is the command by which an author recalls a message: it stops counting for every member who had not read it. Recalling
// again changes nothing.
func (s *Service) Recall(author services.UserID, id services.MessageID) *jobs.Command {
	conversation := id.Conversation()
	var last LastSequence
	cmd := s.memberCommand("recallMessage", author, conversation, func(ctx context.Context, tx *sql.Tx) ([]string, error) {
		c, recalled, err := recall(ctx, tx, id, author)
		if err != nil {
			return nil, err
		}
		if !recalled {
			return []string{id.GlobalID()}, jobs.ErrUnchanged
		}
		// The newest message keeps its number. The revision tells watchers to read again.
		last = LastSequence{Conversation: conversation, NewestNumber: c.NewestNumber, SentAt: c.LastActiveAt, Revision: c.Revision}
		job := s.projectJob(conversation)
		if c.Way == OnRead { // the states of many members changed, and only a pass projects them
			job = projectAllAndSwitchJob(conversation)
		}
		return []string{id.GlobalID()}, jobs.Enqueue(ctx, tx, job)
	})
	return s.notifyWatchersAfter(cmd, &last)
}
