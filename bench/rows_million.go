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

// audience is a server with some users, a few of them online.
type audience struct {
	who     string // for the report
	site    site   // where its server keeps its data
	users   int
	server  *program
	redis   *redis.Client
	fleet   *fleet            // the sockets of the users who are online
	delays  map[string]series // announcement, dot -> durations of the mutations
	arrived series            // until an announcement has reached everyone online
	grown   map[string]int64  // announcement, dot -> growth of the audience's Redis database, in bytes
}

// The two kinds of publications, each of which should cost the same for everybody as for a few.
const (
	announcement = "announcement"
	dot          = "dot"
	dotCount     = 10 // how many different dots are raised; an installation has up to 100
)

// measureMillion measures publishing to a million users.
func (b *bench) measureMillion(ctx context.Context) (err error) {
	var all []*audience
	defer func() {
		for _, one := range all {
			err = errors.Join(err, one.stopServer(context.WithoutCancel(ctx)))
		}
	}()
	for i, users := range []int{b.sizes.users, b.sizes.few} {
		one := &audience{who: formatThousands(int64(users)) + " users", users: users, delays: map[string]series{}, grown: map[string]int64{}}
		if one.site, err = b.newSite("million-"+strconv.Itoa(i), manyDatabase+i); err != nil {
			return err
		}
		all = append(all, one)
		b.say("million: seeding %s", one.who)
		if err := seedUsers(ctx, one.site.databasePath(), users); err != nil {
			return err
		}
		if err := one.startServer(ctx, min(b.sizes.watching, users)); err != nil {
			return err
		}
	}
	for round := range b.rounds + 1 {
		if round > 0 {
			b.say("million: round %d of %d", round, b.rounds)
		}
		count := b.sizes.publications
		if round == 0 {
			count = 3 // not measured, because the first publications include one-time work
		}
		for _, what := range []string{announcement, dot} {
			if err := publishInTurn(ctx, what, all, count, round > 0); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
	}
	for _, one := range all {
		if err := one.check(ctx, 3+b.rounds*b.sizes.publications); err != nil {
			return fmt.Errorf("%s: %w", one.who, err)
		}
	}
	b.reportMillion(all[0], all[1])
	return nil
}

// startServer starts the server and opens sockets for the first users, as many as watching says.
func (o *audience) startServer(ctx context.Context, watching int) (err error) {
	if o.redis, err = o.site.connect(); err != nil {
		return err
	}
	if o.server, err = o.site.start(ctx); err != nil {
		return err
	}
	o.fleet, err = openFleet(ctx, o.server.address, watching, subscribeTo(o.server.address, everySubscription, memberToken))
	return err
}

// stopServer closes the sockets, stops the server and deletes its data in Redis.
func (o *audience) stopServer(ctx context.Context) error {
	if o.fleet != nil {
		o.fleet.close()
	}
	if o.server != nil {
		o.server.stop()
	}
	if o.redis == nil {
		return nil
	}
	return errors.Join(o.redis.Close(), o.site.deleteRedisData(ctx))
}

// publishInTurn publishes once to each audience, again and again, so that other load of the machine affects all audiences alike. If
// counts is set, it records each mutation's duration, and by how much Redis' memory has grown.
func publishInTurn(ctx context.Context, what string, all []*audience, count int, counts bool) error {
	before, err := holdings(ctx, all)
	if err != nil {
		return err
	}
	latencies := make([][]time.Duration, len(all))
	for i := range count {
		for k, one := range all {
			took, err := one.publish(ctx, what, i, counts)
			if err != nil {
				return fmt.Errorf("to %s: %w", one.who, err)
			}
			latencies[k] = append(latencies[k], took)
		}
	}
	for _, one := range all {
		if err := one.server.api.waitForJobs(ctx); err != nil {
			return err
		}
	}
	after, err := holdings(ctx, all)
	if err != nil || !counts {
		return err
	}
	for k, one := range all {
		one.grown[what] += after[k] - before[k]
		slices.Sort(latencies[k])
		one.delays[what] = append(one.delays[what], newSample(latencies[k], sum(latencies[k])))
	}
	return nil
}

// holdings returns how many bytes each audience's database in Redis takes.
func holdings(ctx context.Context, all []*audience) (sizes []int64, err error) {
	for _, one := range all {
		size, err := memoryOf(ctx, one.redis)
		if err != nil {
			return nil, err
		}
		sizes = append(sizes, size)
	}
	return sizes, nil
}

// publish publishes once and returns the mutation's duration. counts is false for publications that only warm up. After every tenth
// announcement it waits until everyone online has it.
func (o *audience) publish(ctx context.Context, what string, i int, counts bool) (took time.Duration, err error) {
	all := o.fleet.expect()
	start := o.fleet.now()
	if err := o.server.api.publishToAll(ctx, what, i); err != nil {
		return 0, err
	}
	took = time.Duration(o.fleet.now() - start)
	if what == dot || i%10 > 0 {
		return took, nil // a dot may be lit already, and then nobody is notified
	}
	if err := o.fleet.wait(ctx, all); err != nil {
		return 0, err
	}
	arrivals, err := o.fleet.latencies(func(int) int64 { return start })
	if errors.Is(err, errEarly) || !counts {
		return took, nil // the event belonged to the previous publication
	}
	slices.Sort(arrivals)
	o.arrived = append(o.arrived, newSample(arrivals, slices.Max(arrivals)))
	return took, err
}

func sum(latencies []time.Duration) (total time.Duration) {
	for _, one := range latencies {
		total += one
	}
	return total
}

// publishToAll publishes an announcement or a dot to everybody.
func (a *api) publishToAll(ctx context.Context, what string, i int) error {
	mutation := `mutation { publishAnnouncement(input: {title: "News for everybody", content: "The ferry is late."}) { announcement { id } } }`
	if what == dot {
		mutation = fmt.Sprintf(`mutation { raiseDot(input: {name: "dot-%d"}) { name } }`, i%dotCount)
	}
	var data any
	return a.do(ctx, hostToken, mutation, nil, &data)
}

// check checks that online users have every announcement and every dot.
func (o *audience) check(ctx context.Context, announcements int) error {
	const most = 1000 // how many announcements the list keeps
	for i := range o.fleet.sockets {
		var data struct {
			Viewer struct {
				Badges struct {
					Announcements struct{ Value int }
					Dots          []struct{ Lit bool }
				}
			}
		}
		if err := o.server.api.do(ctx, memberToken(i), everyQuery, nil, &data); err != nil {
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
			return fmt.Errorf("%s has %d announcements and %d lit dots, published were %d and %d", member(i+1), badges.Announcements.Value, lit, announcements, dotCount)
		}
	}
	return nil
}

// memoryOf returns the memory of the keys of one database. It does not ask for the memory of the whole Redis, because that also changes
// with the connections.
func memoryOf(ctx context.Context, client *redis.Client) (size int64, err error) {
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

func (b *bench) reportMillion(many, few *audience) {
	for _, what := range []string{announcement, dot} {
		published := "publishing an " + announcement
		if what == dot {
			published = "raising a " + dot
		}
		published += " for " + many.who
		limit := "for " + few.who
		l := line{
			what: published + ": time of the mutation", limit: limit, ours: formatMilliseconds(many.delays[what].p50()), theirs: formatMilliseconds(few.delays[what].p50()),
			unit: "x the time", goal: atMost(1.2, "same time (<= 1.2 x)"),
		}
		l.value = ratio(float64(many.delays[what].p50()), float64(few.delays[what].p50()))
		kilobytes := func(size int64) string { return formatFigure(float64(size)/1024) + " KB" }
		b.report.lines = append(b.report.lines, l, line{
			what: published + ": growth of Redis' keys, all of them together", limit: limit, ours: kilobytes(many.grown[what]), theirs: kilobytes(few.grown[what]),
			value: float64(many.grown[what]-few.grown[what]) / 1024, unit: "KB more", goal: atMost(1, "same memory (<= 1 KB more)"),
		})
		for _, one := range []*audience{many, few} {
			b.report.details = append(b.report.details, detail{
				what: published, who: one.who + " in the store", values: one.delays[what],
			})
		}
	}
	for _, one := range []*audience{many, few} {
		b.report.details = append(b.report.details, detail{
			what: "an announcement, from the mutation on at those online", who: fmt.Sprintf("%d of %s", len(one.fleet.sockets), one.who), values: one.arrived,
		})
	}
}
