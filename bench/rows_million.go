package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// serverWithUsers is a server with some users, a few of them online.
type serverWithUsers struct {
	label                    string       // for the report
	installation             installation // where the server keeps its data
	userCount                int
	server                   *program
	redis                    *redis.Client     // a client of the server's Redis database
	onlineSockets            *socketFleet      // the sockets of the users who are online
	mutationTimesByKind      map[string]series // announcement, dot -> durations of the mutations
	announcementArrivalTimes series            // until an announcement has reached everyone online
	redisGrowthBytesByKind   map[string]int64  // announcement, dot -> growth of the server's Redis database, in bytes
}

// The two kinds of publications to all users of a server. Each should cost the same for a million users as for a few.
const (
	announcementKind = "announcement" // an announcement for everybody is published
	dotKind          = "dot"          // a dot is raised for everybody
	dotCount         = 10             // how many different dots are raised; an installation has up to 100
)

// measureMillionUsers measures publishing to a million users.
func (b *bench) measureMillionUsers(ctx context.Context) (err error) {
	var all []*serverWithUsers
	defer func() {
		for _, one := range all {
			err = errors.Join(err, one.stopServer(context.WithoutCancel(ctx)))
		}
	}()
	for i, users := range []int{b.sizes.manyUsers, b.sizes.fewUsers} {
		one := &serverWithUsers{label: formatThousands(int64(users)) + " users", userCount: users, mutationTimesByKind: map[string]series{}, redisGrowthBytesByKind: map[string]int64{}}
		if one.installation, err = b.newInstallation("million-"+strconv.Itoa(i), manyUsersRedisDB+i); err != nil {
			return err
		}
		all = append(all, one)
		b.printProgress("million: seeding %s", one.label)
		if err := seedUsers(ctx, one.installation.databasePath(), users); err != nil {
			return err
		}
		if err := one.startServer(ctx, min(b.sizes.onlineUsers, users)); err != nil {
			return err
		}
	}
	for round := range b.rounds + 1 {
		if round > 0 {
			b.printProgress("million: round %d of %d", round, b.rounds)
		}
		count := b.sizes.publicationsPerRound
		if round == 0 {
			count = 3 // not measured, because the first publications include one-time work
		}
		for _, what := range []string{announcementKind, dotKind} {
			if err := publishToEachInTurn(ctx, what, all, count, round > 0); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
	}
	for _, one := range all {
		if err := one.checkBadges(ctx, 3+b.rounds*b.sizes.publicationsPerRound); err != nil {
			return fmt.Errorf("%s: %w", one.label, err)
		}
	}
	b.reportMillionUsers(all[0], all[1])
	return nil
}

// startServer starts the server and opens sockets for its first users: watching is how many.
func (o *serverWithUsers) startServer(ctx context.Context, watching int) (err error) {
	if o.redis, err = o.installation.connect(); err != nil {
		return err
	}
	if o.server, err = o.installation.start(ctx); err != nil {
		return err
	}
	o.onlineSockets, err = openFleet(ctx, o.server.address, watching, subscriptionOpener(o.server.address, everySourceSubscription, memberToken))
	return err
}

// stopServer closes the sockets, stops the server and deletes its data in Redis.
func (o *serverWithUsers) stopServer(ctx context.Context) error {
	if o.onlineSockets != nil {
		o.onlineSockets.close()
	}
	if o.server != nil {
		o.server.stop()
	}
	if o.redis == nil {
		return nil
	}
	return errors.Join(o.redis.Close(), o.installation.deleteRedisData(ctx))
}

// publishToEachInTurn publishes once on each server, again and again, so that other load of the machine affects all servers alike.
// what is the kind of publication. If counts is set, it records each mutation's duration, and by how much Redis' memory has grown.
func publishToEachInTurn(ctx context.Context, what string, all []*serverWithUsers, count int, counts bool) error {
	before, err := redisDatabaseBytes(ctx, all)
	if err != nil {
		return err
	}
	latencies, timers := make([][]time.Duration, len(all)), make([]func(n int) time.Duration, len(all))
	for k, one := range all {
		timers[k] = startCPUTimer(one.server.pid())
	}
	for i := range count {
		for k, one := range all {
			took, err := one.publish(ctx, what, i, counts)
			if err != nil {
				return fmt.Errorf("to %s: %w", one.label, err)
			}
			latencies[k] = append(latencies[k], took)
		}
	}
	for _, one := range all {
		if err := one.server.api.waitForJobs(ctx); err != nil {
			return err
		}
	}
	cpu := make([]time.Duration, len(all)) // of each publication, with its jobs and its pushes
	for k, each := range timers {
		cpu[k] = each(count)
	}
	after, err := redisDatabaseBytes(ctx, all)
	if err != nil || !counts {
		return err
	}
	for k, one := range all {
		one.redisGrowthBytesByKind[what] += after[k] - before[k]
		slices.Sort(latencies[k])
		one.mutationTimesByKind[what] = append(one.mutationTimesByKind[what], newSample(latencies[k], sum(latencies[k])).withServerCPU(cpu[k]))
	}
	return nil
}

// redisDatabaseBytes returns how many bytes each server's database in Redis takes.
func redisDatabaseBytes(ctx context.Context, all []*serverWithUsers) (sizes []int64, err error) {
	for _, one := range all {
		size, err := totalRedisKeyBytes(ctx, one.redis)
		if err != nil {
			return nil, err
		}
		sizes = append(sizes, size)
	}
	return sizes, nil
}

// publish publishes once and returns the mutation's duration. what is the kind of publication, and i its number. counts is false for
// publications that only warm up. After every tenth announcement it waits until everyone online has it.
func (o *serverWithUsers) publish(ctx context.Context, what string, i int, counts bool) (took time.Duration, err error) {
	all := o.onlineSockets.expectOneEventPerSocket()
	start := o.onlineSockets.nanosSinceOrigin()
	if err := o.server.api.publishToAll(ctx, what, i); err != nil {
		return 0, err
	}
	took = time.Duration(o.onlineSockets.nanosSinceOrigin() - start)
	if what == dotKind || i%10 > 0 {
		return took, nil // a dot may be lit already, and then nobody is notified
	}
	if err := o.onlineSockets.waitForEvents(ctx, all); err != nil {
		return 0, err
	}
	arrivals, err := o.onlineSockets.eventLatencies(func(int) int64 { return start })
	if errors.Is(err, errEarlyEvent) || !counts {
		return took, nil // the event belonged to the previous publication
	}
	slices.Sort(arrivals)
	o.announcementArrivalTimes = append(o.announcementArrivalTimes, newSample(arrivals, slices.Max(arrivals)))
	return took, err
}

// sum returns the total of the latencies.
func sum(latencies []time.Duration) (total time.Duration) {
	for _, one := range latencies {
		total += one
	}
	return total
}

// publishToAll publishes an announcement or a dot to everybody.
func (a *apiClient) publishToAll(ctx context.Context, what string, i int) error {
	mutation := `mutation { publishAnnouncement(input: {title: "News for everybody", content: "The ferry is late."}) { announcement { id } } }`
	if what == dotKind {
		mutation = fmt.Sprintf(`mutation { raiseDot(input: {name: "dot-%d"}) { name } }`, i%dotCount)
	}
	var data any
	return a.doGraphQL(ctx, hostToken, mutation, nil, &data)
}

// checkBadges checks that online users have every announcement and every dot.
func (o *serverWithUsers) checkBadges(ctx context.Context, announcements int) error {
	const most = 1000 // how many announcements the list keeps
	for i := range o.onlineSockets.sockets {
		var data struct {
			Viewer struct {
				Badges struct {
					Announcements struct{ Value int }
					Dots          []struct{ Lit bool }
				}
			}
		}
		if err := o.server.api.doGraphQL(ctx, memberToken(i), everySourceQuery, nil, &data); err != nil {
			return err
		}
		badges := data.Viewer.Badges
		lit := 0
		for _, one := range badges.Dots {
			if one.Lit {
				lit++
			}
		}
		if badges.Announcements.Value != min(announcements, most) || lit != dotCount {
			return fmt.Errorf("%s has %d announcements and %d lit dots, published were %d and %d", memberKey(i+1), badges.Announcements.Value, lit, announcements, dotCount)
		}
	}
	return nil
}

// totalRedisKeyBytes returns the memory of the keys of one database. It does not ask for the memory of the whole Redis, because that
// also changes with the connections.
func totalRedisKeyBytes(ctx context.Context, client *redis.Client) (size int64, err error) {
	names := client.Scan(ctx, 0, "*", 1000).Iterator()
	for names.Next(ctx) {
		one, err := client.MemoryUsage(ctx, names.Val(), 0).Result()
		if err != nil && !errors.Is(err, redis.Nil) { // it may just have expired
			return 0, err
		}
		size += one
	}
	return size, names.Err()
}

// reportMillionUsers adds the results of the row million to the report: those of the server with many users, compared with the other.
func (b *bench) reportMillionUsers(many, few *serverWithUsers) {
	for _, what := range []string{announcementKind, dotKind} {
		published := "publishing an " + announcementKind
		if what == dotKind {
			published = "raising a " + dotKind
		}
		published += " for " + many.label
		limit := "for " + few.label
		l := resultLine{
			measurement: published + ": time of the mutation", reference: limit, ourFigure: formatMilliseconds(many.mutationTimesByKind[what].medianLatencyP50()), referenceFigure: formatMilliseconds(few.mutationTimesByKind[what].medianLatencyP50()),
			unit: "x the time", goal: atMost(1.2, "same time (<= 1.2 x)"),
		}
		l.value = ratio(float64(many.mutationTimesByKind[what].medianLatencyP50()), float64(few.mutationTimesByKind[what].medianLatencyP50()))
		kilobytes := func(size int64) string { return formatFigure(float64(size)/1024) + " KB" }
		b.report.resultLines = append(b.report.resultLines, l, resultLine{
			measurement: published + ": growth of Redis' keys, all of them together", reference: limit, ourFigure: kilobytes(many.redisGrowthBytesByKind[what]), referenceFigure: kilobytes(few.redisGrowthBytesByKind[what]),
			value: float64(many.redisGrowthBytesByKind[what]-few.redisGrowthBytesByKind[what]) / 1024, unit: "KB more", goal: atMost(1, "same memory (<= 1 KB more)"),
		})
		for _, one := range []*serverWithUsers{many, few} {
			b.report.detailLines = append(b.report.detailLines, detailLine{
				measurement: published, label: one.label + " in the store", results: one.mutationTimesByKind[what],
			})
		}
	}
	for _, one := range []*serverWithUsers{many, few} {
		b.report.detailLines = append(b.report.detailLines, detailLine{
			measurement: "an announcement, from the mutation on at those online", label: fmt.Sprintf("%d of %s", len(one.onlineSockets.sockets), one.label), results: one.announcementArrivalTimes,
		})
	}
}
