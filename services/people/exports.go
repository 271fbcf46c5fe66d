package people

import "tidings/services/export"

// Exports are the kinds of lines of an export of a user: their profile, follows and restrictions.
var Exports = []export.LineKind{
	export.NewLineKind("profile", "user user, name text, avatarUrl text, updatedAt time, seenAt time, visitBefore time", "",
		`SELECT key, name, avatar_url, updated_at, seen_at, visited_before FROM users WHERE number = $1`),
	// shown is about the user's own mute, and not the column of that name: a hide clears the column too, and nobody is notified of a hide.
	export.NewLineKind("follow", "user user, since moment, shown bool, mode text", "f.followee BIGINT",
		`SELECT u.key, `+FollowedAt+`, NOT EXISTS (SELECT 1 FROM mutes m WHERE m.muter = f.follower AND m.muted = f.followee), COALESCE((SELECT CASE m.mode WHEN 1 THEN 'LIVE_ONLY' ELSE 'NONE' END
			FROM follow_modes m WHERE m.follower = f.follower AND m.followee = f.followee), 'ALL') FROM follows f JOIN users u ON u.number = f.followee WHERE f.follower = $1`),
	export.NewLineKind("pastFollow", "user user, until time", "p.followee BIGINT",
		`SELECT u.key, p.until_at FROM past_follows p JOIN users u ON u.number = p.followee WHERE p.follower = $1`),
	export.NewLineKind("followers", "count number", "", `SELECT count(*) FROM follows WHERE followee = $1`),
	export.NewLineKind("mute", "user user, at moment, until time", "m.made BIGINT",
		`SELECT u.key, m.made, m.until FROM mutes m JOIN users u ON u.number = m.muted WHERE m.muter = $1`),
	export.NewLineKind("block", "user user, at moment", "b.made BIGINT",
		`SELECT u.key, b.made FROM blocks b JOIN users u ON u.number = b.blocked WHERE b.blocker = $1`),
	export.NewLineKind("hide", "user user, at moment", "h.made BIGINT",
		`SELECT u.key, h.made FROM hides h JOIN users u ON u.number = h.follower WHERE h.author = $1`),
}
