package model

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
	"tidings/tests/world"
)

// everything is a world with all sources. Each source adds its actions and its comparison.
type everything struct {
	*world.World
	talk              talk // the conversation, and the site messages
	announcements     []*worldAnnouncement
	announcementsRead map[string]int             // person -> announcements up to their read position
	lastRaise         map[string]int             // dot -> the number of its last raise; the raises of all dots are numbered together
	clearedRaise      map[string]map[string]int  // person -> dot -> the number of the raise up to which they have cleared it
	outOfTotal        map[string]map[string]bool // person -> source -> whether they took it out of the total, or put it in
	raises            int                        // raises of all dots so far
	views             viewsModel
	categories        categories
	lose              func() // deletes one key from Redis; nil if that is not possible
}

type worldAnnouncement struct {
	id        string
	withdrawn bool
}

// worldDots are the dots that all worlds on one database share. This does no harm: a new user counts as having cleared all earlier
// raises.
var worldDots = []string{"shop", "wallet"}

// newEverything makes a world on a node. flush empties Redis, and lose deletes one key of it; nil if that is not possible.
func newEverything(n *world.Node, flush, lose func()) *everything {
	e := &everything{
		World: world.NewWorld(n, flush), announcementsRead: map[string]int{}, lastRaise: map[string]int{}, clearedRaise: map[string]map[string]int{},
		outOfTotal: map[string]map[string]bool{}, lose: lose,
	}
	for _, person := range e.People {
		n.Badges(person) // a new user gets their position in the announcements
		e.clearedRaise[person], e.outOfTotal[person] = map[string]int{}, map[string]bool{}
	}
	e.startTalk()
	e.startViews()
	e.startCategories()
	return e
}

// sendAsHost sends a mutation as the host application.
func (e *everything) sendAsHost(mutation string, into any) {
	e.N.Must("host:ingest", mutation, nil, into)
}

func (e *everything) announce(*rapid.T) {
	var data struct {
		PublishAnnouncement struct{ Announcement struct{ ID string } }
	}
	e.sendAsHost(`mutation{publishAnnouncement(input:{title:"news"}){announcement{id}}}`, &data)
	e.announcements = append(e.announcements, &worldAnnouncement{id: data.PublishAnnouncement.Announcement.ID})
	e.N.Settle() // the announcement gets its position when its job runs
}

func (e *everything) withdraw(t *rapid.T) {
	standing := slices.DeleteFunc(slices.Clone(e.announcements), func(a *worldAnnouncement) bool { return a.withdrawn })
	if len(standing) == 0 {
		return
	}
	one := rapid.SampledFrom(standing).Draw(t, "announcement")
	e.sendAsHost(fmt.Sprintf(`mutation{withdrawAnnouncement(input:{announcementId:%q}){announcementId}}`, one.id), nil)
	one.withdrawn = true
	e.N.Settle()
}

// markAnnouncements marks announcements read up to an announcement that is still shown. A later mark of an earlier
// announcement changes nothing.
func (e *everything) markAnnouncements(t *rapid.T) {
	person := e.DrawPerson(t, "person")
	place := rapid.IntRange(0, len(e.announcements)).Draw(t, "place")
	if place == 0 || e.announcements[place-1].withdrawn {
		return
	}
	e.N.Must(person, fmt.Sprintf(`mutation{markAnnouncementsRead(input:{upTo:%q}){badges{version}}}`, e.announcements[place-1].id), nil, nil)
	e.announcementsRead[person] = max(e.announcementsRead[person], place)
}

func (e *everything) unreadAnnouncements(person string) (count int) {
	for i, one := range e.announcements {
		if i >= e.announcementsRead[person] && !one.withdrawn {
			count++
		}
	}
	return count
}

// raise raises a dot for everybody.
func (e *everything) raise(t *rapid.T) {
	dot := rapid.SampledFrom(worldDots).Draw(t, "dot")
	e.sendAsHost(fmt.Sprintf(`mutation{raiseDot(input:{name:%q}){name}}`, dot), nil)
	e.raises++
	e.lastRaise[dot] = e.raises
	e.N.Settle()
}

// clear clears a raised dot for one person.
func (e *everything) clear(t *rapid.T) {
	person, dot := e.DrawPerson(t, "person"), rapid.SampledFrom(worldDots).Draw(t, "dot")
	if e.lastRaise[dot] == 0 {
		return
	}
	e.N.Must(person, fmt.Sprintf(`mutation{clearDot(input:{name:%q}){badges{version}}}`, dot), nil, nil)
	e.clearedRaise[person][dot] = e.lastRaise[dot]
}

// comment adds comments and mentions. Here their count is only compared with their items; another model checks it fully.
func (e *everything) comment(t *rapid.T) {
	post, author, mentioned := e.DrawPost(t), e.DrawPerson(t, "author"), e.DrawPerson(t, "mentioned")
	if post == nil || post.Deleted {
		return
	}
	e.N.Must(author, `mutation($p:ID,$b:String!){publishPost(input:{parentId:$p,body:$b}){post{id}}}`,
		map[string]any{"p": post.ID, "b": "so says @" + mentioned}, nil)
	e.JobsPending = true
}

// readNotifications marks all likes, comments and mentions read, on one device or on two.
func (e *everything) readNotifications(t *rapid.T) {
	person := e.DrawPerson(t, "person")
	e.N.Settle()
	e.JobsPending = false
	for range rapid.IntRange(1, 2).Draw(t, "devices") {
		e.N.Must(person, `mutation{markNotificationsRead(input:{categories:[LIKE,COMMENT,MENTION]}){badges{version}}}`, nil, nil)
	}
	e.NotificationsSeenAt[person] = e.LikesNotified
	if got := e.ReadBadges(t, person).Notifications; got.Like.Value+got.Comment.Value+got.Mention.Value > 0 {
		t.Fatalf("%s: all is read, and notifications count %+v", person, got)
	}
}

// choose includes a source in the total, or excludes it.
func (e *everything) choose(t *rapid.T) {
	person, source := e.DrawPerson(t, "person"), rapid.SampledFrom([]string{"HOME_FEED", "NOTIFICATIONS", "ANNOUNCEMENTS", "VIEWS"}).Draw(t, "source")
	out := rapid.Bool().Draw(t, "out")
	e.N.Must(person, fmt.Sprintf(`mutation{setDisplayPolicy(input:{sources:[{source:%s,inTotal:%v}]}){badges{version}}}`, source, !out), nil, nil)
	e.outOfTotal[person][source] = out
}

// compareAll compares every source of every person with the model, and every count with its items.
func (e *everything) compareAll(t *rapid.T) {
	e.CompareEveryone(t)
	for _, person := range e.People {
		got := e.compareViews(t, person)
		if want := e.unreadAnnouncements(person); got.Announcements.Value != want {
			t.Fatalf("%s: announcements %+v, want %d", person, got.Announcements, want)
		}
		for _, dot := range got.Dots {
			if want := e.lastRaise[dot.Name] > e.clearedRaise[person][dot.Name]; dot.Lit != want {
				t.Fatalf("%s: the dot %s is lit %v, want %v", person, dot.Name, dot.Lit, want)
			}
		}
		for source, count := range map[string]world.Count{"HOME_FEED": got.HomeFeed, "NOTIFICATIONS": got.Notifications.Total, "ANNOUNCEMENTS": got.Announcements, "VIEWS": got.Views} {
			if count.InTotal == e.isOut(person, source) {
				t.Fatalf("%s: %s is in the total %v", person, source, count.InTotal)
			}
		}
		e.compareTalk(t, person, got)
		e.compareCategories(t, person, got)
		e.explain(t, person, got)
	}
}

// explain compares the counts and the total with the items that explain them.
func (e *everything) explain(t *rapid.T, person string, badges world.Badges) {
	var data struct {
		Viewer struct {
			BadgeExplained []struct {
				Source string
				Part   *string
				Count  world.Count
				Items  []struct {
					NodeID string
					Count  int
				}
			}
		}
	}
	e.N.Must(person, `{viewer{badgeExplained{source part count{value inTotal} items{nodeId count}}}}`, nil, &data)
	total := 0
	for _, explanation := range data.Viewer.BadgeExplained {
		sum := 0
		for _, item := range explanation.Items {
			sum += item.Count
		}
		if sum != explanation.Count.Value {
			t.Fatalf("%s: %s is %d and explained by %+v", person, explanation.Source, explanation.Count.Value, explanation.Items)
		}
		if explanation.Count.InTotal {
			total += sum
		}
	}
	if total != badges.Total.Value {
		t.Fatalf("%s: the total is %d, and %d is explained", person, badges.Total.Value, total)
	}
}

func (e *everything) actions() map[string]func(*rapid.T) {
	actions := e.World.Actions()
	for name, action := range map[string]func(*rapid.T){
		"announce": e.announce, "withdraw": e.withdraw, "read announcements": e.markAnnouncements, "raise": e.raise, "clear": e.clear,
		"choose": e.choose, "comment": e.comment, "read notifications": e.readNotifications, "compare": e.compareAll,
		"say": e.say, "say again": e.say, "recall": e.recall, "read talk": e.readTalk, "mute": e.mute, "send": e.sendSiteMessage, "mark message": e.markSiteMessage,
		"list": e.reportItem, "list again": e.reportItem, "unlist": e.removeItem, "touch": e.touch,
		"tell": e.notify, "see told": e.markCategorySeen, "define": e.define, "prefer": e.prefer, "prefer again": e.prefer, "prefer a third": e.prefer,
	} {
		actions[name] = action
	}
	if e.lose != nil {
		actions["lose a key"] = func(*rapid.T) { e.lose() }
	}
	delete(actions, "walk") // the feed's own model checks it
	return actions
}

// checkEverything compares a node with the model after random histories. See newEverything for flush and lose.
func checkEverything(t *testing.T, n *world.Node, flush, lose func()) {
	histories.Reduce(t, 8)
	rapid.Check(t, func(t *rapid.T) {
		e := newEverything(n, flush, lose)
		t.Repeat(e.actions())
		e.compareAll(t)
	})
}

// With all sources together, each count equals the model's count and the number of its items, and the total is the sum of the counts.
func TestAllBadgesTogetherEqualTheModel(t *testing.T) {
	t.Run("sqlite-redis", func(t *testing.T) {
		server := redistest.NewServer(t)
		n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: server.URL(), Manual: true})
		checkEverything(t, n, func() { server.Flush() }, func() {
			if key, found := server.Do("RANDOMKEY").(string); found {
				server.Do("DEL", key)
			}
		})
	})
	t.Run("postgres-embedded", func(t *testing.T) {
		checkEverything(t, world.StartNode(t, world.NodeOptions{Database: sqltest.Postgres(t), Redis: "embedded", Manual: true}), nil, nil)
	})
}
