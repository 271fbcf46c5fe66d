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

// deedModel is a model of likes and answers.
type deedModel struct {
	likes   map[[2]uint64]bool                  // of a post and a liker
	parents map[services.PostID]services.PostID // the parent of each answer that was written
	deleted map[services.PostID]bool
}

func (d *deedModel) clone() *deedModel {
	return &deedModel{maps.Clone(d.likes), maps.Clone(d.parents), maps.Clone(d.deleted)}
}

func (d *deedModel) engagement(post services.PostID, viewer services.UserID) (of services.Engagement) {
	for like := range d.likes {
		if services.PostID(like[0]) == post {
			of.Likes++
		}
	}
	for answer, parent := range d.parents {
		if parent == post && !d.deleted[answer] {
			of.Comments++
		}
	}
	of.Liked = d.likes[[2]uint64{uint64(post), uint64(viewer)}]
	return of
}

// deed is one step that a function in a transaction takes.
type deed struct {
	kind   string          // one of deedKinds
	post   services.PostID // the post that is liked or answered
	user   services.UserID // the liker, or the author of the answer
	answer services.PostID // the answer that is written, edited or deleted
}

// deedKinds are the kinds of steps. A kind that is listed twice is drawn twice as often. A step may be repeated: the second time it
// changes nothing.
var deedKinds = []string{"like", "like", "like", "unlike", "unlike", "answer", "answer", "import", "delete", "delete", "edit"}

var errUndone = errors.New("this part is undone") // the error by which a part or an attempt fails

// apply applies a step to the model. A step that the store refuses is refused here too.
func (d *deedModel) apply(step deed) (refused bool) {
	like := [2]uint64{uint64(step.post), uint64(step.user)}
	_, taken := d.parents[step.answer]
	switch step.kind {
	case "like":
		d.likes[like] = true
	case "unlike":
		delete(d.likes, like)
	case "answer", "import":
		if taken {
			return true
		}
		d.parents[step.answer] = step.post
	case "delete":
		if taken {
			d.deleted[step.answer] = true
		}
	}
	return false
}

// do runs a step in a transaction.
func (b *bundle) do(tx *sql.Tx, step deed) error {
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

// part is one function in a transaction: its steps, and whether it fails in the end or contains an attempt that fails.
type part struct {
	steps   []deed
	fails   bool   // the function returns an error in the end
	attempt []deed // the steps of an attempt that fails
}

// doPart runs the steps of a part, and then its attempt, which is undone.
func (b *bundle) doPart(tx *sql.Tx, p part) error {
	for _, step := range p.steps {
		if err := b.do(tx, step); err != nil {
			return err
		}
	}
	if len(p.attempt) > 0 {
		_, err := tx.Attempt(b.Ctx, func() error {
			for _, step := range p.attempt {
				if err := b.do(tx, step); err != nil {
					return err
				}
			}
			return errUndone
		})
		if err != nil {
			return err
		}
	}
	if p.fails {
		return errUndone
	}
	return nil
}

// TestCountsOfPostsAreThoseOfTheFacts lets users like, unlike, answer, import, edit and delete repeatedly, in transactions of one or
// several parts, some of which are rolled back. After each transaction the counts equal the model's and a recount of the facts.
func TestCountsOfPostsAreThoseOfTheFacts(t *testing.T) {
	histories.Reduce(t, 4)
	eachStore(t, func(b *bundle) {
		history := services.PostID(0)
		rapid.Check(b.T, func(t *rapid.T) {
			history++
			posts := []services.PostID{history << 20, history<<20 + 1, history<<20 + 2}
			model := &deedModel{map[[2]uint64]bool{}, map[services.PostID]services.PostID{}, map[services.PostID]bool{}}
			step := rapid.Custom(func(t *rapid.T) deed {
				return deed{
					rapid.SampledFrom(deedKinds).Draw(t, "kind"), rapid.SampledFrom(posts).Draw(t, "post"),
					services.UserID(rapid.IntRange(1, 3).Draw(t, "user")), history<<20 + 10 + services.PostID(rapid.IntRange(0, 5).Draw(t, "answer")),
				}
			})
			one := rapid.Custom(func(t *rapid.T) part {
				return part{rapid.SliceOfN(step, 1, 3).Draw(t, "steps"), rapid.IntRange(0, 4).Draw(t, "fails") == 0, rapid.SliceOfN(step, 0, 2).Draw(t, "attempts")}
			})
			for range rapid.IntRange(5, 15).Draw(t, "transactions") {
				parts := rapid.SliceOfN(one, 1, 5).Draw(t, "parts")
				fns := make([]func(*sql.Tx) error, len(parts))
				for i, p := range parts {
					fns[i] = func(tx *sql.Tx) error { return b.doPart(tx, p) }
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
func (b *bundle) wantCounts(t *rapid.T, model *deedModel, posts []services.PostID) {
	for viewer := range services.UserID(4) {
		got := sqltest.Must(Engagements(b.Ctx, b.DB, viewer, posts))(t)
		for _, post := range posts {
			if want := model.engagement(post, viewer); got[post] != want {
				t.Fatalf("user %d is shown %+v of post %d, want %+v", viewer, got[post], post, want)
			}
		}
	}
	for _, c := range sqltest.Must(Recounts(b.Ctx, b.DB, posts))(t) {
		if !c.Right() {
			t.Fatalf("post %d has the counts %+v, the facts are %+v", c.Post, c.Kept, c.Facts)
		}
	}
}

// TestCountsEqualTheFactsDuringWrites runs many transactions on a few posts. Every snapshot that is read meanwhile has the counts of its facts.
func TestCountsEqualTheFactsDuringWrites(t *testing.T) {
	eachStore(t, func(b *bundle) {
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
						p := part{fails: random.IntN(5) == 0}
						for range 1 + random.IntN(3) {
							p.steps = append(p.steps, deed{
								deedKinds[random.IntN(len(deedKinds))], posts[random.IntN(3)], services.UserID(1 + random.IntN(3)),
								services.PostID(10 + writer*100 + random.IntN(4)),
							})
						}
						fns = append(fns, func(tx *sql.Tx) error { return b.doPart(tx, p) })
					}
					for _, err := range b.WriteAll(b.Ctx, fns) {
						if err != nil && !errors.Is(err, errUndone) && services.CodeOf(err) != services.Conflict {
							b.T.Errorf("a write failed: %v", err)
						}
					}
				}
			})
		}
		for last := false; !last; {
			last = writing.Load() == 0 // read once more
			list, err := Recounts(b.Ctx, b.DB, posts)
			if err != nil {
				b.T.Fatal(err)
			}
			for _, c := range list {
				if !c.Right() {
					b.T.Errorf("post %d has the counts %+v, the facts are %+v", c.Post, c.Kept, c.Facts)
				}
			}
		}
		group.Wait()
	})
}

// TestWrongCountsAreRepairedDuringWrites lets two transactions mend one post while others like it.
func TestWrongCountsAreRepairedDuringWrites(t *testing.T) {
	eachStore(t, func(b *bundle) {
		b.post(1, 5, 6)
		b.MustWrite(func(tx *sql.Tx) error {
			_, err := InsertLike(b.Ctx, tx, 5, 2, tx.Now)
			return err
		})
		b.MustWrite(func(tx *sql.Tx) error {
			_, err := tx.Lines(b.Ctx, `UPDATE post_counts SET likes = 7, comments = -2 WHERE post = 5`)
			return err
		})
		below := func(below services.PostID, limit int) []CountedPost {
			return sqltest.Must(CountsBelow(b.Ctx, b.DB, below, limit))(b.T)
		}
		sqltest.Equal(b.T, below(services.MaxPostID, 10), []CountedPost{{Post: 6}, {Post: 5, Likes: 7, Comments: -2}})
		sqltest.Equal(b.T, below(services.MaxPostID, 1), []CountedPost{{Post: 6}})
		sqltest.Equal(b.T, below(6, 1), []CountedPost{{Post: 5, Likes: 7, Comments: -2}})
		sqltest.Equal(b.T, sqltest.Must(Engagements(b.Ctx, b.DB, 2, []services.PostID{5}))(b.T), map[services.PostID]services.Engagement{5: {Likes: 7, Liked: true}})
		sqltest.Equal(b.T, sqltest.Must(Recounts(b.Ctx, b.DB, []services.PostID{5}))(b.T), []Recount{{Post: 5, Kept: services.Engagement{Likes: 7, Comments: -2}, Facts: services.Engagement{Likes: 1}}})
		var group sync.WaitGroup
		for i := range 6 {
			group.Go(func() {
				err := b.Write(context.WithoutCancel(b.Ctx), func(tx *sql.Tx) error {
					if i < 2 {
						return MendCounts(b.Ctx, tx, 5)
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
		sqltest.Equal(b.T, sqltest.Must(Engagements(b.Ctx, b.DB, 12, []services.PostID{5, 99}))(b.T), map[services.PostID]services.Engagement{5: {Likes: 5, Liked: true}, 99: {}})
	})
}
