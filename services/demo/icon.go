package demo

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"tidings/services"
)

// iconUpdateInterval is how often the application asks for changes while somebody looks at the icon. Real applications get webhooks;
// the demo has no address for them.
const iconUpdateInterval = 100 * time.Millisecond

// Icon is the app icon on a phone of the viewer while the app is closed. The application sets it from the change stream. It
// is the whole state, like every push of Tidings: a page that missed ten icons needs only the last one.
type Icon struct {
	Version string    `json:"version"` // the version of the change; "" before the first
	Total   int       `json:"total"`   // the number on the icon
	Display string    `json:"display"` // the number as text; "" or a dot if the viewer wants that
	Silent  bool      `json:"silent"`  // the change has no alert
	At      time.Time `json:"at"`      // when the change happened
	Alert   *Alert    `json:"alert"`   // the alert of this change; nil if it is silent
}

// Alert is the alert of a change.
type Alert struct {
	Source string    `json:"source"` // where the item counts, such as HOME_FEED
	At     time.Time `json:"at"`     // when the item was made
	// Item is the item in the form of the API; null if it cannot be read. A real application would have the item itself.
	Item json.RawMessage `json:"item"`
}

// changesPage is a page of the change stream: the answer to readChanges. encoding/json matches the names of the fields to the
// API's without tags.
type changesPage struct {
	Cursor  string
	HasMore bool
	List    []struct {
		Key, Version, Display string
		Total                 int
		Silent                bool
		At                    time.Time
		Cause                 *struct {
			Source, ItemID string
			At             time.Time
		}
	}
}

// readChanges reads the page of the change stream after a cursor, and readItem the item of an alert.
const (
	readChanges = `query Changes($after: String) { admin { changes(first: 100, after: $after) { cursor hasMore
  list { key version at total display silent cause { source itemId at } } } } }`
	readItem = `query Item($id: ID!) { node(id: $id) {
  ... on Post { body author { key name } }
  ... on Notification { category notificationTitle: title notificationBody: body actorCount actors { key name } }
  ... on Conversation { lastMessage { text: body author { key name } } }
  ... on Announcement { announced: title }
  ... on SiteMessage { letter: title }
  ... on Show { show: title host { key name } } } }` // the aliases keep fields of different types apart
)

// iconUpdater is the part of the application that sets the icon. It reads the change stream as any reader outside does, by a cursor,
// and only while somebody looks. It opens no subscription. Only the goroutine of run uses the fields above mu.
type iconUpdater struct {
	host       *host   // sends the requests
	cursor     *string // up to where the change stream was read; nil at its start
	skipAlerts bool    // the changes up to now were not followed, so they cause no alert

	mu           sync.Mutex    // guards the fields below
	watcherCount int           // how many calls of WatchIcon have not ended
	icon         Icon          // without a version before the first change
	changed      chan struct{} // closed when the icon changes
}

// newIconUpdater makes the icon updater of a host. It has read nothing.
func newIconUpdater(h *host) *iconUpdater {
	return &iconUpdater{host: h, skipAlerts: true, changed: make(chan struct{})}
}

// WatchIcon notes that somebody looks at the icon until end is called. end may be called more than once.
func (w *World) WatchIcon() (end func()) {
	f := w.iconUpdater
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watcherCount++
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.watcherCount--
	})
}

// Icon returns the current icon, and a channel that is closed when the icon changes. The icon has no version until it is
// known.
func (w *World) Icon() (icon Icon, changed <-chan struct{}) {
	f := w.iconUpdater
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.icon, f.changed
}

// isWatched reports whether a call of WatchIcon has not ended.
func (f *iconUpdater) isWatched() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watcherCount > 0
}

// followChanges reads the changes since the last time. If the server does not answer, they are read the next time. The stream keeps
// each user's newest change, so a late reader misses only changes that are out of date.
func (f *iconUpdater) followChanges(ctx context.Context) {
	if !f.isWatched() {
		// Changes until the next look will be read without an alert.
		f.skipAlerts = true
		return
	}
	for {
		var answer struct{ Admin struct{ Changes changesPage } }
		if err := f.host.ask(ctx, "host:ingest,admin", readChanges, map[string]any{"after": f.cursor}, &answer); err != nil {
			if ctx.Err() == nil {
				f.host.cfg.Log.Debug("the application could not read the change stream", "error", err)
			}
			return
		}
		page := answer.Admin.Changes
		f.applyChanges(ctx, page)
		// The cursor moves only after the page was taken: after an error before that, the page is read again.
		f.cursor = &page.Cursor
		if !page.HasMore {
			f.skipAlerts = false
			return
		}
	}
}

// applyChanges takes the viewer's change out of a page, which has one at most: the stream has one change for each user. A change that
// is not newer than the icon was taken before. It searches from the end, because only the newest counts.
func (f *iconUpdater) applyChanges(ctx context.Context, page changesPage) {
	for _, change := range slices.Backward(page.List) {
		if change.Key != viewerKey || change.Version <= f.icon.Version {
			continue
		}
		icon := Icon{Version: change.Version, Total: change.Total, Display: change.Display, Silent: change.Silent || f.skipAlerts || change.Cause == nil, At: change.At}
		if !icon.Silent {
			icon.Alert = &Alert{Source: change.Cause.Source, At: change.Cause.At, Item: f.readAlertItem(ctx, change.Cause.ItemID)}
		}
		f.mu.Lock()
		f.icon = icon
		// Closing the channel wakes all waiters. They get the new channel from Icon.
		close(f.changed)
		f.changed = make(chan struct{})
		f.mu.Unlock()
		return
	}
}

// readAlertItem reads the item of an alert; null if it cannot be read. It asks as the viewer, so an alert never shows what its user
// may not see.
func (f *iconUpdater) readAlertItem(ctx context.Context, id string) json.RawMessage {
	var answer struct{ Node json.RawMessage }
	if err := f.host.ask(ctx, viewerKey, readItem, map[string]any{"id": id}, &answer); err != nil {
		f.host.cfg.Log.Debug("the application could not read what an alert is of", "item", id, "error", err)
		return json.RawMessage("null")
	}
	return answer.Node
}

// run reads the change stream until ctx ends.
func (f *iconUpdater) run(ctx context.Context) error {
	return services.Every(ctx, iconUpdateInterval, f.followChanges)
}
