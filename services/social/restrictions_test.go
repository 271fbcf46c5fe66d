package social

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/notifications/notificationstest"
	"tidings/services/sql"
)

// muteForever is the end of a mute that has no end.
var muteForever time.Time

// wantFeedCounts checks how many posts a reader's feed lists and counts, and that the feed agrees with the facts.
func (n testNode) wantFeedCounts(when string, reader services.UserID, listed, counted int) {
	n.TB.Helper()
	n.CheckAgainstFacts(reader)
	if entries, count := len(n.Inbox(reader)), n.Document(reader).FeedCount; entries != listed || count != counted {
		n.TB.Errorf("%s: %d are listed and %d new, want %d and %d", when, entries, count, listed, counted)
	}
}

// A mute changes the list and the count at once, and an unmute makes them what they would be without the mute.
func TestAMuteIsSeenAtOnce(t *testing.T) {
	eachNode(t, func(t *testing.T, n testNode) {
		users := n.MakeUsers(2)
		author, reader := users[0], users[1]
		n.Post(author)
		n.Must(n.commitCommand(n.service.Follow(reader, author)))
		n.Post(author)
		n.RunAllJobs(n.Fanout)
		n.wantFeedCounts("followed", reader, 2, 1)
		for range 2 {
			n.Must(n.commitCommand(n.service.Mute(reader, author, muteForever)))
			n.wantFeedCounts("muted", reader, 0, 0)
			n.RunAllJobs(n.Fanout)
			n.wantFeedCounts("muted, when all is quiet", reader, 0, 0)
		}
		n.Post(author)
		n.RunAllJobs(n.Fanout)
		n.wantFeedCounts("what a muted one publishes", reader, 0, 0)
		n.wantUnchanged("a muted one, followed again", n.service.Follow(reader, author))
		n.Must(n.commitCommand(n.service.Unmute(reader, author)))
		n.wantFeedCounts("unmuted", reader, 3, 2)
		n.wantUnchanged("nobody", n.service.Unmute(reader, author))
		n.RunAllJobs(n.Fanout)
		n.wantFeedCounts("unmuted, when all is quiet", reader, 3, 2)
	})
}

// A mute with an end ends by itself, at the end that was set last. The job of an earlier end does nothing.
func TestAMuteEndsAtItsTime(t *testing.T) {
	eachNode(t, func(t *testing.T, n testNode) {
		users := n.MakeUsers(2)
		author, reader := users[0], users[1]
		n.Must(n.commitCommand(n.service.Follow(reader, author)))
		n.Post(author)
		n.RunAllJobs(n.Fanout)
		begin := n.Clock.Now()
		at := func(minutes int) time.Time { return begin.Add(time.Duration(minutes) * time.Minute) }
		pass := func(minutes int) {
			t.Helper()
			n.Clock.Advance(at(minutes).Sub(n.Clock.Now()))
			n.RunDueJobs(n.Fanout)
		}
		n.Must(n.commitCommand(n.service.Mute(reader, author, at(10))))
		n.Must(n.commitCommand(n.service.Mute(reader, author, at(20))))
		pass(11)
		n.wantFeedCounts("the first time has passed", reader, 0, 0)
		pass(21)
		n.wantFeedCounts("the second too", reader, 1, 1)
		n.wantUnchanged("a mute that has ended", n.service.Unmute(reader, author))

		n.Must(n.commitCommand(n.service.Mute(reader, author, at(30))))
		n.Must(n.commitCommand(n.service.Mute(reader, author, muteForever)))
		pass(31)
		n.wantFeedCounts("for ever after all", reader, 0, 0)
		n.Must(n.commitCommand(n.service.Mute(reader, author, at(40))))
		n.Must(n.commitCommand(n.service.Unmute(reader, author)))
		n.Must(n.commitCommand(n.service.Mute(reader, author, at(50))))
		pass(41)
		n.wantFeedCounts("muted anew", reader, 0, 0)
		pass(51)
		n.wantFeedCounts("and that has ended", reader, 1, 1)
		if _, dead := n.CountJobs(); dead > 0 {
			t.Errorf("%d jobs are dead", dead)
		}
	})
}

// If an author hides from a user, the user sees no posts of the author, old or new, whether they follow already or begin to.
func TestHidingFromAFollower(t *testing.T) {
	eachNode(t, func(t *testing.T, n testNode) {
		users := n.MakeUsers(3)
		author, reader, other := users[0], users[1], users[2]
		n.Must(n.commitCommand(n.service.Follow(reader, author)))
		n.Must(n.commitCommand(n.service.Follow(other, author)))
		n.Post(author)
		n.RunAllJobs(n.Fanout)
		n.Must(n.commitCommand(n.service.HideFrom(author, reader)))
		n.wantUnchanged("twice", n.service.HideFrom(author, reader))
		n.Post(author)
		n.RunAllJobs(n.Fanout)
		n.wantFeedCounts("hidden from", reader, 0, 0)
		n.wantFeedCounts("another follower", other, 2, 2)
		n.wantFeedCounts("the author", author, 2, 0)
		n.Must(n.commitCommand(n.service.Unfollow(reader, author)))
		n.Must(n.commitCommand(n.service.Follow(reader, author)))
		n.Post(author)
		n.RunAllJobs(n.Fanout)
		n.wantFeedCounts("who follows again", reader, 0, 0)
		n.Must(n.commitCommand(n.service.Mute(reader, author, muteForever)))
		n.Must(n.commitCommand(n.service.UnhideFrom(author, reader)))
		n.wantUnchanged("hidden no longer", n.service.UnhideFrom(author, reader))
		n.RunAllJobs(n.Fanout)
		n.wantFeedCounts("the reader mutes them as well", reader, 0, 0)
		n.Must(n.commitCommand(n.service.Unmute(reader, author)))
		n.wantFeedCounts("nothing stands between them", reader, 3, 1)
		n.RunAllJobs(n.Fanout)
	})
}

func TestABlockEndsFollowsAndConversations(t *testing.T) {
	eachNode(t, func(t *testing.T, n testNode) {
		users := n.MakeUsers(3)
		blocker, blocked, third := users[0], users[1], users[2]
		for _, pair := range [][2]services.UserID{{blocker, blocked}, {blocked, blocker}, {third, blocker}} {
			n.Must(n.commitCommand(n.service.Follow(pair[0], pair[1])))
		}
		post := n.Post(blocker)
		n.Post(blocked)
		notificationstest.Like(n.World, post, blocker, blocked)
		notificationstest.Like(n.World, post, blocker, third)
		n.RunAllJobs(n.Fanout)
		n.wantFeedCounts("before", blocker, 2, 1)
		n.wantUnseenGroups("before", blocker, 1, 2)
		n.Must(n.commitCommand(n.service.Block(blocker, blocked)))
		n.wantFeedCounts("at once", blocker, 1, 0)
		n.wantUnseenGroups("at once", blocker, 1, 1)
		n.RunAllJobs(n.Fanout)
		for when := range 2 {
			n.wantFeedCounts(fmt.Sprint("the blocked one ", when), blocked, 1, 0)
			n.wantFeedCounts(fmt.Sprint("somebody else ", when), third, 1, 1)
			n.wantUnseenGroups(fmt.Sprint("the blocked one ", when), blocked, 0, 0)
			n.wantUnseenGroups(fmt.Sprint("the blocker ", when), blocker, 1, 1)
			n.wantCode("the blocked one follows", n.service.Follow(blocked, blocker), services.NotFound)
			n.wantCode("the blocker follows", n.service.Follow(blocker, blocked), services.Forbidden)
			n.wantUnchanged("twice", n.service.Block(blocker, blocked))
			n.RunAllJobs(n.Fanout)
		}
		n.wantUnchanged("the other does not block", n.service.Unblock(blocked, blocker))
		n.Must(n.commitCommand(n.service.Unblock(blocker, blocked)))
		n.wantUnseenGroups("unblocked", blocker, 1, 1)
		n.RunAllJobs(n.Fanout)
		n.wantFeedCounts("unblocked: the follow stays ended", blocker, 1, 0)
		n.Must(n.commitCommand(n.service.Follow(blocker, blocked)))
		n.wantFeedCounts("followed anew", blocker, 2, 0)
		n.RunAllJobs(n.Fanout)
	})
}

// wantUnseenGroups checks a user's numbers of unseen groups: likes is the number of groups of likes, and follows the number of
// follows, which are one group.
func (n testNode) wantUnseenGroups(when string, user services.UserID, likes, follows int) {
	n.TB.Helper()
	for _, counts := range n.Document(user).Notifications {
		got := 0
		for _, count := range counts.CountByDay {
			got += count
		}
		want := map[services.Category]int{services.CategoryLike: likes, services.CategoryFollow: min(follows, 1)}[counts.Category]
		if got != want {
			n.TB.Errorf("%s: %d groups of %s are unseen, want %d", when, got, counts.Category, want)
		}
	}
}

func TestRefusedRestrictions(t *testing.T) {
	eachNode(t, func(t *testing.T, n testNode) {
		users := n.MakeUsers(2)
		one, two := users[0], users[1]
		past := n.Clock.Now()
		for what, refused := range map[string]struct {
			op   *jobs.Command
			code services.Code
			says string // a part of the error's text
		}{
			"muting oneself":         {n.service.Mute(one, one, muteForever), services.Invalid, "userId: you cannot mute yourself"},
			"blocking oneself":       {n.service.Block(one, one), services.Invalid, "userId: you cannot block yourself"},
			"hiding from oneself":    {n.service.HideFrom(one, one), services.Invalid, "userId: you cannot hide posts from yourself"},
			"muting until now":       {n.service.Mute(one, two, past), services.Invalid, "until: " + timeText(past) + " is in the past"},
			"muting until yesterday": {n.service.Mute(one, two, past.Add(-24*time.Hour)), services.Invalid, "until: "},
		} {
			if err := n.commitCommand(refused.op); services.CodeOf(err) != refused.code || !strings.Contains(err.Error(), refused.says) {
				t.Errorf("%s: %v, want %s %q", what, err, refused.code, refused.says)
			}
		}
		if waiting, _ := n.CountJobs(); waiting != 0 {
			t.Errorf("what was refused left %d jobs", waiting)
		}
	})
}

// A user can reach each limit and not exceed it. Muting a user again does not count again, and is allowed at the limit.
func TestTheNumberOfRestrictionsIsLimited(t *testing.T) {
	eachNode(t, func(t *testing.T, n testNode) {
		users := n.MakeUsers(maxPeoplePerList + 2)
		owner, others := users[0], users[1:]
		mute := func(owner, other services.UserID) *jobs.Command { return n.service.Mute(owner, other, muteForever) }
		for what, op := range map[string]struct {
			do, undo func(owner, other services.UserID) *jobs.Command
		}{
			"muted": {mute, n.service.Unmute}, "blocked": {n.service.Block, n.service.Unblock}, "hidden from": {n.service.HideFrom, n.service.UnhideFrom},
		} {
			for _, other := range others[:maxPeoplePerList] {
				n.Must(n.commitCommand(op.do(owner, other)))
			}
			err := n.commitCommand(op.do(owner, others[maxPeoplePerList]))
			if services.CodeOf(err) != services.Conflict || !strings.Contains(err.Error(), "userId: at most 3 people can be "+what) {
				t.Errorf("%s, one too many: %v", what, err)
			}
			if what == "muted" {
				n.Must(n.commitCommand(op.do(owner, others[0])))
			}
			n.Must(n.commitCommand(op.undo(owner, others[0])))
			n.Must(n.commitCommand(op.do(owner, others[maxPeoplePerList])))
		}
	})
}

// With the same idempotency key each command runs once. The same key with another input is refused.
func TestARestrictionRunsOncePerIdempotencyKey(t *testing.T) {
	eachNode(t, func(t *testing.T, n testNode) {
		users := n.MakeUsers(3)
		until := n.Clock.Now().Add(time.Hour)
		keyed := func(cmd *jobs.Command, key string, input ...any) *jobs.Command {
			cmd.IdempotencyKey, cmd.Input = key, input
			return cmd
		}
		for i, command := range []func(other services.UserID) *jobs.Command{
			func(other services.UserID) *jobs.Command { return n.service.Mute(users[0], other, until) },
			func(other services.UserID) *jobs.Command { return n.service.Unmute(users[0], other) },
			func(other services.UserID) *jobs.Command { return n.service.HideFrom(users[0], other) },
			func(other services.UserID) *jobs.Command { return n.service.UnhideFrom(users[0], other) },
			func(other services.UserID) *jobs.Command { return n.service.Block(users[0], other) },
			func(other services.UserID) *jobs.Command { return n.service.Unblock(users[0], other) },
		} {
			key := fmt.Sprint("key", i)
			n.Must(n.commitCommand(keyed(command(users[1]), key, users[1])))
			n.Must(n.commitCommand(keyed(command(users[1]), key, users[1])))
			n.wantCode("the key with another user", keyed(command(users[2]), key, users[2]), services.Conflict)
		}
		n.wantCode("the key with another time", keyed(n.service.Mute(users[0], users[1], until.Add(time.Second)), "key0", users[1], until.Add(time.Second)), services.Conflict)
	})
}

// If the jobs of a hundred follows and unfollows of one pair wait together, only one is claimed, and does the work of all.
func TestWaitingFollowsOfAPairCollapse(t *testing.T) {
	eachNode(t, func(t *testing.T, n testNode) {
		users := n.MakeUsers(2)
		author, reader := users[0], users[1]
		n.Post(author)
		n.RunAllJobs(n.Fanout)
		const rounds = 50
		n.Write(func(ctx context.Context, tx *sql.Tx) error { // without AfterCommit: the jobs do all of the work
			for i := range 2*rounds + 1 {
				cmd := n.service.Follow(reader, author)
				if i%2 == 1 {
					cmd = n.service.Unfollow(reader, author)
				}
				if _, err := cmd.Apply(ctx, tx); err != nil {
					return err
				}
			}
			return nil
		})
		if waiting, _ := n.CountJobs(); waiting < 2*rounds {
			t.Fatalf("%d jobs wait", waiting)
		}
		claimed, err := jobs.Claim(t.Context(), n.DB, []string{"follow"}, 1000, time.Second, 0)
		if len(claimed) != 1 || err != nil {
			t.Fatalf("%d jobs are left, %v", len(claimed), err)
		}
		n.RunAllJobs(n.Fanout)
		n.wantFeedCounts("followed in the end", reader, 1, 0)
	})
}
