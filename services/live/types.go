package live

import (
	"time"

	"tidings/services"
)

// ShowStatus is the state of a show.
type ShowStatus string

// The statuses.
const (
	ShowUpcoming  ShowStatus = "UPCOMING"  // planned
	ShowLive      ShowStatus = "LIVE"      // running
	ShowReplay    ShowStatus = "REPLAY"    // over
	ShowCancelled ShowStatus = "CANCELLED" // it never ran, or its host was erased; no board has it
)

// ShowStatuses lists every status, in the order of their numbers in SQL. New statuses are only appended: rows of shows and of
// their history hold the index, and statements compare with it (status < 2 is live or upcoming).
var ShowStatuses = []ShowStatus{ShowUpcoming, ShowLive, ShowReplay, ShowCancelled}

// Show is one broadcast of a host. All times are in UTC, and all but UpdatedAt are whole milliseconds; the zero time means not yet.
type Show struct {
	ID        services.ShowID // made when it was scheduled
	Host      services.UserID
	Title     string // 1 to 255 characters
	CoverURL  string // http or https; "" for none
	ReplayURL string // http or https; "" until it is ready
	Status    ShowStatus
	PlannedAt time.Time
	StartedAt time.Time
	// EndedAt of an upcoming show is an end that was reported before the start: the show becomes a replay when the start is
	// reported.
	EndedAt     time.Time
	CancelledAt time.Time
	UpdatedAt   time.Time // the last change of any field, to the microsecond

	// Version is the changelog version of the last change of the show's status or position; 0 while no board has the show.
	Version uint64
	// LiveVersion is the changelog version at which the show went live; 0 if it never did.
	LiveVersion uint64
	// LiveStamp is an ID of the moment at which the show went live: the show counts for users who followed the host before that moment.
	// It is 0 for a show that never went live.
	LiveStamp services.SortableID
	// Pull reports that the replay is in no list: it comes from the node cache. Pull is decided once, when the show ends, by the
	// host's mode at that moment. A later change of the mode moves no replay: otherwise the replay could be in both lists, or in
	// neither.
	Pull bool
}

// GlobalID is the show's global id.
func (s Show) GlobalID() string { return services.GlobalID(services.ShowType, s.ID.String()) }

// OverAt is when the show ended; it is the zero time before the end. An end that was reported before the start does not count
// yet.
func (s Show) OverAt() time.Time {
	if s.Status == ShowUpcoming {
		return time.Time{}
	}
	return s.EndedAt
}

// Position is the show's position on boards, by its status and times; a cancelled show has none.
func (s Show) Position() ShowPosition {
	switch s.Status {
	case ShowLive:
		return ShowPosition{Score: s.StartedAt.UnixMilli(), ID: s.ID}
	// The plan is negated, so that the same descending order puts the soonest plan first, below every live show, whose score is
	// positive.
	case ShowUpcoming:
		return ShowPosition{Score: -s.PlannedAt.UnixMilli(), ID: s.ID}
	case ShowReplay:
		return ShowPosition{Replay: true, Score: s.EndedAt.UnixMilli(), ID: s.ID}
	}
	return ShowPosition{}
}

// ShowPosition is a position on a board. Score is a time in milliseconds: the start of a live show, the negated plan of an upcoming
// one, the end of a replay. Descending order puts live shows before upcoming ones, the newest start first and the soonest plan
// first. Replays come after both. Equal times are ordered by ID, the greater first. The zero value is no position.
type ShowPosition struct {
	Replay bool // the position is among the replays
	Score  int64
	ID     services.ShowID // of the show
}

// Before reports whether a position is above another one on a board.
func (p ShowPosition) Before(other ShowPosition) bool {
	switch {
	case p.Replay != other.Replay:
		return other.Replay
	case p.Score != other.Score:
		return p.Score > other.Score
	}
	return p.ID > other.ID
}

// The bounds of shows. An upcoming show stays in the memory of every node, so maxUpcomingShows bounds what one host can make the
// nodes keep. maxReminders bounds what setting a reminder has to count.
const (
	maxShowTitle     = 255  // characters
	maxUpcomingShows = 1000 // of one host at once
	maxReminders     = 1000 // of one user for shows that are still upcoming
)

// ParseShowID reads "show:KEY". field names the argument in the error.
func ParseShowID(field, id string) (services.ShowID, error) {
	value, err := services.ParseTypedID(field, id, services.ShowType)
	return services.ShowID(value), err
}
