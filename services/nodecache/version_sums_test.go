package nodecache

import (
	"slices"
	"testing"

	"tidings/services"
	"tidings/services/posts"
)

// A pulled post adds to the sum of versions (changelog.Follower.VersionSums) of each watched user who follows its author, and of no
// other. If it did not, a post whose hint was lost would never be pushed.
func TestTheVersionSumRisesWithAPulledPost(t *testing.T) {
	s := newFakeStores()
	s.pulledPosts = map[services.UserID]posts.PulledPosts{hugeAuthor: {Posts: []services.PostID{5}, ChangelogVersion: 1}}
	m := newCaches(s)
	if _, err := m.Changelog.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.Pulled.SetFollowedAuthors(reader, followsOf(hugeAuthor))
	m.Pulled.LoadMissing(t.Context(), followsOf(hugeAuthor))
	both := []services.UserID{reader, reader + 1}
	last := m.Changelog.VersionSums(both)
	for _, change := range []struct {
		what string
		make func()
	}{
		{"a pulled post", func() { m.Pulled.ApplyOwnChange(PullChange{Author: hugeAuthor, Post: 6}, 2) }},
	} {
		change.make()
		now := m.Changelog.VersionSums(both)
		if now[0] <= last[0] || now[1] > last[1] {
			t.Errorf("with %s the sums went from %v to %v", change.what, last, now)
		}
		last = now
	}
	m.Changelog.Unfollow([]services.UserID{reader})
	if now := m.Changelog.VersionSums(both); now[0] != last[1] || !slices.Equal(now[1:], last[1:]) {
		t.Errorf("a user who left has the sum %v of data that nobody on this node sees, want %d", now, last[1])
	}
}

// reader is a user who is watched on the tests' node and follows authors of pulled posts.
const reader = services.UserID(7)
