package feed

import (
	"testing"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
)

// A first page whose rebuild panics is INTERNAL. Other readers get their pages, and so does this one when the fault is gone.
func TestAPageWhoseRebuildPanicsIsInternal(t *testing.T) {
	w := fanouttest.New(t, fanouttest.Options{RedisURL: "embedded"})
	panicFor := w.RegisterFaultyRebuild()
	n := newNode(w)
	author, reader := n.newAuthorAndReader()
	id := n.publish(author, "hello")
	n.RunAllJobs(n.fan)
	for _, user := range []services.UserID{author, reader} {
		n.Must(n.Redis.ResetUserData(t.Context(), user))
	}
	panicFor(reader)
	if _, err := n.Page(t.Context(), reader, services.MaxPostID, 20); !services.IsPanic(err) || services.CodeOf(err) != services.Internal {
		t.Errorf("the page failed with %v", err)
	}
	for _, user := range []services.UserID{author, reader} {
		page, err := n.Page(t.Context(), user, services.MaxPostID, 20)
		if err != nil || len(page.Items) != 1 || page.Items[0].Post.ID != id {
			t.Errorf("the page of user %d is %+v, %v", user, page, err)
		}
		panicFor()
	}
}
