package posts

import (
	"math"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// ShownPost is a post with its author, its counts, and whether the viewer likes it.
type ShownPost struct {
	services.Post
	By services.User // the author
	services.Engagement
}

// ListPageRequest asks for a page of a list of users' acts on a post, the newest first: the items after a position. It is comparable,
// because it is a key in a loader's batch.
type ListPageRequest[P comparable] struct {
	Post  services.PostID
	After P   // the position that the page follows
	Size  int // the most items of the page
}

// List is the page that a ListPageRequest asks for.
type List[P comparable, T any] = services.ListPage[P, T]

// Answers are listed by their id: an older answer comes after a newer one. services.MaxPostID is before all answers.
type (
	AnswersPage = ListPageRequest[services.PostID]
	AnswerList  = List[services.PostID, ShownPost]
)

// Likes are listed by LikePosition: an older like comes after a newer one.
type (
	LikesPage = ListPageRequest[LikePosition]
	LikeList  = List[LikePosition, Like]
)

// Like is a user's like of a post.
type Like struct {
	By services.User
	At time.Time
}

// Position is the position of the like in its list.
func (l Like) Position() LikePosition { return LikePosition{l.At, l.By.ID} }

// LikePosition is the position of a like in the list of a post: its time, and then the user.
type LikePosition struct {
	At    time.Time
	Liker services.UserID
}

// BeforeFirstLike is the position before the first like of a list. Lists begin with the newest like, so its time is the latest
// possible.
var BeforeFirstLike = LikePosition{At: sql.FromMicros(math.MaxInt64)}

// engagementRecount is the counts of a post as they are kept, and as the facts have them at the same moment.
type engagementRecount struct {
	Post          services.PostID
	Stored, Facts services.Engagement // without LikedByViewer
}

// matches reports whether the kept counts equal the counts of the facts.
func (r engagementRecount) matches() bool { return r.Stored == r.Facts }

// PulledPosts are an author's newest pulled posts, as nodes keep them.
type PulledPosts struct {
	Posts            []services.PostID // the oldest first
	NextOlder        services.PostID   // the newest pulled post that is older than Posts, 0 when there is none
	ChangelogVersion uint64            // the version of the changelog at the last change, 0 when there was none
}

// InFlightFanout is a fan-out of a post in more than one chunk that is not done.
type InFlightFanout struct {
	Post   services.PostID `json:"post"`
	Author services.UserID `json:"author"`
}

// Mention is a user that a post mentions.
type Mention struct {
	User       services.UserID
	EditTimeID services.SortableID // an ID of the time of the edit by which the post mentions the user; 0: since it was published
}
