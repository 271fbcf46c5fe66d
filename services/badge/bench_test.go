package badge

import (
	"testing"

	"tidings/services"
	"tidings/services/announcements"
	"tidings/services/badge/source"
	"tidings/services/jobs"
)

// BenchmarkRender measures a read without Redis: it renders a document with every source and remembers the result.
func BenchmarkRender(b *testing.B) {
	document := documentWithUnseenLikes(noon, 3, 1, 2, 3)
	for _, category := range services.Categories[1:] {
		counts := document.Notifications[0]
		counts.Category = category
		document.Notifications = append(document.Notifications, counts)
	}
	document.Messages = []services.MessageTypeState{{Type: "general", Unread: 4}, {Type: "offers", Unread: 1}}
	document.Conversations = services.ConversationSums{Unread: 7, Mentions: 2}
	document.Announcements = services.AnnouncementState{Version: 1}
	at := source.Moment{Now: noon, MonotonicNow: noon, SharedState: &announcements.SharedState{
		Announcements: []announcements.Announcement{{Position: 3}, {Position: 2}},
		Dots:          []announcements.Dot{{Name: "shop"}, {Name: "games"}},
	}}
	s := &Service{lastShown: newBadgeCache(1000), jobs: jobs.New(jobs.Config{})}
	s.sources = s.newSources(sourcesOfFeatures()...)
	b.ReportAllocs()
	for b.Loop() {
		s.render(b.Context(), 1, document, at)
	}
}
