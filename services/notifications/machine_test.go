package notifications

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/posts"
	"tidings/services/rdb"
	"tidings/services/sql"
	"tidings/tests/histories"
)

// reader is one user's notifications on a node whose jobs come late and twice, and whose Redis is lost.
type reader struct {
	node
	t        *rapid.T
	me       services.UserID
	others   []services.UserID
	posts    []services.PostID
	stands   map[Cause]bool                              // the causes that exist
	notified []Cause                                     // causes that ever had a job
	blocks   map[services.UserID]bool                    // the users whom this user blocks
	hides    map[services.Restriction]bool               // other users' hides and blocks of this user
	modes    map[services.Category]services.CategoryMode // that this user chose
}

// prefer changes how a category counts.
func (p *reader) prefer() {
	category, mode := rapid.SampledFrom(services.Categories).Draw(p.t, "category"), services.CategoryMode(rapid.IntRange(0, 2).Draw(p.t, "mode"))
	cmd, err := p.service.SetPreference(p.me, category, PreferenceChange{Mode: &mode})
	p.Must(err)
	dies := rapid.Bool().Draw(p.t, "the process dies after the commit")
	if dies {
		cmd.AfterApply, cmd.AfterCommit = nil, nil // the job does it
	}
	p.Must(p.do(cmd))
	if before, chosen := p.modes[category]; cmd.Changed() != (!chosen || before != mode) {
		p.t.Fatalf("from %v (%v) to %v: changed is %v", before, chosen, mode, cmd.Changed())
	}
	p.modes[category] = mode
	// The document has the new mode at once. After a death only the job writes it, because a repeated command changes nothing.
	if document := p.Document(p.me); cmd.Changed() && !dies && document.Ready && document.Modes.Of[category] != mode {
		p.t.Fatalf("%s counts as %v at once, want %v", category, document.Modes.Of[category], mode)
	}
}

// badges are the user's badges as their document has them, or as the facts have them.
func (p *reader) badges(facts bool) *services.Badges {
	of := NewSource(p.Store, nil)
	view := source.View{Settings: &source.Settings{}, Document: p.Document(p.me), Moment: source.Moment{Now: p.Clock.Now(), MonotonicNow: p.Clock.Now()}}
	if facts {
		var documents [1]rdb.Document
		p.Must(of.Facts(p.TB.Context(), []services.UserID{p.me}, 0, documents[:]))
		view.Document = documents[0]
	}
	badges := &services.Badges{}
	of.Render(&view, badges)
	return badges
}

// explained returns, for each category, the number of items that explain its count, and the number that a digest of all time has.
func (p *reader) explained(badges *services.Badges) (items, arrived map[string]int) {
	of := NewSource(p.Store, nil)
	list, err := of.Explain(p.TB.Context(), source.ExplainRequest{User: p.me, Badges: badges, Today: p.Clock.Now().Unix() / 86400})
	p.Must(err)
	items, arrived = map[string]int{}, map[string]int{}
	for _, explanation := range list {
		items[explanation.Part] = len(explanation.Items)
	}
	newest, _, err := of.Newest(p.TB.Context(), source.ExplainRequest{User: p.me, Badges: badges})
	p.Must(err)
	for i, explanation := range newest {
		if all := list[i].Items; !slices.Equal(explanation.Items, all[:min(len(all), newestSearched)]) {
			p.t.Fatalf("the newest of %s are %v, explained by %v", explanation.Part, explanation.Items, all)
		}
	}
	digest := &services.Digest{}
	p.Must(of.Digest(p.TB.Context(), p.me, time.UnixMicro(1), digest))
	for _, part := range digest.Parts {
		arrived[part.Part] = part.Count.Value
	}
	return items, arrived
}

func (p *reader) other() services.UserID { return rapid.SampledFrom(p.others).Draw(p.t, "who") }

// writeFact writes a change of a fact, with the job of its cause.
func (p *reader) writeFact(c Cause, change func(ctx context.Context, tx *sql.Tx) error) {
	p.Write(func(ctx context.Context, tx *sql.Tx) error {
		job, err := Job(c)
		if err != nil {
			return err
		}
		if change != nil {
			err = change(ctx, tx)
		}
		if err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, job)
	})
	p.notified = append(p.notified, c)
}

// turnLike makes a user like a post, or ends the like.
func (p *reader) turnLike() {
	post := rapid.SampledFrom(p.posts).Draw(p.t, "post")
	c := Cause{Recipient: p.me, Category: services.CategoryLike, Subject: post, Actor: p.other()}
	p.writeFact(c, func(ctx context.Context, tx *sql.Tx) (err error) {
		if p.stands[c] {
			_, err = posts.DeleteLike(ctx, tx, post, c.Actor)
		} else {
			_, err = posts.InsertLike(ctx, tx, post, c.Actor, p.IDs.Next().Moment())
		}
		return err
	})
	p.stands[c] = !p.stands[c]
}

// turnFollow makes a user follow this user, or ends the follow.
func (p *reader) turnFollow() {
	c := Cause{Recipient: p.me, Category: services.CategoryFollow, Actor: p.other()}
	p.writeFact(c, func(ctx context.Context, tx *sql.Tx) (err error) {
		if p.stands[c] {
			_, err = people.DeleteFollow(ctx, tx, c.Actor, p.me)
		} else {
			_, err = people.InsertFollow(ctx, tx, services.Edge{Follower: c.Actor, Followee: p.me, Since: p.IDs.Next()})
		}
		return err
	})
	blocked := p.blocks[c.Actor] || p.hides[services.Restriction{Kind: services.Block, Owner: c.Actor, Other: p.me}]
	p.stands[c] = !p.stands[c] && !blocked
}

// turnBlock blocks a user, whose actions then no longer count, or unblocks them. Actions that still arrive during the block, such
// as actions of concurrent requests, count after the block.
func (p *reader) turnBlock() {
	actor := p.other()
	block := services.Restriction{Kind: services.Block, Owner: p.me, Other: actor, Made: p.IDs.Next()}
	follow := Cause{Recipient: p.me, Category: services.CategoryFollow, Actor: actor}
	p.writeFact(follow, func(ctx context.Context, tx *sql.Tx) (err error) {
		if err := people.LockRestrictions(ctx, tx, p.me, actor); err != nil {
			return err
		}
		if p.blocks[actor] {
			_, err = people.Unrestrict(ctx, tx, block)
		} else {
			_, err = people.Restrict(ctx, tx, block)
		}
		if err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, ActorJob(p.me, actor))
	})
	if p.blocks[actor] = !p.blocks[actor]; p.blocks[actor] {
		p.stands[follow] = false
	}
}

// turnHide makes another user hide their posts from this user, by a hide or by a block, or show them again. A block also ends the
// follow.
func (p *reader) turnHide() {
	actor := p.other()
	kind := rapid.SampledFrom([]services.RestrictionKind{services.Hide, services.Block}).Draw(p.t, "how")
	hide := services.Restriction{Kind: kind, Owner: actor, Other: p.me}
	follow := Cause{Recipient: p.me, Category: services.CategoryFollow, Actor: actor}
	p.writeFact(follow, func(ctx context.Context, tx *sql.Tx) (err error) {
		if err := people.LockRestrictions(ctx, tx, p.me, actor); err != nil {
			return err
		}
		made := hide
		made.Made = p.IDs.Next()
		if p.hides[hide] {
			_, err = people.Unrestrict(ctx, tx, made)
		} else {
			_, err = people.Restrict(ctx, tx, made)
		}
		if err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, ActorJob(p.me, actor))
	})
	if p.hides[hide] = !p.hides[hide]; p.hides[hide] && kind == services.Block {
		p.stands[follow] = false
	}
}

// hidden reports whether a cause is a post that its actor hides from this user.
func (p *reader) hidden(c Cause) bool {
	return c.Category == services.CategoryMention && (p.hides[services.Restriction{Kind: services.Hide, Owner: c.Actor, Other: p.me}] ||
		p.hides[services.Restriction{Kind: services.Block, Owner: c.Actor, Other: p.me}])
}

// mention makes a user publish a post that mentions this user.
func (p *reader) mention() {
	id := p.IDs.Next()
	c := Cause{Recipient: p.me, Category: services.CategoryMention, Subject: id, Actor: p.other()}
	p.writeFact(c, func(ctx context.Context, tx *sql.Tx) error {
		if err := posts.Insert(ctx, tx, services.Post{ID: id, Author: c.Actor, Kind: services.PostKindPost, OffFeed: true, Body: "b"}); err != nil {
			return err
		}
		return posts.InsertMentions(ctx, tx, id, []services.UserID{p.me}, nil)
	})
	p.stands[c] = true
}

// unmention deletes a post that mentions the user.
func (p *reader) unmention() {
	for _, c := range slices.SortedFunc(maps.Keys(p.stands), func(a, b Cause) int { return int(int64(a.Subject) - int64(b.Subject)) }) {
		if c.Category == services.CategoryMention && p.stands[c] {
			p.writeFact(c, func(ctx context.Context, tx *sql.Tx) error {
				_, _, err := posts.Delete(ctx, tx, c.Subject)
				return err
			})
			p.stands[c] = false
			return
		}
	}
}

// someJobs runs the due jobs, and repeats an earlier one.
func (p *reader) someJobs() {
	for _, worker := range p.Fanout.Workers(1) {
		_, err := worker.RunOnce(p.TB.Context())
		p.Must(err)
	}
	if len(p.notified) > 0 {
		p.writeFact(rapid.SampledFrom(p.notified).Draw(p.t, "again"), nil)
	}
}

// mark does a random one of the five things that move what this user has seen or read: seen, read, all read, undo of all read, unread.
func (p *reader) mark() {
	all := p.page(Query{})
	var cmd *jobs.Command
	var err error
	switch verb := rapid.IntRange(0, 4).Draw(p.t, "mark"); {
	case verb == 0:
		cmd, err = p.service.MarkSeen(p.me, nil, 0)
	case verb == 1 && len(all) > 0:
		cmd, err = p.service.MarkRead(p.me, ReadSelection{Shown: []services.PostID{rapid.SampledFrom(all).Draw(p.t, "row").Place}})
	case verb == 2:
		cmd, err = p.service.MarkAllRead(p.me, 0, "")
	case verb == 3:
		cmd = p.service.UndoAllRead(p.me)
	case verb == 4 && len(all) > 0:
		cmd = p.service.MarkUnread(p.me, rapid.SampledFrom(all).Draw(p.t, "row").First)
	default:
		return
	}
	p.Must(err)
	if err := p.do(cmd); err != nil && services.CodeOf(err) != services.Conflict {
		p.t.Fatalf("%s: %v", cmd.Name, err)
	}
}

// page reads a page of the user's list.
func (p *reader) page(query Query) []Notification {
	query.First = 1000
	page, err := p.service.Page(p.TB.Context(), p.me, query)
	p.Must(err)
	return page.Notifications
}

// checkAgreement runs all jobs, and then compares the document's counts with the list, and the list with the facts. A count that was
// written days ago must be as valid as a new one.
func (p *reader) checkAgreement() {
	p.RunAllJobs(p.Fanout)
	if !p.Document(p.me).Ready {
		p.Must(p.Projector.Rebuild(p.TB.Context(), p.me)) // as the next reader does
	}
	badges, facts := p.badges(false), p.badges(true)
	items, arrived := p.explained(badges)
	for _, counts := range p.Document(p.me).Notifications {
		category := counts.Category
		value, _ := Expiry(nil).splitByExpiry(counts, p.Clock.Now().Unix()/86400)
		if p.modes[category] == services.CategoryOff {
			value = 0
		}
		shown := *badges.Notifications.Of(category)
		if shown.Value != value || shown.Mode != p.modes[category] || shown != *facts.Notifications.Of(category) {
			p.t.Fatalf("%s as %v: shown is %+v, by the facts %+v, want %d", category, p.modes[category], shown, *facts.Notifications.Of(category), value)
		}
		if listed := p.page(Query{UnseenOnly: true, Categories: []services.Category{category}}); value != len(listed) || value != items[string(category)] {
			p.t.Fatalf("%s: the number is %d, the list has %d, and %d explain it", category, value, len(listed), items[string(category)])
		}
		if p.modes[category] == services.CategoryOff && arrived[string(category)] > 0 {
			p.t.Fatalf("%s is off, and the digest has %d", category, arrived[string(category)])
		}
	}
	want, got := map[string]int{}, map[string]int{} // number of actors by subject
	for c, stands := range p.stands {
		if stands && !p.blocks[c.Actor] && !p.hidden(c) {
			want[fmt.Sprint(c.Category, c.Subject)]++
		}
	}
	for _, n := range p.page(Query{}) {
		got[fmt.Sprint(n.Category, n.Subject)] += n.Actors
	}
	if !maps.Equal(got, want) {
		p.t.Fatalf("listed are %v, what stands is %v", got, want)
	}
}

// TestNumberIsTheListWhateverIsLost mixes events, marks, late and repeated jobs, days, and losses of Redis. After all jobs the
// count is the length of the list, and both agree with the facts.
func TestNumberIsTheListWhateverIsLost(t *testing.T) {
	n := newNode(fanouttest.New(t, fanouttest.Options{}))
	histories.Reduce(t, 2)
	rapid.Check(t, func(t *rapid.T) {
		users := n.MakeUsers(4)
		p := &reader{node: n, t: t, me: users[0], others: users[1:], stands: map[Cause]bool{}, blocks: map[services.UserID]bool{}, hides: map[services.Restriction]bool{}, modes: map[services.Category]services.CategoryMode{}}
		p.posts = n.Posts(p.me, 2)
		p.Must(p.Projector.Refill(p.TB.Context(), p.me))
		steps := map[string]func(*rapid.T){
			"like":    func(*rapid.T) { p.turnLike() },
			"follow":  func(*rapid.T) { p.turnFollow() },
			"mention": func(*rapid.T) { p.mention() },
			"block":   func(*rapid.T) { p.turnBlock() },
			"hide":    func(*rapid.T) { p.turnHide() },
			"delete":  func(*rapid.T) { p.unmention() },
			"jobs":    func(*rapid.T) { p.someJobs() },
			"mark":    func(*rapid.T) { p.mark() },
			"prefer":  func(*rapid.T) { p.prefer() },
			"agree":   func(*rapid.T) { p.checkAgreement() },
			"day": func(t *rapid.T) {
				p.Clock.Advance(time.Duration(rapid.IntRange(1, 60).Draw(t, "hours")) * time.Hour)
			},
			"flush": func(*rapid.T) { p.Server.Flush() },
			"lose":  func(*rapid.T) { p.Server.Do("DEL", fmt.Sprintf("{u%d}:b", p.me)) },
		}
		t.Repeat(steps)
		p.checkAgreement()
	})
}
