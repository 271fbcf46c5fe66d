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

// recipientHistory is one user's notifications on a node whose jobs come late and twice, and whose Redis is lost.
type recipientHistory struct {
	node
	t                  *rapid.T
	recipient          services.UserID
	otherUsers         []services.UserID
	posts              []services.PostID                           // by the recipient
	existingCauses     map[Cause]bool                              // the causes that exist
	causesWithJobs     []Cause                                     // causes that ever had a job
	blockedUsers       map[services.UserID]bool                    // the users that this user blocks
	hidingRestrictions map[services.Restriction]bool               // other users' hides and blocks of this user
	modes              map[services.Category]services.CategoryMode // that this user chose
}

// setRandomMode changes how a category counts.
func (p *recipientHistory) setRandomMode() {
	category, mode := rapid.SampledFrom(services.Categories).Draw(p.t, "category"), services.CategoryMode(rapid.IntRange(0, 2).Draw(p.t, "mode"))
	cmd, err := p.service.SetPreference(p.recipient, category, PreferenceChange{Mode: &mode})
	p.Must(err)
	dies := rapid.Bool().Draw(p.t, "the process dies after the commit")
	if dies {
		cmd.AfterApply, cmd.AfterCommit = nil, nil // only the job projects the mode
	}
	p.Must(p.commit(cmd))
	if before, chosen := p.modes[category]; cmd.Changed() != (!chosen || before != mode) {
		p.t.Fatalf("from %v (%v) to %v: changed is %v", before, chosen, mode, cmd.Changed())
	}
	p.modes[category] = mode
	// The document has the new mode at once. After a death only the job writes it, because a repeated command changes nothing.
	if document := p.Document(p.recipient); cmd.Changed() && !dies && document.Ready && document.Modes.ByCategory[category] != mode {
		p.t.Fatalf("%s counts as %v at once, want %v", category, document.Modes.ByCategory[category], mode)
	}
}

// renderBadges renders the recipient's notification counts from their document or, with facts, from SQL.
func (p *recipientHistory) renderBadges(facts bool) *services.Badges {
	of := Source{db: p.DB}
	rendering := source.Rendering{Settings: &source.Settings{}, Document: p.Document(p.recipient), Moment: source.Moment{Now: p.Clock.Now(), MonotonicNow: p.Clock.Now()}}
	if facts {
		var documents [1]rdb.Document
		p.Must(of.Facts(p.TB.Context(), []services.UserID{p.recipient}, 0, documents[:]))
		rendering.Document = documents[0]
	}
	badges := &services.Badges{}
	of.Render(&rendering, badges)
	return badges
}

// itemAndDigestCounts returns, for each category, the number of items that explain its count, and the number that a digest of all
// time has.
func (p *recipientHistory) itemAndDigestCounts(badges *services.Badges) (items, arrived map[string]int) {
	of := Source{db: p.DB}
	list, err := of.Explain(p.TB.Context(), source.ExplainRequest{User: p.recipient, Badges: badges, Today: p.Clock.Now().Unix() / 86400})
	p.Must(err)
	items, arrived = map[string]int{}, map[string]int{}
	for _, explanation := range list {
		items[explanation.Part] = len(explanation.Items)
	}
	newest, _, err := of.Newest(p.TB.Context(), source.ExplainRequest{User: p.recipient, Badges: badges})
	p.Must(err)
	for i, explanation := range newest {
		if all := list[i].Items; !slices.Equal(explanation.Items, all[:min(len(all), maxNewestSearched)]) {
			p.t.Fatalf("the newest of %s are %v, explained by %v", explanation.Part, explanation.Items, all)
		}
	}
	digest := &services.Digest{}
	p.Must(of.Digest(p.TB.Context(), p.recipient, time.UnixMicro(1), digest))
	for _, part := range digest.Parts {
		arrived[part.Part] = part.Count.Value
	}
	return items, arrived
}

func (p *recipientHistory) drawOtherUser() services.UserID {
	return rapid.SampledFrom(p.otherUsers).Draw(p.t, "who")
}

// writeFact writes a change of a fact, with the job of its cause.
func (p *recipientHistory) writeFact(c Cause, change func(ctx context.Context, tx *sql.Tx) error) {
	p.Write(func(ctx context.Context, tx *sql.Tx) error {
		job, err := NotifyJob(c)
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
	p.causesWithJobs = append(p.causesWithJobs, c)
}

// toggleLike makes a user like a post, or ends the like.
func (p *recipientHistory) toggleLike() {
	post := rapid.SampledFrom(p.posts).Draw(p.t, "post")
	c := Cause{Recipient: p.recipient, Category: services.CategoryLike, Subject: services.SortableID(post), Actor: p.drawOtherUser()}
	p.writeFact(c, func(ctx context.Context, tx *sql.Tx) (err error) {
		if p.existingCauses[c] {
			_, err = posts.DeleteLike(ctx, tx, post, c.Actor)
		} else {
			_, err = posts.InsertLike(ctx, tx, post, c.Actor, p.IDs.Next().OrderedTime())
		}
		return err
	})
	p.existingCauses[c] = !p.existingCauses[c]
}

// toggleFollow makes a user follow this user, or ends the follow.
func (p *recipientHistory) toggleFollow() {
	c := Cause{Recipient: p.recipient, Category: services.CategoryFollow, Actor: p.drawOtherUser()}
	p.writeFact(c, func(ctx context.Context, tx *sql.Tx) (err error) {
		if p.existingCauses[c] {
			_, err = people.DeleteFollow(ctx, tx, c.Actor, p.recipient)
		} else {
			_, err = people.InsertFollow(ctx, tx, services.FollowEdge{Follower: c.Actor, Followee: p.recipient, PostsCountAfter: services.PostID(p.IDs.Next())})
		}
		return err
	})
	blocked := p.blockedUsers[c.Actor] || p.hidingRestrictions[services.Restriction{Kind: services.Block, Owner: c.Actor, Other: p.recipient}]
	p.existingCauses[c] = !p.existingCauses[c] && !blocked
}

// toggleBlock blocks a user, whose actions then no longer count, or unblocks them. Actions that still arrive during the block, such
// as actions of concurrent requests, count after the block.
func (p *recipientHistory) toggleBlock() {
	actor := p.drawOtherUser()
	block := services.Restriction{Kind: services.Block, Owner: p.recipient, Other: actor, MadeAt: p.IDs.Next()}
	follow := Cause{Recipient: p.recipient, Category: services.CategoryFollow, Actor: actor}
	p.writeFact(follow, func(ctx context.Context, tx *sql.Tx) (err error) {
		if err := people.LockRestrictions(ctx, tx, p.recipient, actor); err != nil {
			return err
		}
		if p.blockedUsers[actor] {
			_, err = people.Unrestrict(ctx, tx, block)
		} else {
			_, err = people.Restrict(ctx, tx, block)
		}
		if err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, RecountActorJob(p.recipient, actor))
	})
	if p.blockedUsers[actor] = !p.blockedUsers[actor]; p.blockedUsers[actor] {
		p.existingCauses[follow] = false
	}
}

// toggleHide makes another user hide their posts from this user, by a hide or by a block, or show them again. A block also ends the
// follow.
func (p *recipientHistory) toggleHide() {
	actor := p.drawOtherUser()
	kind := rapid.SampledFrom([]services.RestrictionKind{services.Hide, services.Block}).Draw(p.t, "how")
	hide := services.Restriction{Kind: kind, Owner: actor, Other: p.recipient}
	follow := Cause{Recipient: p.recipient, Category: services.CategoryFollow, Actor: actor}
	p.writeFact(follow, func(ctx context.Context, tx *sql.Tx) (err error) {
		if err := people.LockRestrictions(ctx, tx, p.recipient, actor); err != nil {
			return err
		}
		made := hide
		made.MadeAt = p.IDs.Next()
		if p.hidingRestrictions[hide] {
			_, err = people.Unrestrict(ctx, tx, made)
		} else {
			_, err = people.Restrict(ctx, tx, made)
		}
		if err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, RecountActorJob(p.recipient, actor))
	})
	if p.hidingRestrictions[hide] = !p.hidingRestrictions[hide]; p.hidingRestrictions[hide] && kind == services.Block {
		p.existingCauses[follow] = false
	}
}

// isHidden reports whether a cause is a post that its actor hides from this user.
func (p *recipientHistory) isHidden(c Cause) bool {
	return c.Category == services.CategoryMention && (p.hidingRestrictions[services.Restriction{Kind: services.Hide, Owner: c.Actor, Other: p.recipient}] ||
		p.hidingRestrictions[services.Restriction{Kind: services.Block, Owner: c.Actor, Other: p.recipient}])
}

// publishMention makes a user publish a post that mentions this user.
func (p *recipientHistory) publishMention() {
	id := services.PostID(p.IDs.Next())
	c := Cause{Recipient: p.recipient, Category: services.CategoryMention, Subject: services.SortableID(id), Actor: p.drawOtherUser()}
	p.writeFact(c, func(ctx context.Context, tx *sql.Tx) error {
		if err := posts.Insert(ctx, tx, services.Post{ID: id, Author: c.Actor, Kind: services.PostKindPost, OffFeed: true, Body: "b"}); err != nil {
			return err
		}
		return posts.InsertMentions(ctx, tx, id, []services.UserID{p.recipient}, nil)
	})
	p.existingCauses[c] = true
}

// deleteMention deletes a post that mentions the user.
func (p *recipientHistory) deleteMention() {
	for _, c := range slices.SortedFunc(maps.Keys(p.existingCauses), func(a, b Cause) int { return int(int64(a.Subject) - int64(b.Subject)) }) {
		if c.Category == services.CategoryMention && p.existingCauses[c] {
			p.writeFact(c, func(ctx context.Context, tx *sql.Tx) error {
				_, _, err := posts.Delete(ctx, tx, services.PostID(c.Subject))
				return err
			})
			p.existingCauses[c] = false
			return
		}
	}
}

// runSomeJobs runs the due jobs, and repeats an earlier one.
func (p *recipientHistory) runSomeJobs() {
	for _, worker := range p.Fanout.Workers(1) {
		_, err := worker.RunOnce(p.TB.Context())
		p.Must(err)
	}
	if len(p.causesWithJobs) > 0 {
		p.writeFact(rapid.SampledFrom(p.causesWithJobs).Draw(p.t, "again"), nil)
	}
}

// makeRandomMark does a random one of the five things that move what this user has seen or read: seen, read, all read, undo of all
// read, unread.
func (p *recipientHistory) makeRandomMark() {
	all := p.listNotifications(PageQuery{})
	var cmd *jobs.Command
	var err error
	switch verb := rapid.IntRange(0, 4).Draw(p.t, "mark"); {
	case verb == 0:
		cmd, err = p.service.MarkSeen(p.recipient, nil, 0)
	case verb == 1 && len(all) > 0:
		cmd, err = p.service.MarkRead(p.recipient, ReadSelection{UpToPositions: []services.NotificationID{rapid.SampledFrom(all).Draw(p.t, "row").NewestPosition}})
	case verb == 2:
		cmd, err = p.service.MarkAllRead(p.recipient, 0, "")
	case verb == 3:
		cmd = p.service.UndoAllRead(p.recipient)
	case verb == 4 && len(all) > 0:
		cmd = p.service.MarkUnread(p.recipient, rapid.SampledFrom(all).Draw(p.t, "row").ID)
	default:
		return
	}
	p.Must(err)
	if err := p.commit(cmd); err != nil && services.CodeOf(err) != services.Conflict {
		p.t.Fatalf("%s: %v", cmd.Name, err)
	}
}

// listNotifications reads a page of the user's list.
func (p *recipientHistory) listNotifications(query PageQuery) []Notification {
	query.First = 1000
	page, err := p.service.Page(p.TB.Context(), p.recipient, query)
	p.Must(err)
	return page.Notifications
}

// checkCountsListAndFacts runs all jobs, and then compares the document's counts with the list, and the list with the facts. A
// count that was written days ago must be as valid as a new one.
func (p *recipientHistory) checkCountsListAndFacts() {
	p.RunAllJobs(p.Fanout)
	if !p.Document(p.recipient).Ready {
		p.Must(p.Projector.Rebuild(p.TB.Context(), p.recipient)) // as the next reader does
	}
	badges, facts := p.renderBadges(false), p.renderBadges(true)
	items, arrived := p.itemAndDigestCounts(badges)
	for _, counts := range p.Document(p.recipient).Notifications {
		category := counts.Category
		value, _ := ExpiryDays(nil).splitByExpiry(counts, p.Clock.Now().Unix()/86400)
		if p.modes[category] == services.CategoryOff {
			value = 0
		}
		shown := *badges.Notifications.Of(category)
		if shown.Value != value || shown.Mode != p.modes[category] || shown != *facts.Notifications.Of(category) {
			p.t.Fatalf("%s as %v: shown is %+v, by the facts %+v, want %d", category, p.modes[category], shown, *facts.Notifications.Of(category), value)
		}
		if listed := p.listNotifications(PageQuery{UnseenOnly: true, Categories: []services.Category{category}}); value != len(listed) || value != items[string(category)] {
			p.t.Fatalf("%s: the number is %d, the list has %d, and %d explain it", category, value, len(listed), items[string(category)])
		}
		if p.modes[category] == services.CategoryOff && arrived[string(category)] > 0 {
			p.t.Fatalf("%s is off, and the digest has %d", category, arrived[string(category)])
		}
	}
	want, got := map[string]int{}, map[string]int{} // number of actors by subject
	for c, stands := range p.existingCauses {
		if stands && !p.blockedUsers[c.Actor] && !p.isHidden(c) {
			want[fmt.Sprint(c.Category, c.Subject)]++
		}
	}
	for _, n := range p.listNotifications(PageQuery{}) {
		got[fmt.Sprint(n.Category, n.Subject)] += n.ActorCount
	}
	if !maps.Equal(got, want) {
		p.t.Fatalf("listed are %v, what stands is %v", got, want)
	}
}

// TestCountEqualsTheListAfterEveryHistory mixes events, marks, late and repeated jobs, days, and losses of Redis. After all jobs the
// count is the length of the list, and both agree with the facts.
func TestCountEqualsTheListAfterEveryHistory(t *testing.T) {
	n := newNode(fanouttest.New(t, fanouttest.Options{}))
	histories.ReduceRapidChecks(t, 2)
	rapid.Check(t, func(t *rapid.T) {
		users := n.MakeUsers(4)
		p := &recipientHistory{node: n, t: t, recipient: users[0], otherUsers: users[1:], existingCauses: map[Cause]bool{}, blockedUsers: map[services.UserID]bool{}, hidingRestrictions: map[services.Restriction]bool{}, modes: map[services.Category]services.CategoryMode{}}
		p.posts = n.InsertPosts(p.recipient, 2)
		p.Must(p.Projector.RefillInbox(p.TB.Context(), p.recipient))
		steps := map[string]func(*rapid.T){
			"like":    func(*rapid.T) { p.toggleLike() },
			"follow":  func(*rapid.T) { p.toggleFollow() },
			"mention": func(*rapid.T) { p.publishMention() },
			"block":   func(*rapid.T) { p.toggleBlock() },
			"hide":    func(*rapid.T) { p.toggleHide() },
			"delete":  func(*rapid.T) { p.deleteMention() },
			"jobs":    func(*rapid.T) { p.runSomeJobs() },
			"mark":    func(*rapid.T) { p.makeRandomMark() },
			"prefer":  func(*rapid.T) { p.setRandomMode() },
			"agree":   func(*rapid.T) { p.checkCountsListAndFacts() },
			"day": func(t *rapid.T) {
				p.Clock.Advance(time.Duration(rapid.IntRange(1, 60).Draw(t, "hours")) * time.Hour)
			},
			"flush": func(*rapid.T) { p.RedisServer.Flush() },
			"lose":  func(*rapid.T) { p.RedisServer.Do("DEL", fmt.Sprintf("{u%d}:b", p.recipient)) },
		}
		t.Repeat(steps)
		p.checkCountsListAndFacts()
	})
}
