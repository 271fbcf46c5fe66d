package store

import (
	"time"

	"tidings/services"
)

// ShowFormer is where a show stood before: between two versions of the log.
type ShowFormer struct {
	Show    services.PostID
	Host    services.UserNumber
	Version uint64    // from this version on
	Until   uint64    // before this one
	UntilAt time.Time // when that was
	Status  services.ShowStatus
	Score   int64 // of its place then
}

// HostStamp is how far the live shows of a host have changed.
type HostStamp struct {
	Host  services.UserNumber
	Stamp uint64 // the last change of which of his shows are live (us), strictly rising
	Pulls bool   // some of his replays are in nobody's list
}
