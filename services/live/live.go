// Package live is shows and the live board: scheduling, starting, ending, boards that keep still while somebody scrolls, and
// their source of the badges.
//
// A session is a version of the board, not a copy of it: every node makes the same page of it from its memory of shows and
// from the viewer's list of replays, in at most two round trips. Statuses and places do not change within a session,
// whatever the hosts do meanwhile.
// When the list of replays is lost it is made again while SQL answers; when Redis does not answer, boards come from SQL, and
// sessions live as long as they can.
package live

import (
	"time"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/mirror"
	"tidings/services/rdb"
	"tidings/services/store"
)

// Config configures the service.
type Config struct {
	Store  *store.Store
	Redis  *rdb.Projections
	Reader *mirror.Reader
	Shows  *mirror.Shows
	Fanout *fanout.Fanout
	IDs    *services.IDClock
	Clock  services.Clock

	Sessions Scope // for how many sessions there is room at once; "" means PerRequest
	// BuildWait is how long a page waits for a rebuild before it is read from SQL; 0 means 500 ms.
	BuildWait  time.Duration
	SessionFor time.Duration // how long a session lives after its last page; 0 means 30 minutes. None lives longer than 24 times that
}

// Service implements shows and boards. It is safe for concurrent use.
type Service struct {
	store  *store.Store
	redis  *rdb.Projections
	reader *mirror.Reader
	shows  *mirror.Shows
	fanout *fanout.Fanout
	ids    *services.IDClock
	clock  services.Clock
	ages   services.SourceExpiry

	sessions      Scope
	idle, longest time.Duration
	buildWait     time.Duration
}

// New makes the service.
func New(cfg Config) *Service {
	if cfg.Sessions == "" {
		cfg.Sessions = PerRequest
	}
	if cfg.SessionFor == 0 {
		cfg.SessionFor = 30 * time.Minute
	}
	if cfg.BuildWait == 0 {
		cfg.BuildWait = 500 * time.Millisecond
	}
	return &Service{
		buildWait: cfg.BuildWait,
		store:     cfg.Store, redis: cfg.Redis, reader: cfg.Reader, shows: cfg.Shows, fanout: cfg.Fanout, ids: cfg.IDs, clock: cfg.Clock, ages: cfg.Fanout.Expiry(),
		sessions: cfg.Sessions, idle: cfg.SessionFor, longest: SessionLives * cfg.SessionFor,
	}
}

// SessionLives is how many times its idle time a session lives at most, however often it is read. Nodes and SQL keep former
// positions of shows for that long.
const SessionLives = 24
