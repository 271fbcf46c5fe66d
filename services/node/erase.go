package node

import (
	"slices"
	"time"

	"tidings/services/acts"
	"tidings/services/announcements"
	"tidings/services/chat"
	"tidings/services/devices"
	"tidings/services/erase"
	"tidings/services/erasures"
	"tidings/services/fanout"
	"tidings/services/feed"
	"tidings/services/jobs"
	"tidings/services/live"
	"tidings/services/messages"
	"tidings/services/nodecache"
	"tidings/services/notifications"
	"tidings/services/people"
	"tidings/services/positions"
	"tidings/services/posts"
	"tidings/services/projector"
	"tidings/services/refs"
	"tidings/services/social"
	"tidings/services/stream"
	"tidings/services/views"
	"tidings/services/webhooks"
)

// eraseSteps are all steps that remove a user, in order. The effects on others are undone before the user's own facts go. The jobs
// come after all steps that queue some. The logs and the acts of operators are last. A feature that keeps something of a user has its
// steps here. tests/nodes erases a user and looks through every table and key for what is left.
func eraseSteps(posted *feed.Service, hosted *live.Service, talks *chat.Service) []erase.Step {
	return slices.Concat(
		// First come the parts that could still send something of the user outside.
		stream.EraseSteps, webhooks.EraseSteps, devices.EraseSteps, social.EraseSteps, people.EraseSteps, posted.EraseSteps(), hosted.EraseSteps(), notifications.EraseSteps, talks.EraseSteps(), messages.EraseSteps,
		announcements.EraseSteps, views.EraseSteps, positions.EraseSteps, projector.EraseSteps, []erase.Step{fanout.EraseStep}, posts.EraseSteps, refs.EraseSteps,
		jobs.EraseSteps(erasures.JobKind),
		[]erase.Step{people.EraseChangelog(people.ProfileChangelogKind, nodecache.PullChangelogKind), fanout.EraseLogStep}, acts.EraseSteps,
	)
}

// wireErasures makes the service that removes users, after all features. OnErasureBegun ends the user's sockets on this node; each
// node does so when it learns of the erasure by the changelog.
func (s *Server) wireErasures(posted *feed.Service, talks *chat.Service) *erasures.Service {
	s.erasures = erasures.New(erasures.Config{
		DB: s.Store, Redis: s.Redis, Jobs: s.Jobs, People: s.Caches.People, Changelog: s.Caches.Changelog, Clock: s.clock, Logger: s.Log,
		// A request that began before the erasure ends before its last pass begins, even if it is a batch, which may take longer, and
		// even if the clocks of two nodes differ.
		RequestGrace: max(30*time.Second, 2*s.Config.OperationTimeout),
		Steps:        eraseSteps(posted, s.Live, talks), KeyRemovers: []erase.KeyRemover{acts.RemoveUserKey, jobs.EraseKeyFromRefusalsSince}, OnErasureBegun: func(key string) {
			if s.sockets != nil { // the sockets are made later, and nobody is connected before
				s.sockets.CloseUser(key)
			}
		},
	})
	return s.erasures
}
