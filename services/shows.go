package services

import "time"

// ShowStatus is where a show stands.
type ShowStatus string

// The statuses.
const (
	ShowUpcoming  ShowStatus = "UPCOMING"  // it is planned
	ShowLive      ShowStatus = "LIVE"      // it runs
	ShowReplay    ShowStatus = "REPLAY"    // it is over
	ShowCancelled ShowStatus = "CANCELLED" // it never ran; no board has it
)

// ShowStatuses lists every status, in the order of the numbers that SQL has for them.
var ShowStatuses = []ShowStatus{ShowUpcoming, ShowLive, ShowReplay, ShowCancelled}

// Show is one broadcast of a host. All times are whole milliseconds in UTC; zero is not yet.
type Show struct {
	ID        PostID // of the moment when it was scheduled
	Host      UserID
	Title     string // 1 to 255 characters
	CoverURL  string // http or https; "" for none
	ReplayURL string // the same; "" while it is not ready
	Status    ShowStatus
	PlannedAt time.Time
	StartedAt time.Time
	// EndedAt of an upcoming show is an end that was told before its start: it becomes a replay when that comes.
	EndedAt     time.Time
	CancelledAt time.Time
	UpdatedAt   time.Time // the last change of anything, to the microsecond

	// Version is the version of the log at which its status or its place changed last; 0 while no board has it.
	Version uint64
	// LiveVersion is the version at which it went live, LiveStamp an id of that moment, by which it counts or not for who
	// followed the host before or after; 0: it never did.
	LiveVersion uint64
	LiveStamp   PostID
	// Pull says that its replay is in nobody's list: nodes have it in memory.
	Pull bool
}

// GlobalID is the show's global id.
func (s Show) GlobalID() string { return GlobalID(ShowType, s.ID.String()) }

// Place is where boards have the show, by its status and times; a cancelled one has none.
func (s Show) Place() ShowPlace {
	switch s.Status {
	case ShowLive:
		return ShowPlace{Score: s.StartedAt.UnixMilli(), ID: s.ID}
	case ShowUpcoming:
		return ShowPlace{Score: -s.PlannedAt.UnixMilli(), ID: s.ID}
	case ShowReplay:
		return ShowPlace{Replay: true, Score: s.EndedAt.UnixMilli(), ID: s.ID}
	}
	return ShowPlace{}
}

// ShowPlace is a place on a board. Score is a time in milliseconds: the start of a live show, the negated plan of an upcoming
// one, the end of a replay. One descending order of it puts the live before the upcoming, the newest start first and the
// soonest plan first; replays come after both. Equal times go by id, the greater first. The zero value is no place.
type ShowPlace struct {
	Replay bool
	Score  int64
	ID     PostID
}

// Before says whether a place stands above another one on a board.
func (p ShowPlace) Before(other ShowPlace) bool {
	switch {
	case p.Replay != other.Replay:
		return other.Replay
	case p.Score != other.Score:
		return p.Score > other.Score
	}
	return p.ID > other.ID
}

// LiveCount is how many shows of followed hosts run that went live since a viewer looked, as a node knows when it renders.
type LiveCount struct {
	New      int
	Sequence uint64 // the sum of the hosts' versions: it rises with each change of which shows are live
	Behind   bool   // of the shows nothing is known yet
}

// The bounds of shows.
const (
	MaxShowTitle     = 255  // characters
	MaxUpcomingShows = 1000 // of one host at once
	MaxReminders     = 1000 // of one user for shows that are still upcoming
)

// ParseShowID reads "show:KEY". field names the argument in the error.
func ParseShowID(field, id string) (PostID, error) { return parsePlace(field, id, ShowType) }
