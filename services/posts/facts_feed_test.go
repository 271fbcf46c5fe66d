package posts

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// feedModel is a home feed in the simplest form: a scan of everything that was ever posted.
type feedModel struct {
	reader        services.UserID
	followedSince map[services.UserID]services.PostID // the followed authors
	muted         map[services.UserID]bool            // the authors that the reader mutes
	hidingAuthors map[services.UserID]bool            // the authors who hide from the reader
	posts         []services.Post                     // the oldest first
	deletedPosts  map[services.PostID]bool
	inboxOnly     bool // only what an inbox has: pushed posts and own posts
}

// feedEntries are the entries of the feed, the newest first.
func (m *feedModel) feedEntries() (entries []services.FeedEntry) {
	for _, post := range slices.Backward(m.posts) {
		since, follows := m.followedSince[post.Author]
		own := post.Author == m.reader
		shown := follows && !m.muted[post.Author] && !m.hidingAuthors[post.Author]
		if (shown || own) && !m.deletedPosts[post.ID] && (own || !post.Pulled || !m.inboxOnly) {
			entries = append(entries, services.FeedEntry{Post: post.ID, Author: post.Author, CountsAsNew: !own && post.ID > since})
		}
	}
	return entries
}

// page is the model of HomeFeed.
func (m *feedModel) page(before services.PostID, limit int) (page []services.FeedEntry) {
	for _, entry := range m.feedEntries() {
		if entry.Post < before && len(page) < limit {
			page = append(page, entry)
		}
	}
	return page
}

// countNew is the model of CountNew for the reader.
func (m *feedModel) countNew(seen services.PostID, limit int) (count int) {
	for _, entry := range m.feedEntries() {
		if entry.CountsAsNew && entry.Post > seen && count < limit {
			count++
		}
	}
	return count
}

// unreadEntries are the entries that UnreadFeed returns.
func (m *feedModel) unreadEntries(seen services.PostID, limit int) (entries []services.FeedEntry) {
	for _, entry := range m.feedEntries() {
		if entry.CountsAsNew && entry.Post > seen && len(entries) < limit {
			entries = append(entries, entry)
		}
	}
	return entries
}

// newestCountingPost is the model of NewestCountingPost.
func (m *feedModel) newestCountingPost(upTo services.PostID) services.PostID {
	for _, entry := range m.feedEntries() {
		if entry.CountsAsNew && entry.Post <= upTo {
			return entry.Post
		}
	}
	return 0
}

// TestFeedAgainstModel follows, restricts, posts and deletes at random, and compares the reads of a feed with the model. Each
// history has its own users and IDs, so that all share one database.
func TestFeedAgainstModel(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		var histories atomic.Int64
		var lastID services.PostID = 100
		rapid.Check(b.T, func(t *rapid.T) {
			history := histories.Add(1)
			var keys []string
			for n := range rapid.IntRange(1, 12).Draw(t, "authors") + 1 {
				keys = append(keys, fmt.Sprintf("h%d-%d", history, n))
			}
			users := b.MakeUsers(keys...)
			m := &feedModel{reader: users[0], followedSince: map[services.UserID]services.PostID{}, deletedPosts: map[services.PostID]bool{},
				muted: map[services.UserID]bool{}, hidingAuthors: map[services.UserID]bool{}}
			first := lastID
			steps := rapid.SliceOfN(rapid.IntRange(-2, 9), 1, 60).Draw(t, "steps")
			b.MustWrite(func(tx *sql.Tx) error {
				for _, step := range steps {
					if err := m.runStep(b, t, tx, step, users, &lastID); err != nil {
						return err
					}
				}
				return nil
			})
			position := rapid.Uint64Range(uint64(first), uint64(lastID)+1)
			limit := rapid.IntRange(1, 15).Draw(t, "limit")
			before, seen := services.PostID(position.Draw(t, "before")), services.PostID(position.Draw(t, "seen"))
			for _, before := range []services.PostID{before, services.MaxPostID} {
				sqltest.Equal(t, sqltest.Must(HomeFeed(b.Ctx, b.DB, m.reader, before, limit))(t), m.page(before, limit))
			}
			sqltest.Equal(t, b.countNew(m.reader, seen, limit), m.countNew(seen, limit))
			sqltest.Equal(t, b.countNew(m.reader, 0, 1000), m.countNew(0, 1000))
			sqltest.Equal(t, sqltest.Must(UnreadFeed(b.Ctx, b.DB, m.reader, seen, limit))(t), m.unreadEntries(seen, limit))
			sqltest.Equal(t, sqltest.Must(UnreadFeed(b.Ctx, b.DB, m.reader, 0, 1000))(t), m.unreadEntries(0, 1000))
			m.checkNewestOfFeed(b, t)
			m.inboxOnly = true
			for _, before := range []services.PostID{before, services.MaxPostID} {
				sqltest.Equal(t, sqltest.Must(InboxFeed(b.Ctx, b.DB, m.reader, before, limit))(t), m.page(before, limit))
				sqltest.Equal(t, sqltest.Must(NewestCountingPost(b.Ctx, b.DB, m.reader, before))(t), m.newestCountingPost(before))
			}
			sqltest.Equal(t, sqltest.Must(CountNewPushed(b.Ctx, b.DB, m.reader, seen, limit))(t), m.countNew(seen, limit))
			sqltest.Equal(t, sqltest.Must(CountNewPushed(b.Ctx, b.DB, m.reader, 0, 1000))(t), m.countNew(0, 1000))
			m.checkPulledPosts(b, t, users, limit)
		})
	})
}

// countNew counts the new posts of one reader.
func (b *testDB) countNew(reader services.UserID, seen services.PostID, limit int) int {
	b.T.Helper()
	return sqltest.Must(CountNew(b.Ctx, b.DB, []FeedReader{{reader, seen}}, limit))(b.T)[0]
}

// checkNewestOfFeed compares NewestOfFeed with the model.
func (m *feedModel) checkNewestOfFeed(b *testDB, t *rapid.T) {
	var want services.PostID
	for _, entry := range m.page(services.MaxPostID, 1) {
		want = entry.Post
	}
	b.MustWrite(func(tx *sql.Tx) error {
		newest, err := NewestOfFeed(b.Ctx, tx, m.reader)
		sqltest.Equal(t, newest, want)
		return err
	})
}

// checkPulledPosts compares Pulled with the model. Nodes cache these posts.
func (m *feedModel) checkPulledPosts(b *testDB, t *rapid.T, users []services.UserID, limit int) {
	want := map[services.UserID]PulledPosts{}
	for _, post := range m.posts {
		known := want[post.Author]
		if !post.Pulled || m.deletedPosts[post.ID] {
			continue
		}
		if known.Posts = append(known.Posts, post.ID); len(known.Posts) > limit {
			known.NextOlder, known.Posts = known.Posts[0], known.Posts[1:]
		}
		want[post.Author] = known
	}
	got := sqltest.Must(Pulled(b.Ctx, b.DB, users, limit))(t)
	maps.DeleteFunc(got, func(_ services.UserID, known PulledPosts) bool { return len(known.Posts) == 0 })
	sqltest.Equal(t, got, want)
	for author := range want {
		if !sqltest.Must(IsPullAuthor(b.Ctx, b.DB, author))(t) {
			t.Fatalf("author %d has pulled posts and is no pull author", author)
		}
	}
}

// runStep does one random step, whose kind is the number step, in the database and in the model. Its transaction runs only once,
// because nothing conflicts with it.
func (m *feedModel) runStep(b *testDB, t *rapid.T, tx *sql.Tx, step int, users []services.UserID, lastID *services.PostID) error {
	someone := rapid.SampledFrom(users)
	switch {
	case step < 0: // mute or hide, or end it
		author, is := someone.Draw(t, "author"), m.muted
		r := services.Restriction{Kind: services.Mute, Owner: m.reader, Other: author, MadeAt: services.SortableID(*lastID)}
		if step == -2 {
			r, is = services.Restriction{Kind: services.Hide, Owner: author, Other: m.reader, MadeAt: services.SortableID(*lastID)}, m.hidingAuthors
		}
		*lastID++
		if is[author] = !is[author]; is[author] {
			_, err := people.Restrict(b.Ctx, tx, r)
			return err
		}
		_, err := people.Unrestrict(b.Ctx, tx, r)
		return err
	case step == 0: // unfollow
		author := someone.Draw(t, "author")
		delete(m.followedSince, author)
		_, err := people.DeleteFollow(b.Ctx, tx, m.reader, author)
		return err
	case step <= 2: // follow, from some post on
		author := someone.Draw(t, "author")
		since := services.PostID(rapid.Uint64Range(0, uint64(*lastID)+3).Draw(t, "since"))
		if _, follows := m.followedSince[author]; !follows && author != m.reader {
			m.followedSince[author] = since
			_, err := people.InsertFollow(b.Ctx, tx, services.FollowEdge{Follower: m.reader, Followee: author, PostsCountAfter: since})
			return err
		}
		return nil
	case step == 3 && len(m.posts) > 0: // delete
		post := rapid.SampledFrom(m.posts).Draw(t, "post")
		m.deletedPosts[post.ID] = true
		_, _, err := Delete(b.Ctx, tx, post.ID)
		return err
	case step == 4: // change the mode of an author, or of the reader
		author := services.Author{ID: someone.Draw(t, "author"), Mode: services.AuthorMode(rapid.IntRange(0, 2).Draw(t, "mode"))}
		known, err := LockAuthor(b.Ctx, tx, author.ID)
		if err != nil {
			return err
		}
		author.NamedInFollowerDocuments = known.NamedInFollowerDocuments
		_, err = PutAuthor(b.Ctx, tx, author)
		return err
	default: // one author posts more than the others
		author := users[len(users)-1]
		if step > 5 {
			author = someone.Draw(t, "author")
		}
		*lastID++
		mode, err := ModeOf(b.Ctx, tx.Runner, author)
		if err != nil {
			return err
		}
		post := services.Post{ID: *lastID, Author: author, Kind: services.PostKindPost, Body: "b", Pulled: mode == services.AuthorHuge}
		m.posts = append(m.posts, post)
		return Insert(b.Ctx, tx, post)
	}
}

func TestHomeFeedOfManyAuthors(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		m := &feedModel{reader: 1, followedSince: map[services.UserID]services.PostID{}}
		var edges []services.FollowEdge
		for n := services.UserID(2); n <= 400; n++ {
			m.followedSince[n] = services.PostID(n * 7)
			edges = append(edges, services.FollowEdge{Follower: 1, Followee: n, PostsCountAfter: m.followedSince[n]})
		}
		b.MakeFollows(edges...)
		b.MustWrite(func(tx *sql.Tx) error {
			m.posts = nil
			for id := services.PostID(1); id <= 3000; id++ {
				author := services.UserID(1 + id*id%400)
				if id%3 == 0 {
					author = 77 // an author with very many posts
				}
				m.posts = append(m.posts, services.Post{ID: id, Author: author})
				if err := Insert(b.Ctx, tx, services.Post{ID: id, Author: author, Kind: services.PostKindPost, Body: "b"}); err != nil {
					return err
				}
			}
			return nil
		})
		for _, limit := range []int{1, 20, 300, 5000} {
			for _, before := range []services.PostID{0, 1, 50, 1500, services.MaxPostID} {
				sqltest.Equal(b.T, sqltest.Must(HomeFeed(b.Ctx, b.DB, 1, before, limit))(b.T), m.page(before, limit))
			}
		}
		sqltest.Equal(b.T, b.countNew(1, 0, 301), m.countNew(0, 301))
		sqltest.Equal(b.T, b.countNew(1, 0, 10000), m.countNew(0, 10000))
		sqltest.Equal(b.T, len(sqltest.Must(HomeFeed(b.Ctx, b.DB, 1, services.MaxPostID, 0))(b.T)), 0)
		sqltest.Equal(b.T, len(sqltest.Must(HomeFeed(b.Ctx, b.DB, 999, services.MaxPostID, 20))(b.T)), 0)
	})
}

// A self-follow, which an import may contain, changes nothing: own posts are listed once and never count.
func TestASelfFollowChangesNothing(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.MakeFollows(services.FollowEdge{Follower: 1, Followee: 1})
		b.insertPosts(1, 5, 6)
		sqltest.Equal(b.T, sqltest.Must(HomeFeed(b.Ctx, b.DB, 1, services.MaxPostID, 10))(b.T), []services.FeedEntry{{Post: 6, Author: 1}, {Post: 5, Author: 1}})
		sqltest.Equal(b.T, b.countNew(1, 0, 10), 0)
		sqltest.Equal(b.T, sqltest.Must(NewestCountingPost(b.Ctx, b.DB, 1, services.MaxPostID))(b.T), services.PostID(0))
	})
}
