package node

import (
	"context"
	"math/rand/v2"
	"slices"

	"tidings/dataloader"
	"tidings/resolvers"
	"tidings/services"
	"tidings/services/acts"
	"tidings/services/announcements"
	"tidings/services/audit"
	"tidings/services/badge"
	"tidings/services/chat"
	"tidings/services/devices"
	"tidings/services/erase"
	"tidings/services/export"
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
	"tidings/services/push"
	"tidings/services/refs"
	"tidings/services/social"
	"tidings/services/stream"
	"tidings/services/views"
	"tidings/services/webhooks"
)

// wire makes the services, from the bottom up. The order is the order of the layers: each service gets what was made before it.
// Where a lower part calls a higher one, it gets a function (OnSharedChange, OnCommitSignal, OnMark, DeviceGone), or a list of
// sources. Nothing runs before Run, so a function may be set after the part that calls it. A new feature is a few lines of this
// file: its New, its source among those of the badges, its field of the Resolver, its exports, its steps of a removal. They are lists and
// no value of one type that all features share, because most features have only some of these parts, and because the order of the steps
// of a removal differs from that in which the services are made.
func (s *Server) wire() *resolvers.Resolver {
	// The whole node has one clock of IDs. Its random part makes IDs of two nodes in one millisecond different.
	ids := services.NewIDClock(s.clock, uint16(rand.Uint32()))
	// What the features register in: node caches, jobs, projections.
	s.Caches = nodecache.New(nodecache.Config{
		Facts: nodecache.SQL{DB: s.DB}, Redis: s.Redis, Clock: s.clock, Log: s.Log, Changelog: s.Config.Changelog,
	})
	s.Jobs = jobs.New(jobs.Config{DB: s.DB, Clock: s.clock, Log: s.Log})
	s.Projector = projector.New(projector.Config{
		Jobs: s.Jobs, DB: s.DB, Redis: s.Redis, Activity: s.Caches.Activity, Clock: s.clock, IDs: ids, Log: s.Log,
		Settings: s.Config.Projector, Expiry: s.Config.Badge.Expiry(),
	})
	s.Fanout = fanout.New(fanout.Config{
		Jobs: s.Jobs, Projector: s.Projector, DB: s.DB, Redis: s.Redis, Clock: s.clock, IDs: ids, Log: s.Log,
		Settings: s.Config.Fanout,
	})
	// The audit and the cleaner work on everything that is registered below. They find it when they run, so their position in
	// this order does not matter.
	s.counts = posts.NewCountAudit(s.DB, s.Log)
	s.audit = audit.New(audit.Config{
		DB: s.DB, Redis: s.Redis, Projector: s.Projector, Clock: s.clock, Log: s.Log, Settings: s.Config.Audit,
		Others: []func(context.Context) error{s.counts.RunOnce},
	})
	s.cleaner = projector.NewCleaner(s.Projector, s.Config.Projector.CleanEvery)
	// The features. Each registers its kinds of jobs, changes and versioned fields by itself.
	announcementService := announcements.New(announcements.Config{
		DB: s.DB, Redis: s.Redis, Jobs: s.Jobs, Changelog: s.Caches.Changelog, Projector: s.Projector, IDs: ids, Clock: s.clock,
	})
	chatService := chat.New(chat.Config{
		DB: s.DB, Redis: s.Redis, Changelog: s.Caches.Changelog, Jobs: s.Jobs, Projector: s.Projector, Clock: s.clock, Settings: s.Config.Chat,
	})
	messageService := messages.New(messages.Config{DB: s.DB, Jobs: s.Jobs, Projector: s.Projector, IDs: ids, Settings: s.Config.Messages})
	notificationService := notifications.New(notifications.Config{
		DB: s.DB, Redis: s.Redis, Jobs: s.Jobs, Projector: s.Projector, Changelog: s.Caches.Changelog, IDs: ids, Log: s.Log,
		Settings: s.Config.Notifications,
	})
	viewService := views.New(views.Config{
		DB: s.DB, Redis: s.Redis.Client, Jobs: s.Jobs, Projector: s.Projector, IDs: ids, Clock: s.clock, Log: s.Log,
	})
	s.Live = live.New(live.Config{
		DB: s.DB, Redis: s.Redis, Reader: s.Caches.Reader, Changelog: s.Caches.Changelog, Jobs: s.Jobs, Projector: s.Projector,
		Fanout: s.Fanout, IDs: ids, Clock: s.clock, Settings: s.Config.Live,
	})
	// Badges and pushes read all features.
	s.Badge = badge.New(badge.Config{
		DB: s.DB, Redis: s.Redis, Jobs: s.Jobs, Projector: s.Projector, Pulled: s.Caches.Pulled, Clock: s.clock, Log: s.Log,
		Caps: s.Config.Badge.Caps(),
		Sources: []badge.Source{
			announcementService.Source(), messageService.Source(), chatService.Source(), s.Live.Source(), notificationService.Source(),
			viewService.Source(),
		},
	})
	s.wireHub()
	s.wireStream() // after the badges, which hub and stream render and compare
	feedService := feed.New(feed.Config{
		Jobs: s.Jobs, DB: s.DB, Redis: s.Redis, Posts: s.Caches.Posts, Reader: s.Caches.Reader, Pulled: s.Caches.Pulled,
		InFlight: s.Caches.InFlight, Projector: s.Projector, Fanout: s.Fanout, IDs: ids, Clock: s.clock, Settings: s.Config.Feed,
	})
	// The resolvers get the parts that they need, and no more.
	return &resolvers.Resolver{
		Social: social.New(social.Config{
			DB: s.DB, People: s.Caches.People, Projector: s.Projector, Fanout: s.Fanout, IDs: ids, Notifications: notificationService,
			OnBlock: chatService.CloseDirect, Settings: s.Config.Social,
		}),
		Feed: feedService, Live: s.Live, Chat: chatService, Notifications: notificationService, Messages: messageService,
		Announcements: announcementService, Views: viewService, Badge: s.Badge, Hub: s.Hub,
		Readers: dataloader.Readers{Posts: s.Caches.Reader, Shows: s.Live.Memory},
		Refs:    refs.New(s.DB), Jobs: s.Jobs, Queue: s.Jobs, Fanout: s.Fanout, Projector: s.Projector, Cleaner: s.cleaner,
		Stream: s.stream, Webhooks: s.webhooks, Devices: s.devices,
		Exports:  export.Reader{DB: s.DB, Kinds: AllExportKinds},
		Erasures: s.wireErasures(feedService, chatService),
		Acts:     acts.New(acts.Config{DB: s.DB, IDs: ids, Projector: s.Projector, Log: s.Log}),
		Clock:    s.clock, Log: s.Log,
	}
}

// wireHub makes the hub, which renders the badges of watched users and sends them, and connects it with the parts that wake it. A
// change of data that everybody's badges depend on wakes the hub when this node has learned the change, and not when the change is
// written: an earlier read would show the old state under a new version. The functions stand for packages that the hub does not
// import.
func (s *Server) wireHub() {
	s.Hub = push.New(push.Config{
		Render: s.Badge.ReadAndFollow, RaiseVersions: s.Badge.RaiseDocumentsAbove, NoteClientVersion: s.Badge.NoteClientVersion,
		DocumentVersions: s.Redis.DocumentVersions, MarkDocumentsLost: s.Redis.MarkDocumentsLost,
		WriteLeases: s.Redis.Presence.WriteOnlineLeases, RemoveLeases: s.forgetUnwatchedUsers,
		SharedChangeSequences: s.Caches.Changelog.VersionSums,
		Clock:                 s.clock, Log: s.Log, Settings: s.Config.Push,
	})
	s.Caches.Changelog.OnSharedChange(s.Hub.HintSharedContent)
	s.Caches.Changelog.OnReadersNotified(s.Hub.HintSharedContentOf)
	s.DB.OnCommitSignal(func() {
		s.Caches.Changelog.Wake() // no mutation waits for a job's change, so nothing else wakes the log
		s.Redis.Client.QueueChangelogHint()
	})
}

// AllExportKinds are all kinds of lines of an export of a user, in their order. A feature that keeps something of a user has its
// kinds here; a test compares the tables with them. The command line and the field export both use AllExportKinds.
var AllExportKinds = slices.Concat(
	people.Exports, posts.Exports, live.Exports, notifications.Exports, positions.Exports, messages.Exports, announcements.Exports,
	projector.Exports, chat.Exports, refs.Exports, devices.Exports,
)

// eraseSteps are all steps that remove a user, in order. The effects on others are undone before the user's own facts go. The jobs
// come after all steps that queue some. The logs and the acts of operators are last. A feature that keeps something of a user has its
// steps here. tests/nodes erases a user and looks through every table and key for what is left.
func eraseSteps(engine *jobs.Engine, feedService *feed.Service, liveService *live.Service, chatService *chat.Service) []erase.Step {
	return slices.Concat(
		// First come the parts that could still send something of the user outside.
		stream.EraseSteps, webhooks.EraseSteps, devices.EraseSteps,
		social.EraseSteps, people.EraseSteps, feedService.EraseSteps(), liveService.EraseSteps(), notifications.EraseSteps,
		chatService.EraseSteps(), messages.EraseSteps, announcements.EraseSteps, views.EraseSteps, positions.EraseSteps,
		projector.EraseSteps, []erase.Step{fanout.EraseStep}, posts.EraseSteps, refs.EraseSteps,
		engine.EraseSteps(),
		[]erase.Step{people.EraseChangelog(people.ProfileChangelogKind, nodecache.PullChangelogKind), fanout.EraseLogStep}, acts.EraseSteps,
	)
}
