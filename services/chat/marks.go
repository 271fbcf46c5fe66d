package chat

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/sql"
)

// ReadMark is the position up to which a conversation was read: the newest message now, one message, or the position in a token.
type ReadMark struct {
	UpTo  services.MessageID // 0 for none
	Token string             // "" for none: see NewReadToken
}

// readTokenVersion is the first byte of every token. Clients keep tokens for long, so another layout needs another byte.
const readTokenVersion = 1

// tokenLength is the length of: version, conversation, user, generation, number.
const tokenLength = 1 + 4 + 4 + 8 + 8

// NewReadToken makes a token for the state of a conversation that a member was shown. A mark with the token reads up to that state. It
// changes nothing if the conversation was marked unread since. It is no secret and not signed: a forged token can mark nothing
// that its user could not mark by a message ID as well, and parseToken refuses the tokens of others.
func NewReadToken(state services.Membership) string {
	bytes := make([]byte, 0, tokenLength)
	bytes = append(bytes, readTokenVersion)
	bytes = binary.BigEndian.AppendUint32(bytes, uint32(state.Conversation))
	bytes = binary.BigEndian.AppendUint32(bytes, uint32(state.User))
	bytes = binary.BigEndian.AppendUint64(bytes, uint64(state.MarkUnreadGeneration))
	bytes = binary.BigEndian.AppendUint64(bytes, uint64(state.NewestMessageNumber))
	return base64.RawURLEncoding.EncodeToString(bytes)
}

// parseToken returns what a read token of this user and conversation has: the generation of the read position, and a message number.
func parseToken(text string, user services.UserID, id services.ConversationID) (gen, number int64, err error) {
	bytes, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(bytes) != tokenLength || bytes[0] != readTokenVersion {
		return 0, 0, services.Errorf(services.Invalid, "readToken: %s is not a token of a conversation", services.Quote(text))
	}
	// The errors name the mistake, so that it can be found in a client that mixes up its tokens.
	if services.ConversationID(binary.BigEndian.Uint32(bytes[1:])) != id {
		return 0, 0, services.Errorf(services.Invalid, "readToken: it is of another conversation than %s", id.GlobalID())
	}
	if services.UserID(binary.BigEndian.Uint32(bytes[5:])) != user {
		return 0, 0, services.Errorf(services.Invalid, "readToken: it is another member's")
	}
	// A forged token can name a generation that was never opened: readUpTo refuses it.
	gen, number = int64(binary.BigEndian.Uint64(bytes[9:])), int64(binary.BigEndian.Uint64(bytes[17:]))
	if gen < 0 || number < 0 || number > services.MaxMessageNumber {
		return 0, 0, services.Errorf(services.Invalid, "readToken: %s is not a token of a conversation", services.Quote(text))
	}
	return gen, number, nil
}

// MarkRead is the command that moves a member's position forward. A mark below the position, or of an earlier generation,
// changes nothing. INVALID for a message that does not exist yet or is in another conversation.
func (s *Service) MarkRead(user services.UserID, id services.ConversationID, mark ReadMark) (*jobs.Command, error) {
	// -1 means any generation: a mark without a token is a click made now, in whatever generation the conversation is.
	number, gen := mark.UpTo.Number(), int64(-1)
	switch {
	case mark.Token != "" && mark.UpTo != 0:
		return nil, services.Errorf(services.Invalid, "upTo and readToken: only one of them can be given")
	case mark.UpTo != 0 && mark.UpTo.Conversation() != id:
		return nil, services.Errorf(services.Invalid, "upTo: %s is not of %s", mark.UpTo.GlobalID(), id.GlobalID())
	case mark.Token != "":
		var err error
		if gen, number, err = parseToken(mark.Token, user, id); err != nil {
			return nil, err
		}
	}
	nothing := mark.Token != "" && number == 0 // the member was shown an empty conversation; the number 0 would mean everything
	return s.ownStateCommand("markConversationRead", user, id, func(ctx context.Context, tx *sql.Tx) error {
		if nothing {
			_, err := lockState(ctx, tx, id, user)
			return errUnlessChanged(false, err)
		}
		return errUnlessChanged(readUpTo(ctx, tx, id, user, number, gen))
	}), nil
}

// MarkUnread is the command that marks a message and all after it unread, in addition to what is unread already. It opens a
// generation: earlier marks of devices are late from now on. INVALID for a message that does not exist or is in another
// conversation.
func (s *Service) MarkUnread(user services.UserID, from services.MessageID) *jobs.Command {
	id := from.Conversation()
	return s.ownStateCommand("markConversationUnread", user, id, func(ctx context.Context, tx *sql.Tx) error {
		return markUnread(ctx, tx, id, user, from.Number())
	})
}

// Mute is the command that takes a conversation out of a member's total, except for mentions of the member, or puts it back.
func (s *Service) Mute(user services.UserID, id services.ConversationID, muted bool) *jobs.Command {
	name := "muteConversation"
	if !muted {
		name = "unmuteConversation"
	}
	return s.ownStateCommand(name, user, id, func(ctx context.Context, tx *sql.Tx) error {
		return errUnlessChanged(setMuted(ctx, tx, id, user, muted))
	})
}

// errUnlessChanged returns the error of a command: ErrUnchanged if the state already was as requested.
func errUnlessChanged(changed bool, err error) error {
	if err == nil && !changed {
		err = jobs.ErrUnchanged
	}
	return err
}

// Enter is the command by which a device opens a conversation, or confirms that it still has it open. Everything is marked read,
// and nothing counts until every device has left or its lease (Settings.InsideLease) has expired.
func (s *Service) Enter(user services.UserID, id services.ConversationID, device string) *jobs.Command {
	return s.ownStateCommand("enterConversation", user, id, func(ctx context.Context, tx *sql.Tx) error {
		until := tx.EventTime().Add(s.InsideLease)
		if err := enterOnDevice(ctx, tx, id, user, device, until); err != nil {
			return err
		}
		due := until
		// Messages that were sent before the end of the lease may be reported later.
		if !until.After(tx.Now) {
			due = tx.JobDueAt(until)
		}
		return jobs.Enqueue(ctx, tx, leaseEndJob(id, user, due))
	})
}

// LeaseEnd is when a lease that is taken now ends.
func (s *Service) LeaseEnd() time.Time { return s.Clock.Now().Add(s.InsideLease) }

// Leave is the command by which a device closes a conversation: its lease ends, and everything is marked read. Nothing is marked read if
// the user has marked messages unread since they entered. The user stays a member; Quit ends the membership.
func (s *Service) Leave(user services.UserID, id services.ConversationID, device string) *jobs.Command {
	return s.ownStateCommand("leaveConversation", user, id, func(ctx context.Context, tx *sql.Tx) error {
		return errUnlessChanged(leaveOnDevice(ctx, tx, id, user, device, tx.EventTime().Add(s.InsideLease)))
	})
}

// EndDeviceLeases ends the leases of a disconnected device.
func (s *Service) EndDeviceLeases(ctx context.Context, user services.UserID, device string) error {
	// A device may be inside several conversations, on several tabs.
	ids, err := readLeases(ctx, s.DB, user, device)
	if err != nil || len(ids) == 0 {
		return err
	}
	// The commands are committed in one transaction, as commands that come at once are.
	cmds := services.Map(ids, func(id services.ConversationID) *jobs.Command { return s.Leave(user, id, device) })
	// A lease that could not be ended here ends by itself, by its job.
	for i, err := range s.Jobs.Commit(ctx, cmds...) {
		if err != nil {
			return fmt.Errorf("leave %s: %w", ids[i].GlobalID(), err)
		}
	}
	return nil
}
