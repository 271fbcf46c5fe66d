package notifications

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// readMentions reads up to which position the groups of mentions are read. A group of mentions has one cause.
var readMentions = sql.NewStatement("how far mentions are read", `SELECT c.i, g.read_to FROM {rows $1 i BIGINT, recipient BIGINT, subject BIGINT, bucket BIGINT} AS c
	CROSS JOIN notification_groups g WHERE g.recipient = c.recipient AND g.category = '`+string(services.CategoryMention)+`' AND g.subject = c.subject AND g.bucket = c.bucket`)

// formerMention is an answer whose recipient knows it as a mention.
type formerMention struct {
	*newCause
	mention storedCause     // its position, and its bucket if it is stored
	stored  bool            // whether the mention was stored by an earlier transaction
	seen    services.PostID // the position up to which mentions are seen
	readTo  services.PostID // the position up to which the mention's group is read
}

// carryMentions gives new answers the state of their mentions. An answer that mentions its recipient notifies them with the mention
// alone. If an edit takes the mention out, the answer becomes a cause, and the mention ends. If the mention was seen or read, so is the
// answer: it gets one of the lowestPlaces, and only this position is marked. Both causes are in one job: see Job. If the edit is
// reported late, only marks from before the edit count.
func (b *lockedCounters) carryMentions(ctx context.Context, missing []newCause, known map[Cause]storedCause) error {
	answers := b.findFormerMentions(missing, known)
	if len(answers) == 0 {
		return nil
	}
	var asked sql.Rows
	for i, a := range answers {
		if a.stored {
			asked = append(asked, []any{i, a.Recipient, a.Object, a.mention.bucket})
		}
	}
	if len(asked) > 0 {
		err := b.tx.Each(ctx, readMentions, []any{asked}, func(scan func(...any) error) error {
			var i int
			var readTo services.PostID
			err := scan(&i, &readTo)
			answers[i].readTo = readTo
			return err
		})
		if err != nil {
			return err
		}
	}
	asked = nil
	var carried []formerMention
	for _, a := range answers {
		covered := func(mark services.PostID) bool { return a.mention.place <= mark && (a.moment == 0 || mark < a.place) }
		if a.read = covered(a.readTo); !a.read && !covered(a.seen) {
			continue
		}
		one := lowestPlaces(a.Recipient, a.read)
		asked = append(asked, []any{len(carried), one.recipient, one.first, one.last})
		carried = append(carried, a)
	}
	return b.placeLowest(ctx, carried, asked)
}

// lowestPlaces is a range of positions of 1970, below the positions of all other causes. The positions of read causes are below those
// of causes that were only seen, so that a group can be read up to the read causes alone.
func lowestPlaces(user services.UserID, read bool) span {
	at := time.UnixMilli(2)
	if read {
		at = time.UnixMilli(1)
	}
	return span{user, services.FirstPosition(at, user), services.FirstPosition(at.Add(time.Millisecond), user) - 1}
}

// findFormerMentions returns the new answers that were mentions.
func (b *lockedCounters) findFormerMentions(missing []newCause, known map[Cause]storedCause) (answers []formerMention) {
	ended := map[Cause]services.PostID{} // mentions that are stored in this transaction
	for _, r := range missing {
		if r.Category == services.CategoryMention {
			ended[r.Cause] = r.place
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
			answers = append(answers, formerMention{newCause: r, mention: h, seen: m.seen, stored: true})
		} else if place := ended[mention]; place != 0 && m != nil {
			answers = append(answers, formerMention{newCause: r, mention: storedCause{place: place}, seen: m.seen, readTo: m.readTo})
		}
	}
	return answers
}

// placeLowest gives each answer the next position of its range (see lowestPlaces), and marks these positions seen.
func (b *lockedCounters) placeLowest(ctx context.Context, answers []formerMention, asked sql.Rows) error {
	if len(answers) == 0 {
		return nil
	}
	taken := make(map[span]services.PostID, len(answers))
	err := b.tx.Each(ctx, takenPlaces, []any{asked}, func(scan func(...any) error) error {
		var i int
		var last sql.NullInt64
		err := scan(&i, &last)
		taken[lowestPlaces(answers[i].Recipient, answers[i].read)] = services.PostID(last.Int64)
		return err
	})
	if err != nil {
		return err
	}
	for _, a := range answers {
		of := lowestPlaces(a.Recipient, a.read)
		a.place, a.carried = max(taken[of]+1, of.first), true
		taken[of] = a.place
		if m := b.rows[counter{a.Recipient, a.Category}]; a.place > m.seen { // no other position is as low
			m.seen, m.changedInvisibly = a.place, true
		}
	}
	return nil
}
