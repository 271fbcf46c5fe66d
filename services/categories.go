package services

// Category is a kind of notification with a count of its own.
type Category string

// The categories.
const (
	CategoryLike     Category = "LIKE"     // likes on the user's posts, grouped by post
	CategoryComment  Category = "COMMENT"  // comments on the user's posts and replies to the user's comments
	CategoryMention  Category = "MENTION"  // posts that mention the user
	CategoryFollow   Category = "FOLLOW"   // new followers
	CategoryReminder Category = "REMINDER" // shows that have started and for which the user has set a reminder
)

// Categories lists every category. A new one comes last, because cursors keep its index, and its first letter is its own, because
// documents keep that.
var Categories = []Category{CategoryLike, CategoryComment, CategoryMention, CategoryFollow, CategoryReminder}

// CategoryCounts are the absolute counts of one category of notifications, as the facts had them at a version. Unseen groups
// are counted by the day of their newest unseen cause, so that time alone can remove them.
type CategoryCounts struct {
	Category Category
	Version  uint64 // rises with every change of the facts; 0 is before the first
	Newest   PostID // the position of the newest notification, 0 if there never was one
	Older    int    // unseen groups from before Day-7
	Day      int64  // days since 1970, UTC
	Days     [8]int // unseen groups of Day, Day-1, ... Day-7
}

// OlderCounts are how many unseen groups of each category left its count because of their age.
type OlderCounts struct {
	Like, Comment, Mention, Follow, Reminder int
}

// Of is the count of a category; nil if unknown.
func (o *OlderCounts) Of(category Category) *int {
	switch category {
	case CategoryLike:
		return &o.Like
	case CategoryComment:
		return &o.Comment
	case CategoryMention:
		return &o.Mention
	case CategoryFollow:
		return &o.Follow
	case CategoryReminder:
		return &o.Reminder
	}
	return nil
}

// NotificationCounts are the counts of the notifications.
type NotificationCounts struct {
	Newest   PostID // the position of the newest notification; 0 if there never was one
	Version  uint64 // rises with every change of the list; 0 if it is not known
	Older    OlderCounts
	Total    Count
	Like     Count
	Comment  Count
	Mention  Count
	Follow   Count
	Reminder Count
}

// Of is the count of a category; nil if unknown.
func (n *NotificationCounts) Of(category Category) *Count {
	switch category {
	case CategoryLike:
		return &n.Like
	case CategoryComment:
		return &n.Comment
	case CategoryMention:
		return &n.Mention
	case CategoryFollow:
		return &n.Follow
	case CategoryReminder:
		return &n.Reminder
	}
	return nil
}

// CategoryCount is the count of one category.
type CategoryCount struct {
	Category Category
	Count    Count
}

// Categories are the counts of all categories, in the order of Categories.
func (n *NotificationCounts) Categories() []CategoryCount {
	counts := make([]CategoryCount, len(Categories))
	for i, category := range Categories {
		counts[i] = CategoryCount{category, *n.Of(category)}
	}
	return counts
}
