package services

import (
	"slices"
	"time"
)

// Source is a part of the badges. The user's display policy decides whether it enters the total.
type Source string

// The sources.
const (
	SourceHomeFeed      Source = "HOME_FEED"
	SourceNotifications Source = "NOTIFICATIONS"
	SourceSiteMessages  Source = "SITE_MESSAGES"
	SourceAnnouncements Source = "ANNOUNCEMENTS"
	SourceConversations Source = "CONVERSATIONS"
	SourceLiveBoard     Source = "LIVE_BOARD"
	SourceViews         Source = "VIEWS"
)

// Sources lists every source, in the order in which the badges show them. Display policies are stored by these positions: a new
// source must come last.
var Sources = []Source{SourceHomeFeed, SourceNotifications, SourceSiteMessages, SourceAnnouncements, SourceConversations, SourceLiveBoard, SourceViews}

// MentionsPart names the part of CONVERSATIONS with the messages that mention the user. The total of CONVERSATIONS includes these
// messages.
const MentionsPart = "MENTIONS"

// PartName is the name of a part of the badges: SOURCE, or SOURCE:PART for a source with several parts.
func PartName(source Source, part string) string {
	if part == "" {
		return string(source)
	}
	return string(source) + ":" + part
}

// InTotalByDefault reports whether a source is in the total by default, for users who have not chosen. Only the first sources are: an
// upgrade that brings a source must not raise the number on anyone's icon.
func (s Source) InTotalByDefault() bool {
	switch s {
	case SourceHomeFeed, SourceNotifications, SourceSiteMessages, SourceAnnouncements, SourceConversations, SourceLiveBoard:
		return true
	default:
		return false
	}
}

// canExpire reports whether a SourceExpiry can name a source: its items then leave the count by age. Notifications have an expiry of
// their own, by category.
func (s Source) canExpire() bool {
	switch s {
	case SourceHomeFeed, SourceSiteMessages, SourceAnnouncements, SourceConversations, SourceLiveBoard:
		return true
	default:
		return false
	}
}

// HasLowBounds reports whether a count of the source that is AT_LEAST may be below the cap of its display: a view counts up to 100 items,
// whatever the cap of the sum of all views is.
func (s Source) HasLowBounds() bool { return s == SourceViews }

// CountField is a field of the badges with the only count of a source.
type CountField struct {
	Source  Source
	Name    string               // in the schema
	CountIn func(*Badges) *Count // finds the field in badges
}

// CountFields are the fields of the sources with a single count, in the order of Badges. Badges.Parts, the hash of pushes and tests take
// them from here. A source with several counts has a type of its own, and a loop in Badges.Parts.
var CountFields = []CountField{
	{SourceHomeFeed, "homeFeed", func(b *Badges) *Count { return &b.HomeFeed }},
	{SourceAnnouncements, "announcements", func(b *Badges) *Count { return &b.Announcements }},
	{SourceLiveBoard, "liveBoard", func(b *Badges) *Count { return &b.LiveBoard }},
	{SourceViews, "views", func(b *Badges) *Count { return &b.Views }},
}

// PackSources packs a set of sources into a number, by their positions in Sources.
func PackSources(sources map[Source]bool) (bits uint64) {
	for source, has := range sources {
		if i := slices.Index(Sources, source); has && i >= 0 {
			bits |= 1 << i
		}
	}
	return bits
}

// UnpackSources is the set that PackSources packed; nil for none.
func UnpackSources(bits uint64) map[Source]bool {
	if bits == 0 {
		return nil
	}
	sources := make(map[Source]bool)
	for i, source := range Sources {
		if bits&(1<<i) != 0 {
			sources[source] = true
		}
	}
	return sources
}

// Badges is a user's whole badge document as shown: every count, their total, one version.
type Badges struct {
	Version       string // rises with every change; compare as text, drop a version that is not greater
	Total         Count
	HomeFeed      Count
	Notifications NotificationCounts
	SiteMessages  MessageCounts
	Announcements Count
	Conversations ConversationCounts
	LiveBoard     Count
	Views         Count
	LiveSequence  uint64    // LiveCount.VersionSum when LiveBoard was counted; not shown
	Dots          []Dot     // every existing dot, by name
	Quiet         bool      // the user's quiet hours: show no number
	NextAt        time.Time // when time alone changes the badges next; zero is never
	Key           string    // of the user, if the viewer is another user; else ""
	Learned       uint64    // the sum of sequences in Version's shared half, without time boundaries: see changelog.Follower.VersionSums
}

// IsNode says that the badges can be fetched by their ID.
func (Badges) IsNode() {}

// BadgePart is one count of the badges: of a source, or of a part of a source with several.
type BadgePart struct {
	Source       Source
	Name         string // of the part, such as a category; "" for the count of a whole source
	Count        *Count
	Older        int    // notifications that are too old to count
	FactsVersion uint64 // differs after each change of the counted facts; 0: not known
}

// Parts yields all counts, without the total and the sums of several parts. It is an iterator: use it without a call in a range loop.
func (b *Badges) Parts(yield func(BadgePart) bool) {
	for _, field := range CountFields {
		if !yield(BadgePart{Source: field.Source, Count: field.CountIn(b)}) {
			return
		}
	}
	for _, category := range Categories {
		if !yield(BadgePart{Source: SourceNotifications, Name: string(category), Count: b.Notifications.Of(category), Older: *b.Notifications.Older.Of(category)}) {
			return
		}
	}
	for i := range b.Notifications.HostCounts {
		one := &b.Notifications.HostCounts[i]
		if !yield(BadgePart{Source: SourceNotifications, Name: one.Name, Count: &one.Count, Older: one.Older}) {
			return
		}
	}
	for i := range b.SiteMessages.Types {
		kind := &b.SiteMessages.Types[i]
		if !yield(BadgePart{Source: SourceSiteMessages, Name: kind.Type, Count: &kind.Count, FactsVersion: kind.Version}) {
			return
		}
	}
	list := &b.Conversations.List
	if yield(BadgePart{Source: SourceConversations, Count: &b.Conversations.Total, FactsVersion: list.DocumentVersion + list.SequenceSum}) {
		yield(BadgePart{Source: SourceConversations, Name: MentionsPart, Count: &b.Conversations.Mentions})
	}
}

// MessageCounts are the counts of the site messages, one for each configured type, in the order of the configuration.
type MessageCounts struct {
	Total Count
	Types []MessageTypeCount
}

// DefaultMessageType is the type of site messages that are sent without a type.
const DefaultMessageType = "general"

// MessageTypeCount is the count of one type of site messages.
type MessageTypeCount struct {
	Type    string
	Count   Count
	Version uint64 // of the facts; not shown. See MessageTypeState
}

// ConversationCounts are the counts over all conversations.
type ConversationCounts struct {
	Total    Count // unread messages, of muted conversations only those that mention the user
	Mentions Count // unread messages that mention the user; part of Total, and so not added to the badges' total again

	List ConversationListVersion // of the user's list of conversations
}

// ConversationListVersion identifies a state of a user's list of conversations: if two are equal, the list has not changed, except by
// messages in conversations that are counted when read, and that the user has muted or has open on a device. The zero value is unknown
// and equals nothing.
type ConversationListVersion struct {
	DocumentVersion uint64 // differs after each change that is written to the user's document
	SequenceSum     uint64 // the sum of the last sequences of the conversations that are counted when read
}

// Dot is a badge without a number, which is lit or not.
type Dot struct {
	Name string
	Lit  bool
}

// MaxCountedSiteMessages bounds the count of one type's unread site messages: a delivery to many users who have thousands each must
// not read them all. With more unread messages the count is this number, AT_LEAST.
const MaxCountedSiteMessages = 1000

// MessageTypeState is the absolute count of one type of site messages, as the facts had it at a version.
type MessageTypeState struct {
	Type        string
	Version     uint64 // rises with every change of the facts; 0 is before the first
	Unread      int
	UnreadByDay DayCounts // of the unread messages, if they leave the count because of their age
}

// AnnouncementState is a user's state in the announcements and dots, as the facts have it.
type AnnouncementState struct {
	Version           uint64 // rises with every change; 0 is before the user's first visit
	Position          uint64 // announcements up to it are read
	DotsDismissedUpTo uint64 // dots raised up to this time (us) count as dismissed; it is the time of the user's first visit
}

// ViewsState is the count of new items in a user's views, as the facts have it.
type ViewsState struct {
	Version uint64 // rises with every change; 0 is before the user's first touch of a view
	Unread  int    // new items
	AtLeast bool   // the true count is Unread or more: at most DisplayCap + 1 items of a view are counted
}

// SegmentState is the segments of a user, as the facts have them.
type SegmentState struct {
	Version uint64 // rises with every change
	Bits    uint64 // one bit for each segment that the user is in
}

// ConversationSums is a document's state of all conversations together.
type ConversationSums struct {
	Unread        int                     // over the conversations counted when written: unmuted ones, and the mentions of muted ones
	Mentions      int                     // unread mentions, over all conversations
	CountedOnRead []CountedOnReadPosition // the conversations counted when read, without the muted ones
	NextExpiryDay int64                   // the day (since 1970) on which a message leaves the sums or positions by age; 0: none does
	Version       uint64                  // differs after each change of the list, except messages counted when read; 0: unknown

	// The following is what the node cache knows of the conversations in CountedOnRead when the badges are rendered.
	CachedUnread      int    // the unread messages, above the positions
	CachedSequenceSum uint64 // the sum of the conversations' last sequences, which rises with each message
	CacheNotLoaded    bool   // the node does not know the last sequences of some of the conversations
}

// CountedOnReadPosition is a user's position in a conversation that is counted when read: the messages after ReadUpTo up to the
// last sequence are unread. A last sequence below ReadUpTo counts as none unread.
type CountedOnReadPosition struct {
	Conversation ConversationID
	ReadUpTo     int64
}

// DisplayPolicy is how a user wants their badges shown, on every device. The zero value is the default: the sources of
// Source.InTotalByDefault are in the total, and each is shown as a number, at every hour.
type DisplayPolicy struct {
	Version          uint64          // rises with every change; 0 is before the first
	InTotalInverted  map[Source]bool // sources that are in the total although by default they are not, or the other way round
	AsDot            map[Source]bool // sources that show a dot instead of their count
	QuietFromMinute  int             // minute of the user's day at which quiet hours begin
	QuietToMinute    int             // the minute at which they end, possibly after midnight; if it is QuietFromMinute, there are none
	UTCOffsetMinutes int             // minutes by which the user's clock is ahead of UTC
}

// InTotal reports whether a source enters the total.
func (p DisplayPolicy) InTotal(source Source) bool {
	return source.InTotalByDefault() != p.InTotalInverted[source]
}

// minutesPerDay is the length of a day. QuietFromMinute and QuietToMinute are below it.
const minutesPerDay = 24 * 60

// Quiet reports whether a moment is in the quiet hours, and when that changes; changesAt is the zero time if there are no quiet hours.
func (p DisplayPolicy) Quiet(now time.Time) (quiet bool, changesAt time.Time) {
	if p.QuietFromMinute == p.QuietToMinute {
		return false, time.Time{}
	}
	offset := time.Duration(p.UTCOffsetMinutes) * time.Minute
	// The user's last midnight, as a moment.
	midnight := now.Add(offset).UTC().Truncate(24 * time.Hour).Add(-offset)
	at := func(minute, days int) time.Time {
		return midnight.Add(time.Duration(minute+days*minutesPerDay) * time.Minute)
	}
	// Hours that began yesterday may extend past midnight into today.
	for days := -1; days <= 1; days++ {
		from, to := at(p.QuietFromMinute, days), at(p.QuietToMinute, days)
		if p.QuietToMinute < p.QuietFromMinute {
			to = at(p.QuietToMinute, days+1)
		}
		switch {
		case now.Before(from):
			return false, from
		case now.Before(to):
			return true, to
		}
	}
	return false, time.Time{} // not reached: tomorrow's hours are ahead
}
