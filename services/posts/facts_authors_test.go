package posts

import (
	"errors"
	"math"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// writeAuthor writes an author's row and returns its version.
func (b *testDB) writeAuthor(author services.Author) (version uint64) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) (err error) {
		version, err = PutAuthor(b.Ctx, tx, author)
		return err
	})
	return version
}

func TestAuthors(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		sqltest.Equal(b.T, sqltest.Must(ModeOf(b.Ctx, b.DB.Runner, 7))(b.T), services.AuthorSmall)
		sqltest.Equal(b.T, sqltest.Must(Authors(b.Ctx, b.DB, []services.UserID{7, 8}))(b.T), map[services.UserID]services.Author{})
		b.MustWrite(func(tx *sql.Tx) error {
			author, err := LockAuthor(b.Ctx, tx, 7)
			sqltest.Equal(b.T, author, services.Author{ID: 7})
			return err
		})
		pinned := services.AuthorBig
		big := services.Author{ID: 7, Followers: 5000, Mode: services.AuthorBig, Pinned: &pinned, FollowerChunksToName: 2, CountedAt: b.Clock.Now()}
		sqltest.Equal(b.T, b.writeAuthor(big), uint64(1))
		sqltest.Equal(b.T, b.writeAuthor(big), uint64(2))
		big.Version = 2
		huge := services.Author{ID: 1<<32 - 1, Followers: 1_000_000, Mode: services.AuthorHuge}
		b.writeAuthor(huge)
		huge.NamedInFollowerDocuments, huge.Version = true, 1 // a huge author is listed in their followers' documents
		sqltest.Equal(b.T, sqltest.Must(Authors(b.Ctx, b.DB, []services.UserID{7, 8, huge.ID}))(b.T), map[services.UserID]services.Author{7: big, huge.ID: huge})
		b.MustWrite(func(tx *sql.Tx) error {
			author, err := LockAuthor(b.Ctx, tx, huge.ID)
			sqltest.Equal(b.T, author, huge)
			mode, err2 := ModeOf(b.Ctx, tx.Runner, huge.ID)
			sqltest.Equal(b.T, mode, services.AuthorHuge)
			if err == nil {
				err = err2
			}
			return err
		})
		big.Pinned = nil
		b.writeAuthor(big)
		sqltest.Equal(b.T, sqltest.Must(Authors(b.Ctx, b.DB, []services.UserID{7}))(b.T)[7].Pinned, (*services.AuthorMode)(nil))
	})
}

func TestPullAuthorsOfAReader(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.MakeFollows(services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: 20}, services.FollowEdge{Follower: 1, Followee: 3, PostsCountAfter: 30},
			services.FollowEdge{Follower: 1, Followee: 4, PostsCountAfter: 40}, services.FollowEdge{Follower: 1, Followee: 1, PostsCountAfter: 10}, services.FollowEdge{Follower: 9, Followee: 4, PostsCountAfter: 90})
		for _, author := range []services.Author{
			{ID: 1, Mode: services.AuthorHuge}, {ID: 2, Mode: services.AuthorHuge}, {ID: 3, Mode: services.AuthorBig},
			{ID: 4, Mode: services.AuthorSmall, NamedInFollowerDocuments: true}, {ID: 5, Mode: services.AuthorHuge},
		} {
			b.writeAuthor(author)
		}
		sqltest.Equal(b.T, sqltest.Must(PullAuthorsOf(b.Ctx, b.DB, 1))(b.T), []services.FollowedAuthor{{Author: 2, ItemsCountAfter: 20}, {Author: 4, ItemsCountAfter: 40}})
		sqltest.Equal(b.T, len(sqltest.Must(PullAuthorsOf(b.Ctx, b.DB, 3))(b.T)), 0)
		sqltest.Equal(b.T, sqltest.Must(PullAuthors(b.Ctx, b.DB, 0, 10))(b.T), []services.UserID{1, 2, 4, 5})
		sqltest.Equal(b.T, sqltest.Must(PullAuthors(b.Ctx, b.DB, 1, 2))(b.T), []services.UserID{2, 4})
		sqltest.Equal(b.T, sqltest.Must(IsPullAuthor(b.Ctx, b.DB, 4))(b.T), true)
		sqltest.Equal(b.T, sqltest.Must(IsPullAuthor(b.Ctx, b.DB, 3))(b.T), false)
		sqltest.Equal(b.T, sqltest.Must(IsPullAuthor(b.Ctx, b.DB, 77))(b.T), false)
	})
}

func TestCountFollowers(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		for follower := services.UserID(1); follower <= 9; follower++ {
			b.MakeFollows(services.FollowEdge{Follower: follower, Followee: 100})
		}
		for limit, want := range map[int]int{5: 5, 9: 9, 10: 9, 1_000_000: 9} {
			sqltest.Equal(b.T, sqltest.Must(CountFollowers(b.Ctx, b.DB, 100, limit))(b.T), want)
		}
		sqltest.Equal(b.T, sqltest.Must(CountFollowers(b.Ctx, b.DB, 1, 10))(b.T), 0)
	})
}

func TestThresholds(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		_, set, err := ReadThresholds(b.Ctx, b.DB)
		if set || err != nil {
			b.T.Fatalf("thresholds stand before anybody set them: %v", err)
		}
		for _, thresholds := range []services.FollowerThresholds{{Big: 5, Huge: 10}, {Big: math.MaxInt32, Huge: math.MaxInt32}} {
			b.MustWrite(func(tx *sql.Tx) error { return SetThresholds(b.Ctx, tx, thresholds) })
			got, set, err := ReadThresholds(b.Ctx, b.DB)
			if !set || err != nil || got != thresholds {
				b.T.Errorf("the thresholds are %v (%v, %v), want %v", got, set, err, thresholds)
			}
		}
	})
}

func TestInFlightFanouts(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		first, second := InFlightFanout{Post: 5, Author: 1}, InFlightFanout{Post: 6, Author: 2}
		begin := func(fanout InFlightFanout, chunks int) {
			b.MustWrite(func(tx *sql.Tx) error { return BeginFanout(b.Ctx, tx, fanout, chunks) })
		}
		end := func(post services.PostID) (left int) {
			b.MustWrite(func(tx *sql.Tx) (err error) {
				left, err = EndFanoutChunk(b.Ctx, tx, post)
				return err
			})
			return left
		}
		begin(second, 1)
		b.Clock.Advance(time.Minute)
		begin(first, 2)
		begin(first, 9) // changes nothing
		sqltest.Equal(b.T, sqltest.Must(InFlightFanouts(b.Ctx, b.DB))(b.T), []InFlightFanout{first, second})
		b.MustWrite(func(tx *sql.Tx) error {
			return errors.Join(ResizeFanout(b.Ctx, tx, 5, 3), ResizeFanout(b.Ctx, tx, 77, 3))
		})
		sqltest.Equal(b.T, []int{end(5), end(5), end(5), end(5), end(77)}, []int{2, 1, 0, -1, -1})
		sqltest.Equal(b.T, sqltest.Must(InFlightFanouts(b.Ctx, b.DB))(b.T), []InFlightFanout{second})
		begin(first, 2)
		b.MustWrite(func(tx *sql.Tx) error {
			gone, err := ForgetFanouts(b.Ctx, tx, b.Clock.Now())
			sqltest.Equal(b.T, gone, []InFlightFanout{second})
			return err
		})
		sqltest.Equal(b.T, sqltest.Must(InFlightFanouts(b.Ctx, b.DB))(b.T), []InFlightFanout{first})
	})
}

// DecrementUnnamedChunks reports the last of an author's chunks of followers, and reports it once.
func TestTheLastChunkOfAnAuthorIsReportedOnce(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.writeAuthor(services.Author{ID: 7, Mode: services.AuthorBig, NamedInFollowerDocuments: true, FollowerChunksToName: 2})
		end := func() (last bool) {
			b.MustWrite(func(tx *sql.Tx) (err error) {
				last, err = DecrementUnnamedChunks(b.Ctx, tx, 7)
				return err
			})
			return last
		}
		sqltest.Equal(b.T, []bool{end(), end(), end()}, []bool{false, true, false}) // one end too many changes nothing
		got := sqltest.Must(Authors(b.Ctx, b.DB, []services.UserID{7}))(b.T)[7]
		sqltest.Equal(b.T, got, services.Author{ID: 7, Mode: services.AuthorBig, NamedInFollowerDocuments: true, Version: 3})
	})
}

func TestAuthorsForModeChecks(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		for follower := services.UserID(1); follower <= 5; follower++ {
			for followee := services.UserID(100); followee < 100+follower; followee++ {
				b.MakeFollows(services.FollowEdge{Follower: follower, Followee: followee}) // 100 has 5 followers, 101 has 4, ..., 104 has 1
			}
		}
		b.writeAuthor(services.Author{ID: 104})
		b.writeAuthor(services.Author{ID: 7})
		sqltest.Equal(b.T, sqltest.Must(AuthorsForModeCheck(b.Ctx, b.DB, 3, 0, 10))(b.T), []services.UserID{100, 101, 102})
		sqltest.Equal(b.T, sqltest.Must(AuthorsForModeCheck(b.Ctx, b.DB, 3, 100, 1))(b.T), []services.UserID{101})
		sqltest.Equal(b.T, len(sqltest.Must(AuthorsForModeCheck(b.Ctx, b.DB, 6, 0, 10))(b.T)), 0)
		sqltest.Equal(b.T, sqltest.Must(AuthorsForModeCheck(b.Ctx, b.DB, 0, 0, 10))(b.T), []services.UserID{7, 104})
		sqltest.Equal(b.T, sqltest.Must(AuthorsForModeCheck(b.Ctx, b.DB, 0, 7, 10))(b.T), []services.UserID{104})
	})
}
