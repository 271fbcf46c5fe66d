package nodecache

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/people"
	"tidings/services/posts"
)

// CopyStore stores copies of facts for all nodes: Redis. An error of either method costs the callers a read of SQL, and
// nothing else.
type CopyStore interface {
	Copies(ctx context.Context, posts []services.PostID, users []services.UserID) (map[services.PostID]services.Post, map[services.UserID]services.User, error)
	PutCopies(ctx context.Context, posts []services.Post, users []services.User) error
}

// PostAndUserReader reads posts and people together, so that one round trip to Redis serves both. It is safe for concurrent use.
type PostAndUserReader struct {
	posts     *posts.Memory
	people    *people.Memory
	copies    CopyStore      // Redis
	copyQueue redisCopyQueue // the values that are to be copied to Redis
	log       *slog.Logger
}

// newPostAndUserReader makes a reader. Values that it reads from SQL because Redis has no copy are copied to Redis in the
// background, by a loop and at each poll of the changelog.
func newPostAndUserReader(log *changelog.Follower, posts *posts.Memory, people *people.Memory, copies CopyStore) *PostAndUserReader {
	r := &PostAndUserReader{posts: posts, people: people, copies: copies, copyQueue: newRedisCopyQueue(), log: log.Logger()}
	log.RegisterPollTask(changelog.PollTask{Name: "copies", Phase: changelog.AfterPollRead, Run: r.copyToRedisAtPoll})
	log.RegisterLoop(r.runCopyingToRedis)
	return r
}

// Read reads posts and people: from the cache, then from Redis in one round trip for both kinds, then from SQL in one query for
// each kind. Deleted posts are returned with Deleted set; unknown ids are absent. Without Redis it goes straight to SQL.
func (r *PostAndUserReader) Read(ctx context.Context, posts []services.PostID, users []services.UserID) (map[services.PostID]services.Post, map[services.UserID]services.User, error) {
	return r.read(ctx, posts, users, false)
}

// ReadWithAuthors reads posts and people from the cache, Redis and SQL, as Read does, and the authors of the posts too. Authors that are
// neither in the cache nor in the posts' round trip need a second round trip; all people who are still missing then are read in one
// query.
func (r *PostAndUserReader) ReadWithAuthors(ctx context.Context, posts []services.PostID, users []services.UserID) (map[services.PostID]services.Post, map[services.UserID]services.User, error) {
	return r.read(ctx, posts, users, true)
}

// read reads posts and people, and the authors of the posts too if authors is set. The authors of cached posts are known before the first
// round trip and share it. The authors of other posts are known only when the posts have been read.
func (r *PostAndUserReader) read(ctx context.Context, posts []services.PostID, users []services.UserID, authors bool) (map[services.PostID]services.Post, map[services.UserID]services.User, error) {
	foundPosts, missingPosts := r.posts.GetAll(posts)
	foundUsers, missingUsers := r.people.GetAll(users)
	if authors {
		missingUsers = append(missingUsers, r.missingAuthorsOf(foundPosts, foundUsers, missingUsers)...)
	}
	if len(missingPosts)+len(missingUsers) == 0 {
		return foundPosts, foundUsers, nil
	}
	// Redis is read before SQL, so that a post that many nodes miss is read from SQL once.
	missingPosts, missingUsers = r.readCopies(ctx, foundPosts, foundUsers, missingPosts, missingUsers)
	if len(missingPosts) > 0 {
		if err := r.posts.ReadFacts(ctx, missingPosts, foundPosts); err != nil {
			return nil, nil, err
		}
	}
	if authors {
		// Now that the posts are known, so are their authors.
		if more := r.missingAuthorsOf(foundPosts, foundUsers, missingUsers); len(more) > 0 {
			_, more = r.readCopies(ctx, nil, foundUsers, nil, more)
			missingUsers = append(missingUsers, more...)
		}
	}
	if len(missingUsers) > 0 {
		if err := r.people.ReadFacts(ctx, missingUsers, foundUsers); err != nil {
			return nil, nil, err
		}
	}
	// Only values that Redis lacked are copied: the others came from Redis, or were in the cache.
	r.copyQueue.add(missingPosts, missingUsers)
	return foundPosts, foundUsers, nil
}

// EachCached calls post and user for the posts and people of a page, in the order of the lists, from the cache alone. It ends at the
// first one that is not cached and then returns false: the rest, and all people if it was a post, are left out. The functions must not
// use the cache.
func (r *PostAndUserReader) EachCached(posts []services.PostID, post func(i int, post services.Post), users []services.UserID, user func(i int, user services.User)) (all bool) {
	return r.posts.Each(posts, post) && r.people.Each(users, user)
}

// ReadHosts reads the hosts of shows on a page of the live board, whose caller has its own round trips to Redis for other data. It
// reads from the cache, then from SQL in one query. It asks Redis only when SQL does not answer.
func (r *PostAndUserReader) ReadHosts(ctx context.Context, users []services.UserID) (map[services.UserID]services.User, error) {
	found, missing := r.people.GetAll(users)
	if len(missing) == 0 {
		return found, nil
	}
	err := r.people.ReadFacts(ctx, missing, found)
	if err == nil {
		r.copyQueue.add(nil, missing)
		return found, nil
	}
	if _, missing = r.readCopies(ctx, nil, found, nil, missing); len(missing) > 0 {
		return nil, err
	}
	return found, nil
}

// missingAuthorsOf adds the cached authors of posts to found, and returns the others, without those that are among the missing
// already. It leaves out the authors of deleted posts.
func (r *PostAndUserReader) missingAuthorsOf(posts map[services.PostID]services.Post, found map[services.UserID]services.User, missing []services.UserID) []services.UserID {
	var authors []services.UserID
	for _, post := range posts {
		if _, known := found[post.Author]; !known && !post.Deleted && !slices.Contains(missing, post.Author) {
			authors = append(authors, post.Author)
		}
	}
	if len(authors) == 0 {
		return nil
	}
	known, unknown := r.people.GetAll(authors)
	maps.Copy(found, known)
	return unknown
}

// readCopies reads from Redis in one round trip, and returns what is missing there. After an error of Redis everything counts as
// missing, and is read from SQL.
func (r *PostAndUserReader) readCopies(ctx context.Context, foundPosts map[services.PostID]services.Post, foundUsers map[services.UserID]services.User,
	posts []services.PostID, users []services.UserID) (missingPosts []services.PostID, missingUsers []services.UserID) {
	copiedPosts, copiedUsers, err := r.copies.Copies(ctx, posts, users)
	if err != nil {
		return posts, users
	}
	// AddReadValues leaves out copies that are older than a change that the changelog has reported.
	if len(posts) > 0 {
		posts = r.posts.AddReadValues(foundPosts, copiedPosts, posts)
	}
	if len(users) > 0 {
		users = r.people.AddReadValues(foundUsers, copiedUsers, users)
	}
	return posts, users
}
