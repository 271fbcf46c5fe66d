// Package people holds the data of users: the facts in SQL (profiles, visits, follows, restrictions, and what one user may see of
// another), the node cache of profiles and IDs, and the projection of profiles. The commands are in services/social.
//
// A user exists once the host application names them or their own token first asks; nothing else creates users. Whether a follow
// shows posts is a column of the follow, kept right under the lock of the follower's row.
//
// The main types: services.FollowEdge is a follow as feeds and fan-outs read it, with its mode; services.Restriction is a mute, a
// block or a hide; Memory is the node cache, which follows the changelog. Statements of other packages build on HidesFromCondition,
// HiddenOrBlockedCondition and FollowColumns, so that visibility and modes are defined once.
package people

import (
	"tidings/services/jobs"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// ProfileProjector projects users' profiles into their copies in Redis. It is safe for concurrent use.
type ProfileProjector struct {
	db    *sql.DB
	redis *rdb.Projections
}

// NewProfileProjector makes the projection of profiles, and registers its kind of jobs.
func NewProfileProjector(engine *jobs.Engine, db *sql.DB, redis *rdb.Projections) *ProfileProjector {
	p := &ProfileProjector{db, redis}
	engine.Register(jobs.Kind{Name: jobProjectProfile, Class: jobs.ShortClass, Each: jobs.UserWork(p.Project), ChangedCounts: jobs.NoCounts(), NamesUser: jobs.UserInKey})
	return p
}
