package chat

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/erase"
	"tidings/services/jobs"
	"tidings/services/refs"
	"tidings/services/sql"
)

var (
	// The first conversation after $2 in which the user has a row.
	conversationToErase = sql.NewStatement("conversations of an erased user", `SELECT conversation FROM conversation_members
		WHERE user_number = $1 AND conversation > $2 ORDER BY conversation LIMIT 1`)

	// Blanked messages have no author any more, so the next step finds the messages after them.
	messagesToErase = sql.NewStatement("messages to erase", `SELECT number, recalled_at FROM conversation_messages
		WHERE conversation = $1 AND author = $2 ORDER BY number LIMIT $3`)

	// Messages are numbered without gaps, so the row stays, recalled and without an author.
	blankMessages = sql.NewStatement("blank erased messages", `UPDATE conversation_messages SET author = 0 WHERE conversation = $1 AND {in number $2 BIGINT}`)

	eraseMentions = sql.NewStatement("erase mentions in a conversation", `DELETE FROM conversation_mentions WHERE conversation = $1 AND user_number = $2`)

	eraseMember = sql.NewStatement("erase a member", `DELETE FROM conversation_members WHERE conversation = $1 AND user_number = $2`)

	// The title goes if the user gave it as the creator. The revision rises, so that watchers of the conversation read it again.
	clearCreatorAndPair = sql.NewStatement("take a member out of a conversation", `UPDATE conversations SET pair = NULL, revision = revision + 1,
		title = CASE WHEN creator = $2 THEN '' ELSE title END, creator = CASE WHEN creator = $2 THEN 0 ELSE creator END WHERE id = $1`)
)

// EraseSteps are the steps that remove a user from conversations. The user's messages are recalled and lose their author, and titles
// that the user gave are deleted. The other users stay members. A DIRECT conversation then belongs to no pair of users, and its
// ref is free.
func (s *Service) EraseSteps() []erase.Step {
	return []erase.Step{
		{Name: "conversations", Run: s.eraseConversation},
		erase.DeleteRows("preferences", "group_policies", "user_number", "user_number"),
	}
}

// eraseBatchSize is how many messages one transaction removes from a conversation: each is compared with the position of each
// member, and senders wait meanwhile. 200,000 comparisons take a fraction of a second. It is at least ten, so that the erasure
// of a huge room ends at all.
func eraseBatchSize(members int) int {
	const compared, least = 200_000, 10
	return max(least, min(erase.RowsPerRun, compared/max(members, 1)))
}

// eraseConversation removes the user from the next conversation. It takes one conversation at a time, because its members wait
// for the lock. A long conversation takes several steps. The last step deletes the user's row, which each step needs to find the
// conversation.
func (s *Service) eraseConversation(ctx context.Context, tx *sql.Tx, at erase.StepPosition) (done erase.StepResult, err error) {
	var id services.ConversationID
	found, err := tx.One(ctx, conversationToErase, []any{at.User, at.ResumeAfter}, &id)
	if err != nil || !found {
		return done, err
	}
	c, err := lock(ctx, tx, id)
	if err != nil {
		return done, err
	}
	limit := eraseBatchSize(c.Members)
	var messages, standing []int64
	err = tx.Each(ctx, messagesToErase, []any{id, at.User, limit}, func(scan func(...any) error) error {
		var number, recalled int64
		err := scan(&number, &recalled)
		if messages = append(messages, number); recalled == 0 {
			standing = append(standing, number)
		}
		return err
	})
	// Recalled messages count nowhere any more: they only lose their author.
	if err == nil && len(standing) > 0 {
		// The texts are deleted and the messages stop counting for everyone, as if their author recalled them.
		err = withdrawMessages(ctx, tx, c, standing, at.User)
	}
	if err == nil && slices.Contains(messages, c.NewestNumber) && !slices.Contains(standing, c.NewestNumber) { // recalled before: it only loses its author
		_, err = tx.Run(ctx, raiseOtherMemberVersions, id, 0, at.User)
	}
	if err == nil && len(messages) > 0 {
		_, err = tx.Run(ctx, blankMessages, id, messages)
	}
	if err != nil {
		return done, err
	}
	done = erase.StepResult{Removed: map[string]int{"messages": len(messages)}, ResumeAfter: int64(id), More: true}
	// There may be more messages of the user in this conversation.
	if len(messages) == limit {
		done.ResumeAfter = at.ResumeAfter // continue with this conversation
	} else {
		if _, err := removeMembers(ctx, tx, id, []services.UserID{at.User}); err != nil {
			return done, err
		}
		for _, st := range []sql.Statement{eraseMentions, eraseMember, clearCreatorAndPair} {
			if _, err := tx.Run(ctx, st, id, at.User); err != nil {
				return done, err
			}
		}
		if _, err := tx.Run(ctx, dropLeases, id, []services.UserID{at.User}); err != nil {
			return done, err
		}
		if c.Kind == Direct { // the pair is gone: the ref would name a conversation that no Create can return
			if err := refs.FreeRef(ctx, tx, services.Object{Type: services.ConversationType, Number: uint64(id)}); err != nil {
				return done, err
			}
		}
		done.Removed["conversations"] = 1
	}
	job := s.projectJob(id)
	if c.Way == OnRead { // the states of many members changed
		job = projectAllAndSwitchJob(id)
	}
	return done, jobs.Enqueue(ctx, tx, job)
}
