package transport

import (
	"context"
	"reflect"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/services"
)

// shared lets all subscriptions with the same document and no variables use one operation context of gqlgen,
// which is most of the memory of a subscription: it remembers which fields every part of the document selects.
// Nothing in it is a viewer's: what is comes with the context.Context. An entry lives as long as somebody uses it.
type shared struct {
	mu      sync.Mutex
	entries map[*ast.OperationDefinition]*sharedEntry // the query cache gives the same document for the same text
}

type sharedEntry struct {
	parsed *graphql.OperationContext
	users  int
}

// acquire gives what the operation is to be executed with, and whether it has to be released. What was parsed
// has passed every check for this very operation; only then may another's stand for it.
func (s *shared) acquire(parsed *graphql.OperationContext) (use *graphql.OperationContext, release bool) {
	if len(parsed.Variables) > 0 || len(parsed.Extensions) > 0 || len(parsed.Headers) > 0 {
		tapChannels(parsed)
		return parsed, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := s.entries[parsed.Operation]
	if entry == nil {
		tapChannels(parsed)
		// The text of the first message with this document is kept by the parser: keep no other.
		parsed.RawQuery = parsed.Operation.Position.Src.Input
		entry = &sharedEntry{parsed: parsed}
		if s.entries == nil {
			s.entries = make(map[*ast.OperationDefinition]*sharedEntry)
		}
		s.entries[parsed.Operation] = entry
	}
	entry.users++
	return entry.parsed, true
}

// release says that one of the users of what acquire gave is gone.
func (s *shared) release(use *graphql.OperationContext) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := s.entries[use.Operation]
	if entry.users--; entry.users == 0 {
		delete(s.entries, use.Operation)
	}
}

// tapChannels has the operation tap the channel that the resolver of its first field gives. The result of every
// later field passes by too, so it looks at the kind of the result before it looks for anything else.
func tapChannels(parsed *graphql.OperationContext) {
	resolve := parsed.ResolverMiddleware
	parsed.ResolverMiddleware = func(ctx context.Context, next graphql.Resolver) (any, error) {
		result, err := resolve(ctx, next)
		if result == nil || err != nil || reflect.TypeOf(result).Kind() != reflect.Chan {
			return result, err
		}
		if one, ok := services.RequestFrom(ctx).(*operation); ok {
			result = one.tap(result)
		}
		return result, nil
	}
}
