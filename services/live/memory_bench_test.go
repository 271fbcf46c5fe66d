package live

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/changelog"
)

const (
	benchShowCount     = 100_000 // active shows in newFullCache
	benchHostCount     = 50_000  // hosts of these shows
	benchLiveShowCount = 300     // live ones among benchShowCount
	benchPageSize      = 20      // shows on a page
)

// newFullCache is a cache with 100,000 active shows. About a tenth of them have moved lately, and the cache keeps their former positions
// too.
func newFullCache(tb testing.TB) (m *showCache, version uint64) {
	m = newFakeShowSQL().newCache()
	readLog(tb, m)
	state := newShowState()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range benchShowCount {
		version++
		one := Show{
			ID: services.ShowID(i + 1), Host: services.UserID(random.IntN(benchHostCount)*3 + 1), Version: version, Status: ShowUpcoming,
			Title: fmt.Sprintf("An evening with the host of show %d", i), CoverURL: "https://cdn.example.org/covers/" + strings.Repeat("c", 16) + ".jpg",
			PlannedAt: noon.Add(time.Duration(random.IntN(7*24*12)) * 5 * time.Minute), UpdatedAt: noon,
		}
		if i < benchLiveShowCount {
			one.Status, one.StartedAt, one.LiveVersion, one.LiveStamp = ShowLive, noon.Add(-time.Duration(random.IntN(7200))*time.Second), one.Version, 1
			state.raiseLiveVersion(one.Host, uint64(noon.UnixMicro()))
		}
		if state.put(one, noon); i%10 == 0 && one.Status == ShowUpcoming {
			version++
			one.Version, one.PlannedAt = version, one.PlannedAt.Add(time.Hour)
			state.put(one, noon)
		}
	}
	m.Shows.replaceState(state)
	return m, version
}

// randomHostLists makes the lists of hosts that a number of viewers follow: count hosts for each, in no order, as documents have them.
func randomHostLists(viewers, count int) [][]services.FollowedAuthor {
	random := rand.New(rand.NewPCG(3, 4))
	lists := make([][]services.FollowedAuthor, viewers)
	for i := range lists {
		for range count {
			lists[i] = append(lists[i], services.FollowedAuthor{Author: services.UserID(random.IntN(benchHostCount)*3 + 1)})
		}
	}
	return lists
}

// BenchmarkBoard reads the first 20 shows of boards of 10, 200 and 2000 hosts, and counts the new shows on them. It also measures two
// other ways to read a page: pageByHeap and pageByScan.
func BenchmarkBoard(b *testing.B) {
	m, version := newFullCache(b)
	for _, count := range []int{10, 200, 2000} {
		lists := randomHostLists(max(20, 20_000/count), count)
		ways := []struct {
			name string
			read func(hosts []services.FollowedAuthor)
		}{
			{"page", func(hosts []services.FollowedAuthor) {
				m.Shows.activeAt(hosts, version, ShowPosition{}, benchPageSize)
			}},
			{"count", func(hosts []services.FollowedAuthor) { m.Shows.CountLive(hosts, 0) }},
			{"page/of heads", func(hosts []services.FollowedAuthor) { pageByHeap(m.Shows.state, hosts, version) }},
		}
		all := allPositions(m.Shows.state)
		ways = append(ways, struct {
			name string
			read func(hosts []services.FollowedAuthor)
		}{"page/of all", func(hosts []services.FollowedAuthor) { pageByScan(all, hosts, version) }})
		for _, way := range ways {
			b.Run(fmt.Sprintf("%s/hosts=%d", way.name, count), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					way.read(lists[i%len(lists)])
				}
			})
		}
	}
}

// BenchmarkBoardOfBusyHosts reads a board of hosts who have 50 shows each.
func BenchmarkBoardOfBusyHosts(b *testing.B) {
	const hosts, each = 10, 50
	state := newShowState()
	random := rand.New(rand.NewPCG(1, 2))
	var list []services.FollowedAuthor
	for host := range services.UserID(hosts) {
		list = append(list, services.FollowedAuthor{Author: host + 1})
		for i := range each {
			one := Show{
				ID: services.ShowID(int(host)*each + i + 1), Host: host + 1, Version: uint64(i + 1), Status: ShowUpcoming,
				PlannedAt: noon.Add(time.Duration(random.IntN(7*24*12)) * 5 * time.Minute), UpdatedAt: noon,
			}
			state.put(one, noon)
		}
	}
	m := newFakeShowSQL().newCache()
	readLog(b, m)
	m.Shows.replaceState(state)
	b.ReportAllocs()
	for b.Loop() {
		m.Shows.activeAt(list, hosts*each, ShowPosition{}, benchPageSize)
	}
}

// BenchmarkNotifyHosts finds the receivers to notify of changes of 300 hosts, among 10,000 receivers with 200 hosts each.
func BenchmarkNotifyHosts(b *testing.B) {
	a := newReceivers(services.SystemClock{}, func([]int) {})
	for i, hosts := range randomHostLists(10_000, 200) {
		a.setHosts(i, hosts)
	}
	live := randomHostLists(1, 300)[0]
	for i := 0; b.Loop(); i++ {
		for _, host := range live {
			a.recordChange(host.Author)
		}
		if notified := a.due(noon.Add(time.Duration(i) * changelog.MinNotifyInterval)); len(notified) == 0 {
			b.Fatal("nobody is notified")
		}
	}
}

// BenchmarkShowMemory measures the memory for 100,000 active shows.
func BenchmarkShowMemory(b *testing.B) {
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		m, _ := newFullCache(b)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/benchShowCount, "bytes/show")
		runtime.KeepAlive(m)
	}
}

// hostPositionHeap is a container/heap of lists, each with the positions of one host's shows. The list whose first position is the
// highest on the board comes first.
type hostPositionHeap [][]versionedPosition

func (h hostPositionHeap) Len() int           { return len(h) }
func (h hostPositionHeap) Less(i, j int) bool { return comparePositions(h[i][0], h[j][0]) < 0 }
func (h hostPositionHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *hostPositionHeap) Push(x any)        { *h = append(*h, x.([]versionedPosition)) }
func (h *hostPositionHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// pageByHeap reads a page of active shows by a heap of the hosts' lists. BenchmarkBoard compares it with Memory.activeAt.
func pageByHeap(state *showState, hosts []services.FollowedAuthor, version uint64) (page []Show) {
	heads := make(hostPositionHeap, 0, len(hosts))
	for _, followed := range hosts {
		if known := state.hosts.get(followed.Author).shows; known != nil && len(known.active) > 0 {
			heads = append(heads, known.active)
		}
	}
	heap.Init(&heads)
	for len(heads) > 0 && len(page) < benchPageSize {
		if one := heads[0][0]; one.holdsAt(version) {
			page = append(page, one.frozen())
		}
		if heads[0] = heads[0][1:]; len(heads[0]) == 0 {
			heap.Pop(&heads)
		} else {
			heap.Fix(&heads, 0)
		}
	}
	return page
}

// allPositions is one list of the positions of all hosts' active shows, in the order of boards, for pageByScan.
func allPositions(state *showState) (all []versionedPosition) {
	state.hosts.each(func(known *cachedHost) {
		if known.shows != nil {
			all = append(all, known.shows.active...)
		}
	})
	slices.SortFunc(all, comparePositions)
	return all
}

// pageByScan reads a page of active shows by a walk through allPositions. BenchmarkBoard compares it with Memory.activeAt.
func pageByScan(all []versionedPosition, hosts []services.FollowedAuthor, version uint64) (page []Show) {
	mine := make(map[services.UserID]struct{}, len(hosts))
	for _, followed := range hosts {
		mine[followed.Author] = struct{}{}
	}
	for _, one := range all {
		if _, followed := mine[one.show.host]; followed && one.holdsAt(version) {
			if page = append(page, one.frozen()); len(page) == benchPageSize {
				break
			}
		}
	}
	return page
}
