package node

import (
	"tidings/services/announcements"
	"tidings/services/live"
	"tidings/services/nodecache"
	"tidings/services/notifications"
	"tidings/services/stream"
)

// wireStream makes the change stream, after the badges and before the first job: an earlier job would change badges without a mark,
// and they would not be compared. Peek and ExplainNewest read badges without a visit, so that the stream keeps nobody active.
func (s *Server) wireStream() {
	s.stream = stream.New(stream.Config{
		DB: s.DB, Peek: s.Badge.Peek, NewestItems: s.Badge.ExplainNewest, SharedChanges: s.countSharedChanges, ActiveSince: s.Projector.IdleBefore,
		Clock: s.clock, Log: s.Log, Settings: s.Config.Stream,
	})
	// Every job that changes badges marks its users, while the stream is on.
	s.Projector.OnMark(s.stream.Mark, s.stream.On)
	s.wireWebhooks()
	s.wireDevices()
}

// countSharedChanges counts the changes this node has learned that change badges of many users. A larger number makes the stream
// begin a lap early. No job marks users for these kinds of changes: it would have to mark nearly all users.
func (s *Server) countSharedChanges() uint64 {
	return s.Caches.Changelog.CountApplied(announcements.ChangelogKind, live.ChangelogKind, nodecache.PullChangelogKind, notifications.ChangelogKind)
}
