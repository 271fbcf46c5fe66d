package resolvers

import (
	"context"
	"sync"

	"github.com/vektah/gqlparser/v2/ast"

	"tidings/graph"
	"tidings/services"
	"tidings/services/feed"
	"tidings/services/live"
)

// jointRequest is transport.JointRequest. This package does not import the package transport, so it has the same type again.
type jointRequest = struct {
	Context   context.Context
	Operation any
	Text      []byte
	OK        bool
	Else      func(ctx context.Context, to []byte) ([]byte, bool)
}

// jointKind says how a part is read for several viewers at once.
type jointKind uint8

const (
	jointNot    jointKind = iota // read for each viewer separately
	jointBadges                  // badges
	jointFeed                    // the top of home feeds
	jointBoard                   // first pages of live boards
)

// maxJointPage is the size of the largest page that is answered jointly, that is together with other requests: these wait while the
// page is written.
const maxJointPage = 50

// topPageSize returns the size of the page that a field requests, if it begins at the top of the list: then the field has no argument but
// first. ok is false for any other page, and for a page larger than maxJointPage.
func topPageSize(field *ast.Field, variables map[string]any) (first int, ok bool) {
	arguments := field.ArgumentMap(variables)
	for name, value := range arguments {
		if name != "first" && value != nil {
			return 0, false
		}
	}
	asked, err := argument(arguments, "first", graph.UnmarshalInt)
	if err == nil {
		first, err = pageSize(asked)
	}
	return first, err == nil && first <= maxJointPage
}

// jointPlan is a plan with the sizes of its pages for some variables.
type jointPlan struct {
	*plan
	sizes []int // of the parts, in their order; 0 for a part without a page
}

// Joint returns the plan of a query all of whose reads can be done jointly, that is for several requests at once; nil for any other
// query. See transport.JointSchema.
func (h *hot) Joint(operation *ast.OperationDefinition, variables map[string]any) any {
	p := h.plans.Of(operation)
	if p == nil || p.field != nil {
		return nil
	}
	reads, sizes := 0, make([]int, len(p.parts))
	for i, part := range p.parts {
		if part.read == nil {
			continue
		}
		if part.joint == jointNot {
			return nil
		}
		if part.field != nil {
			size, top := topPageSize(part.field, variables)
			if !top {
				return nil
			}
			sizes[i] = size
		}
		reads++
	}
	if reads == 0 {
		return nil
	}
	return &jointPlan{p, sizes}
}

// jointAnswer is the answer to one request, while its parts are read.
type jointAnswer struct {
	request  *jointRequest
	plan     *jointPlan
	viewer   *graph.Viewer
	contents *[]partValue // of the parts, in their order
	lacking  int          // how many parts are not read yet
}

// jointReads has, for each kind of part, the viewers to read for and the parts that get what is read.
type jointReads struct {
	badges []services.UserID
	feeds  []feed.NewestRequest
	boards []live.FirstPageRequest
	// These lists have the part for each entry of the lists above, in the same order.
	ofBadges, ofFeeds, ofBoards []jointPart
}

// jointPart is a part of an answer.
type jointPart struct {
	answer  *jointAnswer
	content *partValue
}

// AnswerJointly answers several requests with one read of each kind: those for which everything is ready in memory and in Redis. It
// leaves other requests to Quick: the requests of a viewer whose ID this node does not know, of a host application that observes a
// user, and requests that need a projection to be built first.
func (h *hot) AnswerJointly(ctx context.Context, requests []jointRequest) {
	answers := make([]jointAnswer, 0, len(requests)) // reads points to its elements, so it must not grow
	var reads jointReads
	for i := range requests {
		if viewer := h.knownViewer(requests[i].Context); viewer != nil {
			plan := requests[i].Operation.(*jointPlan)
			answers = append(answers, jointAnswer{request: &requests[i], plan: plan, viewer: viewer, contents: takeContents(viewer.Key, plan.plan)})
			reads.add(&answers[len(answers)-1])
		}
	}
	unread := h.readBadges(ctx, &reads)
	if unread == nil {
		_ = h.readPages(ctx, &reads) // Quick reads the missing parts; if Redis hangs, its read is refused at once
	}
	for i := range answers {
		one := &answers[i]
		switch {
		case one.lacking == 0:
			one.request.Text, one.request.OK = one.plan.append(one.request.Text, *one.contents), true
		case unread != nil && one.plan.onlyBadges(): // the request must not wait for Redis a second time
			one.request.Else = h.badgesOfFacts(one.plan.plan, one.viewer)
		}
		freeContents(one.contents)
	}
}

// add adds the parts of an answer to the reads.
func (r *jointReads) add(one *jointAnswer) {
	for i, part := range one.plan.parts {
		if part.read == nil {
			continue
		}
		one.lacking++
		place := jointPart{one, &(*one.contents)[i]}
		switch part.joint {
		case jointBadges:
			r.badges, r.ofBadges = append(r.badges, one.viewer.Number), append(r.ofBadges, place)
		case jointFeed:
			r.feeds, r.ofFeeds = append(r.feeds, feed.NewestRequest{Reader: one.viewer.Number, First: one.plan.sizes[i]}), append(r.ofFeeds, place)
		case jointBoard:
			page := live.FirstPageRequest{Viewer: one.viewer.Number, First: one.plan.sizes[i], Device: deviceName(one.request.Context)}
			r.boards, r.ofBoards = append(r.boards, page), append(r.ofBoards, place)
		}
	}
}

// readBadges reads the badges, and fills in those that are ready: they need no rebuild.
func (h *hot) readBadges(ctx context.Context, reads *jointReads) error {
	if len(reads.badges) == 0 {
		return nil
	}
	ready, err := h.r.Badge.ReadReady(ctx, reads.badges)
	for i, badges := range ready {
		if badges != nil {
			part := reads.ofBadges[i]
			part.content.badges = shownBadges{badges, part.answer.viewer.Key}
			part.answer.lacking--
		}
	}
	return err
}

// readPages reads the pages of feeds and boards, and fills in those that are ready: they need no rebuild.
func (h *hot) readPages(ctx context.Context, reads *jointReads) error {
	if len(reads.feeds) > 0 {
		err := h.r.Feed.ReadNewest(ctx, reads.feeds, func(i int, page feed.Page) {
			part := reads.ofFeeds[i]
			part.content.feed.Page, part.content.feed.viewer = page, reads.feeds[i].Reader
			part.answer.lacking--
		})
		if err != nil {
			return err
		}
	}
	if len(reads.boards) == 0 {
		return nil
	}
	at := h.r.Clock.Now() // before the boards are read, as in liveBoardPart
	return h.r.Live.ReadFirst(ctx, reads.boards, func(i int, board live.Board) {
		part := reads.ofBoards[i]
		part.content.board.Board, part.content.board.at = board, at
		part.answer.lacking--
	})
}

// onlyBadges reports whether a plan reads nothing but badges.
func (p *plan) onlyBadges() bool {
	for _, part := range p.parts {
		if part.read != nil && part.joint != jointBadges {
			return false
		}
	}
	return true
}

// badgesOfFacts returns a function that answers with badges that are counted in SQL.
func (h *hot) badgesOfFacts(p *plan, viewer *graph.Viewer) func(ctx context.Context, to []byte) ([]byte, bool) {
	return func(ctx context.Context, to []byte) ([]byte, bool) {
		badges, err := h.r.Badge.ReadFacts(ctx, viewer.Number)
		if err != nil {
			return to, false
		}
		return p.appendBadges(to, viewer.Key, badges), true
	}
}

// knownViewer does what Resolver.viewer does, but without a read. It is nil if a read is needed, if the token is refused, or if the
// host application observes a user.
func (h *hot) knownViewer(ctx context.Context) *graph.Viewer {
	if services.Observed(ctx) {
		return nil
	}
	viewer, err := h.r.bearerUser(ctx)
	if err != nil {
		return nil
	}
	number, known := h.r.Social.FindCachedUser(viewer.Key)
	if !known {
		return nil
	}
	return graph.NewViewer(number, viewer.Key)
}

// appendBadges writes the data of an answer or an event whose parts read nothing but the badges.
func (p *plan) appendBadges(to []byte, key string, badges *services.Badges) []byte {
	contents := takeContents(key, p)
	defer freeContents(contents)
	for i := range *contents {
		(*contents)[i].badges = shownBadges{badges, key}
	}
	return p.append(to, *contents)
}

// takeContents returns contents for the parts of a plan. The contents are reused, because new ones would be allocated on the heap each
// time: writers are function values, so the compiler cannot keep their arguments on the stack.
func takeContents(key string, p *plan) *[]partValue {
	contents := contentsPool.Get().(*[]partValue)
	for range p.parts {
		*contents = append(*contents, partValue{key: key})
	}
	return contents
}

// freeContents clears contents and gives them back for reuse.
func freeContents(contents *[]partValue) {
	clear(*contents)
	*contents = (*contents)[:0]
	contentsPool.Put(contents)
}

// contentsPool has contents for reuse: see takeContents.
var contentsPool = sync.Pool{New: func() any { return new([]partValue) }}
