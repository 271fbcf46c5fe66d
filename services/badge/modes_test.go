package badge

import (
	"context"
	"fmt"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/live/livetest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// The mode of a follow decides which items count. The badges, their explanation, the digest and the facts agree on that.
func TestFollowModesApplyToExplanationAndDigest(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		reader, hosts, shows := n.newReaderOfHosts()
		over := livetest.ScheduleShow(n.World, hosts[0], time.Hour)
		n.RunJobsAndReadLog()
		livetest.StartShows(n.World, shows[0], shows[1], over)
		n.RunJobsAndReadLog()
		livetest.EndShows(n.World, n.Clock.Now(), over)
		n.Clock.Advance(time.Second)
		for _, host := range hosts {
			n.Post(host)
		}
		n.RunJobsAndReadLog()
		for _, c := range []struct {
			mode              services.FollowMode
			posts, shows, all int // all: shows that are over are included
		}{{services.FollowAll, 2, 2, 3}, {services.FollowLiveOnly, 1, 2, 3}, {services.FollowNone, 1, 1, 1}, {services.FollowAll, 2, 2, 3}} {
			n.SetFollowMode(hosts[0], reader, c.mode)
			n.RunJobsAndReadLog()
			badges, items := n.read(reader), n.explainedItems(reader)
			if badges.HomeFeed.Value != c.posts || len(items["HOME_FEED"]) != c.posts {
				t.Errorf("mode %d: %d posts count and %d are explained, want %d", c.mode, badges.HomeFeed.Value, len(items["HOME_FEED"]), c.posts)
			}
			if badges.LiveBoard.Value != c.shows || len(items["LIVE_BOARD"]) != c.shows {
				t.Errorf("mode %d: %d shows count and %d are explained, want %d", c.mode, badges.LiveBoard.Value, len(items["LIVE_BOARD"]), c.shows)
			}
			digest, err := n.Digest(t.Context(), reader, fanouttest.StartTime.Add(-time.Hour))
			n.Must(err)
			if came := digestCounts(digest); came["HOME_FEED"] != c.posts || came["LIVE_BOARD"] != c.all {
				t.Errorf("mode %d: the digest has %v, want %d posts and %d shows", c.mode, came, c.posts, c.all)
			}
			if differed, err := n.World.Projector.Recount(t.Context(), reader); err != nil || len(differed) > 0 {
				t.Errorf("mode %d: the audit finds %v, %v", c.mode, differed, err)
			}
		}
	})
}

// A recount finds a mode of a follow that follow_modes has but the follow's own row lacks. All other reads take the mode from
// that row, so the host's shows still count.
func TestARecountReadsTheFollowModeTable(t *testing.T) {
	n := redisServerNode(t)
	reader, hosts, shows := n.newReaderOfHosts()
	livetest.StartShows(n.World, shows[:]...)
	n.RunJobsAndReadLog()
	n.wantBoardCount(reader, 2)
	n.Write(func(ctx context.Context, tx *sql.Tx) error {
		_, err := sqltest.QueryLines(ctx, tx, `INSERT INTO follow_modes (follower, followee, followed, mode) SELECT follower, followee, since, 2 FROM follows WHERE followee = `+fmt.Sprint(uint64(hosts[0])))
		return err
	})
	differed, err := n.World.Projector.Recount(t.Context(), reader)
	n.Must(err)
	if len(differed) != 1 || differed[0] != "live board: modes of follows" {
		t.Errorf("%q differed", differed)
	}
}
