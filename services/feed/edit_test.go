package feed

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/notifications"
	"tidings/services/posts"
	"tidings/services/sql"
)

// edit edits a post. An error fails the test.
func (n node) edit(author services.UserID, post services.PostID, draft Draft) {
	n.TB.Helper()
	cmd, err := n.Edit(author, post, draft)
	n.Must(err)
	n.Must(n.commit(cmd))
}

// feedBodies are the texts in a reader's feed.
func (n node) feedBodies(reader services.UserID) (bodies []string) {
	n.TB.Helper()
	page, err := n.Page(n.TB.Context(), reader, services.MaxPostID, 10)
	n.Must(err)
	for _, item := range page.Items {
		bodies = append(bodies, item.Post.Body)
	}
	return bodies
}

// An edit changes neither position nor count. Its author sees it at once, and every node soon.
func TestAnEditKeepsThePosition(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		author, reader := n.newAuthorAndReader()
		first := n.publish(author, "one")
		n.publish(author, "two")
		n.RunAllJobs(n.fan)
		there := newNode(w.AnotherNode())
		for _, node := range []node{n, there} {
			if got := node.feedBodies(reader); !slices.Equal(got, []string{"two", "one"}) {
				t.Fatalf("before the edit: %q", got)
			}
		}
		before := n.Document(reader)
		n.edit(author, first, Draft{Body: "mended"})
		if got := n.feedBodies(author); !slices.Equal(got, []string{"two", "mended"}) {
			t.Errorf("the author sees %q", got)
		}
		if _, err := there.Caches.Changelog.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := there.feedBodies(reader); !slices.Equal(got, []string{"two", "mended"}) {
			t.Errorf("another node shows %q", got)
		}
		n.RunAllJobs(n.fan)
		n.CheckAgainstFacts(author, reader)
		if after := n.Document(reader); after.FeedCount != before.FeedCount || after.FeedCount != 2 {
			t.Errorf("the number went from %d to %d", before.FeedCount, after.FeedCount)
		}
		n.edit(author, first, Draft{Body: "mended again"}) // the last edit wins, even within one millisecond of the clock
		n.edit(author, first, Draft{Body: "mended at last"})
		if got := n.feedBodies(author); got[1] != "mended at last" {
			t.Errorf("after several edits: %q", got)
		}
		found, err := posts.ByID(t.Context(), n.DB, []services.PostID{first})
		n.Must(err)
		if found[first].Body != "mended at last" {
			t.Errorf("SQL has %q", found[first].Body)
		}
	})
}

// Each edit has a later version than the one before, even if the clock was set back: a copy of an earlier edit never blocks a later
// one.
func TestEditsUnderAClockThatIsSetBackAreInOrder(t *testing.T) {
	n := redisServerNode(t)
	author, _ := n.newAuthorAndReader()
	post := n.publish(author, "one")
	last := time.Time{}
	for _, body := range []string{"two", "three", "four"} {
		cmd, err := n.Edit(author, post, Draft{Body: body})
		n.Must(err)
		n.Clock.Advance(-time.Second) // the clock of another node
		n.Must(n.fan.Commit(t.Context(), cmd)[0])
		found, err := posts.ByID(t.Context(), n.DB, []services.PostID{post})
		n.Must(err)
		if !found[post].UpdatedAt.After(last) || found[post].Body != body {
			t.Errorf("%q was written at %v, after %v", found[post].Body, found[post].UpdatedAt, last)
		}
		last = found[post].UpdatedAt
		if got := n.feedBodies(author); got[0] != body {
			t.Errorf("shown is %q, want %q", got[0], body)
		}
	}
}

// An edit notifies users that it newly mentions, and withdraws the notifications of users that it no longer mentions. A parent
// author who is mentioned gets only the mention.
func TestAnEditMovesMentions(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		users := n.MakeUsers(4)
		author, bob, carol, dora := users[0], users[1], users[2], users[3]
		post := n.publishDraft(author, Draft{Body: "@" + n.keyOfUser(bob), Mentions: []string{n.keyOfUser(carol)}})
		wantMentions := func(when string, want map[services.UserID]int) {
			t.Helper()
			for user, count := range want {
				n.wantUnseenCount(user, when, services.CategoryMention, count)
			}
		}
		wantMentions("published", map[services.UserID]int{bob: 1, carol: 1, dora: 0})
		n.edit(author, post, Draft{Body: "@" + n.keyOfUser(dora), Mentions: []string{n.keyOfUser(bob)}})
		wantMentions("edited", map[services.UserID]int{bob: 1, carol: 0, dora: 1})
		n.edit(author, post, Draft{Body: "nobody"})
		wantMentions("nobody is named", map[services.UserID]int{bob: 0, carol: 0, dora: 0})
		n.edit(author, post, Draft{Body: "@" + n.keyOfUser(carol), KeepListedMentions: true})
		wantMentions("somebody is named again", map[services.UserID]int{bob: 0, carol: 1, dora: 0})
		n.edit(author, post, Draft{Body: "@" + n.keyOfUser(carol), Mentions: []string{n.keyOfUser(bob), n.keyOfUser(carol)}})
		n.edit(author, post, Draft{Body: "@" + n.keyOfUser(dora), KeepListedMentions: true})
		wantMentions("the list is left, and had carol too", map[services.UserID]int{bob: 1, carol: 1, dora: 1})
		n.edit(author, post, Draft{Body: "@" + n.keyOfUser(bob), KeepListedMentions: true})
		n.edit(author, post, Draft{Body: "nobody of the list", KeepListedMentions: true})
		wantMentions("the list is left, although the body named some of it", map[services.UserID]int{bob: 1, carol: 1, dora: 0})
		w.Write(func(ctx context.Context, tx *sql.Tx) error { // as a node that does not know the column yet writes it
			_, err := tx.Run(ctx, sql.NewStatement("forget who is listed", `UPDATE mentions SET listed = NULL WHERE post = $1`), post)
			return err
		})
		n.edit(author, post, Draft{Body: "@" + n.keyOfUser(carol), KeepListedMentions: true})
		wantMentions("it is not known who is listed, and the body named nobody", map[services.UserID]int{bob: 1, carol: 1, dora: 0})
		n.edit(author, post, Draft{Body: "nobody again", KeepListedMentions: true})
		wantMentions("it is known again", map[services.UserID]int{bob: 1, carol: 1, dora: 0})
		n.edit(author, post, Draft{Body: "@" + n.keyOfUser(bob), Mentions: []string{n.keyOfUser(carol)}})
		n.edit(author, post, Draft{Body: "nobody", KeepListedMentions: true})
		wantMentions("a list without bob", map[services.UserID]int{bob: 0, carol: 1, dora: 0})
		answer := n.publishDraft(dora, Draft{Body: "an answer", Parent: post})
		n.wantUnseenCount(author, "an answer", services.CategoryComment, 1)
		n.edit(dora, answer, Draft{Body: "an answer to @" + n.keyOfUser(author)})
		n.wantUnseenCount(author, "an answer that mentions", services.CategoryComment, 0)
		n.wantUnseenCount(author, "an answer that mentions", services.CategoryMention, 1)
		n.edit(dora, answer, Draft{Body: "an answer again"})
		n.wantUnseenCount(author, "an answer that mentions no longer", services.CategoryComment, 1)
		n.wantUnseenCount(author, "an answer that mentions no longer", services.CategoryMention, 0)
		found, err := posts.ByID(t.Context(), n.DB, []services.PostID{answer})
		n.Must(err)
		if found[answer].Parent != post || found[answer].Kind != services.PostKindComment {
			t.Errorf("the edited answer is %+v", found[answer])
		}
	})
}

// An edit takes a mention out of an answer to the mentioned user's post. The answer is as seen and as read as the mention was,
// whatever else is in its notification.
func TestAnEditKeepsWhatWasSeenOfAMention(t *testing.T) {
	for name, c := range map[string]struct {
		// mark is what the user does before the edit; nil: nothing.
		mark   func(service *notifications.Service, user services.UserID) (*jobs.Command, error)
		others bool // another answer to the post is unseen
		unseen int  // how many answers are to be unseen after the edit
		read   bool // the notification is to be read after the edit
	}{
		"unseen": {nil, false, 1, false},
		"seen with everything": {func(service *notifications.Service, user services.UserID) (*jobs.Command, error) {
			return service.MarkSeen(user, nil, 0)
		}, false, 0, false},
		"seen among the mentions": {func(service *notifications.Service, user services.UserID) (*jobs.Command, error) {
			return service.MarkSeen(user, []services.Category{services.CategoryMention}, 0)
		}, true, 1, false},
		"read": {func(service *notifications.Service, user services.UserID) (*jobs.Command, error) {
			return service.MarkRead(user, notifications.ReadSelection{Categories: []services.Category{services.CategoryMention}})
		}, false, 0, true},
		"read, beside another answer": {func(service *notifications.Service, user services.UserID) (*jobs.Command, error) {
			return service.MarkRead(user, notifications.ReadSelection{Categories: []services.Category{services.CategoryMention}})
		}, true, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
				n := newNode(w)
				users := n.MakeUsers(3)
				author, dora, erin := users[0], users[1], users[2]
				post := n.publishDraft(author, Draft{Body: "a post"})
				answer := n.publishDraft(dora, Draft{Body: "for @" + n.keyOfUser(author), Parent: post})
				n.wantUnseenCount(author, "an answer that mentions", services.CategoryMention, 1)
				var other services.PostID
				if c.others {
					other = n.publishDraft(erin, Draft{Body: "another answer", Parent: post})
					n.wantUnseenCount(author, "another answer", services.CategoryComment, 1)
				}
				if c.mark != nil {
					mark, err := c.mark(n.notifications, author)
					n.Must(err)
					n.Must(n.commit(mark))
					n.wantUnseenCount(author, "marked", services.CategoryMention, 0)
				}
				n.edit(dora, answer, Draft{Body: "for nobody", Parent: post})
				n.wantUnseenCount(author, "without the mention", services.CategoryComment, c.unseen)
				n.wantUnseenCount(author, "without the mention", services.CategoryMention, 0)
				if c.others { // without the other answer the number shows what the edit did
					n.Must(n.commit(n.Service.Delete(erin, other)))
					n.wantUnseenCount(author, "the other answer is deleted", services.CategoryComment, 0)
				}
				page, err := n.notifications.Page(t.Context(), author, notifications.PageQuery{First: 10})
				n.Must(err)
				if list := page.Notifications; len(list) != 1 || list[0].Category != services.CategoryComment || list[0].Seen != (c.mark != nil) ||
					list[0].Read != c.read {
					t.Errorf("listed are %+v", list)
				}
				n.CheckAgainstFacts(author)
			})
		})
	}
}

// A user who is mentioned by an edit is notified at the time of the edit, however old the post is. Later edits that mention the user
// too do not change that time, nor the time of users that the post mentioned from the start.
func TestAMentionByAnEditNotifiesAtTheEdit(t *testing.T) {
	const day = 24 * time.Hour
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		users := n.MakeUsers(4)
		author, bob, carol, dora := users[0], users[1], users[2], users[3]
		published := n.Clock.Now()
		post := n.publishDraft(author, Draft{Body: "@" + n.keyOfUser(bob)})
		n.RunAllJobs(n.fan)
		n.Clock.Advance(8 * day)
		first := n.Clock.Now()
		n.edit(author, post, Draft{Body: "@" + n.keyOfUser(bob) + " and @" + n.keyOfUser(dora)})
		n.Clock.Advance(day) // the jobs of the first edit run after the second edit
		second := n.Clock.Now()
		n.edit(author, post, Draft{Body: "@" + n.keyOfUser(bob) + ", @" + n.keyOfUser(carol) + " and @" + n.keyOfUser(dora)})
		n.wantUnseenCount(carol, "mentioned by the second edit", services.CategoryMention, 1)
		n.wantUnseenCount(dora, "mentioned by the first edit", services.CategoryMention, 1)
		for user, want := range map[services.UserID]time.Time{bob: published, carol: second, dora: first} {
			at, err := sql.ReadColumn[int64](t.Context(), n.DB, sql.AdHoc("when notified", "SELECT at FROM notification_groups WHERE recipient = $1"), user)
			n.Must(err)
			if len(at) != 1 || sql.FromMicros(at[0]).Sub(want).Abs() > time.Second {
				t.Errorf("user %d is notified at %v, want one notification at %s", user, at, want)
			}
		}
	})
}

// Edits of missing or deleted posts, of other authors' posts and with bad bodies are refused, and change nothing.
func TestRefusedEdits(t *testing.T) {
	n := redisServerNode(t)
	author, reader := n.newAuthorAndReader()
	post, gone := n.publish(author, "one"), n.publish(author, "two")
	n.Must(n.commit(n.Service.Delete(author, gone)))
	for _, c := range []struct {
		by   services.UserID
		post services.PostID
		code services.Code
		says string
	}{
		{author, 7, services.NotFound, "postId: there is no post:0000000000007"},
		{author, gone, services.NotFound, "is deleted"},
		{reader, post, services.Forbidden, "is not your post"},
		{reader, gone, services.Forbidden, "is not your post"},
	} {
		cmd, err := n.Edit(c.by, c.post, Draft{Body: "mended"})
		n.Must(err)
		if err := n.commit(cmd); services.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d edits %s: %v", c.by, c.post, err)
		}
	}
	for _, bad := range []Draft{{}, {Body: "  "}, {Body: strings.Repeat("x", services.MaxBodyCharacters+1)}, {Body: "a\x00b"}, {Body: "a\xff"}, {Body: "b", Mentions: []string{"not a key "}}} {
		if _, err := n.Edit(author, post, bad); services.CodeOf(err) != services.Invalid {
			t.Errorf("%.20q: %v", bad.Body, err)
		}
	}
	n.RunAllJobs(n.fan)
	if got := n.feedBodies(reader); !slices.Equal(got, []string{"one"}) {
		t.Errorf("what was refused left %q", got)
	}
	if entries, err := changelog.LogAfter(t.Context(), n.DB, posts.ChangelogKind, 0, 10); err != nil || len(entries) != 1 {
		t.Errorf("the log has %d entries of one deletion, %v", len(entries), err)
	}
}

// An edit whose answer was lost gets the same answer when it is repeated with its idempotency key. Another edit with that key is
// refused.
func TestAnEditUnderAKeyHappensOnce(t *testing.T) {
	n := redisServerNode(t)
	author, _ := n.newAuthorAndReader()
	post := n.publish(author, "one")
	under := func(body string) error {
		cmd, err := n.Edit(author, post, Draft{Body: body})
		n.Must(err)
		cmd.IdempotencyKey, cmd.Input = "k", body
		return n.commit(cmd)
	}
	n.Must(under("two"))
	n.edit(author, post, Draft{Body: "three"})
	n.Must(under("two"))
	if got := n.feedBodies(author); got[0] != "three" {
		t.Errorf("a repeated edit undid a later one: %q", got)
	}
	if err := under("four"); services.CodeOf(err) != services.Conflict {
		t.Errorf("another edit under the same key: %v", err)
	}
}

// A job whose post is gone, as after a restore of SQL from a backup, writes no copy: it would be the copy of a post with ID 0.
func TestADeletedPostIsNotCopiedToRedis(t *testing.T) {
	w := fanouttest.New(t, fanouttest.Options{})
	n := newNode(w)
	w.Must(n.projectPostCopy(t.Context(), 7))
	copies, err := w.Redis.Client.Commands().Keys(t.Context(), "p:*").Result()
	if err != nil || len(copies) > 0 {
		t.Fatalf("copies %v, error %v", copies, err)
	}
}
