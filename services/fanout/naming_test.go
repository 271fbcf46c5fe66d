package fanout_test

import (
	"context"
	"fmt"
	"testing"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/people"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// followWithoutJob writes a follow without its job, as for a follower whose job ran before the author was pulled.
func followWithoutJob(w *fanouttest.World, follower, author services.UserID) {
	w.TB.Helper()
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		_, err := people.InsertFollow(ctx, tx, services.FollowEdge{Follower: follower, Followee: author, PostsCountAfter: services.PostID(w.IDs.Next())})
		return err
	})
}

// The document of a user who follows between the split of the followers and the commit of the new mode also names the author among the
// pulled authors, even if all chunks are full.
func TestAFollowerDuringTheSplitHasThePulledAuthor(t *testing.T) {
	for followers := 1; followers < 5; followers++ {
		t.Run(fmt.Sprint(followers), func(t *testing.T) {
			w := newEmbeddedWorld(t, smallChunks)
			users := w.MakeUsers(6)
			author, late := users[0], users[5]
			for _, follower := range users[1 : 1+followers] {
				followWithoutJob(w, follower, author)
			}
			chunks, err := w.Fanout.FollowerChunks(t.Context(), author, w.Projector.DormantBefore())
			w.Must(err)
			followWithoutJob(w, late, author)
			w.SetMode(author, services.AuthorHuge)
			for _, chunk := range chunks {
				w.Must(w.Fanout.NameAuthorInDocuments(t.Context(), rdb.PulledAuthorsField, chunk))
			}
			if !documentNamesAuthor(w, late, author) {
				t.Error("the document of the late follower does not name the author")
			}
		})
	}
}

// An author without followers is huge at once. A job names the author in the document of a user who followed just before.
func TestAFirstFollowerDuringThePinHasThePulledAuthor(t *testing.T) {
	w := newEmbeddedWorld(t, smallChunks)
	users := w.MakeUsers(2)
	author, late, huge := users[0], users[1], services.AuthorHuge
	w.Must(w.Fanout.PinMode(t.Context(), author, &huge))
	if got := modeInSQL(w, author); got != huge {
		t.Errorf("the mode is %v: nobody has to be named first", got)
	}
	followWithoutJob(w, late, author)
	w.RunAllJobs(w.Fanout)
	if !documentNamesAuthor(w, late, author) {
		t.Error("the document of the late follower does not name the author")
	}
	w.CheckAgainstFacts(users...)
}
