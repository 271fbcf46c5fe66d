package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"tidings/services"
)

const (
	stranger           = "stranger" // causes the readers' notifications; has no followers
	everyConversations = 20         // of each reader
	everyNews          = 10         // the number of site messages of each type, of announcements and of dots
	countedQueries     = 500        // the queries over which the commands to Redis are counted
)

// messageTypes are the types of site messages that the server is set up with.
var messageTypes = []string{"general", "billing"}

// measureEvery measures the badge query of users with unread items of every source that everyQuery selects.
func (b *bench) measureEvery(ctx context.Context) (err error) {
	p, err := b.newSite("every", everyDatabase)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.deleteRedisData(context.WithoutCancel(ctx))) }()
	types := []string{"--site-message-types", messageTypes[0] + "," + messageTypes[1]}
	server, err := p.start(ctx, types...)
	if err != nil {
		return err
	}
	if err = seed(ctx, server.api, b.readers, 0, b.say); err == nil {
		err = lightSources(ctx, server.api, allReaders(b.readers))
	}
	server.stop()
	if err != nil {
		return err
	}
	if err := converse(ctx, p, allReaders(b.readers)); err != nil {
		return err
	}
	if server, err = p.start(ctx, types...); err != nil {
		return err
	}
	defer server.stop()
	for range 2 { // first from SQL, then from Redis
		for _, key := range allReaders(b.readers) {
			if err := checkLit(ctx, server.api, key); err != nil {
				return fmt.Errorf("user %s: %w", key, err)
			}
		}
	}
	const what = "badge query, every source lit"
	ours := b.contender("Tidings, 200 followed", server, everyQuery, 200).profileAs(what)
	few := b.contender("Tidings, 10 followed", server, everyQuery, 10)
	many := b.contender("Tidings, 2,000 followed", server, everyQuery, 2000)
	static := b.contender(whoStatic, server, staticQuery, 200)
	some := b.contender("the badge query of three sources", server, badgeQuery, 200)
	if err := b.compete(ctx, what, ours, some, static, few, many); err != nil {
		return err
	}
	asked, err := b.commandsPerQuery(ctx, server.api)
	if err != nil {
		return err
	}
	first := line{what: what + ", 200 followed", limit: whoStatic, goal: atLeast(0.6, ">= 0.6 x"), unit: "x"}
	first.compare(ours, static)
	second := line{what: what + ", server CPU each", limit: "the badge query of three sources", goal: atMost(1.25, "<= 1.25 x"), unit: "x the CPU"}
	second.compareCPU(ours, some)
	b.report.lines = append(b.report.lines, first, second,
		line{
			what: what + ", 2,000 followed instead of 10", limit: "itself, 10 followed", goal: atMost(1.5, "<= 1.5 x the time"), unit: "x the time",
			ours: formatRateAndCPU(many.values), theirs: formatRateAndCPU(few.values), value: ratio(few.values.rate(), many.values.rate()),
		},
		line{what: what + ": commands to Redis", limit: "-", value: asked, unit: "a query", goal: atMost(1.05, "1: one round trip")})
	return nil
}

// lightSources gives each reader unread items in every source of everyQuery except conversations, so that these sources are lit.
func lightSources(ctx context.Context, a *api, readers []string) error {
	var events []event
	for _, key := range readers {
		events = append(events, publishEvent(key, "What do you think?"))
	}
	posts, err := a.ingest(ctx, events)
	if err != nil {
		return err
	}
	events = nil
	var everyone []string
	for i, key := range readers {
		everyone = append(everyone, "user:"+key)
		events = append(events, followEvent(stranger, key), mentionEvent(stranger, key), commentEvent(stranger, posts[i]))
	}
	for i := range everyNews {
		for _, kind := range messageTypes {
			events = append(events, hostEvent("sendSiteMessage", map[string]any{"title": fmt.Sprint("Message ", i), "type": kind, "to": everyone}))
		}
		events = append(events,
			hostEvent("publishAnnouncement", map[string]any{"title": fmt.Sprint("News ", i)}),
			hostEvent("raiseDot", map[string]any{"name": fmt.Sprint("dot-", i)}))
	}
	if _, err := a.ingest(ctx, events); err != nil {
		return err
	}
	for _, key := range readers {
		var data any
		const policy = `mutation { setDisplayPolicy(input: {sources: [{source: ANNOUNCEMENTS, style: DOT}, {source: SITE_MESSAGES, inTotal: false}]}) { badges { total { value } } } }`
		if err := a.do(ctx, "dev:"+key, policy, nil, &data); err != nil {
			return err
		}
	}
	return a.waitForJobs(ctx)
}

// converse puts the readers into conversations with unread messages, in the database of a stopped server, and empties Redis.
func converse(ctx context.Context, p site, readers []string) error {
	numbers, err := numbersOf(ctx, p.databasePath(), append(slices.Clone(readers), stranger))
	if err != nil {
		return err
	}
	last := len(numbers) - 1
	if err := seedConversations(ctx, p.databasePath(), numbers[:last], services.UserID(numbers[last]), everyConversations); err != nil {
		return err
	}
	return p.deleteRedisData(ctx)
}

// badgeCount is one count of the badges. It is lit if it is exact and above 0.
type badgeCount struct {
	Value     int
	Precision string
}

// everyBadges is the answer to everyQuery.
type everyBadges struct {
	Total, HomeFeed, Announcements badgeCount
	Notifications                  struct{ Like, Comment, Mention, Follow badgeCount }
	SiteMessages                   struct {
		Total badgeCount
		Types []struct{ Count badgeCount }
	}
	Conversations struct{ Total badgeCount }
	Dots          []struct{ Lit bool }
}

// firstMissing names a source that has no count or no exact one, or says that a dot is not lit. It is "" if everything is lit.
func (l everyBadges) firstMissing() string {
	counts := map[string]badgeCount{
		"total": l.Total, "homeFeed": l.HomeFeed, "announcements": l.Announcements, "conversations": l.Conversations.Total, "siteMessages": l.SiteMessages.Total,
		"like": l.Notifications.Like, "comment": l.Notifications.Comment, "mention": l.Notifications.Mention, "follow": l.Notifications.Follow,
	}
	for i, one := range l.SiteMessages.Types {
		counts[fmt.Sprint("siteMessages.types ", i)] = one.Count
	}
	for name, count := range counts {
		if count.Value == 0 || count.Precision != "EXACT" {
			return fmt.Sprintf("%s is %d (%s)", name, count.Value, count.Precision)
		}
	}
	if len(l.SiteMessages.Types) != len(messageTypes) || len(l.Dots) != everyNews || slices.ContainsFunc(l.Dots, func(d struct{ Lit bool }) bool { return !d.Lit }) {
		return fmt.Sprintf("%d types of site messages and these dots: %v", len(l.SiteMessages.Types), l.Dots)
	}
	return ""
}

// checkLit returns an error if a source of a user is dark.
func checkLit(ctx context.Context, a *api, key string) error {
	var data struct{ Viewer struct{ Badges everyBadges } }
	if err := a.do(ctx, "dev:"+key, everyQuery, nil, &data); err != nil {
		return err
	}
	if dark := data.Viewer.Badges.firstMissing(); dark != "" {
		return fmt.Errorf("not every source is lit: %s", dark)
	}
	return nil
}

// commandsPerQuery returns how many commands one badge query sends to Redis, as a mean of many queries. Each command takes a round trip.
func (b *bench) commandsPerQuery(ctx context.Context, a *api) (float64, error) {
	before, err := commandsUntilNow(ctx, b.redis)
	if err != nil {
		return 0, err
	}
	keys := readersOf(200, b.readers)
	for i := range countedQueries {
		if err := checkLit(ctx, a, keys[i%len(keys)]); err != nil {
			return 0, err
		}
	}
	after, err := commandsUntilNow(ctx, b.redis)
	return float64(after-before) / countedQueries, err
}

// commandsUntilNow returns how many commands Redis has received, without the INFO commands of this function.
func commandsUntilNow(ctx context.Context, client *redis.Client) (total int, err error) {
	text, err := client.Info(ctx, "commandstats").Result()
	for name, calls := range commandCounts(text) {
		if name != "info" {
			total += calls.calls
		}
	}
	return total, err
}
