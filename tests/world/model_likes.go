package world

import "pgregory.net/rapid"

// unseenLikes returns how many of a person's posts have a like that the person has not seen.
func (w *World) unseenLikes(person string) (count int) {
	for _, post := range w.posts {
		newest := 0
		for liker, at := range w.liked[post.ID] {
			if w.likeStands[post.ID][liker] {
				newest = max(newest, at)
			}
		}
		if post.author == person && !post.Deleted && newest > w.NotificationsSeenAt[person] {
			count++
		}
	}
	return count
}

// Like likes a drawn post or undoes the like. The model's Clock ticks when the post's author is notified.
func (w *World) Like(t *rapid.T) {
	post, liker := w.DrawPost(t), w.DrawPerson(t, "liker")
	if post == nil {
		return
	}
	verb, standing := "likePost", w.likeStands[post.ID][liker]
	if standing {
		verb = "unlikePost"
	}
	got := w.N.Ask(liker, `mutation($p:ID!){r:`+verb+`(input:{postId:$p}){post{id}}}`, map[string]any{"p": post.ID})
	if want := map[bool]string{true: "NOT_FOUND"}[post.Deleted]; got.ErrorCode() != want {
		t.Fatalf("%s: code %q, want %q", verb, got.ErrorCode(), want)
	}
	w.N.Settle()
	w.JobsPending = false
	if post.Deleted || liker == post.author {
		if liker == post.author && !post.Deleted {
			w.setLikeStands(post.ID, liker, !standing)
		}
		return
	}
	w.setLikeStands(post.ID, liker, !standing)
	if _, before := w.liked[post.ID][liker]; !before {
		w.LikesNotified++
		if w.liked[post.ID] == nil {
			w.liked[post.ID] = map[string]int{}
		}
		w.liked[post.ID][liker] = w.LikesNotified
	}
}

// setLikeStands notes whether a like stands or was undone.
func (w *World) setLikeStands(post, liker string, stands bool) {
	if w.likeStands[post] == nil {
		w.likeStands[post] = map[string]bool{}
	}
	w.likeStands[post][liker] = stands
}

// markNotificationsSeen marks the notifications of likes of a drawn person as seen, and checks that their count is then 0.
func (w *World) markNotificationsSeen(t *rapid.T) {
	person := w.DrawPerson(t, "person")
	w.N.Settle()
	w.JobsPending = false
	w.N.Must(person, `mutation{markNotificationsSeen(input:{categories:[LIKE]}){badges{total{value}}}}`, nil, nil)
	w.NotificationsSeenAt[person] = w.LikesNotified
	if got := w.ReadBadges(t, person).Notifications.Like.Value; got != 0 {
		t.Fatalf("after the mark: %d likes", got)
	}
}
