package sql

import (
	"testing"

	"tidings/services"
)

// A statement about users compares with one user, or with the list of several. Both texts are otherwise the same.
func TestAStatementAboutOneUserComparesWithoutAList(t *testing.T) {
	both := NewUserStatement("test of a user", "test of users", "SELECT a FROM t WHERE {user t.b} AND c = $2")
	for _, c := range []struct {
		users            []services.UserID
		sqlite, postgres string
	}{
		{[]services.UserID{7}, "SELECT a FROM t WHERE t.b = ?1 AND c = ?2", "SELECT a FROM t WHERE t.b = $1 AND c = $2"},
		{[]services.UserID{7, 8}, "SELECT a FROM t WHERE t.b IN (SELECT value FROM json_each(?1)) AND c = ?2", "SELECT a FROM t WHERE t.b = ANY($1::BIGINT[]) AND c = $2"},
		{nil, "SELECT a FROM t WHERE t.b IN (SELECT value FROM json_each(?1)) AND c = ?2", "SELECT a FROM t WHERE t.b = ANY($1::BIGINT[]) AND c = $2"},
	} {
		st, of := both.ForUsers(c.users)
		if one, isOne := of.(services.UserID); st.Text(SQLite) != c.sqlite || st.Text(Postgres) != c.postgres || isOne != (len(c.users) == 1) || isOne && one != c.users[0] {
			t.Errorf("of %v: %q and %q with %v", c.users, st.Text(SQLite), st.Text(Postgres), of)
		}
	}
}
