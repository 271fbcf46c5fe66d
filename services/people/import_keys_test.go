package people

import (
	"strings"
	"testing"

	"tidings/services"
)

// indexesOf adds the keys of a row to a table.
func indexesOf(table *KeyTable, one, other string) (int32, int32) {
	return table.IndexOf([]byte(one)), table.IndexOf([]byte(other))
}

// A key table learns the ID of a user from one transaction, and keeps it. A table that has become too large is emptied.
func TestKeyTableRemembersIDs(t *testing.T) {
	table := NewKeyTable("u")
	_, two := indexesOf(table, "1", "2")
	ids := map[string]services.UserID{"u1": 11, "u2": 12}
	if fresh := strings.Join(table.UnresolvedKeys(), " "); fresh != "u1 u2" || table.ID(two, ids) != 12 {
		t.Errorf("before: fresh %q, ID %d", fresh, table.ID(two, ids))
	}
	table.RememberIDs(ids)
	two, three := indexesOf(table, "2", "3")
	if fresh := strings.Join(table.UnresolvedKeys(), " "); fresh != "u3" || table.ID(two, nil) != 12 || table.ID(three, map[string]services.UserID{"u3": 13}) != 13 {
		t.Errorf("after: fresh %q", fresh)
	}
	table.keys = make([]string, maxTableKeys+1)
	table.RememberIDs(nil)
	if len(table.keys) != 0 || table.resolvedCount != 0 || table.prefix != "u" {
		t.Errorf("a large table keeps %d keys, %d known, prefix %q", len(table.keys), table.resolvedCount, table.prefix)
	}
}
