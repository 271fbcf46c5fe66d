package notifications

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"tidings/services"
)

// Notification is one entry of a user's list: the actions of some users on one subject within one half day. It is stored as a
// group and its causes.
type Notification struct {
	ID             services.NotificationID // position of the first cause that it ever had; it stays when causes join or leave
	NewestPosition services.NotificationID // position of the cause that arrived last: a mark of the shown notification reaches up to here
	MarkAllUpTo    services.NotificationID // only on the first of a list: where a mark of the whole list ends, if after NewestPosition; else 0
	Category       services.Category
	Subject        services.SortableID // the post; REMINDER: the show; FOLLOW: 0; host categories: host notification or a group key's hash
	At             time.Time           // when the newest of its causes happened
	ActorCount     int                 // number of users
	SampleActors   []services.UserID   // the newest of these users, at most maxSampleActors
	Seen           bool                // the panel was opened since, or the notification was read: it does not count
	Read           bool
	ExpiredUnseen  bool // it was never seen and no longer counts, because of its age

	Host *HostNotificationContent // the content, in a category of the host application; else nil
}

// GlobalID is the notification's global id.
func (n Notification) GlobalID() string {
	return services.GlobalID(services.NotificationType, n.ID.String())
}

// UpTo formats the position up to which the notification is shown. A mark up to this position leaves out later causes.
func (n Notification) UpTo() string {
	text := services.FormatNotificationUpTo(n.NewestPosition)
	if n.MarkAllUpTo > n.NewestPosition {
		text += n.MarkAllUpTo.String()
	}
	return text
}

// Position is the notification's position in its list.
func (n Notification) Position() Position { return Position{n.At, n.Category, n.Subject} }

// Position is the position of a notification in its list, the newest first: by the time of its newest cause, then by category and
// subject. It depends on the facts alone, and not on the order in which they arrived, so all nodes list in the same order. The
// zero position is before the first.
type Position struct {
	At       time.Time
	Category services.Category
	Subject  services.SortableID
}

// maxSampleActors is the most users that a notification names. The OFFSET 7 of sampleActors is maxSampleActors - 1.
const maxSampleActors = 8

// Cause is a possible reason for a notification: an actor did something that concerns the recipient. The facts decide whether it
// counts. Actor 0 means every actor of that subject; in the host application's categories it means nobody. The subject of LIKE and
// COMMENT is the recipient's post, and that of MENTION the mentioning post. All fields except Moment form the key of its row.
type Cause struct {
	Recipient services.UserID
	Category  services.Category
	Subject   services.SortableID // a post; FOLLOW: 0; REMINDER: the show; host categories: the host notification or a group key's hash
	Actor     services.UserID
	Object    services.SortableID `json:",omitempty"` // COMMENT: the comment; host categories: the host notification; else 0

	// Moment is an ID of the time at which the cause happened, if it was reported later. If Moment is 0, the cause gets its position
	// when it is applied. Moment is not part of the cause's key.
	Moment services.SortableID `json:",omitempty"`
}

// compare orders causes by their key.
func (c Cause) compare(d Cause) int {
	return cmp.Or(cmp.Compare(c.Recipient, d.Recipient), cmp.Compare(c.Category, d.Category),
		cmp.Compare(c.Subject, d.Subject), cmp.Compare(c.Actor, d.Actor), cmp.Compare(c.Object, d.Object))
}

// namedUsers are the users that the cause names.
func (c Cause) namedUsers() []services.UserID { return []services.UserID{c.Recipient, c.Actor} }

// standsForAllActors reports whether the cause stands for the causes of all actors: one job of a deleted post withdraws all its likes.
func (c Cause) standsForAllActors() bool { return c.Actor == 0 && !c.Category.HasHostCategoryForm() }

// causingPost is the post or host notification that is the cause, 0 if there is none. Its ID is more precise than the cause's time.
func (c Cause) causingPost() services.SortableID {
	if c.Category == services.CategoryMention {
		return c.Subject
	}
	return c.Object
}

// ExpiryDays is the number of whole days after its own day for which an unseen notification of a category stays in the count: 1 to
// MaxExpiryDays, or NeverExpires. Categories that are not listed have the default.
type ExpiryDays map[services.Category]int

// oldestCountedDay is the first day (since 1970, UTC) whose notifications count today. Count, list and SQL all use it. A category that
// is not listed keeps the default.
func (e ExpiryDays) oldestCountedDay(category services.Category, today int64) int64 {
	days, listed := e[category]
	switch {
	case !listed:
		return today - services.MaxExpiryDays
	case days == services.NeverExpires:
		return math.MinInt32 // before every day, even when counted in half days
	default:
		return today - int64(days)
	}
}

// withHostCategories returns e with the expiries of the host application's categories added.
func (e ExpiryDays) withHostCategories(hosts *services.HostCategories) ExpiryDays {
	// Without host categories, the common case, the map is shared: nobody writes it.
	if len(hosts.All()) == 0 {
		return e
	}
	all := make(ExpiryDays, len(e)+len(hosts.All()))
	maps.Copy(all, e)
	for _, host := range hosts.All() {
		all[host.Name] = host.ExpiryDays
	}
	return all
}

// splitByExpiry splits the unseen groups of a category into those that count today and the older ones. counts may be of an earlier
// day: its CountByDay goes back from that day.
func (e ExpiryDays) splitByExpiry(counts services.CategoryCounts, today int64) (value, older int) {
	oldest := e.oldestCountedDay(counts.Category, today)
	value, older = 0, counts.OlderUnseen
	// With NeverExpires, the groups that are older than all of CountByDay count too.
	if oldest == math.MinInt32 {
		value, older = counts.OlderUnseen, 0
	}
	for i, groups := range counts.CountByDay {
		if counts.NewestDay-int64(i) >= oldest {
			value += groups
		} else {
			older += groups
		}
	}
	return value, older
}

// checkCategories checks that each is a category, and returns them sorted without duplicates; for nil it returns all.
// CategoryHost is replaced by all categories of the host application. An empty list is INVALID: a client whose filter left no
// category does not mean all.
func (s *Service) checkCategories(field string, categories []services.Category) ([]services.Category, error) {
	switch {
	case categories == nil:
		return slices.Sorted(slices.Values(s.Memory.allCategories())), nil
	case len(categories) == 0:
		return nil, services.Errorf(services.Invalid, "%s: at least one is needed; leave it out for all", field)
	}
	hosts, checked := s.Memory.Current(), make([]services.Category, 0, len(categories))
	for _, category := range categories {
		_, defined := hosts.Find(category)
		switch {
		case category == services.CategoryHost:
			checked = append(checked, hostCategoryNames(hosts.All())...)
			continue
		// This is also the error for a category that another node has just defined, until the changelog brings it to this node.
		case category.HasHostCategoryForm() && !defined:
			return nil, services.Errorf(services.Invalid, "hostCategories: %s is not a category of the host application", services.Quote(string(category)))
		case !category.HasHostCategoryForm() && !slices.Contains(services.Categories, category):
			return nil, services.Errorf(services.Invalid, "%s: %s is not a category of notifications: expected one of %v", field, services.Quote(string(category)), services.Categories)
		}
		checked = append(checked, category)
	}
	// The result is sorted for the locks and the ranges of a list. CategoryHost together with one of its names gives duplicates.
	return slices.Compact(slices.Sorted(slices.Values(checked))), nil
}
