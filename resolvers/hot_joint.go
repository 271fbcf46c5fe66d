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
	Context   context.Context                                     // has the viewer
	Operation any                                                 // the result of Joint: a *jointPlan
	Text      []byte                                              // the answer is appended to it
	OK        bool                                                // the request was answered
	Else      func(ctx context.Context, to []byte) ([]byte, bool) // answers the request if OK is false; nil: HotAnswer does
}

// jointKind says how a part is read for several viewers at once.
type jointKind uint8

const (
	jointNone   jointKind = iota // read for each viewer separately
	jointBadges                  // badges
	jointFeed                    // the top of home feeds
	jointBoard                   // first pages of live boards
)

// maxJointPageSize is the size of the largest page that is answered jointly, that is together with other requests: these wait while
// the page is written.
const maxJointPageSize = 50

// topPageSize returns the size of the page that a field requests, if it begins at the top of the list: then the field has no
// argument but first. ok is false for any other page, and for a page larger than maxJointPageSize.
func topPageSize(field *ast.Field, variables map[string]any) (first int, ok bool) {
	arguments := field.ArgumentMap(variables)
	for name, value := range arguments {
		if name != "first" && value != nil {
			return 0, false
		}
	}
	var err error
	asked := argument(arguments, "first", graph.UnmarshalInt, &err)
	if err == nil {
		first, err = pageSize(asked)
	}
	return first, err == nil && first <= maxJointPageSize
}

// jointPlan is a plan with the sizes of its pages for some variables.
type jointPlan struct {
	*hotPlan
	pageSizes []int // of the parts, in their order; 0 for a part without a page
}

// Joint returns the plan of a query all of whose reads can be done jointly, that is for several requests at once; nil for any other
// query. See transport.JointSchema.
func (h *hotOperationSchema) Joint(operation *ast.OperationDefinition, variables map[string]any) any {
	p := h.plans.Of(operation)
	if p == nil || p.subscriptionField != nil {
		return nil
	}
	reads, sizes := 0, make([]int, len(p.parts))
	for i, part := range p.parts {
		if part.read == nil {
			continue
		}
		if part.joint == jointNone {
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
	request     *jointRequest
	plan        *jointPlan
	viewer      *graph.Viewer
	partValues  *[]hotPartValue // of the parts, in their order
	partsToRead int             // how many parts are not read yet
}

// jointReads has, for each kind of part, the viewers to read for and the parts that get what is read.
type jointReads struct {
	badgeUsers    []services.UserID
	feedRequests  []feed.NewestRequest
	boardRequests []live.FirstPageRequest
	// badgeParts, feedParts and boardParts have the part for each entry of badgeUsers, feedRequests and boardRequests, in the same
	// order.
	badgeParts, feedParts, boardParts []jointPart
}

// jointPart is a part of an answer.
type jointPart struct {
	answer *jointAnswer
	value  *hotPartValue // gets what is read
}

// AnswerJointly answers several requests with one read of each kind: those for which everything is ready in memory and in Redis. It
// leaves other requests to HotAnswer, which answers each of them alone: the requests of a viewer whose ID this node does not know, of
// a host application that observes a user, and requests that need a projection to be built first.
func (h *hotOperationSchema) AnswerJointly(ctx context.Context, requests []jointRequest) {
	answers := make([]jointAnswer, 0, len(requests)) // reads points to its elements, so it must not grow
	var reads jointReads
	for i := range requests {
		if viewer := h.cachedViewer(requests[i].Context); viewer != nil {
			plan := requests[i].Operation.(*jointPlan)
			answers = append(answers, jointAnswer{request: &requests[i], plan: plan, viewer: viewer, partValues: takePartValues(viewer.Key, plan.hotPlan)})
			reads.add(&answers[len(answers)-1])
		}
	}
	unread := h.readBadges(ctx, &reads)
	if unread == nil {
		_ = h.readPages(ctx, &reads) // HotAnswer reads the missing parts; if Redis hangs, its read is refused at once
	}
	for i := range answers {
		one := &answers[i]
		switch {
		case one.partsToRead == 0:
			one.request.Text, one.request.OK = one.plan.append(one.request.Text, *one.partValues), true
		case unread != nil && one.plan.readsOnlyBadges(): // the request must not wait for Redis a second time
			one.request.Else = h.answerBadgesFromFacts(one.plan.hotPlan, one.viewer)
		}
		freePartValues(one.partValues)
	}
}

// add adds the parts of an answer to the reads.
func (r *jointReads) add(one *jointAnswer) {
	for i, part := range one.plan.parts {
		if part.read == nil {
			continue
		}
		one.partsToRead++
		target := jointPart{one, &(*one.partValues)[i]}
		switch part.joint {
		case jointBadges:
			r.badgeUsers, r.badgeParts = append(r.badgeUsers, one.viewer.UserID), append(r.badgeParts, target)
		case jointFeed:
			r.feedRequests, r.feedParts = append(r.feedRequests, feed.NewestRequest{Reader: one.viewer.UserID, First: one.plan.pageSizes[i]}), append(r.feedParts, target)
		case jointBoard:
			page := live.FirstPageRequest{Viewer: one.viewer.UserID, First: one.plan.pageSizes[i], Device: deviceName(one.request.Context)}
			r.boardRequests, r.boardParts = append(r.boardRequests, page), append(r.boardParts, target)
		}
	}
}

// readBadges reads the badges, and fills in those that are ready: they need no rebuild.
func (h *hotOperationSchema) readBadges(ctx context.Context, reads *jointReads) error {
	if len(reads.badgeUsers) == 0 {
		return nil
	}
	ready, err := h.r.Badge.ReadWithoutSQL(ctx, reads.badgeUsers)
	for i, badges := range ready {
		if badges != nil {
			part := reads.badgeParts[i]
			part.value.badges = shownBadges{badges, part.answer.viewer.Key}
			part.answer.partsToRead--
		}
	}
	return err
}

// readPages reads the pages of feeds and boards, and fills in those that are ready: they need no rebuild.
func (h *hotOperationSchema) readPages(ctx context.Context, reads *jointReads) error {
	if len(reads.feedRequests) > 0 {
		err := h.r.Feed.ReadNewest(ctx, reads.feedRequests, func(i int, page feed.Page) {
			part := reads.feedParts[i]
			part.value.feed.Page, part.value.feed.viewer = page, reads.feedRequests[i].Reader
			part.answer.partsToRead--
		})
		if err != nil {
			return err
		}
	}
	if len(reads.boardRequests) == 0 {
		return nil
	}
	at := h.r.Clock.Now() // before the boards are read, as in liveBoardPart
	return h.r.Live.ReadFirstPages(ctx, reads.boardRequests, func(i int, board live.Board) {
		part := reads.boardParts[i]
		part.value.board.Board, part.value.board.readAt = board, at
		part.answer.partsToRead--
	})
}

// readsOnlyBadges reports whether a plan reads nothing but badges.
func (p *hotPlan) readsOnlyBadges() bool {
	for _, part := range p.parts {
		if part.read != nil && part.joint != jointBadges {
			return false
		}
	}
	return true
}

// answerBadgesFromFacts returns a function that answers with badges that are counted in SQL.
func (h *hotOperationSchema) answerBadgesFromFacts(p *hotPlan, viewer *graph.Viewer) func(ctx context.Context, to []byte) ([]byte, bool) {
	return func(ctx context.Context, to []byte) ([]byte, bool) {
		badges, err := h.r.Badge.ReadFacts(ctx, viewer.UserID)
		if err != nil {
			return to, false
		}
		return p.appendBadges(to, viewer.Key, badges), true
	}
}

// cachedViewer returns the user of the request's token without a read; Resolver.viewer may read or create the user. It is nil if this
// node does not know the user's ID, if the token is refused, or if the host application observes a user.
func (h *hotOperationSchema) cachedViewer(ctx context.Context) *graph.Viewer {
	if services.Observed(ctx) {
		return nil
	}
	viewer, err := h.r.bearerUser(ctx)
	if err != nil {
		return nil
	}
	id, known := h.r.Social.FindCachedUser(viewer.Key)
	if !known {
		return nil
	}
	return graph.NewViewer(id, viewer.Key)
}

// appendBadges writes the data of an answer or an event whose parts read nothing but the badges.
func (p *hotPlan) appendBadges(to []byte, key string, badges *services.Badges) []byte {
	contents := takePartValues(key, p)
	defer freePartValues(contents)
	for i := range *contents {
		(*contents)[i].badges = shownBadges{badges, key}
	}
	return p.append(to, *contents)
}

// takePartValues returns values for the parts of a plan. The memory is reused, because new ones would be allocated on the heap
// each time: writers are function values, so the compiler cannot keep their arguments on the stack.
func takePartValues(key string, p *hotPlan) *[]hotPartValue {
	contents := partValuesPool.Get().(*[]hotPartValue)
	for range p.parts {
		*contents = append(*contents, hotPartValue{viewerKey: key})
	}
	return contents
}

// freePartValues clears values and gives their memory back for reuse.
func freePartValues(contents *[]hotPartValue) {
	clear(*contents)
	*contents = (*contents)[:0]
	partValuesPool.Put(contents)
}

// partValuesPool has the memory that freePartValues gave back, for takePartValues.
var partValuesPool = sync.Pool{New: func() any { return new([]hotPartValue) }}
