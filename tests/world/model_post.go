package world

import (
	"sync/atomic"

	"pgregory.net/rapid"
)

// modelPost is a post as the model knows it.
type modelPost struct {
	ID, author string
	Deleted    bool
}

// ModelCount counts the models of a test binary, so that the people of each have unique names.
var ModelCount atomic.Int64

// Publish lets a drawn person post.
func (w *ReferenceModel) Publish(t *rapid.T) {
	w.PublishAs(w.DrawPerson(t, "author"))
}

// PublishAs lets one person post.
func (w *ReferenceModel) PublishAs(author string) {
	w.posts = append(w.posts, &modelPost{ID: w.Node.Publish(author, "post"), author: author})
	w.JobsPending = true
}

// DeletePost removes a drawn post. A second delete of the post changes nothing.
func (w *ReferenceModel) DeletePost(t *rapid.T) {
	post := w.DrawPost(t)
	if post == nil {
		return
	}
	got := w.Node.Ask(post.author, `mutation($p:ID!){deletePost(input:{postId:$p}){changed postId}}`, map[string]any{"p": post.ID})
	if got.ErrorCode() != "" || got.Changed() == post.Deleted {
		t.Fatalf("delete: code %q, changed %t, deleted before %t", got.ErrorCode(), got.Changed(), post.Deleted)
	}
	post.Deleted, w.JobsPending = true, true
}

// CountPublished returns the number of posts so far, deleted ones too.
func (w *ReferenceModel) CountPublished() int { return len(w.posts) }

// DrawPost draws a post, which may be a deleted one; nil while there is none.
func (w *ReferenceModel) DrawPost(t *rapid.T) *modelPost {
	if len(w.posts) == 0 {
		return nil
	}
	return rapid.SampledFrom(w.posts).Draw(t, "post")
}
