package people

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// Each part of the union walks an index by the viewer. The number in the second column says what the row means: 0 to 4 are the
// fields of a Relation in the order below, and a greater number is 4 plus the mode of the follow.
var relationsOf = sql.NewStatement("relations of a user", `
SELECT followee, 0 FROM follows WHERE follower = $1 AND {in followee $2 BIGINT}
UNION ALL SELECT follower, 1 FROM follows WHERE followee = $1 AND {in follower $2 BIGINT}
UNION ALL SELECT muted, 2 FROM mutes WHERE muter = $1 AND {in muted $2 BIGINT} AND (until = 0 OR until > $3)
UNION ALL SELECT blocked, 3 FROM blocks WHERE blocker = $1 AND {in blocked $2 BIGINT}
UNION ALL SELECT follower, 4 FROM hides WHERE author = $1 AND {in follower $2 BIGINT}
UNION ALL SELECT followee, 4 + mode FROM follow_modes WHERE follower = $1 AND {in followee $2 BIGINT}`)

// Relations reads the relations between a viewer and some users, by one statement. A user without any relation is absent.
func Relations(ctx context.Context, db *sql.DB, viewer services.UserID, users []services.UserID, now time.Time) (map[services.UserID]services.Relation, error) {
	found := make(map[services.UserID]services.Relation, len(users))
	err := db.Each(ctx, relationsOf, []any{viewer, users, now}, func(scan func(...any) error) error {
		var user services.UserID
		var kind int
		err := scan(&user, &kind)
		r := found[user]
		if kind > 4 {
			r.Mode = services.FollowMode(kind - 4)
		} else {
			*[]*bool{&r.Follows, &r.FollowsViewer, &r.Mutes, &r.Blocks, &r.Hides}[kind] = true
		}
		found[user] = r
		return err
	})
	return found, err
}
