package dataloader

import (
	"context"
	"slices"

	"tidings/services"
)

// KeepShows lets the response know of shows that were read already.
func (l *Loader) KeepShows(shows []services.Show) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, show := range shows {
		l.shows[show.ID] = show
	}
}

// Shows reads shows with their hosts; ones that never were are left out.
func (l *Loader) Shows(ctx context.Context, ids []services.PostID) (map[services.PostID]services.Show, map[services.UserNumber]services.User, error) {
	shows := make(map[services.PostID]services.Show, len(ids))
	l.mu.Lock()
	missing := known(l.shows, ids, shows)
	l.mu.Unlock()
	if len(missing) > 0 {
		read, err := l.source.Shows(ctx, missing)
		if err != nil {
			return nil, nil, err
		}
		l.mu.Lock()
		for id, show := range read {
			shows[id], l.shows[id] = show, show
		}
		l.mu.Unlock()
	}
	hosts := make([]services.UserNumber, 0, len(shows))
	for _, show := range shows {
		hosts = append(hosts, show.Host)
	}
	users, err := l.Users(ctx, hosts)
	return shows, users, err
}

// Reminds says whether a show reminds the viewer. What is not known yet read is asked, once for all shows that the response
// has met and those that are shown together with it.
func (l *Loader) Reminds(ctx context.Context, show services.PostID, together []services.PostID, read func(ctx context.Context, shows []services.PostID) (map[services.PostID]bool, error)) (bool, error) {
	l.asking.Lock()
	defer l.asking.Unlock()
	if reminds, known := l.reminds[show]; known {
		return reminds, nil
	}
	ids := []services.PostID{show}
	l.mu.Lock()
	for id := range l.shows {
		if _, known := l.reminds[id]; !known && id != show {
			ids = append(ids, id)
		}
	}
	l.mu.Unlock()
	for _, id := range together {
		if _, known := l.reminds[id]; !known && id != show {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	found, err := read(ctx, ids)
	if err != nil {
		return false, err
	}
	for _, id := range ids {
		l.reminds[id] = found[id]
	}
	return l.reminds[show], nil
}
