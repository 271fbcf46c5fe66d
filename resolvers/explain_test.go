package resolvers

import (
	"strings"
	"testing"

	"tidings/services"
)

func TestBadgesAreExplained(t *testing.T) {
	a := newAPI(t)
	a.must("bob", `mutation { follow(input: {userId: "user:alice"}) { user { id } } }`, nil)
	post := a.publish("alice")
	a.Quiet(a.Fanout)
	got := a.must("bob", `{ viewer { badgeExplained { source part count { value } items { id at count clearedBy } } } }`, nil)
	first := func(path ...any) any { return got.at(append([]any{"viewer", "badgeExplained", 0}, path...)...) }
	if first("source") != "HOME_FEED" || first("part") != nil || first("count", "value") != 1.0 || first("items", 0, "id") != post || first("items", 1) != nil {
		t.Fatalf("%+v", got)
	}
	// What is said to clear it does.
	mutation, _ := first("items", 0, "clearedBy").(string)
	cleared := a.must("bob", mutation, nil)
	if cleared.at("markHomeFeedSeen", "badges", "total", "value") != 0.0 {
		t.Errorf("%s left %+v", mutation, cleared)
	}
	if got := a.must("bob", `{ viewer { badgeExplained { source } } }`, nil); got.at("viewer", "badgeExplained", 0) != nil {
		t.Errorf("nothing waits, and it is explained by %+v", got)
	}
}

func TestTheDigestOfAnAbsence(t *testing.T) {
	a := newAPI(t)
	a.must("bob", `mutation { follow(input: {userId: "user:alice"}) { user { id } } }`, nil)
	a.publish("alice")
	a.Quiet(a.Fanout)
	const fields = `{ since parts { source part count { value } } authors { key } }`
	if got := a.must("bob", `{ viewer { awayDigest `+fields+` } }`, nil); got.at("viewer", "awayDigest", "since") != nil || got.at("viewer", "awayDigest", "parts", 0) != nil {
		t.Errorf("of a first visit: %+v", got)
	}
	got := a.must("bob", `{ viewer { awayDigest(since: "2026-01-01T00:00:00Z") `+fields+` } }`, nil)
	if got.at("viewer", "awayDigest", "parts", 0, "source") != "HOME_FEED" || got.at("viewer", "awayDigest", "parts", 0, "count", "value") != 1.0 ||
		got.at("viewer", "awayDigest", "authors", 0, "key") != "alice" || !strings.HasPrefix(got.at("viewer", "awayDigest", "since").(string), "2026-01-01T00:00:00") {
		t.Errorf("since new year: %+v", got)
	}
	for _, since := range []string{"2999-01-01T00:00:00Z", "yesterday"} {
		if got := a.as("bob", `{ viewer { awayDigest(since: "`+since+`") { since } } }`, nil); got.code() != services.Invalid {
			t.Errorf("since %s: %+v", since, got)
		}
	}
}
