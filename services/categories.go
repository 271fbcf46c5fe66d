package services

import (
	"regexp"
	"slices"
)

// Category is a kind of notification with a count of its own, by its name: one of Categories, or one that the host application
// defined. The host application's names are in lower case, so that they never collide with a name added to Categories later.
type Category string

// The categories.
const (
	CategoryLike     Category = "LIKE"     // likes on the user's posts, grouped by post
	CategoryComment  Category = "COMMENT"  // comments on the user's posts and replies to the user's comments
	CategoryMention  Category = "MENTION"  // posts that mention the user
	CategoryFollow   Category = "FOLLOW"   // new followers
	CategoryReminder Category = "REMINDER" // shows that have started and for which the user has set a reminder
)

// Categories lists every category. A new category is added at the end, because cursors store its index. Its first letter must be
// unique, because documents store that letter. docs/architecture.md says what else a new category needs.
var Categories = []Category{CategoryLike, CategoryComment, CategoryMention, CategoryFollow, CategoryReminder}

// CategoryHost stands for the host application's categories where a client expects one of a fixed list. It is no category.
const CategoryHost Category = "HOST"

// CategoryMode is how a category counts.
type CategoryMode uint8

// The modes.
const (
	CategoryCounted      CategoryMode = iota // a number, which is part of the total
	CategoryDot                              // a dot, which is not part of the total
	CategoryOff                              // no count; its rows stay in the list
	CategoryOutsideTotal                     // a number, which is not part of the total
)

// InTotal reports whether the count of a category in this mode is part of the total, provided that its source is.
func (m CategoryMode) InTotal() bool { return m == CategoryCounted }

// WithUserChoice returns the mode that applies when the definition of a category has mode m and the user has chosen mode. A number
// that the definition keeps out of the total stays out of it.
func (m CategoryMode) WithUserChoice(mode CategoryMode) CategoryMode {
	if m == CategoryOutsideTotal && mode == CategoryCounted {
		return m
	}
	return mode
}

// IsNumber reports whether a category counts as a number.
func (m CategoryMode) IsNumber() bool { return m == CategoryCounted || m == CategoryOutsideTotal }

// HostCategory is a category that the host application defined.
type HostCategory struct {
	ID          int // names its fields in the documents; never reused, so that a later category has no data of a removed one
	Name        Category
	ExpiryDays  int          // the days for which an unseen notification counts: 1 to MaxExpiryDays, or NeverExpires
	Grouped     bool         // the notifications of one group key in one half day are one row
	DefaultMode CategoryMode // for users without a preference; never CategoryOff
}

// HostCategories are the categories that the host application has defined, as of a version. They are immutable; nil is none.
type HostCategories struct {
	Version uint64         // rises with each change of a definition
	List    []HostCategory // in the order in which they were defined
}

// All are the definitions, in the order in which they were made.
func (h *HostCategories) All() []HostCategory {
	if h == nil {
		return nil
	}
	return h.List
}

// VersionOrZero is the version; 0 before the first definition.
func (h *HostCategories) VersionOrZero() uint64 {
	if h == nil {
		return 0
	}
	return h.Version
}

// Find finds a category by its name.
func (h *HostCategories) Find(name Category) (HostCategory, bool) {
	i := slices.IndexFunc(h.All(), func(c HostCategory) bool { return c.Name == name })
	if i < 0 {
		return HostCategory{}, false
	}
	return h.List[i], true
}

// MaxHostCategories bounds how many categories the host application can define: each is two fields of a document.
const MaxHostCategories = 32

// hostCategoryName matches the names of categories of the host application. A name is in lower case and begins with a letter: see
// Category. It is short, because documents hold the names of categories.
var hostCategoryName = regexp.MustCompile(`^[a-z][a-z0-9._-]{0,31}$`)

// CheckHostCategory reports whether a name can be that of a category of the host application. field names the argument in the
// error, which is INVALID.
func CheckHostCategory(field string, name Category) error {
	if !hostCategoryName.MatchString(string(name)) {
		return Errorf(Invalid, "%s: %s is not a name: 1 to 32 of a-z, 0-9, '.', '_' and '-' are allowed, a letter first", field, Quote(string(name)))
	}
	return nil
}

// HasHostCategoryForm reports whether a category has the form of a name of the host application, whether it is defined or not.
func (c Category) HasHostCategoryForm() bool { return hostCategoryName.MatchString(string(c)) }

// CategoryCounts are the absolute counts of one category of notifications, as the facts had them at a version. Unseen groups
// are counted by the day of their newest unseen cause, so that time alone can remove them.
type CategoryCounts struct {
	Category       Category
	HostCategoryID int            // the HostCategory.ID of a category of the host application; 0 for one of Categories
	Version        uint64         // rises with every change of the facts; 0 is before the first
	Newest         NotificationID // the position of the newest notification, 0 if there never was one
	OlderUnseen    int            // unseen groups from before NewestDay-7
	NewestDay      int64          // the day of CountByDay[0]: days since 1970, UTC
	CountByDay     [8]int         // unseen groups of NewestDay, NewestDay-1, ... NewestDay-7
}

// PerCategory is a value for each of Categories.
type PerCategory[T any] struct {
	Like, Comment, Mention, Follow, Reminder T
}

// Of is the value of a category; nil if the category is not in Categories.
func (p *PerCategory[T]) Of(category Category) *T {
	switch category {
	case CategoryLike:
		return &p.Like
	case CategoryComment:
		return &p.Comment
	case CategoryMention:
		return &p.Mention
	case CategoryFollow:
		return &p.Follow
	case CategoryReminder:
		return &p.Reminder
	}
	return nil
}

// OlderCounts are, for each category, the number of unseen groups that left its count because of their age.
type OlderCounts struct{ PerCategory[int] }

// CategoryPositions are, for each category, the position of its newest notification that the counts have; 0 if there never was one.
type CategoryPositions struct{ PerCategory[NotificationID] }

// NotificationCounts are the counts of the notifications. HostCount has the counts of the host application's categories.
type NotificationCounts struct {
	Newest    NotificationID    // the position of the newest notification; 0 if there never was one
	Positions CategoryPositions // of the newest notification of each category; not shown to clients
	Version   uint64            // rises with every change of the list; 0 if it is not known
	Older     OlderCounts       // unseen groups that are too old to count, for each category
	Total     Count             // the sum of the counts that enter it
	PerCategory[Count]
	HostCounts     []CategoryCount // counts of the host application's categories, in the order of HostCategories
	HostCategories *HostCategories // the host application's categories, as they were when the counts were read; nil for none
}

// Equal reports whether clients are shown the same for n as for other. Positions are not shown.
func (n *NotificationCounts) Equal(other *NotificationCounts) bool {
	a, b := *n, *other
	if !slices.Equal(a.HostCounts, b.HostCounts) || a.HostCategories.VersionOrZero() != b.HostCategories.VersionOrZero() {
		return false
	}
	for _, category := range Categories {
		if *a.Of(category) != *b.Of(category) {
			return false
		}
	}
	return a.Newest == b.Newest && a.Version == b.Version && a.Older == b.Older && a.Total == b.Total
}

// HostCount is the count of a category of the host application; nil if HostCounts does not have it.
func (n *NotificationCounts) HostCount(name Category) *CategoryCount {
	for i := range n.HostCounts {
		if n.HostCounts[i].Name == string(name) {
			return &n.HostCounts[i]
		}
	}
	return nil
}

// CategoryCount is the count of one category.
type CategoryCount struct {
	Category Category // one of Categories, or CategoryHost
	Name     string   // the category's own name
	Count    Count
	Older    int            // unseen notifications that are too old to count
	Newest   NotificationID // the position of the newest notification that the count has, 0 if there never was one; not shown
}

// Categories are the counts of all categories, in the order of Categories, and then those of the host application.
func (n *NotificationCounts) Categories() []CategoryCount {
	counts := make([]CategoryCount, len(Categories), len(Categories)+len(n.HostCounts))
	for i, category := range Categories {
		counts[i] = CategoryCount{category, string(category), *n.Of(category), *n.Older.Of(category), *n.Positions.Of(category)}
	}
	return append(counts, n.HostCounts...)
}
