package store

import (
	"time"

	"tidings/services"
)

// ShowFormer is a show's position on boards between two versions of the log.
type ShowFormer struct {
	Show    services.PostID
	Host    services.UserID
	Version uint64    // from this version on
	Until   uint64    // before this one
	UntilAt time.Time // when that was
	Status  services.ShowStatus
	Score   int64 // its score at that position
}

// HostVersion is the last change of a host's live shows.
type HostVersion struct {
	Host    services.UserID
	Version uint64 // of the log, at which the set of the host's live shows last changed; 0: never
	Pulls   bool   // some of the host's replays are in no list
}
