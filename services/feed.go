package services

import "time"

// PostKind is the kind of a post.
type PostKind string

// The kinds of posts.
const (
	PostKindPost    PostKind = "POST"    // a post of its own, the only kind that enters home feeds by default
	PostKindComment PostKind = "COMMENT" // an answer to a post
	PostKindReply   PostKind = "REPLY"   // an answer to a comment or to another reply
)

// PostKinds lists every kind.
var PostKinds = []PostKind{PostKindPost, PostKindComment, PostKindReply}

// AnswerKind is the kind of an answer to a post of kind k.
func (k PostKind) AnswerKind() PostKind {
	if k == PostKindPost {
		return PostKindComment
	}
	return PostKindReply
}

// Post is a post as the facts know it.
type Post struct {
	ID        PostID
	Author    UserID
	Kind      PostKind
	Parent    PostID // the post that it answers; 0: none
	OffFeed   bool   // it enters no home feed, not even its author's
	Pulled    bool   // it is in no inbox except its author's: readers pull it from the node cache
	Body      string // 1 to 5,000 characters
	Deleted   bool
	UpdatedAt time.Time // the last change, to the microsecond: a later copy of the post has a later time
	EditedAt  time.Time // when the body was last edited; the zero time: never
}

// Engagement is a viewer's view of users' actions on a post. The counts are of all users, those hidden from the viewer
// included.
type Engagement struct {
	Likes         int
	Comments      int  // answers to the post itself that are not deleted
	LikedByViewer bool // the viewer likes the post
}

// GlobalID is the post's global id.
func (p Post) GlobalID() string { return GlobalID(PostType, p.ID.String()) }

// MaxBodyCharacters bounds the body of a post.
const MaxBodyCharacters = 5000

// CheckBody reports whether a text is valid as the body of a post: 1 to 5,000 characters that are not all white space.
func CheckBody(body string) error { return CheckFilled("body", body, MaxBodyCharacters) }

// FeedRetention is how many of the newest posts a home feed lists. The count of new posts goes up to this number, or to one above the
// display cap if that is more (badge/source.DisplayCaps.FeedCountLimit). It includes posts that newer posts have pushed off the list.
const FeedRetention = 300

// FeedEntry is one entry of a home feed: a post, and whether it counts as new for this reader. The reader's own posts, and posts
// from before the follow, are listed and do not count.
type FeedEntry struct {
	Post        PostID
	Author      UserID
	CountsAsNew bool // as new for this reader
}

// FollowedAuthor is a followed author that a reader's document names, because the node cache holds the author's items: the posts of
// a huge author, the shows of a host. Items not newer than ItemsCountAfter are listed and do not count. If CountsNothing is set, no
// item counts.
//
// The order of the fields makes it 16 bytes and not 24: each page of a board has a list of all followed hosts, and Go allocates a
// list of more than 32 KB, which 2,000 hosts would then have, from the heap itself.
type FollowedAuthor struct {
	Author          UserID
	CountsNothing   bool       // set for hosts only
	ItemsCountAfter SortableID // only newer items count: posts with a greater ID, shows that went live later
}

// PulledCount is how many unseen posts of pulled authors a reader has, as the node knows at rendering.
type PulledCount struct {
	NewPosts       int    // unseen posts that this node knows of
	AtLeast        bool   // the true number is NewPosts or more
	CacheNotLoaded bool   // some authors are not in the node cache yet: the true number is NewPosts or more
	VersionSum     uint64 // the sum of the authors' versions: it rises with each change
}

// FeedEnd is the reason why a feed ends.
type FeedEnd string

// The ends of a feed.
const (
	EndOfFeed      FeedEnd = "END"       // there is nothing older
	EndOfRetention FeedEnd = "RETENTION" // older posts exist and are not kept in feeds
)
