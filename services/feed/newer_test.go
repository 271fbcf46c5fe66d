package feed

import (
	"slices"
	"testing"
	"time"

	"tidings/services"
)

// newerPage reads a page of posts that are newer than a position.
func (n node) newerPage(reader services.UserID, than services.PostID, first int) Page {
	n.TB.Helper()
	page, err := n.PageNewerOldestFirst(n.TB.Context(), reader, than, first)
	n.Must(err)
	return page
}

// Pages of newer posts go upwards from a position, oldest first, until no post is left. Then pages are empty and keep the position.
func TestPagesOfNewerPosts(t *testing.T) {
	n := redisServerNode(t)
	reader, huge, small := n.MakeReader()
	var ids []services.PostID
	for range 15 {
		n.Clock.Advance(2 * newerPageOverlap)
		ids = append(ids, n.publish(huge, "pulled"))
		n.Clock.Advance(2 * newerPageOverlap)
		ids = append(ids, n.publish(small, "pushed"))
	}
	n.RunJobsAndReadLog()
	for _, first := range []int{1, 7, 100} {
		var got []services.PostID
		for than := ids[4]; ; {
			page := n.newerPage(reader, than, first)
			if len(page.Items) > first || page.HasNext && len(page.Items) != first || page.End != "" {
				t.Fatalf("after %s: %d items, more %t, end %q", than, len(page.Items), page.HasNext, page.End)
			}
			got = append(got, postIDsOf(page)...)
			if than = page.NextPageAfter; !page.HasNext {
				break
			}
		}
		if !slices.Equal(got, ids[5:]) {
			t.Errorf("by %d: %v, want %v", first, got, ids[5:])
		}
	}
	if page := n.newerPage(reader, ids[29], 10); len(page.Items) != 0 || page.HasNext || page.NextPageAfter != ids[29] {
		t.Errorf("above the newest: %+v", page)
	}
	n.Must(n.commit(n.Service.Delete(huge, ids[28])))
	n.Must(n.commit(n.Service.Delete(small, ids[27])))
	if page := n.newerPage(reader, ids[25], 2); !slices.Equal(postIDsOf(page), []services.PostID{ids[26], ids[29]}) {
		t.Errorf("with two deleted: %v", postIDsOf(page))
	}
	if page := n.newerPage(reader, ids[27], 2); !slices.Equal(postIDsOf(page), ids[29:]) {
		t.Errorf("above a deleted one: %v", postIDsOf(page))
	}
}

// A post with a smaller ID may be committed after a reader has passed a greater ID. The page of posts newer than the greater ID still
// has it.
func TestALatePostIsNotMissed(t *testing.T) {
	n := redisServerNode(t)
	reader, huge, small := n.MakeReader()
	for _, author := range []services.UserID{huge, small} {
		late := services.PostID(n.IDs.Next()) // an ID that was made and is not committed yet
		n.Clock.Advance(newerPageOverlap - time.Second)
		newest := n.publish(author, "first to be seen")
		n.RunJobsAndReadLog()
		n.insertPostWithID(author, late)
		n.Must(n.fan.ReconcileFollow(t.Context(), reader, author))
		n.RunJobsAndReadLog()
		page := n.newerPage(reader, newest, 1)
		if !slices.Contains(postIDsOf(page), late) || page.NextPageAfter != newest {
			t.Errorf("the late one is missed: %v, next %s", postIDsOf(page), page.NextPageAfter)
		}
		n.Clock.Advance(time.Minute)
	}
}

// Even if the last five seconds have very many posts, a client that reads page after page comes to the newest.
func TestPagingPassesABurstOfPosts(t *testing.T) {
	n := redisServerNode(t)
	reader, _, small := n.MakeReader()
	ids := n.InsertPosts(small, 250) // in one millisecond
	n.Must(n.fan.Projector.RefillInbox(t.Context(), reader))
	seen := map[services.PostID]bool{}
	than := ids[0]
	for range 100 {
		page := n.newerPage(reader, than, 20)
		for _, id := range postIDsOf(page) {
			seen[id] = true
		}
		if len(page.Items) > 20+maxOverlapPosts {
			t.Fatalf("a page of %d", len(page.Items))
		}
		if than = page.NextPageAfter; !page.HasNext {
			break
		}
	}
	if len(seen) < 249 || than != ids[249] {
		t.Errorf("%d were seen up to %s, want 249 up to %s", len(seen), than, ids[249])
	}
}

// If posts between the position and the page are no longer kept, the page reports it.
func TestAGapIsReported(t *testing.T) {
	n := redisServerNode(t)
	reader, huge, _ := n.MakeReader()
	ids := n.InsertPosts(huge, services.FeedRetention+50)
	n.RunJobsAndReadLog()
	if page := n.newerPage(reader, ids[20], 10); page.End != services.EndOfRetention || !page.HasNext || postIDsOf(page)[0] != ids[50] {
		t.Errorf("across the gap: end %q, from %s on", page.End, postIDsOf(page)[0])
	}
	if page := n.newerPage(reader, ids[60], 10); page.End != "" || !slices.Contains(postIDsOf(page), ids[61]) {
		t.Errorf("above the gap: end %q", page.End)
	}
}

// Pages above a position go upwards like pages of newer posts, each newest first, and report whether newer posts are left.
func TestPagesAboveAPosition(t *testing.T) {
	n := redisServerNode(t)
	reader, huge, small := n.MakeReader()
	var ids []services.PostID
	for range 15 {
		n.Clock.Advance(time.Second)
		ids = append(ids, n.publish(huge, "pulled"))
		n.Clock.Advance(time.Second)
		ids = append(ids, n.publish(small, "pushed"))
	}
	n.RunJobsAndReadLog()
	above := func(position services.PostID, last int) Page {
		t.Helper()
		page, err := n.PageAbove(t.Context(), reader, position, last)
		n.Must(err)
		return page
	}
	for _, last := range []int{1, 7, 100} {
		var got []services.PostID
		for position := ids[4]; ; {
			page := above(position, last)
			if len(page.Items) > last || page.HasPrevious && len(page.Items) != last || page.End != "" || !page.HasNext {
				t.Fatalf("above %s: %d items, more %t, end %q", position, len(page.Items), page.HasPrevious, page.End)
			}
			got = append(postIDsOf(page), got...)
			if !page.HasPrevious {
				break
			}
			position = page.Items[0].Post.ID
		}
		want := slices.Clone(ids[5:])
		slices.Reverse(want)
		if !slices.Equal(got, want) {
			t.Errorf("by %d: %v, want %v", last, got, want)
		}
	}
	if page := above(ids[29], 10); len(page.Items) != 0 || page.HasPrevious || page.NextPageAfter != ids[29] {
		t.Errorf("above the newest: %+v", page)
	}
	n.Must(n.commit(n.Service.Delete(huge, ids[28])))
	n.Must(n.commit(n.Service.Delete(small, ids[27])))
	if page := above(ids[25], 2); !slices.Equal(postIDsOf(page), []services.PostID{ids[29], ids[26]}) || page.HasPrevious {
		t.Errorf("with two deleted: %v", postIDsOf(page))
	}
}
