package model

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"pgregory.net/rapid"

	"tidings/tests/world"
)

// everythingShownQuery reads everything that a person is shown.
const everythingShownQuery = `{viewer{badges{` + world.BadgeFields + ` liveBoard{value precision}}
	homeFeed(first:40){end edges{node{body kind author{key} publishedAt likeCount commentCount editedAt comments(first:3){nodes{body publishedAt}} likes(first:4){edges{likedAt node{key}}}}}}
	notifications(first:40){edges{node{category subject{body} show{title} actors{key} actorCount at seen read older causes(first:3){...on Post{body} ...on User{key} ...on Show{title}}}}}
	siteMessages(first:30){edges{node{title createdAt updatedAt readAt}}}
	announcements(first:30){edges{node{title startsAt endsAt unread}}}
	conversations(first:2){edges{node{title unread{value precision} mentions{value} muted memberCount messages(first:40){nodes{body author{key} sentAt recalled mentions{key}}}}}}
	liveBoard(first:30){edges{status node{title status plannedAt startedAt endedAt cancelledAt viewerHasReminder host{key}}}}
	views(codes:["topic"]){edges{node{key upTo lastAccessAt unread{value precision}}}}
	mutes(first:4){edges{node{key} since until}} blocks(first:4){nodes{key}} hides(first:4){nodes{key}}
	user{followees(first:4){nodes{key}} followers(first:4){nodes{key}}}}}`

// volatileTextPatterns matches the parts that may differ between two nodes: versions, and times below the minute.
var volatileTextPatterns = []*regexp.Regexp{
	regexp.MustCompile(`"(version|newest)":("[^"]*"|null)`),
	regexp.MustCompile(`(T\d\d:\d\d):[0-9.]+Z`),
}

// readEverythingShown returns everything of everythingShownQuery that a person is shown, once a recount has found that the badges
// equal the facts.
func (r *replayNode) readEverythingShown(t *rapid.T, person string) any {
	r.Badges(person) // it checks the sums
	var differed struct{ R struct{ Differed []string } }
	r.MustAsk("root:admin", `mutation($u:ID!){r:recountBadges(input:{userId:$u}){differed}}`, map[string]any{"u": userID(person)}, &differed)
	if len(differed.R.Differed) > 0 {
		t.Fatalf("%s: the facts have other numbers: %q", person, differed.R.Differed)
	}
	var text string
	world.EventuallySucceeds(r.TB, 2*time.Minute, func() error {
		got := r.Ask(person, everythingShownQuery, nil)
		if len(got.Errors) > 0 {
			t.Fatalf("%s: %+v", person, got.Errors)
		}
		// On a slow machine a view or a source can be STALE for a moment: the update of a view after a commit may still be owed, and a
		// job that took too long is repeated.
		if text = string(got.Data); strings.Contains(text, `"STALE"`) {
			left := r.Jobs.UpdateStaleViews(r.TB.Context())
			r.runDueJobsTwice()
			return fmt.Errorf("%s sees what is STALE, and %d users' views are owed an update: %s", person, left, text)
		}
		return nil
	})
	for i, what := range volatileTextPatterns {
		text = what.ReplaceAllString(text, []string{`"$1":null`, `$1`}[i])
	}
	var seen any
	if err := json.Unmarshal([]byte(text), &seen); err != nil {
		t.Fatal(err)
	}
	return seen
}
