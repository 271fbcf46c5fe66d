package main

import "tidings/services/store"

// people makes users, as the host application does by naming them.
func (n *node) people(keys ...string) {
	n.tb.Helper()
	err := n.store.Write(n.tb.Context(), func(tx *store.Tx) error {
		_, err := tx.EnsureUsers(n.tb.Context(), keys)
		return err
	})
	if err != nil {
		n.tb.Fatal(err)
	}
}

// follow lets somebody follow a user, who is made if there is none.
func (n *node) follow(as, whom string) {
	n.tb.Helper()
	n.people(whom)
	n.must(as, `mutation($u:ID!){follow(input:{userId:$u}){badges{total{value}}}}`, map[string]any{"u": "user:" + whom}, nil)
}
