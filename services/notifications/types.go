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
	First    services.PostID // position of the first cause that it ever had. This is the ID: it stays when causes join or leave
	Place    services.PostID // position of the cause that arrived last: a mark of the shown notification reaches up to here
	Reach    services.PostID // only on the first of a list: position up to which a mark of the whole list reaches, if beyond Place; else 0
	Category services.Category
	Subject  services.PostID   // the post that it is about; REMINDER: the show; FOLLOW: 0; host categories: see HostNotification.subjectOf
	At       time.Time         // when the newest of its causes happened
	Actors   int               // number of users
	Sample   []services.UserID // the newest of these users, at most maxSample
	Seen     bool              // the panel was opened since, or the notification was read: it does not count
	Read     bool
	Older    bool // it was never seen and no longer counts, because of its age

	Host *HostContent // the content, in a category of the host application; else nil
}

// GlobalID is the notification's global id.
func (n Notification) GlobalID() string {
	return services.GlobalID(services.NotificationType, n.First.String())
}

// UpTo formats the position up to which the notification is shown. A mark up to this position leaves out later causes.
func (n Notification) UpTo() string {
	text := services.UpToText(n.Place)
	if n.Reach > n.Place {
		text += n.Reach.String()
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
	Subject  services.PostID
}

// maxSample is the most users that a notification names. The OFFSET 7 of sampleActors is maxSample - 1.
const maxSample = 8

// Cause is a possible reason for a notification: an actor did something that concerns the recipient. The facts decide whether it
// counts. Actor 0 means every actor of that subject; in the host application's categories it means nobody. All fields
// except Moment form the key of its row.
type Cause struct {
	Recipient services.UserID
	Category  services.Category
	Subject   services.PostID // LIKE, COMMENT: the recipient's post; MENTION: the mentioning post; FOLLOW: 0; REMINDER: the show; host categories: see HostNotification.subjectOf
	Actor     services.UserID
	Object    services.PostID `json:",omitempty"` // COMMENT: the comment; host categories: the host notification; else 0

	// Moment is an ID of the time at which the cause happened, if it was reported later. If Moment is 0, the cause gets its position
	// when it is applied. Moment is not part of the cause's key.
	Moment services.PostID `json:",omitempty"`
}

// compare orders causes by their key.
func (c Cause) compare(d Cause) int {
	return cmp.Or(cmp.Compare(c.Recipient, d.Recipient), cmp.Compare(c.Category, d.Category),
		cmp.Compare(c.Subject, d.Subject), cmp.Compare(c.Actor, d.Actor), cmp.Compare(c.Object, d.Object))
}

// everyActor reports whether the cause stands for the causes of all actors: one job of a deleted post withdraws all its likes.
func (c Cause) everyActor() bool { return c.Actor == 0 && !c.Category.IsHostCategory() }

// post is the post or host notification that is the cause, 0 if there is none. Its ID is more precise than the cause's time.
func (c Cause) post() services.PostID {
	if c.Category == services.CategoryMention {
		return c.Subject
	}
	return c.Object
}

// Expiry is the number of whole days after its own day for which an unseen notification of a category stays in the count: 1 to
// MaxExpiryDays, or Never. Categories that are not listed have the default.
type Expiry map[services.Category]int

// oldestDay is the first day (since 1970, UTC) whose notifications count today. Count, list and SQL all use it. A category that
// is not listed keeps the default.
func (e Expiry) oldestDay(category services.Category, today int64) int64 {
	days, listed := e[category]
	switch {
	case !listed:
		return today - services.MaxExpiryDays
	case days == services.Never:
		return math.MinInt32 // before every day, even when counted in half days
	default:
		return today - int64(days)
	}
}

// withHosts returns e with the expiries of the host application's categories added.
func (e Expiry) withHosts(hosts *services.HostCategories) Expiry {
	// Without host categories, the common case, the map is shared: nobody writes it.
	if len(hosts.All()) == 0 {
		return e
	}
	all := make(Expiry, len(e)+len(hosts.All()))
	maps.Copy(all, e)
	for _, host := range hosts.All() {
		all[host.Name] = host.Expiry
	}
	return all
}

// splitByExpiry splits the unseen groups of a category into those that count today and the older ones. counts may be of an earlier
// day: its Days go back from that day.
func (e Expiry) splitByExpiry(counts services.CategoryCounts, today int64) (value, older int) {
	oldest := e.oldestDay(counts.Category, today)
	value, older = 0, counts.Older
	// With Never, the groups that are older than all of Days count too.
	if oldest == math.MinInt32 {
		value, older = counts.Older, 0
	}
	for i, groups := range counts.Days {
		if counts.Day-int64(i) >= oldest {
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
			checked = append(checked, hostNames(hosts.All())...)
			continue
		// This is also the error for a category that another node has just defined, until the changelog brings it to this node.
		case category.IsHostCategory() && !defined:
			return nil, services.Errorf(services.Invalid, "hostCategories: %s is not a category of the host application", services.Quote(string(category)))
		case !category.IsHostCategory() && !slices.Contains(services.Categories, category):
			return nil, services.Errorf(services.Invalid, "%s: %s is not a category of notifications: expected one of %v", field, services.Quote(string(category)), services.Categories)
		}
		checked = append(checked, category)
	}
	// The result is sorted for the locks and the ranges of a list. CategoryHost together with one of its names gives duplicates.
	return slices.Compact(slices.Sorted(slices.Values(checked))), nil
}
