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

// everythingShownQuery reads the badges and all lists that a person is shown.
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

// volatileTextPatterns match the parts of an answer that may differ between two nodes: versions, and the seconds of times.
var volatileTextPatterns = []*regexp.Regexp{
	regexp.MustCompile(`"(version|newest)":("[^"]*"|null)`),
	regexp.MustCompile(`(T\d\d:\d\d):[0-9.]+Z`),
}

// readEverythingShown checks by a recount that a person's badges equal the facts. Then it returns the answer to everythingShownQuery,
// without the parts that volatileTextPatterns match.
func (r *replayNode) readEverythingShown(t *rapid.T, person string) any {
	r.Badges(person) // checks that the totals are the sums of their parts
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
		// On a slow machine a count can be STALE for a moment: after a commit the user's data in Redis may still have to be updated, and
		// a job that took too long is repeated.
		if text = string(got.Data); strings.Contains(text, `"STALE"`) {
			left := r.Jobs.UpdateStaleProjections(r.TB.Context())
			r.runDueJobsTwice()
			return fmt.Errorf("%s sees what is STALE, and %d users' projections are owed an update: %s", person, left, text)
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
