package rdb

import (
	"testing"
	"time"

	"tidings/services"
)

// Keys that are created or visited together expire at many different times. A document and its inbox expire together.
func TestKeysWrittenTogetherExpireApart(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		const crowd, lifetime = 200, 1000 * time.Hour
		users := make([]services.UserID, crowd)
		for i := range users {
			users[i] = services.UserID(i + 1)
		}
		stamps, err := v.projections.BeginRebuild(v.Context(), users, RebuildMode{IsVisit: true})
		v.must(err)
		for i, user := range users {
			_, err := v.projections.EndRebuild(v.Context(), FeedFacts{Reader: user, Stamp: stamps[i], IsVisit: true, KeyLifetime: lifetime})
			v.must(err)
		}
		v.wantSpreadExpiry("made", users, lifetime)
		v.must(v.projections.MarkActive(v.Context(), users, 20_001, 2*lifetime))
		v.wantSpreadExpiry("visited", users, 2*lifetime)
	})
}

// wantSpreadExpiry checks that the users' keys expire at many different times within the last sixteenth of a lifetime.
func (v feedTest) wantSpreadExpiry(what string, users []services.UserID, lifetime time.Duration) {
	v.Helper()
	ends := map[time.Duration]int{}
	for _, user := range users {
		left, err := v.projections.Client.Commands().TTL(v.Context(), DocumentKey(user)).Result()
		v.must(err)
		inbox, err := v.projections.Client.Commands().TTL(v.Context(), inboxKey(user)).Result()
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
