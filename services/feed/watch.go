package feed

import (
	"context"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/store"
)

// Change is what is new in a home feed, as its watcher is told.
type Change struct {
	New     services.Count
	Newest  services.PostID       // the newest post that is new; 0: none is
	Authors []services.UserNumber // of the newest that are new, the newest first, at most three
	Badges  *services.Badges      // New is of these
}

const (
	// changeGap is the time between two changes that one watcher is sent: the first goes at once.
	changeGap = 100 * time.Millisecond
	// changeAuthors is how many authors a change names, and changeEntries how many entries are looked through for them.
	changeAuthors = 3
	changeEntries = 100
)

// Watch opens a channel with what is new in a reader's feed: as it is, and then whenever that changes, the latest only
// where the consumer is slow. badges are the reader's, as the hub brings them; the first of them is waited for. A page that
// is read after a change has all that the change tells of. The channel is closed when ctx ends and when badges is closed.
func (s *Service) Watch(ctx context.Context, reader services.UserNumber, badges <-chan *services.Badges) <-chan Change {
	w := &watch{service: s, reader: reader, changes: make(chan Change)}
	go func() {
		defer close(w.changes)
		w.run(ctx, badges)
	}()
	return w.changes
}

// watch is one open channel. Its goroutine alone has it.
type watch struct {
	service *Service
	reader  services.UserNumber
	changes chan Change

	newest *services.Badges
	last   Change // sent or about to be
	ready  bool   // last is to be sent
	dirty  bool   // the badges changed since last was read
}

func (w *watch) run(ctx context.Context, badges <-chan *services.Badges) {
	gap := time.NewTimer(0)
	defer gap.Stop()
	open := false
	for {
		var out chan<- Change
		if w.ready {
			out = w.changes
		}
		select {
		case <-ctx.Done():
			return
		case newest, more := <-badges:
			if !more {
				return
			}
			w.newest, w.dirty = newest, true
		case <-gap.C:
			open = true
		case out <- w.last:
			w.ready = false
		}
		if open && w.dirty {
			w.look(ctx)
			open = false
			gap.Reset(changeGap)
		}
	}
}

// look reads who made the number. What cannot be read now is read again after the gap.
func (w *watch) look(ctx context.Context) {
	change := Change{New: w.newest.HomeFeed, Badges: w.newest}
	if change.New.Value > 0 {
		var err error
		if change.Newest, change.Authors, err = w.service.newest(ctx, w.reader); err != nil {
			return
		}
	}
	w.dirty = false
	same := w.last.Badges != nil && change.New == w.last.New && change.Newest == w.last.Newest && slices.Equal(change.Authors, w.last.Authors)
	if !same {
		w.last, w.ready = change, true
	}
}

// newest looks for the newest entries that are new, and their authors.
func (s *Service) newest(ctx context.Context, reader services.UserNumber) (newest services.PostID, authors []services.UserNumber, err error) {
	page, err := s.raw(ctx, reader, services.MaxPostID, changeEntries)
	if err != nil {
		return 0, nil, err
	}
	if page.Facts {
		if page.Seen, err = s.store.Position(ctx, reader, store.HomePage, ""); err != nil {
			return 0, nil, err
		}
	}
	for _, entry := range page.Entries {
		if entry.Post <= page.Seen || len(authors) == changeAuthors {
			break
		}
		if !entry.Counts {
			continue
		}
		newest = max(newest, entry.Post)
		if !slices.Contains(authors, entry.Author) {
			authors = append(authors, entry.Author)
		}
	}
	return newest, authors, nil
}
