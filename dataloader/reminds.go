package dataloader

import (
	"context"
	"slices"

	"tidings/services"
)

// addResponseShows records shows that the response has read. When a field of one of them is read later, the field is read for all of
// them at once.
func (m *responseMemory) addResponseShows(shows []services.ShowID) {
	m.remindersMu.Lock()
	defer m.remindersMu.Unlock()
	if m.responseShows == nil {
		m.responseShows = map[services.ShowID]struct{}{}
	}
	for _, id := range shows {
		m.responseShows[id] = struct{}{}
	}
}

// HasReminder reports whether the viewer has a reminder of a show. One read answers for all shows that the response has read so far and
// for the shows in together, which are shown beside it.
func (l *Loader) HasReminder(ctx context.Context, show services.ShowID, together []services.ShowID, read func(ctx context.Context, shows []services.ShowID) (map[services.ShowID]bool, error)) (bool, error) {
	m := l.currentMemory()
	m.remindersMu.Lock()
	defer m.remindersMu.Unlock()
	if reminds, known := m.hasReminder[show]; known {
		return reminds, nil
	}
	ids := []services.ShowID{show}
	add := func(id services.ShowID) {
		if _, known := m.hasReminder[id]; !known {
			ids = append(ids, id)
		}
	}
	for id := range m.responseShows {
		add(id)
	}
	for _, id := range together {
		add(id)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	// The lock is held during the read. Other callers mostly ask for shows that this read covers, so they wait for it instead of
	// reading too.
	found, err := read(ctx, ids)
	if err != nil {
		return false, err
	}
	if m.hasReminder == nil {
		m.hasReminder = map[services.ShowID]bool{}
	}
	for _, id := range ids {
		// Shows without a reminder are recorded too, or they would be read again.
		m.hasReminder[id] = found[id]
	}
	return m.hasReminder[show], nil
}
