package notifications

import (
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/posts"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// firstPage is the first page of the list of user 1.
func (b *testDB) firstPage(only listFilter, categories ...services.Category) []Notification {
	b.T.Helper()
	if len(categories) == 0 {
		categories = services.Categories
	}
	page := sqltest.Must(readPage(b.Ctx, b.DB, listQuery{user: 1, categories: categories, filter: only, limit: 100}))(b.T)
	return page.Notifications
}

// wantUnseenAndUnread checks how many notifications of user 1 are unseen and unread.
func (b *testDB) wantUnseenAndUnread(when string, unseen, unread int) {
	b.T.Helper()
	if got := len(b.firstPage(onlyUnseen)); got != unseen {
		b.T.Errorf("%s: %d unseen, want %d", when, got, unseen)
	}
	if got := len(b.firstPage(onlyUnread)); got != unread {
		b.T.Errorf("%s: %d unread, want %d", when, got, unread)
	}
}

// runMark runs a transaction that marks notifications, and returns its error.
func (b *testDB) runMark(mark func(tx *sql.Tx) error) error {
	b.T.Helper()
	return b.Write(b.Ctx, mark)
}

// markRead marks notifications of user 1 read.
func (b *testDB) markRead(read readMarkSelection) error {
	return b.runMark(func(tx *sql.Tx) error { _, err := markRead(b.Ctx, tx, 1, withAllCategories(read)); return err })
}

// markAllRead marks all notifications of user 1 read; until is when the mark can no longer be undone.
func (b *testDB) markAllRead(gen uint64) (until time.Time) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) (err error) {
		_, until, err = markAllRead(b.Ctx, tx, 1, services.Categories, 0, gen)
		return err
	})
	return until
}

// undoAllRead undoes the last "mark all read" of user 1.
func (b *testDB) undoAllRead() error {
	return b.runMark(func(tx *sql.Tx) error { _, err := undoAllRead(b.Ctx, tx, 1, services.Categories); return err })
}

// markUnread marks a notification of user 1 unread.
func (b *testDB) markUnread(position services.NotificationID) error {
	return b.runMark(func(tx *sql.Tx) error { _, err := markUnread(b.Ctx, tx, 1, services.Categories, position); return err })
}

// likeThreePosts adds likes of three posts of user 1 and returns the positions, the oldest first.
func (b *testDB) likeThreePosts() (positions []services.NotificationID) {
	b.T.Helper()
	b.insertPosts(1, 5, 6, 7)
	for _, post := range []services.PostID{5, 6, 7} {
		b.like(post, 2)
		positions = append(positions, b.applyCauses(newLikeCause(post, 2))[0].NewestShown)
	}
	return positions
}

// publishAnswer publishes an answer that may mention users, and applies its causes for user 1.
func (b *testDB) publishAnswer(id, parent services.PostID, author services.UserID, mentions ...services.UserID) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) error {
		if err := posts.Insert(b.Ctx, tx, services.Post{ID: id, Author: author, Kind: services.PostKindComment, Parent: parent, OffFeed: true}); err != nil {
			return err
		}
		return posts.InsertMentions(b.Ctx, tx, id, mentions, nil)
	})
	b.applyCauses(Cause{Recipient: 1, Category: services.CategoryComment, Subject: services.SortableID(parent), Actor: author, Object: services.SortableID(id)},
		Cause{Recipient: 1, Category: services.CategoryMention, Subject: services.SortableID(id), Actor: author})
}

func TestCommentsAreGroupedByPostAndCountUsers(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.insertPosts(1, 5)
		at := services.PostID(services.SortableIDAt(b.Clock.Now()))
		for i := range services.PostID(12) {
			b.publishAnswer(at+i, 5, services.UserID(2+i%10))
		}
		list := b.firstPage(everything)
		if len(list) != 1 || list[0].ActorCount != 10 || len(list[0].SampleActors) != maxSampleActors || list[0].SampleActors[0] != 3 || list[0].Subject != 5 {
			t.Fatalf("twelve comments of ten people are %+v", list)
		}
		sqltest.Equal(b.T, b.markRead(readMarkSelection{UpToPositions: []services.NotificationID{list[0].NewestPosition}, MarkGeneration: services.AnyMarkGeneration}), nil)
		b.wantUnseenAndUnread("read", 0, 0)
		b.publishAnswer(at+20, 5, 3) // a user who commented before comments again
		b.wantUnseenAndUnread("a further comment of the same person", 1, 1)
		b.deletePost(at + 20)
		b.applyCauses(Cause{Recipient: 1, Category: services.CategoryComment, Subject: 5, Actor: 3, Object: services.SortableID(at) + 20})
		b.wantUnseenAndUnread("deleted", 0, 0)
	})
}

// An answer that also mentions the parent's author notifies them once, with the mention.
func TestAnAnswerThatMentionsTheAuthorNotifiesOnlyAsMention(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.insertPosts(1, 5)
		at := services.PostID(services.SortableIDAt(b.Clock.Now()))
		b.publishAnswer(at, 5, 2, 1)
		b.publishAnswer(at+1, 5, 1, 1) // by the recipient
		b.publishAnswer(at+2, 0, 3, 4) // by others, to others
		list := b.firstPage(everything)
		if len(list) != 1 || list[0].Category != services.CategoryMention || list[0].Subject != services.SortableID(at) {
			t.Fatalf("the list is %+v", list)
		}
	})
}

func TestARepeatedFollowStaysSeen(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		follow := Cause{Recipient: 1, Category: services.CategoryFollow, Actor: 2}
		at := services.PostID(services.SortableIDAt(b.Clock.Now()))
		b.MakeFollows(services.FollowEdge{Follower: 2, Followee: 1, PostsCountAfter: at})
		b.applyCauses(follow)
		b.wantUnseenAndUnread("followed", 1, 1)
		b.MustWrite(func(tx *sql.Tx) error {
			_, err := markSeen(b.Ctx, tx, 1, services.Categories, 0)
			return err
		})
		b.MustWrite(func(tx *sql.Tx) error { _, err := people.DeleteFollow(b.Ctx, tx, 2, 1); return err })
		b.applyCauses(follow)
		sqltest.Equal(b.T, len(b.firstPage(everything)), 0)
		b.MakeFollows(services.FollowEdge{Follower: 2, Followee: 1, PostsCountAfter: at + 9})
		b.applyCauses(follow)
		b.wantUnseenAndUnread("followed again", 0, 1)
	})
}

// A mark of all categories up to a position covers every one of them, and a mark of mentions up to the same position covers mentions
// alone.
func TestOnePositionMarksAllCategories(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.likeThreePosts()
		b.Clock.Advance(time.Second)
		b.publishAnswer(services.PostID(services.SortableIDAt(b.Clock.Now())), 0, 2, 1)
		b.wantUnseenAndUnread("three likes and a mention", 4, 4)
		mention := b.firstPage(everything)[0]
		mentions := []services.Category{services.CategoryMention}
		b.MustWrite(func(tx *sql.Tx) error {
			_, err := markSeen(b.Ctx, tx, 1, mentions, mention.NewestPosition)
			return err
		})
		b.wantUnseenAndUnread("the mentions seen", 3, 4)
		b.MustWrite(func(tx *sql.Tx) error {
			_, err := markSeen(b.Ctx, tx, 1, services.Categories, mention.NewestPosition)
			return err
		})
		b.wantUnseenAndUnread("all seen up to the mention", 0, 4)
	})
}

func TestMarksOfOthersNotificationsAreRefused(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		mine := b.likeThreePosts()
		b.insertPosts(9, 50)
		b.like(50, 2)
		b.Clock.Advance(-time.Hour) // so that its position is lower
		others := b.applyCauses(Cause{Recipient: 9, Category: likeCategory, Subject: 50, Actor: 2})[0].NewestShown
		for what, refused := range map[string]struct {
			err  error
			code services.Code
		}{
			"read another's, with one's own": {b.markRead(readMarkSelection{UpToPositions: []services.NotificationID{mine[0], others}}), services.NotFound},
			"read up to another's":           {b.markRead(readMarkSelection{Categories: services.Categories, UpTo: others}), services.NotFound},
			"unread another's":               {b.markUnread(others), services.NotFound},
			"seen up to another's": {b.runMark(func(tx *sql.Tx) error {
				_, err := markSeen(b.Ctx, tx, 1, services.Categories, others)
				return err
			}), services.NotFound},
			"all read beyond the end": {b.runMark(func(tx *sql.Tx) error {
				_, _, err := markAllRead(b.Ctx, tx, 1, services.Categories, mine[2]+1, services.AnyMarkGeneration)
				return err
			}), services.Invalid},
		} {
			if services.CodeOf(refused.err) != refused.code {
				t.Errorf("%s: %v, want %s", what, refused.err, refused.code)
			}
		}
		b.wantUnseenAndUnread("after what was refused", 3, 3)
		sqltest.Equal(b.T, len(sqltest.Must(readNotificationsAt(b.Ctx, b.DB, 1, []services.NotificationID{others}, nil, nil))(b.T)), 0)
	})
}

// A read notification becomes unread again when it gets a cause after the position up to which it was marked read.
func TestAReadMarkCoversCausesUpToItsPosition(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.insertPosts(1, 5)
		b.like(5, 2)
		shown := b.applyCauses(newLikeCause(5, 2))[0].NewestShown
		b.like(5, 3)
		joined := b.applyCauses(newLikeCause(5, 3))[0].NewestShown
		sqltest.Equal(b.T, b.markRead(withAllCategories(readMarkSelection{UpToPositions: []services.NotificationID{shown}, MarkGeneration: services.AnyMarkGeneration})), nil)
		b.wantUnseenAndUnread("an older id was read", 1, 1)
		b.unlike(5, 3)
		b.applyCauses(newLikeCause(5, 3))
		b.wantUnseenAndUnread("who joined is gone", 0, 0)
		b.like(5, 3)
		b.applyCauses(newLikeCause(5, 3))
		sqltest.Equal(b.T, b.markRead(readMarkSelection{UpToPositions: []services.NotificationID{joined}, MarkGeneration: services.AnyMarkGeneration}), nil)
		b.wantUnseenAndUnread("all of it read", 0, 0)
		found := sqltest.Must(readNotificationsAt(b.Ctx, b.DB, 1, []services.NotificationID{shown, joined}, nil, nil))(b.T)
		if n := found[joined]; len(found) != 2 || n.ID != shown || n.NewestPosition != joined || n.ActorCount != 2 || !n.Read || found[shown].ID != n.ID {
			t.Errorf("by its two positions it is %+v", found)
		}
		b.like(5, 4)
		b.applyCauses(newLikeCause(5, 4))
		b.wantUnseenAndUnread("another joined", 1, 1)
		sqltest.WantCode(b.T, b.markRead(readMarkSelection{IDs: []services.NotificationID{joined}, MarkGeneration: services.AnyMarkGeneration}), services.NotFound)
		sqltest.Equal(b.T, b.markRead(readMarkSelection{IDs: []services.NotificationID{shown}, MarkGeneration: services.AnyMarkGeneration}), nil)
		b.wantUnseenAndUnread("by its id all of it is read", 0, 0)
	})
}

// A list shows a group of two likes at the position of the second like. Then the second like is undone, and the group falls back to
// the position of the first. A mark up to the position that was shown still covers the group. It does not cover what came later.
func TestAMarkCoversAShownGroupWhoseNewestCauseWasUndone(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		upTo := func(shown services.NotificationID) readMarkSelection {
			return readMarkSelection{Categories: services.Categories, UpTo: shown, MarkGeneration: services.AnyMarkGeneration}
		}
		for i, mark := range []func(tx *sql.Tx, shown services.NotificationID) error{
			func(tx *sql.Tx, shown services.NotificationID) error {
				_, err := markRead(b.Ctx, tx, 1, withAllCategories(readMarkSelection{UpToPositions: []services.NotificationID{shown}, MarkGeneration: services.AnyMarkGeneration}))
				return err
			},
			func(tx *sql.Tx, shown services.NotificationID) error {
				_, err := markRead(b.Ctx, tx, 1, withAllCategories(upTo(shown)))
				return err
			},
			func(tx *sql.Tx, shown services.NotificationID) error {
				_, _, err := markAllRead(b.Ctx, tx, 1, services.Categories, shown, services.AnyMarkGeneration)
				return err
			},
			func(tx *sql.Tx, shown services.NotificationID) error {
				_, err := markSeen(b.Ctx, tx, 1, services.Categories, shown)
				return err
			},
		} {
			post := services.PostID(10 + 2*i)
			b.insertPosts(1, post, post+1)
			b.like(post, 2)
			first := b.applyCauses(newLikeCause(post, 2))[0].NewestShown
			b.like(post, 3)
			shown := b.applyCauses(newLikeCause(post, 3))[0].NewestShown
			b.unlike(post, 3)
			b.applyCauses(newLikeCause(post, 3))
			b.like(post+1, 4)
			later := b.applyCauses(newLikeCause(post+1, 4))[0].NewestShown
			if found := sqltest.Must(readNotificationsAt(b.Ctx, b.DB, 1, []services.NotificationID{shown}, nil, nil))(b.T); found[shown].NewestPosition != first {
				t.Fatalf("mark %d: the line did not fall back to %v: %+v", i, first, found)
			}
			sqltest.Equal(b.T, b.runMark(func(tx *sql.Tx) error { return mark(tx, shown) }), nil)
			list := b.firstPage(onlyUnseen)
			if len(list) != 1 || list[0].NewestPosition != later {
				t.Errorf("mark %d: unseen are %+v, want %v alone", i, list, later)
			}
			b.markAllRead(services.AnyMarkGeneration)
		}
	})
}

// A notification that is marked unread counts only if it is above the seen position. A late mark of an earlier list leaves it unread.
func TestAMarkAsUnreadBeginsANewGeneration(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		positions := b.likeThreePosts()
		sqltest.Equal(b.T, b.markRead(readMarkSelection{UpToPositions: positions, MarkGeneration: services.AnyMarkGeneration}), nil)
		b.wantUnseenAndUnread("read", 0, 0)
		sqltest.Equal(b.T, b.markUnread(positions[1]), nil)
		b.wantUnseenAndUnread("one unread again, never seen", 1, 1)
		old := readMarkSelection{UpToPositions: positions, MarkGeneration: 0}
		sqltest.Equal(b.T, b.markRead(old), nil)
		b.wantUnseenAndUnread("a late mark by ids", 1, 1)
		sqltest.Equal(b.T, b.markRead(readMarkSelection{Categories: services.Categories, MarkGeneration: 0}), nil)
		b.markAllRead(0)
		b.wantUnseenAndUnread("late marks of everything", 1, 1)
		b.MustWrite(func(tx *sql.Tx) error {
			_, err := markSeen(b.Ctx, tx, 1, services.Categories, 0)
			return err
		})
		b.wantUnseenAndUnread("seen", 0, 1)
		sqltest.Equal(b.T, b.markUnread(positions[0]), nil)
		b.wantUnseenAndUnread("another unread again, which was seen", 0, 2)
		old.MarkGeneration = 2
		sqltest.Equal(b.T, b.markRead(old), nil)
		b.wantUnseenAndUnread("a mark of now", 0, 0)
	})
}

func TestMarkAllReadAndUndo(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		positions := b.likeThreePosts()
		sqltest.Equal(b.T, b.markRead(readMarkSelection{UpToPositions: positions[:1], MarkGeneration: services.AnyMarkGeneration}), nil)
		until := b.markAllRead(services.AnyMarkGeneration)
		sqltest.Equal(b.T, until, b.Clock.Now().Add(30*time.Second))
		b.wantUnseenAndUnread("all read", 0, 0)
		b.Clock.Advance(10 * time.Second)
		sqltest.Equal(b.T, b.markAllRead(services.AnyMarkGeneration), until) // a second tap changes nothing
		sqltest.Equal(b.T, b.markRead(readMarkSelection{UpToPositions: positions[1:2], MarkGeneration: services.AnyMarkGeneration}), nil)
		b.like(7, 3)
		b.applyCauses(newLikeCause(7, 3))
		b.Clock.Advance(20 * time.Second)
		sqltest.Equal(b.T, b.undoAllRead(), nil)
		b.wantUnseenAndUnread("undone at the last moment, but for what was read by itself", 1, 1)
		sqltest.WantCode(b.T, b.undoAllRead(), services.Conflict) // an undo works once
		sqltest.Equal(b.T, b.markRead(readMarkSelection{Categories: services.Categories, MarkGeneration: 0}), nil)
		b.wantUnseenAndUnread("a late repetition of what was undone", 1, 1)
		b.markAllRead(services.AnyMarkGeneration)
		b.Clock.Advance(30*time.Second + time.Microsecond)
		err := b.undoAllRead()
		sqltest.WantCode(b.T, err, services.Conflict)
		if !strings.Contains(err.Error(), "30 s") {
			t.Errorf("it does not name the limit: %v", err)
		}
		b.wantUnseenAndUnread("too late", 0, 0)
	})
}

// A cause comes between two taps on the button, and is undone: the second tap changes nothing that is shown, and the undo is that of
// the first.
func TestASecondMarkAllReadKeepsTheUndoOfTheFirst(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.likeThreePosts()
		until := b.markAllRead(services.AnyMarkGeneration)
		b.like(7, 3)
		b.applyCauses(newLikeCause(7, 3))
		b.unlike(7, 3)
		b.applyCauses(newLikeCause(7, 3))
		b.Clock.Advance(time.Second)
		sqltest.Equal(b.T, b.markAllRead(services.AnyMarkGeneration), until)
		b.wantUnseenAndUnread("all read", 0, 0)
		sqltest.Equal(b.T, b.undoAllRead(), nil)
		b.wantUnseenAndUnread("undone", 3, 3)
	})
}

// "Mark all read" also marks undone causes: a cause that comes back is read.
func TestMarkAllReadCoversUndoneCauses(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		positions := b.likeThreePosts()
		b.unlike(7, 2)
		b.applyCauses(newLikeCause(7, 2))
		b.wantUnseenAndUnread("two left", 2, 2)
		sqltest.WantCode(b.T, b.markUnread(positions[2]), services.NotFound)
		b.markAllRead(services.AnyMarkGeneration)
		b.like(7, 2)
		b.applyCauses(newLikeCause(7, 2))
		b.wantUnseenAndUnread("the third again", 0, 0)
		sqltest.Equal(b.T, b.undoAllRead(), nil)
		b.wantUnseenAndUnread("undone", 3, 3)
	})
}

// A mark of some categories, or up to a position, ends the undo of the mark before.
func TestAnotherMarkEndsTheUndoOfMarkAllRead(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.likeThreePosts()
		b.markAllRead(services.AnyMarkGeneration)
		sqltest.Equal(b.T, b.markRead(readMarkSelection{Categories: []services.Category{likeCategory}, MarkGeneration: services.AnyMarkGeneration}), nil)
		sqltest.WantCode(b.T, b.undoAllRead(), services.Conflict)
		b.wantUnseenAndUnread("all read", 0, 0)
	})
}

// withAllCategories sets AllCategories to services.Categories, as on a node without host categories.
func withAllCategories(read readMarkSelection) readMarkSelection {
	read.AllCategories = services.Categories
	return read
}
