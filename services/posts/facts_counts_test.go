package posts

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
)

// countsModel is a model of likes and answers.
type countsModel struct {
	likeByPostAndUser map[[2]uint64]bool                  // the likes; a key is a post and its liker
	parents           map[services.PostID]services.PostID // the parent of each answer that was written
	deletedAnswers    map[services.PostID]bool            // answers that were written and then deleted
}

func (d *countsModel) clone() *countsModel {
	return &countsModel{maps.Clone(d.likeByPostAndUser), maps.Clone(d.parents), maps.Clone(d.deletedAnswers)}
}

// engagement is the model of Engagements, for one post.
func (d *countsModel) engagement(post services.PostID, viewer services.UserID) (of services.Engagement) {
	for like := range d.likeByPostAndUser {
		if services.PostID(like[0]) == post {
			of.Likes++
		}
	}
	for answer, parent := range d.parents {
		if parent == post && !d.deletedAnswers[answer] {
			of.Comments++
		}
	}
	of.LikedByViewer = d.likeByPostAndUser[[2]uint64{uint64(post), uint64(viewer)}]
	return of
}

// postAction is one step that a function in a transaction takes.
type postAction struct {
	kind   string          // one of actionKinds
	post   services.PostID // the post that is liked or answered
	user   services.UserID // the liker, or the author of the answer
	answer services.PostID // the answer that is written, edited or deleted
}

// actionKinds are the kinds of steps. A kind that is listed twice is drawn twice as often. A step may be repeated: the second time it
// changes nothing.
var actionKinds = []string{"like", "like", "like", "unlike", "unlike", "answer", "answer", "import", "delete", "delete", "edit"}

var errRolledBack = errors.New("this part is undone") // the error by which a function or an attempt fails

// apply applies a step to the model. A step that the database refuses is refused here too.
func (d *countsModel) apply(step postAction) (refused bool) {
	like := [2]uint64{uint64(step.post), uint64(step.user)}
	_, taken := d.parents[step.answer]
	switch step.kind {
	case "like":
		d.likeByPostAndUser[like] = true
	case "unlike":
		delete(d.likeByPostAndUser, like)
	case "answer", "import":
		if taken {
			return true
		}
		d.parents[step.answer] = step.post
	case "delete":
		if taken {
			d.deletedAnswers[step.answer] = true
		}
	}
	return false
}

// runAction runs a step in a transaction.
func (b *testDB) runAction(tx *sql.Tx, step postAction) error {
	post := services.Post{ID: step.answer, Author: step.user, Kind: services.PostKindComment, Parent: step.post, OffFeed: true, Body: "b"}
	var err error
	switch step.kind {
	case "like":
		_, err = InsertLike(b.Ctx, tx, step.post, step.user, tx.Now)
	case "unlike":
		_, err = DeleteLike(b.Ctx, tx, step.post, step.user)
	case "answer":
		err = Insert(b.Ctx, tx, post)
	case "import":
		var inserted int
		if inserted, err = Import(b.Ctx, tx, []services.Post{post}); err == nil && inserted == 0 {
			err = services.Errorf(services.Conflict, "taken")
		}
	case "delete":
		if _, _, err = Delete(b.Ctx, tx, step.answer); services.CodeOf(err) == services.NotFound {
			err = nil
		}
	case "edit":
		if _, err = Lock(b.Ctx, tx, step.answer); err == nil {
			_, err = Edit(b.Ctx, tx, step.answer, "edited", nil, nil)
		} else if services.CodeOf(err) == services.NotFound {
			err = nil
		}
	}
	return err
}

// txFunction is one function in a transaction: its steps, and whether it fails in the end or contains an attempt that fails.
type txFunction struct {
	steps          []postAction // what the function does before the failing attempt
	fails          bool         // the function returns an error in the end
	failingAttempt []postAction // the steps of an attempt that fails
}

// runTxFunction runs the steps of a function, and then its failing attempt, which is rolled back.
func (b *testDB) runTxFunction(tx *sql.Tx, p txFunction) error {
	for _, step := range p.steps {
		if err := b.runAction(tx, step); err != nil {
			return err
		}
	}
	if len(p.failingAttempt) > 0 {
		_, err := tx.RunInSavepoint(b.Ctx, func() error {
			for _, step := range p.failingAttempt {
				if err := b.runAction(tx, step); err != nil {
					return err
				}
			}
			return errRolledBack
		})
		if err != nil {
			return err
		}
	}
	if p.fails {
		return errRolledBack
	}
	return nil
}

// TestCountsOfPostsAreThoseOfTheFacts lets users like, unlike, answer, import, edit and delete repeatedly, in transactions of one
// or several functions, some of which are rolled back. After each transaction the counts equal the model's and a recount of the
// facts.
func TestCountsOfPostsAreThoseOfTheFacts(t *testing.T) {
	histories.ReduceRapidChecks(t, 4)
	eachTestDB(t, func(b *testDB) {
		history := services.PostID(0)
		rapid.Check(b.T, func(t *rapid.T) {
			history++
			posts := []services.PostID{history << 20, history<<20 + 1, history<<20 + 2}
			model := &countsModel{map[[2]uint64]bool{}, map[services.PostID]services.PostID{}, map[services.PostID]bool{}}
			step := rapid.Custom(func(t *rapid.T) postAction {
				return postAction{
					rapid.SampledFrom(actionKinds).Draw(t, "kind"), rapid.SampledFrom(posts).Draw(t, "post"),
					services.UserID(rapid.IntRange(1, 3).Draw(t, "user")), history<<20 + 10 + services.PostID(rapid.IntRange(0, 5).Draw(t, "answer")),
				}
			})
			one := rapid.Custom(func(t *rapid.T) txFunction {
				return txFunction{rapid.SliceOfN(step, 1, 3).Draw(t, "steps"), rapid.IntRange(0, 4).Draw(t, "fails") == 0, rapid.SliceOfN(step, 0, 2).Draw(t, "attempts")}
			})
			for range rapid.IntRange(5, 15).Draw(t, "transactions") {
				parts := rapid.SliceOfN(one, 1, 5).Draw(t, "parts")
				fns := make([]func(*sql.Tx) error, len(parts))
				for i, p := range parts {
					fns[i] = func(tx *sql.Tx) error { return b.runTxFunction(tx, p) }
				}
				errs := b.WriteAll(b.Ctx, fns)
				for i, p := range parts {
					after := model.clone()
					refused := slices.ContainsFunc(p.steps, after.apply)
					if (errs[i] != nil) != (refused || p.fails) {
						t.Fatalf("%+v ended with %v", p, errs[i])
					}
					if errs[i] == nil {
						model = after
					}
				}
				b.wantCounts(t, model, posts)
			}
		})
	})
}

// wantCounts compares the counts with the model, for each viewer, and with a recount of the facts.
func (b *testDB) wantCounts(t *rapid.T, model *countsModel, posts []services.PostID) {
	for viewer := range services.UserID(4) {
		got := sqltest.Must(Engagements(b.Ctx, b.DB, viewer, posts))(t)
		for _, post := range posts {
			if want := model.engagement(post, viewer); got[post] != want {
				t.Fatalf("user %d is shown %+v of post %d, want %+v", viewer, got[post], post, want)
			}
		}
	}
	for _, c := range sqltest.Must(readRecounts(b.Ctx, b.DB, posts))(t) {
		if !c.matches() {
			t.Fatalf("post %d has the counts %+v, the facts are %+v", c.Post, c.Stored, c.Facts)
		}
	}
}

// TestCountsEqualTheFactsDuringWrites runs many transactions on a few posts. Every snapshot that is read meanwhile has the counts
// of its facts.
func TestCountsEqualTheFactsDuringWrites(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		posts := []services.PostID{1, 2, 3}
		var writing atomic.Int64
		var group sync.WaitGroup
		const writers, writes = 8, 40
		writing.Store(writers)
		for writer := range writers {
			group.Go(func() {
				defer writing.Add(-1)
				random := rand.New(rand.NewPCG(uint64(writer), 1))
				for range writes {
					var fns []func(*sql.Tx) error
					for range 1 + random.IntN(3) {
						p := txFunction{fails: random.IntN(5) == 0}
						for range 1 + random.IntN(3) {
							p.steps = append(p.steps, postAction{
								actionKinds[random.IntN(len(actionKinds))], posts[random.IntN(3)], services.UserID(1 + random.IntN(3)),
								services.PostID(10 + writer*100 + random.IntN(4)),
							})
						}
						fns = append(fns, func(tx *sql.Tx) error { return b.runTxFunction(tx, p) })
					}
					for _, err := range b.WriteAll(b.Ctx, fns) {
						if err != nil && !errors.Is(err, errRolledBack) && services.CodeOf(err) != services.Conflict {
							b.T.Errorf("a write failed: %v", err)
						}
					}
				}
			})
		}
		for last := false; !last; {
			last = writing.Load() == 0 // read once more
			list, err := readRecounts(b.Ctx, b.DB, posts)
			if err != nil {
				b.T.Fatal(err)
			}
			for _, c := range list {
				if !c.matches() {
					b.T.Errorf("post %d has the counts %+v, the facts are %+v", c.Post, c.Stored, c.Facts)
				}
			}
		}
		group.Wait()
	})
}

// TestWrongCountsAreRepairedDuringWrites lets two transactions mend one post while others like it.
func TestWrongCountsAreRepairedDuringWrites(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.insertPosts(1, 5, 6)
		b.MustWrite(func(tx *sql.Tx) error {
			_, err := InsertLike(b.Ctx, tx, 5, 2, tx.Now)
			return err
		})
		b.MustWrite(func(tx *sql.Tx) error {
			_, err := sqltest.QueryLines(b.Ctx, tx, `UPDATE post_counts SET likes = 7, comments = -2 WHERE post = 5`)
			return err
		})
		below := func(below services.PostID, limit int) []countedPost {
			return sqltest.Must(readCountsBelow(b.Ctx, b.DB, below, limit))(b.T)
		}
		sqltest.Equal(b.T, below(services.MaxPostID, 10), []countedPost{{Post: 6}, {Post: 5, Likes: 7, Comments: -2}})
		sqltest.Equal(b.T, below(services.MaxPostID, 1), []countedPost{{Post: 6}})
		sqltest.Equal(b.T, below(6, 1), []countedPost{{Post: 5, Likes: 7, Comments: -2}})
		sqltest.Equal(b.T, sqltest.Must(Engagements(b.Ctx, b.DB, 2, []services.PostID{5}))(b.T), map[services.PostID]services.Engagement{5: {Likes: 7, LikedByViewer: true}})
		sqltest.Equal(b.T, sqltest.Must(readRecounts(b.Ctx, b.DB, []services.PostID{5}))(b.T), []engagementRecount{{Post: 5, Stored: services.Engagement{Likes: 7, Comments: -2}, Facts: services.Engagement{Likes: 1}}})
		var group sync.WaitGroup
		for i := range 6 {
			group.Go(func() {
				err := b.Write(context.WithoutCancel(b.Ctx), func(tx *sql.Tx) error {
					if i < 2 {
						return mendCounts(b.Ctx, tx, 5)
					}
					_, err := InsertLike(b.Ctx, tx, 5, services.UserID(10+i), tx.Now)
					return err
				})
				if err != nil {
					b.T.Error(err)
				}
			})
		}
		group.Wait()
		sqltest.Equal(b.T, sqltest.Must(Engagements(b.Ctx, b.DB, 12, []services.PostID{5, 99}))(b.T), map[services.PostID]services.Engagement{5: {Likes: 5, LikedByViewer: true}, 99: {}})
	})
}
