package notifications

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// mentionsReadTo reads up to which position the groups of mentions are read. A group of mentions has one cause.
var mentionsReadTo = sql.NewStatement("how far mentions are read", `SELECT c.i, g.read_to FROM {rows $1 i BIGINT, recipient BIGINT, subject BIGINT, bucket BIGINT} AS c
	CROSS JOIN notification_groups g WHERE g.recipient = c.recipient AND g.category = '`+string(services.CategoryMention)+`' AND g.subject = c.subject AND g.bucket = c.bucket`)

// formerMention is an answer whose recipient knows it as a mention.
type formerMention struct {
	*newCause
	mention       storedCause             // its position, and its half day if it is stored
	mentionStored bool                    // whether the mention was stored by an earlier transaction
	seenTo        services.NotificationID // the position up to which mentions are seen
	readTo        services.NotificationID // the position up to which the mention's group is read
}

// copyMentionStates gives new answers the state of their mentions. An answer that mentions its recipient notifies them with the
// mention alone. If an edit takes the mention out, the answer becomes a cause, and the mention ends. If the mention was seen or
// read, so is the answer: it gets a position below those of all other causes (lowestPositionRange), and only this position is marked.
// Both causes are in one job, as all causes of a recipient that are committed together: see NotifyJob. If the edit is reported late,
// only marks from before the edit count.
func (b *lockedCounters) copyMentionStates(ctx context.Context, missing []newCause, known map[Cause]storedCause) error {
	answers := b.findFormerMentions(missing, known)
	if len(answers) == 0 {
		return nil
	}
	var asked sql.RowsParameter
	for i, a := range answers {
		if a.mentionStored {
			asked = append(asked, []any{i, a.Recipient, a.Object, a.mention.halfDay})
		}
	}
	if len(asked) > 0 {
		err := b.tx.Each(ctx, mentionsReadTo, []any{asked}, func(scan func(...any) error) error {
			var i int
			var readTo services.NotificationID
			err := scan(&i, &readTo)
			answers[i].readTo = readTo
			return err
		})
		if err != nil {
			return err
		}
	}
	asked = nil
	var marked []formerMention
	for _, a := range answers {
		covered := func(mark services.NotificationID) bool {
			return a.mention.position <= mark && (a.eventMoment == 0 || mark < a.position)
		}
		if a.mentionRead = covered(a.readTo); !a.mentionRead && !covered(a.seenTo) {
			continue
		}
		one := lowestPositionRange(a.Recipient, a.mentionRead)
		asked = append(asked, []any{len(marked), one.recipient, one.first, one.last})
		marked = append(marked, a)
	}
	return b.assignLowestPositions(ctx, marked, asked)
}

// lowestPositionRange is the range of positions for answers that were read, or only seen, as mentions. These are positions of 1970, below
// the positions of all other causes. The range for read answers is the lower one, so that a group can be read up to them alone.
func lowestPositionRange(user services.UserID, read bool) positionRange {
	at := time.UnixMilli(2)
	if read {
		at = time.UnixMilli(1)
	}
	return positionRange{user, services.FirstNotificationPosition(at, user), services.FirstNotificationPosition(at.Add(time.Millisecond), user) - 1}
}

// findFormerMentions returns the new answers that were mentions.
func (b *lockedCounters) findFormerMentions(missing []newCause, known map[Cause]storedCause) (answers []formerMention) {
	ended := map[Cause]services.NotificationID{} // mentions that are stored in this transaction
	for _, r := range missing {
		if r.Category == services.CategoryMention {
			ended[r.Cause] = r.position
		}
	}
	for i := range missing {
		r := &missing[i]
		if r.Category != services.CategoryComment {
			continue
		}
		mention := Cause{Recipient: r.Recipient, Category: services.CategoryMention, Subject: r.Object, Actor: r.Actor}
		m := b.rows[counter{mention.Recipient, mention.Category}]
		if h, was := known[mention]; was && m != nil {
			answers = append(answers, formerMention{newCause: r, mention: h, seenTo: m.seenTo, mentionStored: true})
		} else if position := ended[mention]; position != 0 && m != nil {
			answers = append(answers, formerMention{newCause: r, mention: storedCause{position: position}, seenTo: m.seenTo, readTo: m.readTo})
		}
	}
	return answers
}

// assignLowestPositions gives each answer the next free position of its lowestPositionRange, below the positions of all other causes,
// and marks these positions seen.
func (b *lockedCounters) assignLowestPositions(ctx context.Context, answers []formerMention, asked sql.RowsParameter) error {
	if len(answers) == 0 {
		return nil
	}
	taken := make(map[positionRange]services.NotificationID, len(answers))
	err := b.tx.Each(ctx, selectLastPositions, []any{asked}, func(scan func(...any) error) error {
		var i int
		var last sql.NullInt64
		err := scan(&i, &last)
		taken[lowestPositionRange(answers[i].Recipient, answers[i].mentionRead)] = services.NotificationID(last.Int64)
		return err
	})
	if err != nil {
		return err
	}
	for _, a := range answers {
		of := lowestPositionRange(a.Recipient, a.mentionRead)
		a.position, a.wasMention = max(taken[of]+1, of.first), true
		taken[of] = a.position
		if m := b.rows[counter{a.Recipient, a.Category}]; a.position > m.seenTo { // no other position is as low
			m.seenTo, m.changedInvisibly = a.position, true
		}
	}
	return nil
}
