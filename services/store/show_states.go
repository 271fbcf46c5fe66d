package store

import (
	"time"

	"tidings/services"
)

// ShowFormer is where a show stood before: between two versions of the log.
type ShowFormer struct {
	Show    services.PostID
	Host    services.UserID
	Version uint64    // from this version on
	Until   uint64    // before this one
	UntilAt time.Time // when that was
	Status  services.ShowStatus
	Score   int64 // of its place then
}

// HostVersion is how far the live shows of a host have changed.
type HostVersion struct {
	Host    services.UserID
	Version uint64 // of the log, at which other shows of the host were live than before; 0: never
	Pulls   bool   // some of the host's replays are in nobody's list
}
