package world

import (
	"tidings/services/people"
	"tidings/services/sql"
)

// CreateUsers creates users, as the host application does when it names them.
func (n *Node) CreateUsers(keys ...string) {
	n.TB.Helper()
	err := n.DB.Write(n.TB.Context(), func(tx *sql.Tx) error {
		_, err := people.Ensure(n.TB.Context(), tx, keys)
		return err
	})
	if err != nil {
		n.TB.Fatal(err)
	}
}

// Follow lets one user follow another, and creates the followed user if needed.
func (n *Node) Follow(as, whom string) {
	n.TB.Helper()
	n.CreateUsers(whom)
	n.MustAsk(as, `mutation($u:ID!){follow(input:{userId:$u}){badges{total{value}}}}`, map[string]any{"u": "user:" + whom}, nil)
}
