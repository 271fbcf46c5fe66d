package rdb

import (
	"testing"
	"time"

	"tidings/services"
)

// Keys that are created or visited together expire at many different times. A document and its inbox expire together.
func TestKeysWrittenTogetherExpireApart(t *testing.T) {
	eachView(t, func(v view) {
		const crowd, lifetime = 200, 1000 * time.Hour
		users := make([]services.UserID, crowd)
		for i := range users {
			users[i] = services.UserID(i + 1)
		}
		stamps, err := v.c.BeginRebuild(v.Context(), users, RebuildMode{Visit: true})
		v.must(err)
		for i, user := range users {
			_, err := v.c.EndRebuild(v.Context(), FeedFacts{Reader: user, Stamp: stamps[i], Visit: true, Lifetime: lifetime})
			v.must(err)
		}
		v.wantSpread("made", users, lifetime)
		v.must(v.c.MarkActive(v.Context(), users, 20_001, 2*lifetime))
		v.wantSpread("visited", users, 2*lifetime)
	})
}

// wantSpread checks that the users' keys expire at many different times within the last sixteenth of a lifetime.
func (v view) wantSpread(what string, users []services.UserID, lifetime time.Duration) {
	v.Helper()
	ends := map[time.Duration]int{}
	for _, user := range users {
		left, err := v.c.Commands().TTL(v.Context(), DocumentKey(user)).Result()
		v.must(err)
		inbox, err := v.c.Commands().TTL(v.Context(), inboxKey(user)).Result()
		v.must(err)
		if left > lifetime || left < lifetime-lifetime/16-time.Minute || (left-inbox).Abs() > time.Minute {
			v.Errorf("%s: the keys live for %s and %s, of %s", what, left, inbox, lifetime)
		}
		ends[left.Truncate(time.Hour)]++
	}
	for end, together := range ends {
		if together > len(users)/4 {
			v.Errorf("%s: %d of %d end within an hour, in %s", what, together, len(users), end)
		}
	}
}
