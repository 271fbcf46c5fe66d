package dataloader

import (
	"context"
	"maps"
	"slices"

	"tidings/services"
)

// Hidden says which of some authors hide what they publish from the viewer. What the response does not know yet is read,
// once for all of them; a response has one viewer.
func (l *Loader) Hidden(ctx context.Context, authors []services.UserNumber, read func(ctx context.Context, authors []services.UserNumber) (map[services.UserNumber]bool, error)) (map[services.UserNumber]bool, error) {
	l.asking.Lock()
	defer l.asking.Unlock()
	hidden := make(map[services.UserNumber]bool, len(authors))
	missing := known(l.hidden, authors, hidden)
	if len(missing) == 0 {
		return hidden, nil
	}
	slices.Sort(missing)
	found, err := read(ctx, slices.Compact(missing))
	if err != nil {
		return nil, err
	}
	for _, author := range missing {
		hidden[author] = found[author]
	}
	maps.Copy(l.hidden, hidden)
	return hidden, nil
}
