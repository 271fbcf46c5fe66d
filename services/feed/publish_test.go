package feed

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/notifications/notificationstest"
	"tidings/services/people"
	"tidings/services/positions"
	"tidings/services/posts"
	"tidings/services/sql"
)

// publishDraft publishes a draft and returns the ID of the new post. An error fails the test.
func (n node) publishDraft(author services.UserID, draft Draft) services.PostID {
	n.TB.Helper()
	cmd, err := n.Publish(author, draft)
	n.Must(err)
	n.Must(n.commit(cmd))
	id, err := services.ParsePostGlobalID("id", cmd.IDs()[0])
	n.Must(err)
	return id
}

// unseenCounts counts a user's unseen notifications by category, once all jobs are done, and compares the document with the facts.
func (n node) unseenCounts(user services.UserID) map[services.Category]int {
	n.TB.Helper()
	n.RunAllJobs(n.fan)
	n.CheckAgainstFacts(user)
	notified := map[services.Category]int{}
	for _, counts := range notificationstest.CountsFromFacts(n.World, user) {
		for _, groups := range counts.CountByDay {
			notified[counts.Category] += groups
		}
	}
	return notified
}

// wantUnseenCount checks how many unseen notifications of a category a user has.
func (n node) wantUnseenCount(user services.UserID, when string, category services.Category, want int) {
	n.TB.Helper()
	if got := n.unseenCounts(user)[category]; got != want {
		n.TB.Errorf("%s: %d of %s, want %d", when, got, category, want)
	}
}

// keyOfUser is the key of a user.
func (n node) keyOfUser(user services.UserID) string {
	n.TB.Helper()
	users, err := people.ByID(n.TB.Context(), n.DB, []services.UserID{user})
	n.Must(err)
	return users[user].Key
}

// Comments and replies notify the author of the post that they answer, and enter no feed. Deleting them, or that post, withdraws the
// notification.
func TestCommentsAndReplies(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		author, reader := n.newAuthorAndReader()
		post := n.publishDraft(author, Draft{Body: "a post"})
		comment := n.publishDraft(reader, Draft{Body: "a comment", Parent: post})
		reply := n.publishDraft(author, Draft{Body: "a reply", Parent: comment})
		n.publishDraft(author, Draft{Body: "to oneself", Parent: post})
		n.wantUnseenCount(author, "a comment", services.CategoryComment, 1)
		n.wantUnseenCount(reader, "a reply", services.CategoryComment, 1)
		found, err := posts.ByID(t.Context(), n.DB, []services.PostID{post, comment, reply})
		n.Must(err)
		for id, kind := range map[services.PostID]services.PostKind{post: services.PostKindPost, comment: services.PostKindComment, reply: services.PostKindReply} {
			if found[id].Kind != kind || found[id].OffFeed == (kind == services.PostKindPost) {
				t.Errorf("%+v is no %s", found[id], kind)
			}
		}
		for _, user := range []services.UserID{author, reader} {
			page, err := n.Page(t.Context(), user, services.MaxPostID, 20)
			if err != nil || len(page.Items) != 1 || page.Items[0].Post.ID != post {
				t.Errorf("the feed of %d is %+v, %v", user, page.Items, err)
			}
		}
		if count := n.Document(reader).FeedCount; count != 1 {
			t.Errorf("%d found count, one is", count)
		}
		n.Must(n.commit(n.Service.Delete(reader, comment)))
		n.wantUnseenCount(author, "the comment is deleted", services.CategoryComment, 0)
		n.wantUnseenCount(reader, "what the reply answered is deleted", services.CategoryComment, 0)
	})
}

// Mentions come from the list and from the body, once each; an unknown key is plain text in the body.
func TestMentions(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		users := n.MakeUsers(4)
		author, bob, carol, dora := users[0], users[1], users[2], users[3]
		body := fmt.Sprintf("hello @%s and @%s, @nobody and %s@%s!", n.keyOfUser(bob), n.keyOfUser(author), "mail", n.keyOfUser(dora))
		post := n.publishDraft(author, Draft{Body: body, Mentions: []string{n.keyOfUser(carol), n.keyOfUser(bob), n.keyOfUser(carol)}})
		ids, err := people.IDs(t.Context(), n.DB, []string{"nobody"})
		n.Must(err)
		if len(ids) > 0 {
			t.Errorf("%v was made", ids)
		}
		mentioned, err := posts.Mentions(t.Context(), n.DB.Runner, post)
		n.Must(err)
		if !slices.Equal(usersOf(mentioned), []services.UserID{author, bob, carol}) {
			t.Errorf("mentioned are %v", mentioned)
		}
		for user, want := range map[services.UserID]int{author: 0, bob: 1, carol: 1, dora: 0} {
			n.wantUnseenCount(user, "mentioned", services.CategoryMention, want)
		}
		answer := n.publishDraft(bob, Draft{Body: "@" + n.keyOfUser(author), Parent: post})
		n.wantUnseenCount(author, "an answer that mentions", services.CategoryMention, 1)
		n.wantUnseenCount(author, "an answer that mentions", services.CategoryComment, 0)
		n.Must(n.commit(n.Service.Delete(bob, answer)))
		n.Must(n.commit(n.Service.Delete(author, post)))
		for _, user := range []services.UserID{author, bob, carol} {
			n.wantUnseenCount(user, "all deleted", services.CategoryMention, 0)
		}
	})
}

func TestDraftsThatAreRefused(t *testing.T) {
	n := newNode(fanouttest.New(t, fanouttest.Options{RedisURL: "embedded"}))
	author := n.MakeUsers(1)[0]
	gone := n.publishDraft(author, Draft{Body: "soon gone"})
	n.Must(n.commit(n.Service.Delete(author, gone)))
	keys := make([]string, services.MaxMentions+1)
	for i := range keys {
		keys[i] = fmt.Sprint("friend", i)
	}
	n.MakeNamedUsers(keys...)
	n.publishDraft(author, Draft{Body: "as many as can be", Mentions: append(keys[:services.MaxMentions:services.MaxMentions], keys[0])})
	for what, bad := range map[string]struct {
		Draft
		code services.Code
		says string
	}{
		"a deleted parent":     {Draft{Body: "b", Parent: gone}, services.NotFound, "parentId"},
		"no such parent":       {Draft{Body: "b", Parent: 77}, services.NotFound, "parentId"},
		"too many in the list": {Draft{Body: "b", Mentions: keys}, services.Invalid, "at most 50"},
		"too many together":    {Draft{Body: "@" + keys[0] + " @" + n.keyOfUser(author), Mentions: keys[:services.MaxMentions]}, services.Invalid, "got 51"},
		"a stranger":           {Draft{Body: "b", Mentions: []string{"newcomer"}}, services.NotFound, `mentions: there is no user "newcomer"`},
		"a bad key":            {Draft{Body: "b", Mentions: []string{"a\tb"}}, services.Invalid, "mentions"},
		"an empty body":        {Draft{Parent: gone}, services.Invalid, "body"},
	} {
		cmd, err := n.Publish(author, bad.Draft)
		if err == nil {
			err = n.commit(cmd)
		}
		if services.CodeOf(err) != bad.code || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	found, err := posts.PushedPostsOfAuthor(t.Context(), n.DB, author, 10)
	if err != nil || len(found) != 1 {
		t.Errorf("what was refused left %v, %v", found, err)
	}
}

// One setting decides which kinds of posts enter feeds. Posts of these kinds are listed, counted and refilled.
func TestKindsThatEnterFeeds(t *testing.T) {
	w := fanouttest.New(t, fanouttest.Options{RedisURL: "embedded"})
	n := node{w, New(Config{Jobs: w.Fanout.Engine, DB: w.DB, Redis: w.Redis, Posts: w.Caches.Posts, Reader: w.Caches.Reader, Pulled: w.Caches.Pulled, InFlight: w.Caches.InFlight, Projector: w.Projector, Fanout: w.Fanout.Fanout, IDs: w.IDs, Clock: w.Clock,
		Settings: Settings{KindsInFeeds: []string{"COMMENT"}}}), w.Fanout, nil}
	author, reader := n.newAuthorAndReader()
	post := n.publishDraft(author, Draft{Body: "a post"})
	comment := n.publishDraft(author, Draft{Body: "a comment", Parent: post})
	n.RunAllJobs(n.fan)
	n.CheckAgainstFacts(author, reader)
	n.Must(n.fan.Projector.RefillInbox(t.Context(), reader))
	n.CheckAgainstFacts(reader)
	entries, err := posts.HomeFeed(t.Context(), n.DB, reader, services.MaxPostID, 10)
	if err != nil || len(entries) != 1 || entries[0].Post != comment || n.Document(reader).FeedCount != 1 {
		t.Errorf("the feed is %+v, %v", entries, err)
	}
	var seen services.PostID
	n.Must(w.DB.Write(t.Context(), func(tx *sql.Tx) (err error) {
		seen, err = positions.Advance(t.Context(), tx, reader, positions.HomeFeedView, comment)
		return err
	}))
	if counts, err := posts.CountNew(t.Context(), n.DB, []posts.FeedReader{{ID: reader, SeenTo: seen}}, 10); err != nil || counts[0] != 0 {
		t.Errorf("%d are new, %v", counts, err)
	}
}
