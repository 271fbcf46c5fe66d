package badge

import (
	"context"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/positions"
)

// Explain answers "why is my badge 7?": for each count that is not 0, it lists the items behind it and the mutation that clears
// each. It reads the facts: while a fact is not projected into the badges yet, the items are ahead of the count.
func (s *Service) Explain(ctx context.Context, user services.UserID) ([]services.Explanation, error) {
	badges, err := s.Read(ctx, user)
	if err != nil {
		return nil, err
	}
	of := source.ExplainRequest{User: user, Badges: badges, Today: s.moment(ctx).Today()}
	if of.SeenPositions, err = positions.OfUser(ctx, s.db, user); err != nil {
		return nil, err
	}
	explanations := []services.Explanation{}
	for _, source := range s.sources {
		found, err := source.Explain(ctx, of)
		if err != nil {
			return nil, err
		}
		// A count without items stays: it shows that the count includes items that the facts no longer have.
		for _, explanation := range found {
			if len(explanation.Items) > 0 || explanation.Count.Value > 0 {
				explanations = append(explanations, explanation)
			}
		}
	}
	return explanations, nil
}
