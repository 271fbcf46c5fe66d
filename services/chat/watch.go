package chat

import (
	"context"
	"time"

	"tidings/services"
)

// Change is a conversation as its watcher sees it, with his badges.
type Change struct {
	State  services.ConversationState
	Badges *services.Badges
}

// changeGap is the time between two changes that one watcher is sent: the first goes at once.
const changeGap = 100 * time.Millisecond

// Watch opens a channel with a conversation's full state for a member, and then with each further one, the latest only
// where the consumer is slow: when something is said in it, and when his own state or his badges change. badges are his, as
// the hub brings them; the first of them is waited for. The channel is closed when ctx ends, when badges is closed, and when
// he is a member no longer. NOT_FOUND when he never was.
func (s *Service) Watch(ctx context.Context, user services.UserNumber, id services.ConversationID, badges <-chan *services.Badges) (<-chan Change, error) {
	if _, err := s.One(ctx, user, id); err != nil {
		return nil, err
	}
	moved, forget := s.Mirror.WatchHead(id)
	s.Mirror.LearnHeads(ctx, []services.ReadSidePlace{{Conversation: id}})
	w := &watch{service: s, user: user, id: id, changes: make(chan Change)}
	go func() {
		defer forget()
		defer close(w.changes)
		w.run(ctx, moved, badges)
	}()
	return w.changes, nil
}

// watch is one open channel. Its goroutine alone has it.
type watch struct {
	service *Service
	user    services.UserNumber
	id      services.ConversationID
	changes chan Change

	newest *services.Badges
	last   Change // sent or about to be
	ready  bool   // last is to be sent
	dirty  bool   // something happened since last was read
}

func (w *watch) run(ctx context.Context, moved <-chan struct{}, badges <-chan *services.Badges) {
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
		case <-moved:
			w.dirty = true
		case <-gap.C:
			open = true
		case out <- w.last:
			w.ready = false
		}
		if open && w.dirty && w.newest != nil {
			if !w.look(ctx) {
				return
			}
			open = false
			gap.Reset(changeGap)
		}
	}
}

// look reads the state anew; false when there is nothing to see for this user any more.
func (w *watch) look(ctx context.Context) bool {
	state, err := w.service.One(ctx, w.user, w.id)
	switch {
	case services.CodeOf(err) == services.NotFound:
		return false
	case err != nil:
		return true // still dirty: it is read again after the gap
	}
	w.dirty = false
	if now := (Change{state, w.newest}); now != w.last {
		w.last, w.ready = now, true
	}
	return true
}
