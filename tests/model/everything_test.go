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

// allSourcesModel is the slow, independent model of the badges of some people on one node, with all sources. For each source it has
// random actions, which it does on the node and in the model, and a comparison of the two.
type allSourcesModel struct {
	*world.ReferenceModel
	conversation          conversationModel          // with the site messages
	announcements         []*announcementModel       // in the order of their positions
	announcementsReadUpTo map[string]int             // person -> the number of announcements up to their read position
	lastRaiseNumberOfDot  map[string]int             // dot -> the number of its last raise; the raises of all dots are numbered together
	clearedUpToRaiseOfDot map[string]map[string]int  // person -> dot -> the number of the raise up to which they have cleared it
	sourcesOutOfTotal     map[string]map[string]bool // person -> source -> whether they took it out of the total, or put it in
	dotRaiseCount         int                        // how often any dot was raised so far
	views                 viewsModel
	categories            categoriesModel
	deleteRandomRedisKey  func() // deletes one key from Redis; nil if that is not possible
}

// announcementModel is an announcement that was published.
type announcementModel struct {
	id        string
	withdrawn bool
}

// dotNames are the names of the dots. All models on one database share them. This does no harm, because dots that were raised before a
// user's first visit are not lit for this user.
var dotNames = []string{"shop", "wallet"}

// newAllSourcesModel makes a model with new people on a node. flush empties Redis, and lose deletes a random key of Redis; they are nil
// if that is not possible.
func newAllSourcesModel(n *world.Node, flush, lose func()) *allSourcesModel {
	e := &allSourcesModel{
		ReferenceModel: world.NewReferenceModel(n, flush), announcementsReadUpTo: map[string]int{}, lastRaiseNumberOfDot: map[string]int{}, clearedUpToRaiseOfDot: map[string]map[string]int{},
		sourcesOutOfTotal: map[string]map[string]bool{}, deleteRandomRedisKey: lose,
	}
	for _, person := range e.People {
		n.Badges(person) // a new user gets their position in the announcements
		e.clearedUpToRaiseOfDot[person], e.sourcesOutOfTotal[person] = map[string]int{}, map[string]bool{}
	}
	e.startConversation()
	e.initViews()
	e.initCategories()
	return e
}

// sendAsHost sends a mutation as the host application.
func (e *allSourcesModel) sendAsHost(mutation string, into any) {
	e.Node.MustAsk("host:ingest", mutation, nil, into)
}

func (e *allSourcesModel) publishAnnouncement(*rapid.T) {
	var data struct {
		PublishAnnouncement struct{ Announcement struct{ ID string } }
	}
	e.sendAsHost(`mutation{publishAnnouncement(input:{title:"news"}){announcement{id}}}`, &data)
	e.announcements = append(e.announcements, &announcementModel{id: data.PublishAnnouncement.Announcement.ID})
	e.Node.SettleJobsAndCaches() // the announcement gets its position when its job runs
}

func (e *allSourcesModel) withdrawAnnouncement(t *rapid.T) {
	standing := slices.DeleteFunc(slices.Clone(e.announcements), func(a *announcementModel) bool { return a.withdrawn })
	if len(standing) == 0 {
		return
	}
	one := rapid.SampledFrom(standing).Draw(t, "announcement")
	e.sendAsHost(fmt.Sprintf(`mutation{withdrawAnnouncement(input:{announcementId:%q}){announcementId}}`, one.id), nil)
	one.withdrawn = true
	e.Node.SettleJobsAndCaches()
}

// markAnnouncementsRead marks announcements read up to an announcement that is still shown. A later mark of an earlier
// announcement changes nothing.
func (e *allSourcesModel) markAnnouncementsRead(t *rapid.T) {
	person := e.DrawPerson(t, "person")
	position := rapid.IntRange(0, len(e.announcements)).Draw(t, "position")
	if position == 0 || e.announcements[position-1].withdrawn {
		return
	}
	e.Node.MustAsk(person, fmt.Sprintf(`mutation{markAnnouncementsRead(input:{upTo:%q}){badges{version}}}`, e.announcements[position-1].id), nil, nil)
	e.announcementsReadUpTo[person] = max(e.announcementsReadUpTo[person], position)
}

// unreadAnnouncements returns the number of announcements that the model has as unread by a person.
func (e *allSourcesModel) unreadAnnouncements(person string) (count int) {
	for i, one := range e.announcements {
		if i >= e.announcementsReadUpTo[person] && !one.withdrawn {
			count++
		}
	}
	return count
}

// raiseDot raises a dot for everybody.
func (e *allSourcesModel) raiseDot(t *rapid.T) {
	dot := rapid.SampledFrom(dotNames).Draw(t, "dot")
	e.sendAsHost(fmt.Sprintf(`mutation{raiseDot(input:{name:%q}){name}}`, dot), nil)
	e.dotRaiseCount++
	e.lastRaiseNumberOfDot[dot] = e.dotRaiseCount
	e.Node.SettleJobsAndCaches()
}

// clearDot clears a raised dot for one person.
func (e *allSourcesModel) clearDot(t *rapid.T) {
	person, dot := e.DrawPerson(t, "person"), rapid.SampledFrom(dotNames).Draw(t, "dot")
	if e.lastRaiseNumberOfDot[dot] == 0 {
		return
	}
	e.Node.MustAsk(person, fmt.Sprintf(`mutation{clearDot(input:{name:%q}){badges{version}}}`, dot), nil, nil)
	e.clearedUpToRaiseOfDot[person][dot] = e.lastRaiseNumberOfDot[dot]
}

// addComment comments on a random post and mentions a person. This model only compares the counts of comments and mentions with their
// items; another model checks the counts fully.
func (e *allSourcesModel) addComment(t *rapid.T) {
	post, author, mentioned := e.DrawPost(t), e.DrawPerson(t, "author"), e.DrawPerson(t, "mentioned")
	if post == nil || post.Deleted {
		return
	}
	e.Node.MustAsk(author, `mutation($p:ID,$b:String!){publishPost(input:{parentId:$p,body:$b}){post{id}}}`,
		map[string]any{"p": post.ID, "b": "so says @" + mentioned}, nil)
	e.JobsPending = true
}

// markNotificationsRead marks all likes, comments and mentions of a person as read, once or twice, as from two clients.
func (e *allSourcesModel) markNotificationsRead(t *rapid.T) {
	person := e.DrawPerson(t, "person")
	e.Node.SettleJobsAndCaches()
	e.JobsPending = false
	for range rapid.IntRange(1, 2).Draw(t, "devices") {
		e.Node.MustAsk(person, `mutation{markNotificationsRead(input:{categories:[LIKE,COMMENT,MENTION]}){badges{version}}}`, nil, nil)
	}
	e.NotificationsSeenUpTo[person] = e.NotifiedLikeCount
	if got := e.ReadBadges(t, person).Notifications; got.Like.Value+got.Comment.Value+got.Mention.Value > 0 {
		t.Fatalf("%s: all is read, and notifications count %+v", person, got)
	}
}

// changeSourceInTotal includes a source in the total of a person's badges, or excludes it.
func (e *allSourcesModel) changeSourceInTotal(t *rapid.T) {
	person, source := e.DrawPerson(t, "person"), rapid.SampledFrom([]string{"HOME_FEED", "NOTIFICATIONS", "ANNOUNCEMENTS", "VIEWS"}).Draw(t, "source")
	out := rapid.Bool().Draw(t, "out")
	e.Node.MustAsk(person, fmt.Sprintf(`mutation{setDisplayPolicy(input:{sources:[{source:%s,inTotal:%v}]}){badges{version}}}`, source, !out), nil, nil)
	e.sourcesOutOfTotal[person][source] = out
}

// compareAll compares every source of every person with the model, and every count with its items.
func (e *allSourcesModel) compareAll(t *rapid.T) {
	e.CompareFeedsAndBadges(t)
	for _, person := range e.People {
		got := e.compareViews(t, person)
		if want := e.unreadAnnouncements(person); got.Announcements.Value != want {
			t.Fatalf("%s: announcements %+v, want %d", person, got.Announcements, want)
		}
		for _, dot := range got.Dots {
			if want := e.lastRaiseNumberOfDot[dot.Name] > e.clearedUpToRaiseOfDot[person][dot.Name]; dot.Lit != want {
				t.Fatalf("%s: the dot %s is lit %v, want %v", person, dot.Name, dot.Lit, want)
			}
		}
		for source, count := range map[string]world.Count{"HOME_FEED": got.HomeFeed, "NOTIFICATIONS": got.Notifications.Total, "ANNOUNCEMENTS": got.Announcements, "VIEWS": got.Views} {
			if count.InTotal == e.isOutOfTotal(person, source) {
				t.Fatalf("%s: %s is in the total %v", person, source, count.InTotal)
			}
		}
		e.compareConversation(t, person, got)
		e.compareCategories(t, person, got)
		e.compareBadgeExplanation(t, person, got)
	}
}

// compareBadgeExplanation compares the counts and the total with the unread items that the field badgeExplained lists for each count.
func (e *allSourcesModel) compareBadgeExplanation(t *rapid.T, person string, badges world.Badges) {
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
	e.Node.MustAsk(person, `{viewer{badgeExplained{source part count{value inTotal} items{nodeId count}}}}`, nil, &data)
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

// actions returns the random actions of a history, by name. "again" only makes an action more frequent.
func (e *allSourcesModel) actions() map[string]func(*rapid.T) {
	actions := e.ReferenceModel.Actions()
	for name, action := range map[string]func(*rapid.T){
		"announce": e.publishAnnouncement, "withdraw": e.withdrawAnnouncement, "read announcements": e.markAnnouncementsRead, "raise": e.raiseDot, "clear": e.clearDot,
		"choose": e.changeSourceInTotal, "comment": e.addComment, "read notifications": e.markNotificationsRead, "compare": e.compareAll,
		"say": e.sendMessage, "say again": e.sendMessage, "recall": e.recallMessage, "read talk": e.markConversationRead, "mute": e.muteConversation, "send": e.sendSiteMessage, "mark message": e.markSiteMessage,
		"list": e.reportViewItem, "list again": e.reportViewItem, "unlist": e.removeViewItem, "touch": e.touchView,
		"tell": e.notify, "see told": e.markCategorySeen, "define": e.redefineCategory, "prefer": e.changeCategoryPreference, "prefer again": e.changeCategoryPreference, "prefer a third": e.changeCategoryPreference,
	} {
		actions[name] = action
	}
	if e.deleteRandomRedisKey != nil {
		actions["lose a key"] = func(*rapid.T) { e.deleteRandomRedisKey() }
	}
	delete(actions, "walk") // homeFeedModel checks the reading of feeds page by page
	return actions
}

// checkAllSources runs random histories and compares the node with the model during and after each. flush empties Redis, and lose deletes
// a random key of Redis; they are nil if that is not possible.
func checkAllSources(t *testing.T, n *world.Node, flush, lose func()) {
	histories.ReduceRapidChecks(t, 8)
	rapid.Check(t, func(t *rapid.T) {
		e := newAllSourcesModel(n, flush, lose)
		t.Repeat(e.actions())
		e.compareAll(t)
	})
}

// With all sources together, each count equals the model's count and the number of its items, and the total is the sum of the counts.
func TestAllBadgesTogetherEqualTheModel(t *testing.T) {
	t.Run("sqlite-redis", func(t *testing.T) {
		server := redistest.NewServer(t)
		n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: server.URL(), ManualStepping: true})
		checkAllSources(t, n, func() { server.Flush() }, func() {
			if key, found := server.Do("RANDOMKEY").(string); found {
				server.Do("DEL", key)
			}
		})
	})
	t.Run("postgres-embedded", func(t *testing.T) {
		checkAllSources(t, world.StartNode(t, world.NodeOptions{Database: sqltest.Postgres(t), Redis: "embedded", ManualStepping: true}), nil, nil)
	})
}
