package transport

import (
	"context"
	"reflect"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/services"
)

// sharedOperationContexts lets all subscriptions with the same document and no variables use one operation context of gqlgen. The
// context is most of the memory of a subscription, because it remembers the collected fields of every part of the document. It
// holds nothing of a viewer: the viewer is in the context.Context. An entry lives as long as a subscription uses it.
type sharedOperationContexts struct {
	mu sync.Mutex // guards entries
	// entries have the address of the operation as key: the document cache returns the same document for the same text. If it has
	// dropped a document and prepared it again, there are two entries for a while, which costs only memory.
	entries map[*ast.OperationDefinition]*sharedOperationContext
}

// sharedOperationContext is one shared operation context. It is removed with the last subscription that uses it, or it would
// keep its document alive.
type sharedOperationContext struct {
	operationContext  *graphql.OperationContext
	subscriptionCount int // the number of subscriptions that use it
}

// acquire returns the operation context to execute with, and whether it must be released. The parsed operation has passed
// all checks before a shared one replaces it. Variables, extensions and headers are the caller's own, so an operation with any of
// them is not shared.
func (s *sharedOperationContexts) acquire(parsed *graphql.OperationContext) (use *graphql.OperationContext, release bool) {
	if len(parsed.Variables) > 0 || len(parsed.Extensions) > 0 || len(parsed.Headers) > 0 {
		tapResolverChannels(parsed)
		return parsed, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := s.entries[parsed.Operation]
	if entry == nil {
		tapResolverChannels(parsed)
		// The document keeps the text that it was parsed from; the shared context uses that text and keeps no second copy.
		parsed.RawQuery = parsed.Operation.Position.Src.Input
		entry = &sharedOperationContext{operationContext: parsed}
		if s.entries == nil {
			s.entries = make(map[*ast.OperationDefinition]*sharedOperationContext)
		}
		s.entries[parsed.Operation] = entry
	}
	entry.subscriptionCount++
	return entry.operationContext, true
}

// release reports that one subscription no longer uses a result of acquire. It is called once for each acquire that returned true.
func (s *sharedOperationContexts) release(use *graphql.OperationContext) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The entry exists, because the caller's subscription still counts in it.
	entry := s.entries[use.Operation]
	if entry.subscriptionCount--; entry.subscriptionCount == 0 {
		delete(s.entries, use.Operation)
	}
}

// tapResolverChannels adds middleware that passes the channel which the resolver of the first field returns to
// operation.tapResolverChannel. The results of all later fields pass through the middleware too, so it checks the kind of a result before
// anything else. It finds the operation in the context, because many operations share the middleware.
func tapResolverChannels(parsed *graphql.OperationContext) {
	resolve := parsed.ResolverMiddleware
	parsed.ResolverMiddleware = func(ctx context.Context, next graphql.Resolver) (any, error) {
		result, err := resolve(ctx, next)
		if result == nil || err != nil || reflect.TypeOf(result).Kind() != reflect.Chan {
			return result, err
		}
		if one, ok := services.RequestFrom(ctx).(*operation); ok {
			result = one.tapResolverChannel(result)
		}
		return result, nil
	}
}
