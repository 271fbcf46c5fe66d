package resolvers

import (
	"context"
	"fmt"
	"testing"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/sql"
)

// renameAwayStatements has the statements that give a table another name, by table. renameBackStatements has those that give it its
// name again.
var renameAwayStatements, renameBackStatements = renameTableStatements("", "_away"), renameTableStatements("_away", "")

// renameTableStatements returns statements that rename tables from one ending to another.
func renameTableStatements(from, to string) map[string]sql.Statement {
	statements := map[string]sql.Statement{}
	for _, table := range []string{"posts", "follows"} {
		statements[table] = sql.NewStatement("rename "+table+from+" of the test", "ALTER TABLE "+table+from+" RENAME TO "+table+to)
	}
	return statements
}

// runWithoutTable runs a function while the database lacks a table: a statement on the table fails with INTERNAL.
func (a *testAPI) runWithoutTable(table string, do func()) {
	a.t.Helper()
	run := func(rename sql.Statement) {
		a.Write(func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.Run(ctx, rename)
			return err
		})
	}
	run(renameAwayStatements[table])
	do()
	run(renameBackStatements[table])
}

// An event that fails for now ends its request: the later events are not applied, whether they share its commit or not, and no
// idempotency key remembers that they could not be applied. Sent again with the same keys, all of them are applied in their order.
func TestNoEventIsAppliedAfterATransientFailure(t *testing.T) {
	const internal, unavailable = string(services.Internal), string(services.Unavailable)
	name := func(user, name, key string) event {
		return event{"setProfile": event{"as": "user:" + user, "name": name, "key": key}}
	}
	follow := event{"follow": event{"as": "user:alice", "userId": "user:bob", "key": "follow"}}
	mode := event{"setFollowMode": event{"as": "user:alice", "userId": "user:bob", "mode": "NONE", "key": "mode"}}
	for _, story := range []struct {
		name, table string // without the table an event fails
		events      []event
		want, again []any // the codes of the events' errors: without the table, and when the events are sent again
	}{
		{
			"events of later commits name its object", "posts",
			[]event{
				name("alice", "Alice", "k0"),
				{"publishPost": event{"as": "user:alice", "body": "b", "ref": "p1", "key": "k1"}},
				{"publishPost": event{"as": "user:bob", "body": "c", "ref": "p2", "parentId": "post:ref:p1", "key": "k2"}},
				{"likePost": event{"as": "user:bob", "postId": "post:ref:p2", "key": "k3"}},
				name("bob", "Bob", "k4"),
			},
			[]any{nil, internal, unavailable, unavailable, unavailable}, []any{nil, nil, nil, nil, nil},
		},
		{
			"an event of its commit needs what it changes", "follows",
			[]event{name("alice", "Alice", "k0"), follow, name("bob", "Bob", "k2"), mode, {"publishPost": event{"as": "user:alice", "body": "", "key": "k4"}}},
			[]any{nil, internal, unavailable, unavailable, unavailable}, []any{nil, nil, nil, nil, string(services.Invalid)},
		},
		{
			"it fails before its commit", "posts",
			[]event{
				name("alice", "Alice", "k0"),
				{"notify": event{"category": "promo", "to": []string{"user:bob"}, "title": "t", "subjectId": "post:0000000000001", "key": "k1"}},
				name("bob", "Bob", "k2"),
			},
			[]any{nil, internal, unavailable}, []any{nil, string(services.NotFound), nil},
		},
	} {
		t.Run(story.name, func(t *testing.T) {
			fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
				a := newAPIOn(t, w, 10, 5)
				a.runWithoutTable(story.table, func() {
					if got := a.ingestErrorCodes(story.events...); fmt.Sprint(got) != fmt.Sprint(story.want) {
						t.Errorf("the codes are %v, want %v", got, story.want)
					}
				})
				for user, name := range map[string]any{"alice": "Alice", "bob": nil} {
					if got := a.must(user, `{ viewer { user { name } } }`, nil); got.valueAt("viewer", "user", "name") != name {
						t.Errorf("the name of %s after the failure: %v", user, got.Data)
					}
				}
				for range 2 {
					if got := a.ingestErrorCodes(story.events...); fmt.Sprint(got) != fmt.Sprint(story.again) {
						t.Errorf("sent again, the codes are %v, want %v", got, story.again)
					}
				}
				if got := a.must("bob", `{ viewer { user { name } } }`, nil); got.valueAt("viewer", "user", "name") != "Bob" {
					t.Errorf("the name of bob at the end: %v", got.Data)
				}
			})
		})
	}
}
