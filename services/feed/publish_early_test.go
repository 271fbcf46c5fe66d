package feed

import (
	"context"
	"sync/atomic"
	"testing"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
)

// stamped is a command that publishes a post, with a stamp that was taken before its transaction.
func (n node) stamped(author services.UserID) *jobs.Command {
	n.TB.Helper()
	cmd, err := n.Publish(author, Draft{Body: "a post"})
	n.Must(err)
	cmd.Meanwhile(n.TB.Context())
	return cmd
}

// made is the post that a command has published.
func (n node) made(cmd *jobs.Command) services.PostID {
	n.TB.Helper()
	id, err := services.ParsePostGlobalID("id", cmd.IDs()[0])
	n.Must(err)
	return id
}

// shows counts the posts on the first page of a user's home feed.
func (n node) shows(user services.UserID) int {
	n.TB.Helper()
	page, err := n.Page(n.TB.Context(), user, services.MaxPostID, 20)
	n.Must(err)
	return len(page.Items)
}

// With a stamp from before the commit, nothing is read again from SQL: the author's feed has the post after one round trip.
func TestAnEarlyStampSavesTheReadOfAPost(t *testing.T) {
	var statements atomic.Int64
	n := newNode(fanouttest.New(t, fanouttest.Options{Trace: func(string) { statements.Add(1) }}))
	author, _ := n.pair()
	for _, early := range []bool{false, true} {
		cmd := n.stamped(author)
		if !early {
			var err error
			cmd, err = n.Publish(author, Draft{Body: "a post"})
			n.Must(err)
		}
		cmd.Meanwhile = nil // it has run, or must not
		update, before := cmd.AfterApply, int64(0)
		cmd.AfterApply = func(ctx context.Context) error {
			before = statements.Load()
			err := update(ctx)
			if read := statements.Load() - before; (read == 0) != early {
				t.Errorf("early stamp %t: the update of the author's feed has %d statements", early, read)
			}
			return err
		}
		n.Must(n.do(cmd))
	}
	if shown := n.shows(author); shown != 2 {
		t.Errorf("%d posts are shown, 2 were published", shown)
	}
	n.Agree(author)
}

// A removal between the commit of a post and the update of its author's feed refuses the stamp, and the post is read again: if it was
// deleted, it does not come into the feed, and if another one was, it does.
func TestARemovalRefusesAnEarlyStamp(t *testing.T) {
	fanouttest.Each(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		author, _ := n.pair()
		other := n.publish(author, "another post")
		for _, own := range []bool{true, false} {
			cmd := n.stamped(author)
			update := cmd.AfterApply
			cmd.AfterApply = func(ctx context.Context) error {
				deleted := other
				if own {
					deleted = n.made(cmd)
				}
				n.Must(n.do(n.Service.Delete(author, deleted)))
				return update(ctx)
			}
			n.Must(n.do(cmd))
			n.Agree(author)
			if entries := n.Inbox(author); len(entries) != 1 {
				t.Errorf("the post itself was deleted: %t; the author's inbox has %v, want one post", own, entries)
			}
		}
	})
}

// A stamp that comes after Apply ended may be from after a deletion, so it is not used.
func TestALateStampIsNotUsed(t *testing.T) {
	n := served(t)
	author, _ := n.pair()
	cmd, err := n.Publish(author, Draft{Body: "a post"})
	n.Must(err)
	stamp, update := cmd.Meanwhile, cmd.AfterApply
	cmd.Meanwhile = nil
	cmd.AfterApply = func(ctx context.Context) error {
		n.Must(n.do(n.Service.Delete(author, n.made(cmd))))
		stamp(ctx)
		return update(ctx)
	}
	n.Must(n.do(cmd))
	if entries := n.Inbox(author); len(entries) != 0 {
		t.Errorf("the deleted post is in its author's inbox: %v", entries)
	}
	n.Agree(author)
}
