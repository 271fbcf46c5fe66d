package badge

import (
	"context"
	"fmt"

	"tidings/services"
	"tidings/services/store"
)

// explained is a user whose numbers are explained, and how far they have looked in views.
type explained struct {
	user   services.UserID
	badges *services.Badges
	seen   map[string]services.PostID
	today  int64
}

// Explain answers "why is my badge 7?": for each number that is not 0, the very items behind it and how each is cleared.
// It reads the facts: while one of them has not been carried into the badges yet, the items are ahead of the number.
func (s *Service) Explain(ctx context.Context, user services.UserID) ([]services.Explanation, error) {
	badges, err := s.Read(ctx, user)
	if err != nil {
		return nil, err
	}
	of := explained{user: user, badges: badges, today: s.moment(ctx).today()}
	if of.seen, err = s.store.Positions(ctx, user, store.HomePage, store.LiveBoard); err != nil {
		return nil, err
	}
	explanations := []services.Explanation{}
	for _, source := range s.sources {
		found, err := source.explain(ctx, of)
		if err != nil {
			return nil, err
		}
		for _, explanation := range found {
			if len(explanation.Items) > 0 || explanation.Count.Value > 0 {
				explanations = append(explanations, explanation)
			}
		}
	}
	return explanations, nil
}

// clearedBy prints a mutation with one argument, as it can be sent.
func clearedBy(mutation, argument, id string) string {
	return clearing(mutation, fmt.Sprintf("%s: %q", argument, id))
}

// clearing is a whole operation: it can be sent as it is.
func clearing(mutation, input string) string {
	return fmt.Sprintf("mutation { %s(input: {%s}) { badges { version total { value display } } } }", mutation, input)
}

// mostExplained bounds the items of one number. Only numbers far beyond every cap have more.
const mostExplained = 1000
