package audit_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// wrongReads makes one statement read wrong rows: it corrupts the rows just before the statement runs, and restore repairs them. So only
// what runs this statement reads wrong, as if the statement itself were wrong.
type wrongReads struct {
	mu        sync.Mutex
	write     func(text string) // changes rows in SQL
	statement string            // the statement that reads wrong; "" for none
	corrupt   string            // the SQL that makes the rows wrong
	repair    string            // the SQL that makes them right again
	corrupted bool              // the rows are wrong now
}

// beforeStatement gets each statement before it runs.
func (r *wrongReads) beforeStatement(name string) {
	r.mu.Lock()
	corrupts := name == r.statement && r.statement != "" && !r.corrupted
	r.corrupted = r.corrupted || corrupts
	r.mu.Unlock()
	if corrupts { // outside of the lock, because the writes are statements too
		r.write(r.corrupt)
	}
}

// restore makes the rows right again, and reports whether the statement has read wrong ones.
func (r *wrongReads) restore() bool {
	r.mu.Lock()
	corrupted := r.corrupted
	r.corrupted = false
	r.mu.Unlock()
	if corrupted {
		r.write(r.repair)
	}
	return corrupted
}

// wrongReader is an injected bug: a statement by which rebuilds read the facts reads them wrong. In corrupt and repair, %d is the user.
type wrongReader struct {
	statement       string
	corrupt, repair string
	differing       []string // what the audit must find
}

// wrongReaders has bugs in the reader of each versioned field. The audit reads each by a statement of its own.
var wrongReaders = map[string]wrongReader{
	"an announcement too many was read": {
		"a user's announcement state", "UPDATE user_notices SET position = position + 1 WHERE user_number = %d", "UPDATE user_notices SET position = position - 1 WHERE user_number = %d",
		[]string{"versioned field A"},
	},
	"dots count as dismissed for too long": {
		"a user's announcement state", "UPDATE user_notices SET dots_from = dots_from + 1 WHERE user_number = %d", "UPDATE user_notices SET dots_from = dots_from - 1 WHERE user_number = %d",
		[]string{"versioned field A"},
	},
	"the version of a position": {
		"a user's announcement state", "UPDATE user_notices SET ver = ver + 1 WHERE user_number = %d", "UPDATE user_notices SET ver = ver - 1 WHERE user_number = %d",
		[]string{"versioned field A"},
	},
	"a segment is dropped": {
		"a user's announcement state", "UPDATE user_segments SET segments = segments - 1 WHERE user_number = %d", "UPDATE user_segments SET segments = segments + 1 WHERE user_number = %d",
		[]string{"versioned field G"},
	},
	"all segments are dropped": {
		"a user's announcement state", "UPDATE user_segments SET user_number = -user_number WHERE user_number = %d", "UPDATE user_segments SET user_number = -user_number WHERE -user_number = %d",
		[]string{"versioned field G"},
	},
	"a dot was dismissed too late": {
		"a user's announcement state", "UPDATE user_dots SET seen = seen + 1 WHERE user_number = %d", "UPDATE user_dots SET seen = seen - 1 WHERE user_number = %d",
		[]string{"versioned field Dshop"},
	},
	"another dot was dismissed": {
		"a user's announcement state", "UPDATE user_dots SET dot = 'toys' WHERE user_number = %d", "UPDATE user_dots SET dot = 'shop' WHERE user_number = %d",
		[]string{"versioned field Dshop", "versioned field Dtoys"},
	},
	"a dot is dropped": {
		"a user's announcement state", "UPDATE user_dots SET user_number = -user_number WHERE user_number = %d", "UPDATE user_dots SET user_number = -user_number WHERE -user_number = %d",
		[]string{"versioned field Dshop"},
	},
	"a source is out of the total": {
		"a display policy", "UPDATE display_policies SET out_of_total = out_of_total + 2 WHERE user_number = %d", "UPDATE display_policies SET out_of_total = out_of_total - 2 WHERE user_number = %d",
		[]string{"versioned field P"},
	},
	"a source is a dot": {
		"a display policy", "UPDATE display_policies SET as_dot = as_dot + 2 WHERE user_number = %d", "UPDATE display_policies SET as_dot = as_dot - 2 WHERE user_number = %d",
		[]string{"versioned field P"},
	},
	"quiet hours end too late": {
		"a display policy", "UPDATE display_policies SET quiet_to = quiet_to + 1 WHERE user_number = %d", "UPDATE display_policies SET quiet_to = quiet_to - 1 WHERE user_number = %d",
		[]string{"versioned field P"},
	},
	"the version of a policy": {
		"a display policy", "UPDATE display_policies SET ver = ver + 1 WHERE user_number = %d", "UPDATE display_policies SET ver = ver - 1 WHERE user_number = %d",
		[]string{"versioned field P"},
	},
	"a policy is dropped": {
		"a display policy", "UPDATE display_policies SET user_number = -user_number WHERE user_number = %d", "UPDATE display_policies SET user_number = -user_number WHERE -user_number = %d",
		[]string{"versioned field P"},
	},
	"the live board was seen": {
		"positions of a user", "INSERT INTO user_access_log (user_number, view_code, view_id, position, last_access_at) VALUES (%d, 'live_board', '', 7, 0)",
		"DELETE FROM user_access_log WHERE user_number = %d AND view_code = 'live_board'",
		[]string{"versioned field B"},
	},
	"the version of notifications": {
		"notification states of a user", "UPDATE notification_state SET ver = ver + 1 WHERE recipient = %d", "UPDATE notification_state SET ver = ver - 1 WHERE recipient = %d",
		[]string{"versioned field HL", "versioned field NL"},
	},
	"a notification is dropped": {
		"notification states of a user", "UPDATE notification_groups SET read_to = newest WHERE recipient = %d", "UPDATE notification_groups SET read_to = 0 WHERE recipient = %d",
		[]string{"versioned field NL"},
	},
	"a mode that nobody chose": {
		"category preferences", "INSERT INTO category_preferences (user_number, ver, preferences) VALUES (%d, 1, 'null')", "DELETE FROM category_preferences WHERE user_number = %d",
		[]string{"versioned field Q"},
	},
	"a site message is dropped": {
		"states of a user's site messages", "UPDATE site_message_recipients SET read_at = 1 WHERE user_number = %d", "UPDATE site_message_recipients SET read_at = NULL WHERE user_number = %d",
		[]string{"versioned field Sgeneral"},
	},
	"an item of a view is dropped": {
		"new items in the views of users", "UPDATE view_items SET standing = FALSE WHERE item = 'b' AND %d > 0", "UPDATE view_items SET standing = TRUE WHERE item = 'b' AND %d > 0",
		[]string{"versioned field V"},
	},
}

// The audit finds a wrong statement on the side of the rebuilds. It would not if it ran the same statement: it would then agree with
// what the wrong one wrote.
func TestAuditFindsWrongReadersOfRebuilds(t *testing.T) {
	for name, bug := range wrongReaders {
		t.Run(name, func(t *testing.T) {
			reads := &wrongReads{}
			w := newNode(fanouttest.New(t, fanouttest.Options{RedisURL: "embedded", Trace: reads.beforeStatement}))
			user, _ := newUserWithFullDocument(w)
			reads.write = func(text string) {
				w.Write(func(ctx context.Context, tx *sql.Tx) error {
					_, err := sqltest.QueryLines(ctx, tx, text)
					return err
				})
			}
			of := func(text string) string { return fmt.Sprintf(text, user) }
			reads.mu.Lock()
			reads.statement, reads.corrupt, reads.repair = bug.statement, of(bug.corrupt), of(bug.repair)
			reads.mu.Unlock()
			recount(w, user) // this document is of the wrong statement
			if !reads.restore() {
				t.Fatalf("a rebuild does not run %q", bug.statement)
			}
			differing := recount(w, user)
			reads.restore()
			if !slices.Equal(differing, bug.differing) {
				t.Errorf("the audit found %q, want %q", differing, bug.differing)
			}
			a := newAudit(w, auditLapTime)
			runLap(w, a)
			if got := a.Stats(); got.DriftedUsers == 0 {
				t.Errorf("a lap found nothing: %+v", got)
			}
		})
	}
}

// recount makes a user's projection anew from the facts, and returns what differed from them.
func recount(w node, user services.UserID) []string {
	w.TB.Helper()
	differing, err := w.Projector.Recount(w.TB.Context(), user)
	w.Must(err)
	return differing
}
