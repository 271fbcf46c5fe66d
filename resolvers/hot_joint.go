package resolvers

import (
	"context"
	"sync"

	"github.com/vektah/gqlparser/v2/ast"

	"tidings/graph"
	"tidings/services"
)

// jointRequest is transport.JointRequest.
type jointRequest = struct {
	Context   context.Context
	Operation any
	Text      []byte
	OK        bool
	Else      func(ctx context.Context, to []byte) ([]byte, bool)
}

// Joint returns the plan of a query that reads the viewer's badges and nothing else: see transport.JointSchema.
func (h *hot) Joint(operation *ast.OperationDefinition) any {
	p := h.plan(operation)
	if p == nil || p.field != nil {
		return nil
	}
	reads := 0
	for _, part := range p.parts {
		if part.read != nil && !part.badges {
			return nil
		}
		if part.badges {
			reads++
		}
	}
	if reads != 1 {
		return nil
	}
	return p
}

// AnswerJointly answers with the badges that one read finds ready. It leaves to Quick whatever takes more: a viewer whose number
// this node does not know, a host that looks at a user, and a document that must be built first.
func (h *hot) AnswerJointly(ctx context.Context, requests []jointRequest) {
	viewers := make([]*graph.Viewer, 0, len(requests))
	users := make([]services.UserID, 0, len(requests))
	places := make([]int, 0, len(requests))
	for i := range requests {
		if viewer := h.knownViewer(requests[i].Context); viewer != nil {
			viewers, users, places = append(viewers, viewer), append(users, viewer.Number), append(places, i)
		}
	}
	if len(users) == 0 {
		return
	}
	ready, err := h.r.Badge.ReadReady(ctx, users)
	for i, badges := range ready {
		one := &requests[places[i]]
		switch p := one.Operation.(*plan); {
		case badges != nil:
			one.Text, one.OK = p.appendBadges(one.Text, viewers[i].Key, badges), true
		case err != nil: // nobody waits for Redis a second time
			one.Else = func(ctx context.Context, to []byte) ([]byte, bool) {
				badges, err := h.r.Badge.ReadFacts(ctx, viewers[i].Number)
				if err != nil {
					return to, false
				}
				return p.appendBadges(to, viewers[i].Key, badges), true
			}
		}
	}
}

// knownViewer is Resolver.viewer without a read; nil for whoever needs one, is refused, or is looked at by a host.
func (h *hot) knownViewer(ctx context.Context) *graph.Viewer {
	if services.Observed(ctx) {
		return nil
	}
	viewer, err := h.r.bearerUser(ctx)
	if err != nil {
		return nil
	}
	number, known := h.r.Social.Remembered(viewer.Key)
	if !known {
		return nil
	}
	return graph.NewViewer(number, viewer.Key)
}

// appendBadges writes the data of an answer or an event whose parts read nothing but the badges.
func (p *plan) appendBadges(to []byte, key string, badges *services.Badges) []byte {
	contents := badgeContents.Get().(*[]content)
	for range p.parts {
		*contents = append(*contents, content{key: key, badges: shownBadges{badges, key}})
	}
	to = p.append(to, *contents)
	clear(*contents) // the pool must not keep badges
	*contents = (*contents)[:0]
	badgeContents.Put(contents)
	return to
}

// badgeContents are reused: writers are called through values of functions, so contents would be allocated on the heap each time.
var badgeContents = sync.Pool{New: func() any { return new([]content) }}
