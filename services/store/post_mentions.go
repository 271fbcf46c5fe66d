package store

import (
	"context"

	"tidings/services"
	"tidings/services/sql"
)

var (
	insertPostMentions = sql.NewInsertion("insert mentions in a post", "mentions", "post BIGINT, mentioned BIGINT", "")

	deletePostMentions = sql.NewStatement("forget who is mentioned in a post", `DELETE FROM mentions WHERE post = $1`)

	postMentions = sql.NewStatement("who is mentioned in a post", `SELECT mentioned FROM mentions WHERE post = $1 ORDER BY mentioned`)
)

// InsertPostMentions stores the users whom a new post mentions, each once.
func (tx *Tx) InsertPostMentions(ctx context.Context, post services.PostID, mentioned []services.UserID) error {
	all := make([][]any, len(mentioned))
	for i, user := range mentioned {
		all[i] = []any{post, user}
	}
	_, err := tx.Insert(ctx, insertPostMentions, all)
	return err
}

// PostMentions lists the users whom a post mentions, in order of user ID.
func (s *Store) PostMentions(ctx context.Context, post services.PostID) ([]services.UserID, error) {
	return mentions(ctx, s.DB.Runner, post)
}

// PostMentions lists the users whom a post mentions, in order of user ID.
func (tx *Tx) PostMentions(ctx context.Context, post services.PostID) ([]services.UserID, error) {
	return mentions(ctx, tx.Tx.Runner, post)
}

func mentions(ctx context.Context, r sql.Runner, post services.PostID) ([]services.UserID, error) {
	return sql.Column[services.UserID](ctx, r, postMentions, post)
}
