package world

import (
	"sync/atomic"

	"pgregory.net/rapid"
)

// worldPost is a post as the model knows it.
type worldPost struct {
	ID, author string
	Deleted    bool
}

// Worlds counts the worlds of a test binary, so that the people of each have unique names.
var Worlds atomic.Int64

// Publish lets a drawn person post.
func (w *World) Publish(t *rapid.T) {
	w.PublishAs(w.DrawPerson(t, "author"))
}

// PublishAs lets one person post.
func (w *World) PublishAs(author string) {
	w.posts = append(w.posts, &worldPost{ID: w.N.Publish(author, "post"), author: author})
	w.JobsPending = true
}

// Delete removes a drawn post. A second delete of the post changes nothing.
func (w *World) Delete(t *rapid.T) {
	post := w.DrawPost(t)
	if post == nil {
		return
	}
	got := w.N.Ask(post.author, `mutation($p:ID!){deletePost(input:{postId:$p}){changed postId}}`, map[string]any{"p": post.ID})
	if got.ErrorCode() != "" || got.Changed() == post.Deleted {
		t.Fatalf("delete: code %q, changed %t, deleted before %t", got.ErrorCode(), got.Changed(), post.Deleted)
	}
	post.Deleted, w.JobsPending = true, true
}

// CountPublished returns the number of posts so far, deleted ones too.
func (w *World) CountPublished() int { return len(w.posts) }

// DrawPost draws a post, which may be a deleted one; nil while there is none.
func (w *World) DrawPost(t *rapid.T) *worldPost {
	if len(w.posts) == 0 {
		return nil
	}
	return rapid.SampledFrom(w.posts).Draw(t, "post")
}
