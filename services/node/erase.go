package node

import (
	"time"

	"tidings/services/acts"
	"tidings/services/chat"
	"tidings/services/erase"
	"tidings/services/erasures"
	"tidings/services/feed"
	"tidings/services/jobs"
)

// wireErasures makes the service that removes users, after all features. OnErasureBegun ends the user's sockets on this node; each
// node does so when it learns of the erasure by the changelog.
func (s *Server) wireErasures(feedService *feed.Service, chatService *chat.Service) *erasures.Service {
	s.erasures = erasures.New(erasures.Config{
		DB: s.DB, Redis: s.Redis, Jobs: s.Jobs, People: s.Caches.People, Changelog: s.Caches.Changelog, Clock: s.clock, Logger: s.Log,
		// A request that began before the erasure ends before its last pass begins, even if it is a batch, which may take longer, and
		// even if the clocks of two nodes differ.
		RequestGrace: max(30*time.Second, 2*s.Config.Requests.OperationTimeout),
		Steps:        eraseSteps(s.Jobs, feedService, s.Live, chatService), KeyRemovers: []erase.KeyRemover{acts.RemoveUserKey, jobs.EraseKeyFromRefusalsSince}, OnErasureBegun: func(key string) {
			if s.sockets != nil { // the sockets are made later, and nobody is connected before
				s.sockets.CloseUser(key)
			}
		},
	})
	return s.erasures
}
