// Package livetest makes a day of shows and followers of their hosts, and computes each follower's board.
//
// The same size and seed make the same day. The expected board is computed by sorting a list: slowly, and without any code
// of the server.
package livetest

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"tidings/services"
)

// ShowDaySize is the size of a day.
type ShowDaySize struct {
	Shows, LiveShows int // the number of all shows, and of live shows
	Hosts, Viewers   int // the number of each
	MaxFollowedHosts int // the most hosts that a viewer follows; the first viewer follows this many
}

// Show is one show of a day. HostIndex is an index among the day's hosts.
type Show struct {
	Key                     string // also its title
	HostIndex               int
	Planned, Started, Ended time.Time // Started and Ended are zero if the show has not started or ended
	Cancelled               bool
}

// ShowDay holds the shows, oldest first, and the follows.
type ShowDay struct {
	Shows         []Show
	FollowedHosts [][]int // the hosts of each viewer

	// showsByHost are the indexes of each host's shows, so that ExpectedBoard need not look at all of them.
	showsByHost [][]int
	hostCount   int // the number of hosts
}

// HostKey and ViewerKey return the keys of users.
func HostKey(number int) string   { return "host-" + strconv.Itoa(number) }
func ViewerKey(number int) string { return "viewer-" + strconv.Itoa(number) }

// NewShowDay makes the shows of the twelve hours before now and of the twelve hours after. Most shows start on the hour or within
// half a minute after it; a few hosts have many shows, and a few viewers follow many hosts.
func NewShowDay(now time.Time, size ShowDaySize, seed uint64) *ShowDay {
	random := rand.New(rand.NewPCG(seed, uint64(size.Shows)))
	d := &ShowDay{hostCount: size.Hosts, showsByHost: make([][]int, size.Hosts), FollowedHosts: make([][]int, size.Viewers)}
	now = now.UTC().Truncate(time.Millisecond)
	// hour is the last full hour, at which most live shows start.
	hour := now.Truncate(time.Hour)
	for i := range size.Shows {
		// The square gives the first hosts most of the shows.
		show := Show{HostIndex: int(float64(size.Hosts) * math.Pow(random.Float64(), 2))}
		start := hour.Add(drawStartAfterHour(random))
		switch long := time.Duration(20+random.IntN(90)) * time.Minute; {
		case i < size.LiveShows:
			// A live show cannot start later than now: it goes to the hour, where many start together.
			if start.After(now) {
				start = hour
			}
			show.Started = start
		// Half of the other shows are over, half are still to come.
		case i%2 == 0:
			start = start.Add(-time.Duration(2+random.IntN(10)) * time.Hour)
			show.Started, show.Ended = start, start.Add(long).Truncate(time.Minute) // several end at the same time
			if show.Ended.After(now) {
				show.Ended = hour.Add(-time.Minute)
			}
		default:
			start = start.Add(time.Duration(1+random.IntN(12)) * time.Hour)
			// One in twenty of the shows to come is cancelled.
			show.Cancelled = random.IntN(20) == 0
		}
		show.Planned = start.Add(time.Duration(random.IntN(3)-1) * time.Minute)
		// A show that has not begun is planned for its start; the others began within a minute of their plan.
		if show.Started.IsZero() {
			show.Planned = start
		}
		d.Shows = append(d.Shows, show)
	}
	// Shows are announced in the order of their indexes: without the shuffle all live shows would have the oldest IDs.
	random.Shuffle(len(d.Shows), func(i, j int) { d.Shows[i], d.Shows[j] = d.Shows[j], d.Shows[i] })
	for i := range d.Shows {
		d.Shows[i].Key = "show-" + strconv.Itoa(i)
		d.showsByHost[d.Shows[i].HostIndex] = append(d.showsByHost[d.Shows[i].HostIndex], i)
	}
	for i := range d.FollowedHosts {
		// The cube makes most viewers follow few hosts: with MaxFollowedHosts 2,000, two of three viewers follow at most 10.
		count := int(math.Pow(float64(size.MaxFollowedHosts)+1, math.Pow(random.Float64(), 3)))
		if i == 0 {
			count = size.MaxFollowedHosts
		}
		d.FollowedHosts[i] = random.Perm(size.Hosts)[:min(max(1, count), size.Hosts)]
	}
	return d
}

// drawStartAfterHour is how long after the hour a show starts: six of ten shows start on the hour, three within half a minute after
// it, one at any time. Tests need equal and nearly equal times, which every node must order in the same way.
func drawStartAfterHour(random *rand.Rand) time.Duration {
	switch random.IntN(10) {
	case 0:
		return time.Duration(random.Int64N(int64(time.Hour))).Truncate(time.Millisecond)
	case 1, 2, 3:
		return time.Duration(random.Int64N(int64(30 * time.Second))).Truncate(time.Millisecond)
	}
	return 0
}

// WriteFollows writes the file of an import of follows: a line "viewer,host" for each.
func (d *ShowDay) WriteFollows(to io.Writer) error {
	out := bufio.NewWriter(to)
	for viewer, hosts := range d.FollowedHosts {
		for _, host := range hosts {
			_, _ = fmt.Fprintf(out, "%s,%s\n", ViewerKey(viewer), HostKey(host)) // Flush returns its error
		}
	}
	return out.Flush()
}

// WriteShows writes the file of an import of d.Shows[from:until]. Times are in both forms that an import takes, milliseconds
// and text.
func (d *ShowDay) WriteShows(to io.Writer, from, until int) error {
	out := bufio.NewWriter(to)
	for _, show := range d.Shows[from:until] {
		_, _ = fmt.Fprintf(out, `{"key":%q,"host":%q,"title":%q,"plannedAt":%d`, show.Key, HostKey(show.HostIndex), show.Key, show.Planned.UnixMilli())
		if !show.Started.IsZero() {
			_, _ = fmt.Fprintf(out, `,"startedAt":%d`, show.Started.UnixMilli())
		}
		if !show.Ended.IsZero() {
			_, _ = fmt.Fprintf(out, `,"endedAt":%q`, show.Ended.Format(time.RFC3339Nano))
		}
		_, _ = fmt.Fprintf(out, ",\"cancelled\":%t}\n", show.Cancelled)
	}
	return out.Flush()
}

// ExpectedBoard returns the lines that a viewer's board must have if only d.Shows[:shows] exist, each with title and status.
// cut reports whether older replays exist than boards keep.
func (d *ShowDay) ExpectedBoard(viewer, shows int) (lines []string, cut bool) {
	type sortedLine struct { // a line with its sort keys
		section, time, number int
		line                  string
	}
	var all []sortedLine
	for _, host := range d.FollowedHosts[viewer] {
		for _, number := range d.showsByHost[host] {
			show := d.Shows[number]
			switch {
			case number >= shows || show.Cancelled:
			case !show.Ended.IsZero():
				all = append(all, sortedLine{2, -int(show.Ended.UnixMilli()), number, show.Key + " REPLAY"})
			case !show.Started.IsZero():
				all = append(all, sortedLine{0, -int(show.Started.UnixMilli()), number, show.Key + " LIVE"})
			default:
				all = append(all, sortedLine{1, int(show.Planned.UnixMilli()), number, show.Key + " UPCOMING"})
			}
		}
	}
	// Sections come first: live, upcoming, replays. If the greatest time of a section comes first, its sort key is negated.
	slices.SortFunc(all, func(a, b sortedLine) int {
		return cmp.Or(cmp.Compare(a.section, b.section), cmp.Compare(a.time, b.time), cmp.Compare(b.number, a.number))
	})
	replays := 0
	for _, one := range all {
		if one.section == 2 {
			if replays++; replays > services.FeedRetention {
				return lines, true
			}
		}
		lines = append(lines, one.line)
	}
	return lines, false
}

// CountActiveShows counts the live and upcoming shows in d.Shows[:shows].
func (d *ShowDay) CountActiveShows(shows int) (count int) {
	for _, show := range d.Shows[:shows] {
		if show.Ended.IsZero() && !show.Cancelled {
			count++
		}
	}
	return count
}
