package notifications

import (
	"maps"
	"slices"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/posts"
	"tidings/services/sql"
)

// publishRandomAnswer publishes a post that answers a post of the recipient, mentions the recipient, or both.
func (p *stateMachine) publishRandomAnswer() {
	a := &incomingPost{id: services.PostID(p.nextID()), author: p.drawActor(), mentionsMe: rapid.Bool().Draw(p.t, "names me")}
	if !a.mentionsMe || rapid.Bool().Draw(p.t, "answers") {
		a.parent = p.drawPost()
	}
	p.MustWrite(func(tx *sql.Tx) error {
		post := services.Post{ID: a.id, Author: a.author, Kind: services.PostKindComment, Parent: a.parent, OffFeed: true, Body: "b"}
		if err := posts.Insert(p.Ctx, tx, post); err != nil || !a.mentionsMe {
			return err
		}
		return posts.InsertMentions(p.Ctx, tx, a.id, []services.UserID{p.model.recipient, a.author}, nil)
	})
	p.model.incomingPosts[a.id] = a
	p.queuedCauses = append(p.queuedCauses, p.causesOfAnswer(a)...)
}

// toggleMention makes an answer mention the recipient, or mention them no more.
func (p *stateMachine) toggleMention() {
	a := p.drawAnswer()
	if a == nil || a.deleted {
		return
	}
	mentions := []posts.Mention{{User: a.author}}
	if a.mentionsMe = !a.mentionsMe; a.mentionsMe {
		a.mentionedSince = p.nextID()
		mentions = append(mentions, posts.Mention{User: p.model.recipient, EditTimeID: a.mentionedSince})
	}
	p.MustWrite(func(tx *sql.Tx) error {
		_, err := posts.Edit(p.Ctx, tx, a.id, "c", mentions, nil)
		return err
	})
	p.queuedCauses = append(p.queuedCauses, p.causesOfAnswer(a)...)
}

// drawAnswer draws an answer; nil if there is none.
func (p *stateMachine) drawAnswer() *incomingPost {
	if len(p.model.incomingPosts) == 0 {
		return nil
	}
	return p.model.incomingPosts[rapid.SampledFrom(slices.Sorted(maps.Keys(p.model.incomingPosts))).Draw(p.t, "answer")]
}

// causesOfAnswer returns both causes that an answer can be, as the node that commits it queues them.
func (p *stateMachine) causesOfAnswer(a *incomingPost) []Cause {
	id, parent := services.SortableID(a.id), services.SortableID(a.parent)
	return []Cause{
		{Recipient: p.model.recipient, Category: services.CategoryMention, Subject: id, Actor: a.author},
		{Recipient: p.model.recipient, Category: services.CategoryComment, Subject: parent, Actor: a.author, Object: id},
	}
}
