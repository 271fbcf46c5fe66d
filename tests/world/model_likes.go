package world

import "pgregory.net/rapid"

// unseenLikedPosts returns how many of a person's posts have a like that the person has not seen.
func (w *ReferenceModel) unseenLikedPosts(person string) (count int) {
	for _, post := range w.posts {
		newest := 0
		for liker, at := range w.firstLikeTimes[post.ID] {
			if w.currentlyLiked[post.ID][liker] {
				newest = max(newest, at)
			}
		}
		if post.author == person && !post.Deleted && newest > w.NotificationsSeenUpTo[person] {
			count++
		}
	}
	return count
}

// Like likes a drawn post or undoes the like. NotifiedLikeCount rises when the post's author is notified.
func (w *ReferenceModel) Like(t *rapid.T) {
	post, liker := w.DrawPost(t), w.DrawPerson(t, "liker")
	if post == nil {
		return
	}
	verb, standing := "likePost", w.currentlyLiked[post.ID][liker]
	if standing {
		verb = "unlikePost"
	}
	got := w.Node.Ask(liker, `mutation($p:ID!){r:`+verb+`(input:{postId:$p}){post{id}}}`, map[string]any{"p": post.ID})
	if want := map[bool]string{true: "NOT_FOUND"}[post.Deleted]; got.ErrorCode() != want {
		t.Fatalf("%s: code %q, want %q", verb, got.ErrorCode(), want)
	}
	w.Node.SettleJobsAndCaches()
	w.JobsPending = false
	if post.Deleted || liker == post.author {
		if liker == post.author && !post.Deleted {
			w.setCurrentlyLiked(post.ID, liker, !standing)
		}
		return
	}
	w.setCurrentlyLiked(post.ID, liker, !standing)
	if _, before := w.firstLikeTimes[post.ID][liker]; !before {
		w.NotifiedLikeCount++
		if w.firstLikeTimes[post.ID] == nil {
			w.firstLikeTimes[post.ID] = map[string]int{}
		}
		w.firstLikeTimes[post.ID][liker] = w.NotifiedLikeCount
	}
}

// setCurrentlyLiked notes whether a like stands or was undone.
func (w *ReferenceModel) setCurrentlyLiked(post, liker string, stands bool) {
	if w.currentlyLiked[post] == nil {
		w.currentlyLiked[post] = map[string]bool{}
	}
	w.currentlyLiked[post][liker] = stands
}

// markNotificationsSeen marks the notifications of likes of a drawn person as seen, and checks that their count is then 0.
func (w *ReferenceModel) markNotificationsSeen(t *rapid.T) {
	person := w.DrawPerson(t, "person")
	w.Node.SettleJobsAndCaches()
	w.JobsPending = false
	w.Node.MustAsk(person, `mutation{markNotificationsSeen(input:{categories:[LIKE]}){badges{total{value}}}}`, nil, nil)
	w.NotificationsSeenUpTo[person] = w.NotifiedLikeCount
	if got := w.ReadBadges(t, person).Notifications.Like.Value; got != 0 {
		t.Fatalf("after the mark: %d likes", got)
	}
}
