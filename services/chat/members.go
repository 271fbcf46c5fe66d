package chat

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/sql"
)

// Join is the command by which a user becomes a member of a ROOM; the existing messages count as read. A repetition changes
// nothing.
func (s *Service) Join(user services.UserID, id services.ConversationID) *jobs.Command {
	return s.membersCommand("joinConversation", user, id, func(ctx context.Context, tx *sql.Tx, c Conversation) ([]services.UserID, error) {
		if c.Kind != Room {
			return nil, conversationNotFound(id) // only members may learn the kind of a conversation
		}
		return insertMembers(ctx, tx, c, []services.UserID{user})
	})
}

// AddMembers is the command by which a member adds others. A user who is a member already does not change. CONFLICT for a DIRECT
// conversation, and if a GROUP would become too large. NOT_FOUND while there is a block between the member and one of the others,
// and while the group policy of one of the others does not let the member add them.
func (s *Service) AddMembers(by services.UserID, id services.ConversationID, users []services.UserID) (*jobs.Command, error) {
	users, err := checkUserList(users)
	if err != nil {
		return nil, err
	}
	return s.membersCommand("addMembers", by, id, func(ctx context.Context, tx *sql.Tx, c Conversation) ([]services.UserID, error) {
		// Membership is checked before any error about the conversation: for a user who is no member it does not exist.
		if _, err := lockState(ctx, tx, id, by); err != nil {
			return nil, err
		}
		if c.Kind == Direct {
			return nil, services.Errorf(services.Conflict, "conversationId: %s is DIRECT and always has two members", id.GlobalID())
		}
		if err := checkMayInvolve(ctx, tx, by, "userIds", users, unaddableFinder(id)); err != nil {
			return nil, err
		}
		// The size is checked after the insert, which alone finds the new members. The error rolls the insert back.
		added, err := insertMembers(ctx, tx, c, users)
		if size := c.Members + len(added); err == nil && c.Kind == Group && size > s.MaxGroupMembers {
			err = services.Errorf(services.Conflict, "userIds: a GROUP has up to %d members, it would have %d", s.MaxGroupMembers, size)
		}
		return added, err
	}), nil
}

// RemoveMembers is the command by which a conversation's creator removes others. Users who are no members are skipped. FORBIDDEN if
// by is not the creator, CONFLICT for a DIRECT conversation.
func (s *Service) RemoveMembers(by services.UserID, id services.ConversationID, users []services.UserID) (*jobs.Command, error) {
	users, err := checkUserList(users)
	if err != nil {
		return nil, err
	}
	if slices.Contains(users, by) { // the answer would be a conversation that they may no longer see
		return nil, services.Errorf(services.Invalid, "userIds: they include you; use quitConversation to leave")
	}
	return s.membersCommand("removeMembers", by, id, func(ctx context.Context, tx *sql.Tx, c Conversation) ([]services.UserID, error) {
		if _, err := lockState(ctx, tx, id, by); err != nil {
			return nil, err
		}
		if c.Creator != by {
			return nil, services.Errorf(services.Forbidden, "conversationId: only the creator of %s can remove members", id.GlobalID())
		}
		return s.remove(ctx, tx, c, users)
	}), nil
}

// Quit is the command by which a member leaves for good: nothing of the conversation counts for them or is shown to them any
// more. Leaving again changes nothing. CONFLICT for a DIRECT conversation, which can be muted.
func (s *Service) Quit(user services.UserID, id services.ConversationID) *jobs.Command {
	return s.membersCommand("quitConversation", user, id, func(ctx context.Context, tx *sql.Tx, c Conversation) ([]services.UserID, error) {
		switch _, err := lockState(ctx, tx, id, user); services.CodeOf(err) {
		case services.Conflict: // the user has left already
			return nil, nil
		case "":
		default:
			return nil, err
		}
		return s.remove(ctx, tx, c, []services.UserID{user})
	})
}

// CloseDirect is the consequence of a block: the DIRECT conversation of two users ends for both. It returns the jobs that project
// the end, and the function after, which updates the blocker's own document. after is nil if there is no such conversation.
// Creating the conversation again reopens it. CloseDirect runs in the transaction of the block, so there is no moment in which a
// blocked user can still write.
func (s *Service) CloseDirect(ctx context.Context, tx *sql.Tx, blocker, blocked services.UserID) (queued []jobs.NewJob, after func(context.Context) error, err error) {
	id, left, err := closeDirect(ctx, tx, blocker, blocked)
	if err != nil || id == 0 {
		return nil, nil, err
	}
	for _, user := range left {
		queued = append(queued, projectMemberJob(id, user))
	}
	return queued, func(ctx context.Context) error { return s.projectMember(ctx, id, blocker) }, nil
}

// remove takes members out of a locked conversation, and returns the users who were members.
func (s *Service) remove(ctx context.Context, tx *sql.Tx, c Conversation, users []services.UserID) ([]services.UserID, error) {
	if c.Kind == Direct {
		return nil, services.Errorf(services.Conflict, "conversationId: %s is DIRECT and cannot be left; mute it", c.ID.GlobalID())
	}
	return removeMembers(ctx, tx, c.ID, users)
}

// checkUserList checks the users that one call names, and returns them sorted and without repetitions.
func checkUserList(users []services.UserID) ([]services.UserID, error) {
	if len(users) == 0 || len(users) > maxMembersPerCall {
		return nil, services.Errorf(services.Invalid, "userIds: 1 to %d are allowed, got %d", maxMembersPerCall, len(users))
	}
	return distinct(slices.Clone(users)), nil
}

// membersCommand makes a command that changes the members of a conversation. change returns the users whose state it changed; if it
// returns none, nothing changed.
func (s *Service) membersCommand(name string, by services.UserID, id services.ConversationID, change func(context.Context, *sql.Tx, Conversation) ([]services.UserID, error)) *jobs.Command {
	return s.memberCommand(name, by, id, func(ctx context.Context, tx *sql.Tx) ([]string, error) {
		c, err := lock(ctx, tx, id)
		if err != nil {
			return nil, err
		}
		// The conversation is locked, so members are added and removed one command after the other.
		users, err := change(ctx, tx, c)
		if err != nil {
			return nil, err
		}
		if len(users) == 0 {
			return []string{id.GlobalID()}, jobs.ErrUnchanged
		}
		// The conversation is read again, because queueProjectionJobs needs the new number of members: it decides how messages are
		// counted (Conversation.Way).
		if c, err = lock(ctx, tx, id); err != nil { // after the change
			return nil, err
		}
		return []string{id.GlobalID()}, s.queueProjectionJobs(ctx, tx, c, users...)
	})
}
