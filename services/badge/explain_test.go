package badge

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/messages"
	"tidings/services/notifications"
	"tidings/services/notifications/notificationstest"
)

// explainedItems returns the items behind each count, and checks that the items add up to the count.
func (n node) explainedItems(user services.UserID) map[string][]services.Item {
	n.TB.Helper()
	explanations, err := n.Explain(n.TB.Context(), user)
	n.Must(err)
	items := map[string][]services.Item{}
	total := 0
	for _, explanation := range explanations {
		name := string(explanation.Source)
		if explanation.Part != "" {
			name += "/" + explanation.Part
		}
		sum := 0
		for i, item := range explanation.Items {
			sum += item.Count
			if i > 0 && item.At.After(explanation.Items[i-1].At) {
				n.TB.Errorf("%s: %s stands after an older one", name, item.ID)
			}
		}
		if sum != explanation.Count.Value {
			n.TB.Errorf("%s: the number is %d and its items make %d: %+v", name, explanation.Count.Value, sum, explanation.Items)
		}
		if explanation.Count.InTotal {
			total += sum
		}
		items[name] = explanation.Items
	}
	if badges := n.read(user); badges.Total.Value != total {
		n.TB.Errorf("the total is %d, what is explained makes %d", badges.Total.Value, total)
	}
	return items
}

func TestTheFeedIsExplained(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		author, reader := n.newLikedAuthor(0)
		if got := n.explainedItems(reader); len(got) != 0 {
			t.Errorf("nothing waits, and it is explained by %+v", got)
		}
		var posts []services.PostID
		for range 4 {
			posts = append(posts, n.Post(author))
		}
		n.Post(reader) // the reader's own post is in the feed and does not count
		n.markFeedSeen(reader, posts[0])
		n.Delete(posts[2])
		n.RunAllJobs(n.World.Fanout)
		items := n.explainedItems(reader)["HOME_FEED"]
		if len(items) != 2 || items[0].ID != services.GlobalID(services.PostType, posts[3].String()) || items[1].ID != services.GlobalID(services.PostType, posts[1].String()) {
			t.Fatalf("the items are %+v", items)
		}
		if want := `mutation { markHomeFeedSeen(input: {upTo: "` + items[0].ID + `"}) { badges { version total { value display } } } }`; items[0].ClearedBy != want || items[0].Count != 1 || !items[0].At.Equal(posts[3].Time()) {
			t.Errorf("the newest is %+v, want %s", items[0], want)
		}
	})
}

func TestSiteMessagesAreExplained(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		user := n.MakeUsers(1)[0]
		var ids []messages.ID
		for range 3 {
			n.Clock.Advance(time.Second)
			ids = append(ids, n.sendSiteMessage(user))
		}
		n.RunAllJobs(n.World.Fanout)
		n.mustCommit(n.messages.MarkRead(user, messages.MarkReadRequest{IDs: ids[1:2]}))
		n.Must(n.World.Projector.Rebuild(t.Context(), user))
		items := n.explainedItems(user)["SITE_MESSAGES/"+services.DefaultMessageType]
		if len(items) != 2 || items[0].ID != ids[2].GlobalID() {
			t.Fatalf("the items are %+v", items)
		}
		if want := `mutation { markSiteMessagesRead(input: {ids: ["` + items[0].ID + `"]}) { badges { version total { value display } } } }`; items[0].ClearedBy != want {
			t.Errorf("it is cleared by %s, want %s", items[0].ClearedBy, want)
		}
	})
}

func TestNotificationsAreExplained(t *testing.T) {
	n := redisServerNode(t)
	author, reader := n.newLikedAuthor(2) // with a like each
	follower := n.MakeUsers(1)[0]
	post := n.Post(author)
	notificationstest.Like(n.World, post, author, reader)
	notificationstest.Like(n.World, post, author, follower)
	n.RunAllJobs(n.World.Fanout)
	items := n.explainedItems(author)
	likes := items["NOTIFICATIONS/LIKE"]
	if len(likes) != 3 || len(items) != 1 {
		t.Fatalf("three posts are liked: %+v", items)
	}
	page, err := n.notifications.Page(t.Context(), author, notifications.PageQuery{Categories: []services.Category{services.CategoryLike}, First: 1})
	n.Must(err)
	if want := `mutation { markNotificationsRead(input: {ids: ["` + page.Notifications[0].UpTo() + `"]}) { badges { version total { value display } } } }`; likes[0].ClearedBy != want {
		t.Errorf("it is cleared by %s, want %s", likes[0].ClearedBy, want)
	}
	n.Clock.Advance(9 * day) // expired notifications leave count and items together
	if items := n.explainedItems(author); len(items) != 0 {
		t.Errorf("nine days later: %+v", items)
	}
	digest, err := n.Digest(t.Context(), author, n.Clock.Now().Add(-30*day))
	n.Must(err)
	if digestCounts(digest)["NOTIFICATIONS/LIKE"] != 3 {
		t.Errorf("the digest: %+v", digest.Parts)
	}
}

// For a user who was away for long, an operator sees what the user would see on their return: nothing new, and nothing to
// explain.
func TestADormantUsersAnnouncementsAreExplainedAsTheyWouldBeSeen(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		reader := n.MakeUsers(1)[0]
		n.read(reader)
		n.RunAllJobs(n.World.Fanout)
		n.Clock.Advance(time.Hour)
		n.announce(0)
		n.Clock.Advance(40 * 24 * time.Hour)
		n.Must(n.Redis.ResetUserData(t.Context(), reader))
		ctx := services.Observe(t.Context())
		badges, err := n.Read(ctx, reader)
		n.Must(err)
		explained, err := n.Explain(ctx, reader)
		n.Must(err)
		if badges.Announcements.Value != 0 || len(explained) != 0 {
			t.Errorf("%d announcements are explained by %+v", badges.Announcements.Value, explained)
		}
	})
}
