package live

import (
	"testing"

	"tidings/services"
)

// A replay becomes cancelled only by the removal of its host. After that no board of any session has the replay, and the cache
// keeps no position of it, whether the node saw the removal or starts later.
func TestAnErasedReplayIsOnNoBoard(t *testing.T) {
	for name, pull := range map[string]bool{"in lists": false, "pulled": true} {
		t.Run(name, func(t *testing.T) {
			s := newFakeShowSQL()
			m := s.newCache()
			s.schedule(1, 1, 5)
			s.start(1, 10)
			ended := s.shows[1]
			ended.Status, ended.EndedAt, ended.Pull = ShowReplay, minutesAfterNoon(20), pull
			frozen := s.commitMove(ended).Version
			readLog(t, m)
			if shows, _ := m.Shows.replaysAt(followedAuthors(1), frozen, ShowPosition{}, 10); len(shows) != 1 || shows[0].Status != ShowReplay {
				t.Fatalf("before the removal there is %v", shows)
			}
			gone := s.shows[1]
			gone.Status, gone.Title, gone.CancelledAt = ShowCancelled, "", minutesAfterNoon(30)
			s.commitMove(gone)
			readLog(t, m)
			late := s.newCache()
			readLog(t, late)
			for node, m := range map[string]*showCache{"a node that saw it": m, "a node that starts later": late} {
				for _, version := range []uint64{frozen, s.newestVersion} {
					if shows, _ := m.Shows.replaysAt(followedAuthors(1), version, ShowPosition{}, 10); len(shows) != 0 {
						t.Errorf("%s shows at version %d of %d: %+v", node, version, s.newestVersion, shows)
					}
				}
				if known := m.Shows.state.hosts.get(services.UserID(1)).shows; known != nil && len(known.replays) > 0 {
					t.Errorf("%s keeps %d positions of it", node, len(known.replays))
				}
			}
		})
	}
}
