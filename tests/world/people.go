package world

import "tidings/services/store"

// People makes users, as the host application does by naming them.
func (n *Node) People(keys ...string) {
	n.TB.Helper()
	err := n.Store.Write(n.TB.Context(), func(tx *store.Tx) error {
		_, err := tx.EnsureUsers(n.TB.Context(), keys)
		return err
	})
	if err != nil {
		n.TB.Fatal(err)
	}
}

// Follow lets a user follow another, and creates that user if needed.
func (n *Node) Follow(as, whom string) {
	n.TB.Helper()
	n.People(whom)
	n.Must(as, `mutation($u:ID!){follow(input:{userId:$u}){badges{total{value}}}}`, map[string]any{"u": "user:" + whom}, nil)
}
