package rdb

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/redis"
	"tidings/services/redis/redistest"
)

// BenchmarkMemberships measures how fast the states of 500 members of one conversation are written. Each member is online, and each
// write brings the number of a new last message. "us/call" is Redis' own time for one call of the script.
func BenchmarkMemberships(b *testing.B) {
	const members, conversation = 500, services.ConversationID(1_000_001)
	c, err := Open(b.Context(), redis.Options{URL: redistest.Redis(b), DataDir: b.TempDir()}, DocumentShape{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	states := make([]services.Membership, members)
	users := make([]services.UserID, members)
	for i := range states {
		users[i] = services.UserID(100 + i)
		states[i] = services.Membership{Conversation: conversation, User: users[i], NewestMessageNumber: 1000, ReadUpTo: 990, Version: 3, Mentions: 2, CountedOnReadVersion: 1}
	}
	stamps, err := c.BeginRebuild(b.Context(), users, RebuildMode{IsVisit: true})
	if err != nil {
		b.Fatal(err)
	}
	for i, user := range users {
		if _, err := c.EndRebuild(b.Context(), FeedFacts{Reader: user, Stamp: stamps[i], IsVisit: true, KeyLifetime: time.Hour}); err != nil {
			b.Fatal(err)
		}
		if err := c.Client.Commands().HSet(b.Context(), onlineKey(user), "node", "9000000000000").Err(); err != nil {
			b.Fatal(err)
		}
	}
	if err := c.Client.Commands().ConfigResetStat(b.Context()).Err(); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for n := 0; n < b.N; n += members {
		for i := range states {
			states[i].NewestMessageNumber++
		}
		results, _, err := c.PutMemberships(b.Context(), states)
		if err != nil || results[0].Status != redis.Applied {
			b.Fatal(results[0], err)
		}
	}
	b.StopTimer()
	info, err := c.Client.Commands().Info(b.Context(), "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	if found := regexp.MustCompile(`cmdstat_evalsha:.*usec_per_call=([0-9.]+)`).FindStringSubmatch(info); found != nil {
		each, _ := strconv.ParseFloat(found[1], 64) // the pattern matched, so this cannot fail
		b.ReportMetric(each, "us/call")
	}
}
