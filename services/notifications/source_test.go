package notifications

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/rdb"
)

// render renders the source's part of the badges of a document, as of now.
func (n node) render(document rdb.Document) *services.Badges {
	badges := &services.Badges{}
	now := source.Moment{Now: n.Clock.Now(), MonotonicNow: n.Clock.Now()}
	n.service.Source().Render(&source.Rendering{Settings: &source.Settings{}, Document: document, Moment: now}, badges)
	return badges
}

// newestLikes are the global IDs of the newest notifications of likes that some badges of a user count, by Source.Newest.
func (n node) newestLikes(user services.UserID, badges *services.Badges) (ids []string) {
	n.TB.Helper()
	list, known, err := n.service.Source().Newest(n.TB.Context(), source.ExplainRequest{User: user, Badges: badges})
	n.Must(err)
	if !known {
		n.TB.Fatal("the source does not know its newest items")
	}
	for _, explanation := range list {
		if explanation.Part != string(services.CategoryLike) {
			continue
		}
		for _, item := range explanation.Items {
			ids = append(ids, item.ID)
		}
	}
	return ids
}

// A notification that SQL has and the counts do not have yet is not among the newest: it would alert with a number that lacks it.
// It is among them as soon as the badges count it.
func TestNewestNotificationsAreThoseThatTheBadgesCount(t *testing.T) {
	eachNode(t, func(t *testing.T, n node) {
		users := n.MakeUsers(3)
		author, posts := users[0], n.InsertPosts(users[0], maxNewestSearched+2)
		n.Must(n.Projector.RefillInbox(t.Context(), author))
		want := func(what string, badges *services.Badges, count int) {
			t.Helper()
			all := n.newestLikes(author, n.render(n.Document(author)))
			got := n.newestLikes(author, badges)
			// all begins with those that the badges do not count.
			if len(got) != count || count > 0 && got[0] != all[len(all)-count] {
				t.Errorf("%s: %v, of %v", what, got, all)
			}
		}
		none := n.render(n.Document(author))
		n.commitAndRunJobs(n.like(users[1], posts[0]))
		first := n.render(n.Document(author))
		want("the first like", first, 1)
		n.commitAndRunJobs(n.like(users[2], posts[1]))
		second := n.render(n.Document(author))
		want("badges before the second like", first, 1)
		// Another category's newest notification says nothing of the likes that are counted.
		ahead := *first
		ahead.Notifications.Newest = services.NotificationID(services.MaxSortableID)
		want("badges before the second like, and after a later follow", &ahead, 1)
		want("the second like", second, 2)
		for _, post := range posts[2:] {
			n.commitAndRunJobs(n.like(users[1], post))
		}
		want("badges that all of the newest are ahead of", second, 0)
		want("badges that know no newest notification", none, maxNewestSearched)
		want("all likes", n.render(n.Document(author)), maxNewestSearched)
		n.Clock.Advance(time.Second)
		n.Must(n.commit(n.markSeen(author, nil, 0)))
		n.RunAllJobs(n.Fanout)
		want("all likes were seen", n.render(n.Document(author)), 0)
	})
}
