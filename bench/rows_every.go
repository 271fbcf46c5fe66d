package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"tidings/services"
)

const (
	notifierKey                       = "stranger" // the user who causes the readers' notifications, and has no followers
	conversationsPerEverySourceReader = 20         // how many conversations each reader is in
	itemsPerSource                    = 10         // the number of site messages of each type, of announcements, dots, live shows and items of a view
	queriesPerCommandCount            = 500        // the queries over which the commands to Redis are counted
)

// siteMessageTypes are the types of site messages that the server is set up with.
var siteMessageTypes = []string{"general", "billing"}

// measureEverySource measures the badge query of users with unread items of every source that everySourceQuery selects.
func (b *bench) measureEverySource(ctx context.Context) (err error) {
	p, err := b.newInstallation("every", everySourceRedisDB)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.deleteRedisData(context.WithoutCancel(ctx))) }()
	types := []string{"--site-message-types", siteMessageTypes[0] + "," + siteMessageTypes[1]}
	server, err := p.start(ctx, types...)
	if err != nil {
		return err
	}
	if err = seedServer(ctx, server.api, b.readersPerFollowCount, 0, b.printProgress); err == nil {
		err = fillEverySource(ctx, server.api, allReaderKeys(b.readersPerFollowCount))
	}
	server.stop()
	if err != nil {
		return err
	}
	if err := seedUnreadConversations(ctx, p, allReaderKeys(b.readersPerFollowCount)); err != nil {
		return err
	}
	if server, err = p.start(ctx, types...); err != nil {
		return err
	}
	defer server.stop()
	for range 2 { // first from SQL, then from Redis
		for _, key := range allReaderKeys(b.readersPerFollowCount) {
			if err := checkEverySourceCounts(ctx, server.api, key); err != nil {
				return fmt.Errorf("user %s: %w", key, err)
			}
		}
	}
	const what = "badge query, every source lit"
	ours := b.newContender("Tidings, 200 followed", server, everySourceQuery, 200).profileAs(what)
	few := b.newContender("Tidings, 10 followed", server, everySourceQuery, 10)
	many := b.newContender("Tidings, 2,000 followed", server, everySourceQuery, 2000)
	static := b.newContender(staticLabel, server, staticQuery, 200)
	some := b.newContender("the badge query of three sources", server, badgeQuery, 200)
	if err := b.measureContenders(ctx, what, ours, some, static, few, many); err != nil {
		return err
	}
	asked, err := b.redisCommandsPerQuery(ctx, server.api)
	if err != nil {
		return err
	}
	first := resultLine{measurement: what + ", 200 followed", reference: staticLabel, goal: atLeast(0.6, ">= 0.6 x"), unit: "x"}
	first.compareRates(ours, static)
	second := resultLine{measurement: what + ", server CPU each", reference: "the badge query of three sources", goal: atMost(1.25, "<= 1.25 x"), unit: "x the CPU"}
	second.compareCPU(ours, some)
	b.report.resultLines = append(b.report.resultLines, first, second,
		resultLine{
			measurement: what + ", 2,000 followed instead of 10", reference: "itself, 10 followed", goal: atMost(1.5, "<= 1.5 x the time"), unit: "x the time",
			ourFigure: formatRateAndCPU(many.results), referenceFigure: formatRateAndCPU(few.results), value: ratio(few.results.medianRate(), many.results.medianRate()),
		},
		resultLine{measurement: what + ": commands to Redis", reference: "-", value: asked, unit: "a query", goal: atMost(1.05, "1: one round trip")})
	return nil
}

// fillEverySource gives each reader unread items in every source of everySourceQuery except conversations, so that these sources
// are lit.
func fillEverySource(ctx context.Context, a *apiClient, readers []string) error {
	var events []ingestEvent
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
		events = append(events, followEvent(notifierKey, key), mentionEvent(notifierKey, key), commentEvent(notifierKey, posts[i]),
			userEvent(key, "touchView", map[string]any{"code": "market", "key": "boats", "upTo": formatTime(time.Now().Add(-time.Hour))}))
	}
	for i := range itemsPerSource {
		for _, kind := range siteMessageTypes {
			events = append(events, hostEvent("sendSiteMessage", map[string]any{"title": fmt.Sprint("Message ", i), "type": kind, "to": everyone}))
		}
		events = append(events,
			hostEvent("publishAnnouncement", map[string]any{"title": fmt.Sprint("News ", i)}),
			hostEvent("raiseDot", map[string]any{"name": fmt.Sprint("dot-", i)}),
			hostEvent("addViewItem", map[string]any{"code": "market", "key": "boats", "item": fmt.Sprint("boat-", i), "at": formatTime(time.Now().Add(-time.Minute))}))
	}
	if _, err := a.ingest(ctx, events); err != nil {
		return err
	}
	if err := startShows(ctx, a); err != nil {
		return err
	}
	for _, key := range readers {
		var data any
		const policy = `mutation { setDisplayPolicy(input: {sources: [{source: ANNOUNCEMENTS, style: DOT}, {source: SITE_MESSAGES, inTotal: false}]}) { badges { total { value } } } }`
		if err := a.doGraphQL(ctx, "dev:"+key, policy, nil, &data); err != nil {
			return err
		}
	}
	return a.waitForJobsDownTo(ctx, 2*itemsPerSource) // two jobs of each show wait, for its planned time and for its end
}

// startShows starts a show of each of the authors that all readers follow.
func startShows(ctx context.Context, a *apiClient) error {
	var planned, started []ingestEvent
	for i := range itemsPerSource {
		planned = append(planned, userEvent(authorKey(i), "scheduleShow", map[string]any{"title": "Harbour at night", "plannedAt": formatTime(time.Now().Add(time.Hour))}))
	}
	shows, err := a.ingest(ctx, planned)
	if err != nil {
		return err
	}
	for i, show := range shows {
		started = append(started, userEvent(authorKey(i), "startShow", map[string]any{"showId": show}))
	}
	_, err = a.ingest(ctx, started)
	return err
}

// formatTime returns a time as inputs take it.
func formatTime(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// seedUnreadConversations puts the readers into conversations with unread messages, in the database of a stopped server, and
// empties Redis.
func seedUnreadConversations(ctx context.Context, p installation, readers []string) error {
	ids, err := findUserIDs(ctx, p.databasePath(), append(slices.Clone(readers), notifierKey))
	if err != nil {
		return err
	}
	last := len(ids) - 1
	if err := seedConversations(ctx, p.databasePath(), ids[:last], services.UserID(ids[last]), conversationsPerEverySourceReader); err != nil {
		return err
	}
	return p.deleteRedisData(ctx)
}

// badgeCount is one count of the badges. Its source is called lit if the count is exact and above 0.
type badgeCount struct {
	Value     int
	Precision string
}

// everySourceBadges are the badges in the answer to everySourceQuery.
type everySourceBadges struct {
	Total, HomeFeed, Announcements, LiveBoard, Views badgeCount
	Notifications                                    struct{ Like, Comment, Mention, Follow badgeCount }
	SiteMessages                                     struct {
		Total badgeCount
		Types []struct{ Count badgeCount }
	}
	Conversations struct{ Total badgeCount }
	Dots          []struct{ Lit bool }
}

// firstSourceWithoutCount names a source that has no count or no exact one, or says that a dot is not lit. It is "" if everything
// is lit.
func (l everySourceBadges) firstSourceWithoutCount() string {
	counts := map[string]badgeCount{
		"total": l.Total, "homeFeed": l.HomeFeed, "announcements": l.Announcements, "liveBoard": l.LiveBoard, "views": l.Views, "conversations": l.Conversations.Total, "siteMessages": l.SiteMessages.Total,
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
	if len(l.SiteMessages.Types) != len(siteMessageTypes) || len(l.Dots) != itemsPerSource || slices.ContainsFunc(l.Dots, func(d struct{ Lit bool }) bool { return !d.Lit }) {
		return fmt.Sprintf("%d types of site messages and these dots: %v", len(l.SiteMessages.Types), l.Dots)
	}
	return ""
}

// checkEverySourceCounts returns an error if a source has no count for a user, or if a dot is not lit.
func checkEverySourceCounts(ctx context.Context, a *apiClient, key string) error {
	var data struct {
		Viewer struct{ Badges everySourceBadges }
	}
	if err := a.doGraphQL(ctx, "dev:"+key, everySourceQuery, nil, &data); err != nil {
		return err
	}
	if dark := data.Viewer.Badges.firstSourceWithoutCount(); dark != "" {
		return fmt.Errorf("not every source is lit: %s", dark)
	}
	return nil
}

// redisCommandsPerQuery returns how many commands one badge query sends to Redis, as a mean of many queries. Each command takes a
// round trip.
func (b *bench) redisCommandsPerQuery(ctx context.Context, a *apiClient) (float64, error) {
	before, err := totalRedisCommands(ctx, b.redis)
	if err != nil {
		return 0, err
	}
	keys := readerKeysFollowing(200, b.readersPerFollowCount)
	for i := range queriesPerCommandCount {
		if err := checkEverySourceCounts(ctx, a, keys[i%len(keys)]); err != nil {
			return 0, err
		}
	}
	after, err := totalRedisCommands(ctx, b.redis)
	return float64(after-before) / queriesPerCommandCount, err
}

// totalRedisCommands returns how many commands Redis has received, without the INFO commands of this function.
func totalRedisCommands(ctx context.Context, client *redis.Client) (total int, err error) {
	text, err := client.Info(ctx, "commandstats").Result()
	for name, calls := range parseCommandStats(text) {
		if name != "info" {
			total += calls.calls
		}
	}
	return total, err
}
