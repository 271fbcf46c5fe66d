package contract

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"tidings/tests/world"
	"tidings/web/browsertest"
)

var (
	tourStepPattern      = regexp.MustCompile(`(?m)^\d+\. .*(?:\n   .*)*`) // a numbered step of the page
	tourOperationPattern = regexp.MustCompile(`\*([A-Z]\w+)\*`)            // the name of an operation in a step
)

// tourOperationRun is an operation that a step of the tour runs in the third tab.
type tourOperationRun struct {
	person, operation, expectedInResponse string // expectedInResponse is a part of the response
}

// tourSteps has the steps of docs/tour.md: the operations that a step runs, and an expression of the badges that each phone then
// shows.
var tourSteps = []struct {
	acts       []tourOperationRun
	alice, bob string // what the badges on the user's phone then satisfy; "": they are not checked
}{
	{[]tourOperationRun{{"alice", "FollowSomebody", `"user:bob"`}}, "", `badges.notifications.total.value === 1 && badges.total.display === '1'`},
	{[]tourOperationRun{{"bob", "Publish", `"post:`}}, `badges.homeFeed.value === 1 && badges.total.display === '1'`, ""},
	{[]tourOperationRun{{"alice", "MyHomeFeed", "Hello from Tidings"}, {"alice", "Like", `"viewerHasLiked": true`}}, "", `badges.total.display === '2'`},
	{[]tourOperationRun{{"alice", "MarkSeen", `"value": 0`}}, `badges.total.display === '0'`, ""},
	{[]tourOperationRun{{"host:ingest", "Ingest", `"results"`}}, `badges.homeFeed.value === 1`, ""},
	{
		[]tourOperationRun{{"host:ingest", "PublishAnnouncement", `"announcement:`}, {"host:ingest", "RaiseDot", `"shop"`}},
		`badges.announcements.value === 1 && badges.dots.some(({name, lit}) => name === 'shop' && lit)`,
		`badges.announcements.value === 1 && badges.dots.some(({name, lit}) => name === 'shop' && lit)`,
	},
	{[]tourOperationRun{{"alice", "StartAConversation", `"conversation:`}, {"alice", "SaySomething", `"message:`}}, "", `badges.conversations.total.value === 1`},
	{[]tourOperationRun{{"bob", "ReadAConversation", `"value": 0`}}, "", `badges.conversations.total.value === 0`},
	{[]tourOperationRun{{"alice", "WhyMyBadge", `mutation { markHomeFeedSeen`}}, "", ""},
	{[]tourOperationRun{{"bob", "ScheduleAShow", `"UPCOMING"`}, {"bob", "StartAShow", `"LIVE"`}}, `badges.liveBoard.value === 1`, ""},
	{[]tourOperationRun{{"alice", "MyLiveBoard", `"LIVE"`}}, "", ""},
	{[]tourOperationRun{{"alice", "MuteSomebody", `"user:bob"`}}, `badges.homeFeed.value === 0 && badges.liveBoard.value === 0`, ""},
	{[]tourOperationRun{{"alice", "UnmuteSomebody", `"user:bob"`}}, `badges.homeFeed.value === 1 && badges.liveBoard.value === 1`, ""},
}

// Every step of the tour works as it is written, in three tabs of a browser, with the values of the ready-made operations.
func TestTheTourDoesWhatItSays(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(world.RepositoryRoot(), "docs/tour.md"))
	if err != nil {
		t.Fatal(err)
	}
	var written, done []string
	for _, step := range tourStepPattern.FindAllString(string(page), -1) {
		for _, operation := range tourOperationPattern.FindAllStringSubmatch(step, -1) {
			written = append(written, operation[1])
		}
	}
	for _, step := range tourSteps {
		for _, act := range step.acts {
			done = append(done, act.operation)
		}
	}
	if !slices.Equal(written, done) {
		t.Fatalf("the page runs %q, this test %q", written, done)
	}

	server := world.StartServingProcess(t, "", "--data", t.TempDir())
	waitReady(t, server.URL)
	third := browsertest.NewProfileTab(t)
	browsertest.OpenGraphiQL(third, t, server.URL, "")
	browsertest.WaitSchema(third, t)
	phone := func(person string) context.Context {
		tab := browsertest.NewTab(third, t)
		browsertest.OpenGraphiQL(tab, t, server.URL, "")
		browsertest.ChoosePerson(tab, t, person)
		browsertest.SelectTab(tab, t, "WatchMyBadges")
		browsertest.RunOperation(tab, t)
		waitPhoneBadgesSatisfy(t, tab, person, `badges.total.display === '0'`)
		return tab
	}
	phones := map[string]context.Context{"alice": phone("alice"), "bob": phone("bob")}
	for _, step := range tourSteps {
		for _, act := range step.acts {
			browsertest.ChoosePerson(third, t, act.person)
			browsertest.OpenOperation(third, t, act.operation)
			browsertest.RunOperation(third, t)
			browsertest.WaitResponse(third, t, act.expectedInResponse)
		}
		for person, expression := range map[string]string{"alice": step.alice, "bob": step.bob} {
			if expression != "" {
				waitPhoneBadgesSatisfy(t, phones[person], person, expression)
			}
		}
	}
	for person, tab := range phones {
		wantAccessible(t, tab, person+"'s phone")
		wantNoComplaints(t, tab, server.URL)
	}
	savePicture(t, third, "tour")
	wantNoComplaints(t, third, server.URL)
}

// waitPhoneBadgesSatisfy waits until the newest event on a phone of the tour satisfies an expression of the badges.
func waitPhoneBadgesSatisfy(t *testing.T, phone context.Context, person, expression string) {
	t.Helper()
	browsertest.WaitFor(phone, t, person+"'s phone shows "+expression, `((text) => text && ((badges) => `+expression+`)(JSON.parse(text).data.badgesChanged))(document.querySelector('[data-watch=WatchMyBadges] li details pre')?.textContent)`)
}
