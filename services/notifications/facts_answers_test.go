package notifications

import (
	"maps"
	"slices"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/posts"
	"tidings/services/sql"
)

// answer publishes a post that answers a post of the recipient, mentions the recipient, or both.
func (p *panel) answer() {
	a := &incomingPost{id: p.nextID(), author: p.someone(), mentionsMe: rapid.Bool().Draw(p.t, "names me")}
	if !a.mentionsMe || rapid.Bool().Draw(p.t, "answers") {
		a.parent = p.somePost()
	}
	p.MustWrite(func(tx *sql.Tx) error {
		post := services.Post{ID: a.id, Author: a.author, Kind: services.PostKindComment, Parent: a.parent, OffFeed: true, Body: "b"}
		if err := posts.Insert(p.Ctx, tx, post); err != nil || !a.mentionsMe {
			return err
		}
		return posts.InsertMentions(p.Ctx, tx, a.id, []services.UserID{p.m.me, a.author}, nil)
	})
	p.m.incoming[a.id] = a
	p.queuedCauses = append(p.queuedCauses, p.causesOf(a)...)
}

// edit makes an answer mention the recipient, or mention them no more.
func (p *panel) edit() {
	a := p.someAnswer()
	if a == nil || a.deleted {
		return
	}
	mentions := []posts.Mention{{User: a.author}}
	if a.mentionsMe = !a.mentionsMe; a.mentionsMe {
		a.since = p.nextID()
		mentions = append(mentions, posts.Mention{User: p.m.me, Since: a.since})
	}
	p.MustWrite(func(tx *sql.Tx) error {
		_, err := posts.Edit(p.Ctx, tx, a.id, "c", mentions, nil)
		return err
	})
	p.queuedCauses = append(p.queuedCauses, p.causesOf(a)...)
}

// someAnswer draws an answer; nil if there is none.
func (p *panel) someAnswer() *incomingPost {
	if len(p.m.incoming) == 0 {
		return nil
	}
	return p.m.incoming[rapid.SampledFrom(slices.Sorted(maps.Keys(p.m.incoming))).Draw(p.t, "answer")]
}

// causesOf returns both causes that an answer can be, as the node that commits it queues them.
func (p *panel) causesOf(a *incomingPost) []Cause {
	return []Cause{
		{Recipient: p.m.me, Category: services.CategoryMention, Subject: a.id, Actor: a.author},
		{Recipient: p.m.me, Category: services.CategoryComment, Subject: a.parent, Actor: a.author, Object: a.id},
	}
}
