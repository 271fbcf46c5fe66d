package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// countingWay is one way to count the unread messages of a group, and the server's settings for it.
type countingWay struct {
	name      string
	arguments []string

	lateness, latenessUnderLoad series      // time from a mutation's answer until everybody's count is right: alone, and while others send requests
	most                        series      // the rate of messages when everybody talks as fast as they can
	others                      rushResults // others' badge query: before the group talks, while it talks at its pace, and the floor
	rush                        rushResults // the same while everybody talks as fast as they can
}

// countingWays returns the two ways to count.
func countingWays() []*countingWay {
	return []*countingWay{
		{name: "counted when written", arguments: []string{"--max-write-members", "500", "--max-write-load", "100000000"}},
		{name: "counted when read", arguments: []string{"--max-write-members", "1"}},
	}
}

// measureGroup measures a group in which many talk at once, for both ways of counting.
func (b *bench) measureGroup(ctx context.Context) (err error) {
	p, err := b.newSite("group", groupDatabase)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.deleteRedisData(context.WithoutCancel(ctx))) }()
	ways := countingWays()
	seeded := false
	for round := range b.socketRounds {
		b.say("group: round %d of %d", round+1, b.socketRounds)
		for i, way := range ways {
			server, err := p.start(ctx, way.arguments...)
			if err != nil {
				return err
			}
			if !seeded {
				err, seeded = seedOthers(ctx, server.api), true
			}
			if err == nil {
				err = b.measureGroupRound(ctx, server, way, fmt.Sprintf("talk-%d-%d-", round, i))
			}
			server.stop()
			if err != nil {
				return fmt.Errorf("%s: %w", way.name, err)
			}
		}
	}
	b.reportGroup(ways)
	return nil
}

// measureGroupRound measures one round in one of the ways: a new group, with all members online.
func (b *bench) measureGroupRound(ctx context.Context, server *program, way *countingWay, prefix string) error {
	server.api.client.Transport = &http.Transport{MaxIdleConnsPerHost: b.sizes.talkers}
	g := &group{api: server.api, prefix: prefix, members: b.sizes.groupMembers, talkers: b.sizes.talkers, pushed: make([]pushedCounts, b.sizes.groupMembers)}
	if err := g.create(ctx); err != nil {
		return err
	}
	f, err := openFleet(ctx, server.address, g.members, subscribeTo(server.address, everySubscription, g.token))
	if err != nil {
		return err
	}
	defer f.close()
	watch := eventFunc(g.watch)
	f.watch.Store(&watch)
	before, alone, err := b.loadOthers(ctx, server)
	if err != nil {
		return err
	}
	late, err := g.measureTalk(ctx, func() error {
		talking, end := context.WithTimeout(ctx, b.turnLength())
		defer end()
		return g.talk(talking, time.Second)
	})
	if err != nil {
		return err
	}
	var meanwhile effort
	lateAmong, err := g.measureTalk(ctx, func() (err error) {
		meanwhile, err = way.others.addRush(ctx, b, server, before, func(ctx context.Context) error { return g.talk(ctx, time.Second) })
		return err
	})
	if err != nil {
		return err
	}
	if err := way.others.addFloor(ctx, b, server, alone, meanwhile); err != nil {
		return err
	}
	most, err := g.measureTalk(ctx, func() error {
		talking, end := context.WithTimeout(ctx, b.turnLength())
		defer end()
		return g.talk(talking, 0)
	})
	if err != nil {
		return err
	}
	if _, err = g.measureTalk(ctx, func() (err error) {
		meanwhile, err = way.rush.addRush(ctx, b, server, before, func(ctx context.Context) error { return g.talk(ctx, 0) })
		return err
	}); err != nil {
		return err
	}
	if err := way.rush.addFloor(ctx, b, server, alone, meanwhile); err != nil {
		return err
	}
	for into, result := range map[*series]sample{
		&way.lateness: late, &way.latenessUnderLoad: lateAmong, &way.most: most,
	} {
		*into = append(*into, result)
	}
	return g.check(ctx)
}

func (b *bench) reportGroup(ways []*countingWay) {
	what := fmt.Sprintf("messages into a group of %d, %d people talking", b.sizes.groupMembers, b.sizes.talkers)
	for _, way := range ways {
		name := what + ", " + way.name
		b.report.lines = slices.Concat(b.report.lines,
			[]line{{
				what: name + ": p99 from the answer until everyone's number is right", limit: "-", ours: formatRate(way.lateness) + ", p50 " + formatMilliseconds(way.lateness.p50()),
				value: float64(way.lateness.p99()) / float64(time.Millisecond), unit: "ms", goal: atMost(200, "<= 200 ms"),
			}},
			othersLines(name+", at "+formatRate(way.latenessUnderLoad), way.others),
			othersLines(name+", as fast as they can", way.rush),
			[]line{{what: name + ": as fast as they can", limit: "-", ours: "p99 until right " + formatMilliseconds(way.most.p99()), value: way.most.rate(), unit: "messages/s"}})
		for _, one := range []struct {
			who    string
			values series
		}{
			{"a message a second each, until everyone's number is right", way.lateness}, {"the same while others ask", way.latenessUnderLoad},
			{"as fast as they can, until everyone's number is right", way.most}, {"others' badge query before", way.others.before},
			{"others' badge query at a message a second each", way.others.during}, {"the same reads " + whoComputes, way.others.computing},
			{"others' badge query while they talk as fast as they can", way.rush.during}, {"the same reads " + whoComputes, way.rush.computing},
		} {
			b.report.details = append(b.report.details, detail{what: name, who: one.who, values: one.values})
		}
	}
}
