package badge

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/live/livetest"
	"tidings/services/notifications"
	"tidings/services/notifications/notificationstest"
	"tidings/services/people"
	"tidings/services/redis"
	"tidings/services/sql"
	"tidings/services/views"
	"tidings/tests/eventually"
	"tidings/tests/histories"
)

func TestCountingGroupsHaveNearlyEqualSizes(t *testing.T) {
	for count, want := range map[int][]int{0: nil, 1: {1}, 2: {2}, 25: {25}, 26: {13, 13}, 51: {17, 17, 17}, 52: {18, 18, 16}, 100: {25, 25, 25, 25}} {
		indexes, sizes, all := make([]int, count), []int(nil), []int{}
		for i := range indexes {
			indexes[i] = i
		}
		for group := range countingGroups(indexes) {
			sizes, all = append(sizes, len(group)), append(all, group...)
		}
		if !slices.Equal(sizes, want) || !slices.Equal(all, indexes) {
			t.Errorf("%d users are in groups of %v: %v, want %v", count, sizes, all, want)
		}
	}
}

// mixedUsers is users with different things to count.
type mixedUsers struct {
	node
	random           *rand.Rand
	models           []*expiryModel      // readers whose counts a plain model computes
	users            []services.UserID   // all: those of the models, authors, readers and strangers
	postsByAuthor    [][]services.PostID // of each author
	authors, readers []services.UserID   // the readers follow some of the authors
}

// newMixedUsers makes users with different things to count; seed makes their random steps repeatable.
func newMixedUsers(n node, seed uint64) *mixedUsers {
	c := &mixedUsers{node: n, random: rand.New(rand.NewPCG(seed, 3))}
	for range 4 {
		m := newExpiryModel(n)
		c.models = append(c.models, m)
		c.users = append(c.users, m.reader, m.smallAuthor, m.hugeAuthor, m.host, m.friend)
	}
	c.authors, c.readers = n.MakeUsers(4), n.MakeUsers(8)
	c.postsByAuthor = make([][]services.PostID, len(c.authors))
	n.SetMode(c.authors[0], services.AuthorHuge)
	n.RunJobsAndReadLog()
	n.addManyConversations(c.readers[0], 260)
	c.users = slices.Concat(c.users, c.authors, c.readers, n.MakeNeverSeenUsers(6))
	return c
}

// addManyConversations gives a user unread messages in many conversations, so that SQL reads them in more than one page.
func (n node) addManyConversations(user services.UserID, count int) {
	n.TB.Helper()
	numbers := fmt.Sprintf("WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < %d) ", count)
	n.Write(func(ctx context.Context, tx *sql.Tx) error {
		for _, text := range []string{
			"INSERT INTO conversations SELECT 100000 + n, 'GROUP', NULL, '', 1, n, 1, 2, 'WRITE', 0, 0, 0, 0, 0 FROM s",
			fmt.Sprintf("INSERT INTO conversation_members SELECT 100000 + n, %d, n / 2, 0, 1, 0, 0, n %% 5 = 0, n %% 7 = 0, 1, CASE WHEN n %% 11 = 0 THEN 9 ELSE 0 END, FALSE FROM s", user),
			fmt.Sprintf("INSERT INTO conversation_messages SELECT 100000 + n, 1 + n / 2, 1, 'b', %d, 0 FROM s", sql.Micros(n.Clock.Now())),
		} {
			if _, err := tx.Run(ctx, sql.AdHoc("test", numbers+text)); err != nil {
				return err
			}
		}
		return nil
	})
}

// runRandomStep does a random step of one model, and two random things to the authors and readers.
func (c *mixedUsers) runRandomStep() {
	c.TB.Helper()
	k := c.random.IntN(len(c.models))
	m := c.models[k]
	had, steps := len(m.announcementItems), m.steps(c.random)
	steps[c.random.IntN(len(steps))]()
	// An announcement is for all users.
	for i, other := range c.models {
		if len(m.announcementItems) > had && i != k {
			other.announcementItems = append(other.announcementItems, m.announcementItems[had:]...)
		}
	}
	for range 2 {
		c.applyChangeNumber(c.random.IntN(14))
	}
}

// applyChangeNumber does one of the possible things to an author and a reader, who are drawn at random.
func (c *mixedUsers) applyChangeNumber(what int) {
	c.TB.Helper()
	at := c.random.IntN(len(c.authors))
	author, reader := c.authors[at], c.readers[c.random.IntN(len(c.readers))]
	restrict := func(kind services.RestrictionKind, owner, other services.UserID) {
		c.Write(func(ctx context.Context, tx *sql.Tx) error {
			_, err := people.Restrict(ctx, tx, services.Restriction{Kind: kind, Owner: owner, Other: other, MadeAt: c.IDs.Next()})
			return err
		})
	}
	view := []views.View{townView, musicView}[at%2]
	switch what {
	case 0, 1, 2:
		c.Follow(author, reader)
	case 3:
		c.postsByAuthor[at] = append(c.postsByAuthor[at], c.Post(author))
	case 4:
		c.postsByAuthor[at] = append(c.postsByAuthor[at], c.InsertPosts(author, 120)...)
	case 5:
		if list := c.postsByAuthor[at]; len(list) > 0 {
			c.node.markFeedSeen(reader, list[c.random.IntN(len(list))])
		}
	case 6:
		restrict([]services.RestrictionKind{services.Mute, services.Block}[at%2], reader, author)
	case 7:
		restrict(services.Hide, author, reader)
	case 8:
		notificationstest.Like(c.World, c.Post(reader), reader, author)
	case 9:
		mode := []services.CategoryMode{services.CategoryOff, services.CategoryDot, services.CategoryCounted}[c.random.IntN(3)]
		c.commitForIDs(c.notifications.SetPreference(reader, services.CategoryLike, notifications.PreferenceChange{Mode: &mode}))
	case 10:
		c.setDisplayPolicy(reader, PolicyChange{InTotal: map[services.Source]bool{services.SourceViews: true, services.SourceHomeFeed: at > 0}})
	case 11:
		c.mustCommit(c.views.Touch(reader, view, nil))
	case 12:
		c.reportItems(view, fmt.Sprint(c.random.Uint32()))
	case 13:
		show := livetest.ScheduleShow(c.World, author, time.Minute)
		c.RunAllJobs(c.World.Fanout)
		livetest.StartShows(c.World, show)
	}
}

// checkCounts compares the counts of all users, made together, with the counts of each user alone, with the models, and with Redis.
func (c *mixedUsers) checkCounts(what string) {
	t, ctx := c.TB, services.Observe(c.TB.Context())
	t.Helper()
	c.RunJobsAndReadLog()
	c.Must(c.announcements.Memory.Refresh(ctx))
	today := services.DayOf(c.Clock.Now())
	asked := append(slices.Clone(c.users), c.users[0], c.users[len(c.users)-1]) // a user named twice is counted twice
	together, failed, err := c.documentsFromFacts(ctx, asked, today)
	c.Must(err)
	for i, user := range asked {
		alone, _, err := c.documentsFromFacts(ctx, []services.UserID{user}, today)
		c.Must(err)
		if diff := cmp.Diff(alone[0], together[i]); diff != "" || len(failed[i]) > 0 {
			t.Fatalf("%s: user %d of %d counted alone and with the others (-alone +together), %d sources failed:\n%s", what, i, len(asked), len(failed[i]), diff)
		}
	}
	// The documents are deleted, so that a host's read counts all users in SQL.
	for _, user := range c.users {
		c.Must(c.Redis.ResetUserData(ctx, user))
	}
	read, errs := c.ReadForHost(ctx, asked)
	for _, m := range c.models {
		feed, letters, news, talk, mentions, live := m.expectedCounts()
		got := read[slices.Index(asked, m.reader)]
		want := []int{feed, letters, news, talk, mentions, live, feed + letters + news + talk + live}
		if values := []int{got.HomeFeed.Value, got.SiteMessages.Total.Value, got.Announcements.Value, got.Conversations.Total.Value, got.Conversations.Mentions.Value, got.LiveBoard.Value, got.Total.Value}; !slices.Equal(values, want) {
			t.Fatalf("%s: the counts are %v, want %v", what, values, want)
		}
	}
	for i, user := range asked {
		c.Must(errs[i])
		exact, err := c.Read(c.TB.Context(), user) // makes the document
		c.Must(err)
		counts := slices.Collect(c.sources.counts(exact))
		for part, count := range slices.Collect(c.sources.counts(read[i])) {
			if count.Value != counts[part].Value || count.InTotal != counts[part].InTotal || count.Precision != services.Stale || counts[part].Precision == services.Stale {
				t.Fatalf("%s: count %d of user %d is %+v in SQL and %+v in Redis", what, part, i, *count, *counts[part])
			}
		}
	}
}

// Users counted together have the same counts as alone, whatever the others have: nothing, much, muted authors, authors that hide
// from them, more conversations than one page.
func TestUsersCountedTogetherHaveTheirOwnCounts(t *testing.T) {
	for what, ages := range map[string]services.SourceExpiry{
		"nothing expires": nil,
		"all expires": {
			services.SourceHomeFeed: 2, services.SourceSiteMessages: 3, services.SourceAnnouncements: 1, services.SourceConversations: 2, services.SourceLiveBoard: 1,
		},
	} {
		t.Run(what, func(t *testing.T) {
			fanouttest.EachEnginePairWith(t, fanouttest.Options{Projector: withExpiry(ages)}, func(t *testing.T, w *fanouttest.World) {
				c := newMixedUsers(newLongShowNode(w), 1)
				c.checkCounts("at first")
				for i := range histories.ShortOrFull(t, 5, 20) {
					for range 12 {
						c.runRandomStep()
					}
					c.checkCounts(fmt.Sprint("after round ", i))
				}
			})
		})
	}
}

// statementCounter counts the statements that a node runs.
type statementCounter struct {
	mu         sync.Mutex     // guards runsByName
	runsByName map[string]int // the number of runs, by the name of the statement
}

// countRun counts one run of a statement.
func (s *statementCounter) countRun(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runsByName[name]++
}

// takeCounts returns the counts since the last call.
func (s *statementCounter) takeCounts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	named := s.runsByName
	s.runsByName = map[string]int{}
	return named
}

// A host application's read of a hundred users without documents is one round trip, and a statement of each kind for each group.
func TestAHundredUsersWithoutDocumentsTakeAFewStatements(t *testing.T) {
	statements := &statementCounter{runsByName: map[string]int{}}
	fanouttest.EachEnginePairWith(t, fanouttest.Options{Trace: statements.countRun}, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		users := n.MakeUsers(102)
		author, host, users := users[0], users[1], users[2:]
		n.Follow(author, users...)
		n.Follow(host, users...)
		for _, user := range users {
			n.makeRoom(user, author)
			n.mustCommit(n.views.Touch(user, townView, nil))
			n.sendSiteMessage(user)
			notificationstest.Like(n.World, n.Post(user), user, author)
		}
		n.InsertPosts(author, 3)
		livetest.ScheduleShow(n.World, host, time.Hour)
		n.RunJobsAndReadLog()
		for _, user := range users {
			n.Must(n.Redis.ResetUserData(t.Context(), user))
		}
		statements.takeCounts()
		ctx, trips := redis.WithRoundTrips(t.Context())
		badges, errs := n.ReadForHost(ctx, users)
		ran := statements.takeCounts()
		for i, one := range badges {
			n.Must(errs[i])
			if one.HomeFeed.Value != 3 || one.SiteMessages.Total.Value != 1 || one.Notifications.Like.Value != 1 || one.Total.Precision != services.Stale {
				t.Errorf("user %d: %+v", i, one)
			}
		}
		const groups = 4
		all := 0
		for name, count := range ran {
			most := groups
			if name == "positions of users in a view" { // runs twice for a group: for the home feed and for the live board
				most *= 2
			}
			if count > most {
				t.Errorf("%q ran %d times for %d groups", name, count, groups)
			}
			all += count
		}
		if all > 12*groups || len(ran) < 8 || trips.Count() > 1 {
			t.Errorf("%d statements and %d round trips: %v", all, trips.Count(), slices.Sorted(maps.Keys(ran)))
		}
	})
}

// While Redis is away all users are counted in groups, also those who read their own badges.
func TestWithoutRedisUsersAreCountedInGroups(t *testing.T) {
	statements := &statementCounter{runsByName: map[string]int{}}
	n := newNode(fanouttest.New(t, fanouttest.Options{Trace: statements.countRun}))
	users := n.MakeUsers(50)
	n.Follow(users[0], users[1:]...)
	n.RunJobsAndReadLog()
	n.InsertPosts(users[0], 2)
	n.RedisServer.Kill()
	statements.takeCounts()
	badges, errs := n.ReadAndFollow(t.Context(), users)
	for i, one := range badges {
		n.Must(errs[i])
		if want := min(i, 1) * 2; one.HomeFeed.Value != want || one.Total.Precision != services.Stale {
			t.Errorf("user %d: %+v, want %d", i, one.HomeFeed, want)
		}
	}
	if ran := statements.takeCounts(); ran["count new posts"] != 2 || ran["display policies"] != 2 {
		t.Errorf("for two groups ran %v", ran)
	}
}

// A row that cannot be read costs its own user one count, and the others in the group nothing. A source that hangs is missing
// for the whole group, and costs no more than its own time limit.
func TestAnUnreadableRowFailsOnlyItsUser(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		author, damaged := n.newLikedAuthor(2)
		users := append(n.MakeUsers(2), damaged, author)
		n.sendSiteMessage(damaged)
		n.RunJobsAndReadLog()
		n.Write(func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.Run(ctx, sql.AdHoc("test", "INSERT INTO category_preferences (user_number, ver, preferences) VALUES ($1, 1, '{')"), damaged)
			return err
		})
		n.Must(n.Redis.ResetUserData(t.Context(), author))
		n.Must(n.Redis.ResetUserData(t.Context(), damaged))
		badges, errs := n.restarted().ReadForHost(t.Context(), users)
		for i, one := range badges {
			n.Must(errs[i])
			if broken := one.Notifications.Like.Precision == services.Unknown; broken != (users[i] == damaged) {
				t.Errorf("user %d: %+v", i, one.Notifications.Like)
			}
		}
		if got := badges[2]; got.SiteMessages.Total.Value != 1 || got.HomeFeed.Value != 2 {
			t.Errorf("the other counts are %+v and %+v", got.SiteMessages.Total, got.HomeFeed)
		}
		if got := badges[3].Notifications.Like.Value; got != 2 {
			t.Errorf("another user's count is %d", got)
		}
		again := n.restarted()
		again.sqlTimeout = 2 * time.Second
		again.breakSource("site messages", failAtTimeout)
		badges, _ = again.ReadForHost(t.Context(), users[2:])
		for i, one := range badges {
			if one.SiteMessages.Total.Precision != services.Unknown || one.Views.Precision != services.Stale || one.Announcements.Precision != services.Stale {
				t.Errorf("user %d while a source hangs: %+v", i, one)
			}
		}
	})
}

// While all slots are taken, the users of a group whose badges are remembered get these after a while. The other users wait
// for a slot.
func TestUsersWithCachedBadgesDoNotWaitForASlot(t *testing.T) {
	n := redisServerNode(t)
	_, reader := n.newLikedAuthor(3)
	stranger := n.MakeUsers(1)[0]
	shown := n.read(reader)
	full := n.newServiceWith(func(cfg *Config) {
		cfg.MaxConcurrentSQLCounts = 1
		cfg.SQLTimeout = 300 * time.Millisecond
	})
	_, err := full.Read(t.Context(), reader)
	n.Must(err)
	full.sqlCountSlots <- struct{}{}
	var badges []*services.Badges
	var errs []error
	counted := make(chan struct{})
	go func() {
		defer close(counted)
		badges, errs = full.readFacts(t.Context(), []services.UserID{reader, stranger})
	}()
	eventually.Holds(t, "who is remembered has an answer", func() bool { return !full.fallbacks.isEmpty() })
	select {
	case <-counted:
		t.Fatal("nobody waited")
	default:
	}
	n.sendSiteMessage(reader)
	n.RunJobsAndReadLog()
	<-full.sqlCountSlots
	<-counted
	n.Must(errs[0])
	n.Must(errs[1])
	if badges[0].Total.Value != shown.Total.Value || badges[0].SiteMessages.Total.Value != 0 || badges[0].Total.Precision != services.Stale {
		t.Errorf("who is remembered: %+v", badges[0].Total)
	}
	if badges[1].Total.Precision != services.Stale || badges[1].Total.Value != 0 {
		t.Errorf("who is not: %+v", badges[1].Total)
	}
	full.sqlCountSlots <- struct{}{} // succeeds only if readFacts gave the slot back
	ctx, end := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer end()
	badges, errs = full.readFacts(ctx, []services.UserID{reader, stranger + 1})
	if errs[0] != nil || badges[0] == nil || !services.IsUnavailable(errs[1]) || badges[1] != nil {
		t.Errorf("when the caller leaves: %+v, %v", badges, errs)
	}
}
