package badge

import (
	"context"
	"fmt"

	"tidings/services"
	"tidings/services/store"
)

// explained is the user whose counts are explained, with the user's last accesses of views.
type explained struct {
	user   services.UserID
	badges *services.Badges
	seen   map[string]services.PostID
	today  int64
}

// Explain answers "why is my badge 7?": for each count that is not 0, it lists the items behind it and the mutation that clears
// each. It reads the facts: while a fact is not projected into the badges yet, the items are ahead of the count.
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

// clearedBy prints a mutation with one argument, ready to be sent.
func clearedBy(mutation, argument, id string) string {
	return clearing(mutation, fmt.Sprintf("%s: %q", argument, id))
}

// clearing prints a whole operation, ready to be sent.
func clearing(mutation, input string) string {
	return fmt.Sprintf("mutation { %s(input: {%s}) { badges { version total { value display } } } }", mutation, input)
}

// mostExplained bounds the items of one count. Only counts far beyond every cap have more.
const mostExplained = 1000
