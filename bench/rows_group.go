package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// unreadCountingStrategy is one way to count the unread messages of a group, and the server's settings for it.
type unreadCountingStrategy struct {
	name            string // shown in the report
	serverArguments []string

	lateness, latenessUnderLoad series           // time from a mutation's answer until everybody's count is right: alone, and while others send requests
	unpacedMessages             series           // the rate of messages when talkers send them as fast as they can
	bystandersPaced             bystanderResults // bystanders' badge query: before talkers send, while each sends one message a second, and the floor
	bystandersUnpaced           bystanderResults // the same, while talkers send as fast as they can
}

// unreadCountingStrategies returns the two ways to count the unread messages of a group: on write and on read.
func unreadCountingStrategies() []*unreadCountingStrategy {
	return []*unreadCountingStrategy{
		{name: "counted when written", serverArguments: []string{"--max-write-members", "500", "--max-write-load", "100000000"}},
		{name: "counted when read", serverArguments: []string{"--max-write-members", "1"}},
	}
}

// measureGroupConversation measures a group in which many members send messages at once, for both ways to count unread messages.
func (b *bench) measureGroupConversation(ctx context.Context) (err error) {
	p, err := b.newInstallation("group", groupRedisDB)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.deleteRedisData(context.WithoutCancel(ctx))) }()
	ways := unreadCountingStrategies()
	seeded := false
	for round := range b.socketRounds {
		b.printProgress("group: round %d of %d", round+1, b.socketRounds)
		for i, way := range ways {
			server, err := p.start(ctx, way.serverArguments...)
			if err != nil {
				return err
			}
			if !seeded {
				err, seeded = seedBystanders(ctx, server.api), true
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
	b.reportGroupConversation(ways)
	return nil
}

// measureGroupRound measures one round with one way to count unread messages: in a new group, with all members online. The members'
// keys begin with prefix.
func (b *bench) measureGroupRound(ctx context.Context, server *program, way *unreadCountingStrategy, prefix string) error {
	server.api.client.Transport = &http.Transport{MaxIdleConnsPerHost: b.sizes.talkingMembers}
	g := &groupConversation{api: server.api, keyPrefix: prefix, memberCount: b.sizes.groupMembers, senderCount: b.sizes.talkingMembers, pushedByMember: make([]pushedUnreadCounts, b.sizes.groupMembers)}
	if err := g.create(ctx); err != nil {
		return err
	}
	f, err := openFleet(ctx, server.address, g.memberCount, subscriptionOpener(server.address, everySourceSubscription, g.token))
	if err != nil {
		return err
	}
	defer f.close()
	watch := eventFunc(g.recordPushedCount)
	f.onEvent.Store(&watch)
	before, alone, err := b.measureBystanders(ctx, server)
	if err != nil {
		return err
	}
	late, err := g.measureMessages(ctx, func() error {
		talking, end := context.WithTimeout(ctx, b.rowTurnLength())
		defer end()
		return g.sendMessagesUntilCanceled(talking, time.Second)
	})
	if err != nil {
		return err
	}
	var meanwhile cpuUsage
	lateAmong, err := g.measureMessages(ctx, func() (err error) {
		meanwhile, err = way.bystandersPaced.addRushRound(ctx, b, server, before, func(ctx context.Context) error { return g.sendMessagesUntilCanceled(ctx, time.Second) })
		return err
	})
	if err != nil {
		return err
	}
	if err := way.bystandersPaced.addBusyProcessorsRound(ctx, b, server, alone, meanwhile); err != nil {
		return err
	}
	most, err := g.measureMessages(ctx, func() error {
		talking, end := context.WithTimeout(ctx, b.rowTurnLength())
		defer end()
		return g.sendMessagesUntilCanceled(talking, 0)
	})
	if err != nil {
		return err
	}
	if _, err = g.measureMessages(ctx, func() (err error) {
		meanwhile, err = way.bystandersUnpaced.addRushRound(ctx, b, server, before, func(ctx context.Context) error { return g.sendMessagesUntilCanceled(ctx, 0) })
		return err
	}); err != nil {
		return err
	}
	if err := way.bystandersUnpaced.addBusyProcessorsRound(ctx, b, server, alone, meanwhile); err != nil {
		return err
	}
	for into, result := range map[*series]sample{
		&way.lateness: late, &way.latenessUnderLoad: lateAmong, &way.unpacedMessages: most,
	} {
		*into = append(*into, result)
	}
	return g.checkBadges(ctx)
}

// reportGroupConversation adds the results of the row group to the report.
func (b *bench) reportGroupConversation(ways []*unreadCountingStrategy) {
	what := fmt.Sprintf("messages into a group of %d, %d people talking", b.sizes.groupMembers, b.sizes.talkingMembers)
	for _, way := range ways {
		name := what + ", " + way.name
		b.report.resultLines = slices.Concat(b.report.resultLines,
			[]resultLine{{
				measurement: name + ": p99 from the answer until everyone's number is right", reference: "-", ourFigure: formatRate(way.lateness) + ", p50 " + formatMilliseconds(way.lateness.medianLatencyP50()),
				value: float64(way.lateness.medianLatencyP99()) / float64(time.Millisecond), unit: "ms", goal: atMost(200, "<= 200 ms"),
			}},
			bystandersLines(name+", at "+formatRate(way.latenessUnderLoad), way.bystandersPaced),
			bystandersLines(name+", as fast as they can", way.bystandersUnpaced),
			[]resultLine{{measurement: name + ": as fast as they can", reference: "-", ourFigure: "p99 until right " + formatMilliseconds(way.unpacedMessages.medianLatencyP99()), value: way.unpacedMessages.medianRate(), unit: "messages/s"}})
		for _, one := range []struct {
			who    string
			values series
		}{
			{"a message a second each, until everyone's number is right", way.lateness}, {"the same while others ask", way.latenessUnderLoad},
			{"as fast as they can, until everyone's number is right", way.unpacedMessages}, {"others' badge query before", way.bystandersPaced.before},
			{"others' badge query at a message a second each", way.bystandersPaced.during}, {"the same reads " + busyProcessorsLabel, way.bystandersPaced.withBusyProcessors},
			{"others' badge query while they talk as fast as they can", way.bystandersUnpaced.during}, {"the same reads " + busyProcessorsLabel, way.bystandersUnpaced.withBusyProcessors},
		} {
			b.report.detailLines = append(b.report.detailLines, detailLine{measurement: name, label: one.who, results: one.values})
		}
	}
}
