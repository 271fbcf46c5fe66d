package posts

import "tidings/services/export"

// Exports are the kinds of lines that an export of one user's data has about posts: the user as an author, their posts, the mentions
// in these, and the user's likes.
var Exports = []export.LineKind{
	export.NewLineKind("author", "followers number, countedAt time, mode number, pinned number", "",
		`SELECT followers, counted_at, mode, pinned FROM authors WHERE author = $1`),
	export.NewLineKind("post", "id post, publishedAt moment, key text, kind text, parent post, body text, updatedAt time, editedAt time, deletedAt time", "id BIGINT",
		`SELECT id, id, import_key, kind, parent, body, updated_at, edited_at, deleted_at FROM posts WHERE author = $1`),
	export.NewLineKind("mention", "post post, user user, at moment", "m.post BIGINT, m.mentioned BIGINT",
		`SELECT m.post, u.key, CASE WHEN m.since > m.post THEN m.since ELSE m.post END FROM posts p JOIN mentions m ON m.post = p.id JOIN users u ON u.number = m.mentioned
		WHERE p.author = $1`),
	export.NewLineKind("like", "post post, at time", "post BIGINT", `SELECT post, liked_at FROM likes WHERE liker = $1`),
}
