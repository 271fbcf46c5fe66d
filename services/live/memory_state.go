package live

import (
	"cmp"
	"slices"
	"time"

	"tidings/services"
)

// showState is what a node caches of the shows on boards. It has all upcoming and live shows, by host. For as long as a
// session can last it also has former positions, and the shows that ended or were cancelled. Besides, it has the newest
// replays of hosts whose replays are in no list. It is not safe for concurrent use: Memory.mu guards it.
//
// A board at a version is read without a search by time: a host's positions are sorted, and those that are not valid at
// the version are skipped. Most are present positions, so few are skipped.
type showState struct {
	byID        map[services.ShowID]*cachedShow // all cached shows
	hosts       *hostTable                      // the hosts of shows on boards, with the shows' positions
	recentMoves []recentMove                    // the oldest first
}

// cachedShow is a compact Show: a node keeps all active ones, tens of thousands. Times are numbers and the texts one string,
// because each time.Time takes 24 bytes and each string two words and an allocation that the garbage collector walks. The
// positions of a show point to it.
type cachedShow struct {
	id                                                         services.ShowID
	version, liveVersion                                       uint64              // as in Show
	liveStamp                                                  services.SortableID // as in Show
	plannedMillis, startedMillis, endedMillis, cancelledMillis int64               // 0: not yet
	updatedMicros                                              int64               // of Show.UpdatedAt
	joinedTexts                                                string              // the title, the cover URL and the replay URL, joined
	host                                                       services.UserID
	titleBytes, coverBytes                                     uint32 // the lengths of the title and of the cover URL in joinedTexts
	status                                                     uint8  // the index in ShowStatuses
	pull                                                       bool   // as in Show
	movedBeforeSessions                                        bool   // its last move is older than any running session
}

// hostShows are the present and former positions of a host's shows, each list in the order of boards.
type hostShows struct {
	active, replays []versionedPosition // active: positions of live and of upcoming shows
}

// versionedPosition is the position of a show in the versions v of the log with fromVersion <= v < untilVersion.
type versionedPosition struct {
	score                     int64 // of its position: greater than 0 for a live show or a replay, less for an upcoming one
	id                        services.ShowID
	show                      *cachedShow
	fromVersion, untilVersion uint64 // untilVersion 0: the present position
}

// recentMove is a move of a show. When the move is older than Memory.historyHorizon, no session can need the position before it.
type recentMove struct {
	atMillis int64 // the time of the move
	show     services.ShowID
	version  uint64 // the show's version after the move
}

func newShowState() *showState {
	return &showState{byID: map[services.ShowID]*cachedShow{}, hosts: newHostTable()}
}

// holdsAt reports whether the show has this position at a version.
func (s *versionedPosition) holdsAt(version uint64) bool {
	return s.fromVersion <= version && (s.untilVersion == 0 || version < s.untilVersion)
}

// comparePositions orders positions as boards do, and equal positions of one show by their versions.
func comparePositions(a, b versionedPosition) int {
	switch {
	case a.score != b.score:
		return cmp.Compare(b.score, a.score)
	case a.id != b.id:
		return cmp.Compare(b.id, a.id)
	}
	return cmp.Compare(a.fromVersion, b.fromVersion)
}

// before reports whether a position is above another one on a board, if both hold at one version. It orders them as comparePositions
// does, but copies neither.
func (s *versionedPosition) before(other *versionedPosition) bool {
	return s.score > other.score || s.score == other.score && s.id > other.id
}

// addPosition puts a position into a list unless it is there, and returns its index.
func addPosition(list []versionedPosition, one versionedPosition) ([]versionedPosition, int) {
	at, known := slices.BinarySearchFunc(list, one, comparePositions)
	if known {
		return list, at
	}
	return slices.Insert(list, at, one), at
}

// showsOf returns a host's shows for modification, and adds them if there are none. A caller that leaves both lists empty calls
// cachedHost.updateTopScores, which drops them.
func (s *showState) showsOf(id services.UserID) *hostShows {
	known := s.hosts.add(id)
	if known.shows == nil {
		known.shows = &hostShows{}
	}
	return known.shows
}

// raiseLiveVersion raises the version at which a host's set of live shows last changed, and reports whether it was lower before: false
// for an entry that was applied before, or whose effect a load has read.
func (s *showState) raiseLiveVersion(id services.UserID, version uint64) bool {
	known := s.hosts.add(id)
	behind := known.liveVersion < version
	known.liveVersion = max(known.liveVersion, version)
	return behind
}

// put sets a show to its state at its version. A state that is not newer than the cached one changes nothing, so a change
// may be applied twice. at is the time of the move. changed reports whether boards show a difference.
func (s *showState) put(next Show, at time.Time) (changed bool) {
	known := s.byID[next.ID]
	if known == nil {
		known = &cachedShow{id: next.ID, host: next.Host}
		s.byID[next.ID] = known
	}
	switch updated := next.UpdatedAt.UnixMicro(); {
	case next.Version > known.version:
		// endPosition ends the former position, and keeps it for the sessions that began before this move. recentMoves
		// records the move, so that forgetPositions can drop the position later.
		s.endPosition(known, next.Version)
		known.setStatusAndTimes(next)
		known.setTexts(next)
		s.beginPosition(known)
		s.recentMoves = append(s.recentMoves, recentMove{at.UnixMilli(), next.ID, next.Version})
		if known.pull {
			s.trimPulledReplays(known.host)
		}
		s.hosts.add(known.host).updateTopScores()
		return true
	// Entries of one show are in order, but a load may have brought a later text already.
	case next.Version == known.version && updated >= known.updatedMicros:
		former := known.joinedTexts
		known.endedMillis = millis(next.EndedAt) // an end may be reported before the start
		known.setTexts(next)
		return known.joinedTexts != former
	}
	return false
}

// endPosition ends a show's present position. A replay moves only when its host is erased: then no session may show it any more, and
// its position is deleted at once.
func (s *showState) endPosition(known *cachedShow, version uint64) {
	shows := s.showsOf(known.host)
	if known.is(ShowReplay) {
		shows.replays = slices.DeleteFunc(shows.replays, func(one versionedPosition) bool { return one.show == known })
	}
	for i, one := range shows.active {
		if one.show == known && one.fromVersion == known.version && one.untilVersion == 0 {
			shows.active[i].untilVersion = version
		}
	}
}

// beginPosition adds a show's new position. A load may have added it already as a former position, with its end.
func (s *showState) beginPosition(known *cachedShow) {
	shows := s.showsOf(known.host)
	position := known.position()
	one := versionedPosition{score: position.Score, id: known.id, show: known, fromVersion: known.version}
	switch {
	case position == (ShowPosition{}): // cancelled
	case position.Replay:
		shows.replays, _ = addPosition(shows.replays, one)
	default:
		shows.active, _ = addPosition(shows.active, one)
	}
}

// addFormerPosition adds a former position of a show that a load has read from SQL.
func (s *showState) addFormerPosition(former formerPosition) {
	known := s.byID[former.Show]
	if known == nil {
		return // the show was published after the load began, and the log will bring it
	}
	s.recentMoves = append(s.recentMoves, recentMove{former.UntilAt.UnixMilli(), former.Show, former.UntilVersion})
	// This is the last move of the show, and it is recent: a session may need the position before it.
	if former.UntilVersion == known.version {
		known.movedBeforeSessions = false
	}
	if former.FromVersion > 0 && (former.Status == ShowUpcoming || former.Status == ShowLive) {
		shows, at := s.showsOf(known.host), 0
		shows.active, at = addPosition(shows.active, versionedPosition{score: former.Score, id: known.id, show: known, fromVersion: former.FromVersion})
		shows.active[at].untilVersion = former.UntilVersion
		s.hosts.add(known.host).updateTopScores()
	}
}

// forgetPositions drops the positions that shows left at until (ms) or before, and the shows that were over by then.
func (s *showState) forgetPositions(until int64) {
	old := 0
	for ; old < len(s.recentMoves) && s.recentMoves[old].atMillis <= until; old++ {
		move := s.recentMoves[old]
		known := s.byID[move.show]
		if known == nil {
			continue
		}
		shows := s.showsOf(known.host)
		shows.active = slices.DeleteFunc(shows.active, func(one versionedPosition) bool { return one.show == known && one.untilVersion == move.version })
		// If this was the show's last move, no session needs an older position of it. A replay that is in lists leaves
		// the cache: pages read it from SQL, or from the cache of recently read shows.
		if known.version == move.version {
			s.markMovedBeforeSessions(known)
		}
		s.hosts.add(known.host).updateTopScores()
	}
	if s.recentMoves = s.recentMoves[old:]; len(s.recentMoves) == 0 {
		s.recentMoves = nil
	}
}

// markMovedBeforeSessions records that a show's last move is older than any session, and drops the show if it is over.
func (s *showState) markMovedBeforeSessions(known *cachedShow) {
	known.movedBeforeSessions = true
	switch {
	case known.is(ShowReplay) && known.pull:
		s.trimPulledReplays(known.host)
	case known.is(ShowReplay):
		shows := s.showsOf(known.host)
		shows.replays = slices.DeleteFunc(shows.replays, func(one versionedPosition) bool { return one.show == known })
		delete(s.byID, known.id)
	case known.is(ShowCancelled):
		delete(s.byID, known.id)
	}
}

// trimPulledReplays keeps a host's newest pulled replays, as many as a board can show. It also keeps replays that may be newer than
// the board of a running session: the session needs them to know that it must leave them out. The list is in the order of boards,
// so counting from its start counts the newest.
func (s *showState) trimPulledReplays(id services.UserID) {
	shows, pulled := s.showsOf(id), 0
	shows.replays = slices.DeleteFunc(shows.replays, func(one versionedPosition) bool {
		if !one.show.pull {
			return false
		}
		pulled++
		if pulled <= services.FeedRetention || !one.show.movedBeforeSessions {
			return false
		}
		delete(s.byID, one.show.id)
		return true
	})
}

func (k *cachedShow) is(status ShowStatus) bool {
	return ShowStatuses[k.status] == status
}

// position is the show's present position. It uses Show.Position, so that the order of boards is defined once.
func (k *cachedShow) position() ShowPosition {
	return Show{
		ID: k.id, Status: ShowStatuses[k.status], PlannedAt: fromMillis(k.plannedMillis), StartedAt: fromMillis(k.startedMillis), EndedAt: fromMillis(k.endedMillis),
	}.Position()
}

// setStatusAndTimes copies the status and the times of a show at a new version. It clears movedBeforeSessions, because the show has
// just moved.
func (k *cachedShow) setStatusAndTimes(next Show) {
	k.status = uint8(max(0, slices.Index(ShowStatuses, next.Status)))
	k.version, k.liveVersion, k.liveStamp, k.pull, k.movedBeforeSessions = next.Version, next.LiveVersion, next.LiveStamp, next.Pull, false
	k.plannedMillis, k.startedMillis = millis(next.PlannedAt), millis(next.StartedAt)
	k.endedMillis, k.cancelledMillis = millis(next.EndedAt), millis(next.CancelledAt)
}

// setTexts copies the texts of a show. Unchanged texts keep their string, which spares an allocation for each start and end.
func (k *cachedShow) setTexts(next Show) {
	k.updatedMicros = next.UpdatedAt.UnixMicro()
	if title, cover, replay := k.texts(); title == next.Title && cover == next.CoverURL && replay == next.ReplayURL {
		return
	}
	k.joinedTexts = next.Title + next.CoverURL + next.ReplayURL
	k.titleBytes, k.coverBytes = uint32(len(next.Title)), uint32(len(next.CoverURL))
}

// texts splits joinedTexts.
func (k *cachedShow) texts() (title, cover, replay string) {
	return k.joinedTexts[:k.titleBytes], k.joinedTexts[k.titleBytes : k.titleBytes+k.coverBytes], k.joinedTexts[k.titleBytes+k.coverBytes:]
}

// toShow returns the show as it is now.
func (k *cachedShow) toShow() Show {
	title, cover, replay := k.texts()
	return Show{
		ID: k.id, Host: k.host, Title: title, CoverURL: cover, ReplayURL: replay, Status: ShowStatuses[k.status],
		PlannedAt: fromMillis(k.plannedMillis), StartedAt: fromMillis(k.startedMillis), EndedAt: fromMillis(k.endedMillis), CancelledAt: fromMillis(k.cancelledMillis),
		UpdatedAt: time.UnixMicro(k.updatedMicros).UTC(), Version: k.version, LiveVersion: k.liveVersion, LiveStamp: k.liveStamp, Pull: k.pull,
	}
}

// millis is a time in milliseconds since 1970; 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// fromMillis is the inverse of millis.
func fromMillis(ms int64) (t time.Time) {
	if ms != 0 {
		t = time.UnixMilli(ms).UTC()
	}
	return t
}
