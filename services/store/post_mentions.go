package store

import (
	"context"

	"tidings/services"
)

var (
	insertPostMentions = newInsertion("insert mentions in a post", "mentions", "post BIGINT, mentioned BIGINT", "")

	deletePostMentions = newStatement("forget who is mentioned in a post", `DELETE FROM mentions WHERE post = $1`)

	postMentions = newStatement("who is mentioned in a post", `SELECT mentioned FROM mentions WHERE post = $1 ORDER BY mentioned`)
)

// InsertPostMentions notes whom a new post names, each once.
func (tx *Tx) InsertPostMentions(ctx context.Context, post services.PostID, mentioned []services.UserID) error {
	all := make([][]any, len(mentioned))
	for i, user := range mentioned {
		all[i] = []any{post, user}
	}
	_, err := tx.insert(ctx, insertPostMentions, all)
	return err
}

// PostMentions lists whom a post names, in the order of their numbers.
func (s *Store) PostMentions(ctx context.Context, post services.PostID) ([]services.UserID, error) {
	return s.mentions(ctx, post)
}

// PostMentions lists whom a post names, in the order of their numbers.
func (tx *Tx) PostMentions(ctx context.Context, post services.PostID) ([]services.UserID, error) {
	return tx.mentions(ctx, post)
}

func (r runner) mentions(ctx context.Context, post services.PostID) ([]services.UserID, error) {
	var mentioned []services.UserID
	err := r.each(ctx, postMentions, []any{post}, func(scan func(...any) error) error {
		var user services.UserID
		err := scan(&user)
		mentioned = append(mentioned, user)
		return err
	})
	return mentioned, err
}
