package refs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

var (
	insertObject = sql.NewStatement("insert an object of the test", `INSERT INTO posts (id, author, kind, body, updated_at) VALUES ($1, $2, 'POST', 'b', 0)`)
	countObjects = sql.NewStatement("count the objects of the test", `SELECT count(*) FROM posts WHERE id > 0`)
)

// postCreation is a command that creates a post, and its outcome.
type postCreation struct {
	cmd       *jobs.Command
	label     services.Label // that the command gives the post; empty for none
	resultIDs []string       // what cmd.Apply returned
	err       error          // the outcome of the commit
}

// newPostCreation makes a command that creates a post of an author. LabelOnCreate extends the command, so that it labels the post too.
func newPostCreation(ids *services.IDClock, author services.UserID, label services.Label) *postCreation {
	c := &postCreation{label: label}
	c.cmd = &jobs.Command{Actor: author, Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
		id := tx.NewID(ids)
		_, err := tx.Run(ctx, insertObject, id, author)
		return []string{services.GlobalID(services.PostType, id.String())}, err
	}}
	LabelOnCreate(c.cmd, services.PostType, label)
	return c
}

// commitTogether applies creations in one transaction, and records the result of each.
func commitTogether(ctx context.Context, db *sql.DB, all []*postCreation) {
	writes := make([]func(*sql.Tx) error, len(all))
	for i, c := range all {
		writes[i] = func(tx *sql.Tx) (err error) {
			c.resultIDs, err = c.cmd.Apply(ctx, tx)
			return err
		}
	}
	for i, err := range db.WriteAll(ctx, writes) {
		all[i].err = err
	}
}

// When many commands create an object with one ref at the same time, in one transaction or in several, only one creates an object.
// Other commands of that object's author return the object, and commands of other authors are refused.
func TestOneObjectForARef(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		db := sqltest.Open(t, sql.Config{URL: url})
		ids := services.NewIDClock(services.SystemClock{}, 1)
		var mu sync.Mutex
		var all []*postCreation
		var workers sync.WaitGroup
		for worker := range 6 {
			workers.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(worker)))
				for range 12 {
					batch := make([]*postCreation, 1+random.IntN(6))
					for i := range batch {
						label := services.Label{Ref: fmt.Sprint("r", random.IntN(40))}
						if random.IntN(4) == 0 {
							label = services.Label{Data: `{"a":1}`}
						}
						batch[i] = newPostCreation(ids, services.UserID(1+random.IntN(2)), label)
					}
					commitTogether(t.Context(), db, batch)
					mu.Lock()
					all = append(all, batch...)
					mu.Unlock()
				}
			})
		}
		workers.Wait()
		checkOneObjectPerRef(t, db, all)
	})
}

// checkOneObjectPerRef compares the outcomes with each other and with SQL: no ref has two objects, and only commands of the object's
// author return its ID.
func checkOneObjectPerRef(t *testing.T, db *sql.DB, all []*postCreation) {
	t.Helper()
	created, labelled := map[string]string{}, map[string]services.UserID{} // by ref: the ID, the author
	objects, unlabelled := 0, 0
	for _, c := range all {
		if c.err != nil {
			continue
		}
		objects++
		if c.label.Ref == "" {
			unlabelled++
			continue
		}
		if before, twice := created[c.label.Ref]; twice {
			t.Errorf("%s was created as %s and as %s", c.label.Ref, before, c.resultIDs[0])
		}
		created[c.label.Ref], labelled[c.label.Ref] = c.resultIDs[0], c.cmd.Actor
	}
	answered, refused := 0, 0
	for _, c := range all {
		switch own := labelled[c.label.Ref] == c.cmd.Actor; {
		case c.err == nil:
		case errors.Is(c.err, jobs.ErrUnchanged):
			if answered++; !own || c.resultIDs[0] != created[c.label.Ref] {
				t.Errorf("%s of user %d answered %v, created is %s of %d", c.label.Ref, c.cmd.Actor, c.resultIDs, created[c.label.Ref], labelled[c.label.Ref])
			}
		case services.CodeOf(c.err) != services.Conflict || own:
			t.Errorf("%s of user %d, which is %d's: %v", c.label.Ref, c.cmd.Actor, labelled[c.label.Ref], c.err)
		default:
			refused++
		}
	}
	count := 0
	if _, err := db.One(t.Context(), countObjects, nil, &count); err != nil || count != objects {
		t.Errorf("there are %d objects, %d were created: %v", count, objects, err)
	}
	if len(created) < 20 || answered < 20 || refused < 20 || unlabelled < 5 {
		t.Errorf("the test proves little: %d created, %d answered, %d refused, %d without a ref", len(created), answered, refused, unlabelled)
	}
	list := make([]services.Ref, 0, len(created))
	for ref := range created {
		list = append(list, services.Ref{Type: services.PostType, Text: ref})
	}
	found, err := findHolders(t.Context(), db, append(list, services.Ref{Type: services.ShowType, Text: "r1"}))
	if err != nil || len(found) != len(created) {
		t.Errorf("%d of %d refs are found: %v", len(found), len(created), err)
	}
	for ref, holder := range found {
		if holder.Object.GlobalID() != created[ref.Text] || holder.Owner != labelled[ref.Text] {
			t.Errorf("%s is %+v, created was %s of %d", ref.Text, holder, created[ref.Text], labelled[ref.Text])
		}
	}
}

// If two creates of one DIRECT conversation with one ref run at the same time, the later one changes nothing. The later create
// does not find the ref when it first looks.
func TestSecondCreateOfAConversationIsNoOp(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		db := sqltest.Open(t, sql.Config{URL: url})
		create := func(number services.ConversationID, ref string, labelled bool) ([]string, error) {
			c := &postCreation{cmd: &jobs.Command{Actor: 1, Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
				if labelled { // as if another transaction was committed between the command's two lookups of the ref
					if _, err := tx.Run(ctx, insertLabel, services.ConversationType, uint64(number), ref, services.UserID(2), "", ""); err != nil {
						return nil, err
					}
				}
				return []string{number.GlobalID()}, jobs.ErrUnchanged
			}}}
			LabelOnCreate(c.cmd, services.ConversationType, services.Label{Ref: ref})
			commitTogether(t.Context(), db, []*postCreation{c})
			return c.resultIDs, c.err
		}
		if ids, err := create(7, "r", true); !errors.Is(err, jobs.ErrUnchanged) || len(ids) != 1 {
			t.Errorf("whoever waited: %v, %v", ids, err)
		}
		if ids, err := create(8, "s", false); err != nil || len(ids) != 2 || ids[1] != jobs.ExistingObjectMarker {
			t.Errorf("whoever gives an old conversation its ref: %v, %v", ids, err)
		}
	})
}
