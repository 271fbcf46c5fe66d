package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"tidings/services"
)

// measureConversations measures how the time of the badge query depends on the number of a reader's conversations. Half of the
// conversations are counted when read.
func (b *bench) measureConversations(ctx context.Context) (err error) {
	p, err := b.newInstallation("conversations", conversationsRedisDB)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.deleteRedisData(context.WithoutCancel(ctx))) }()
	sizes := b.sizes.conversationsPerReader
	b.printProgress("conversations: seeding %v of them for %d readers each", sizes, b.readersPerFollowCount)
	talker := services.UserID(len(sizes)*b.readersPerFollowCount + 1)
	if err := seedUsers(ctx, p.databasePath(), int(talker)); err != nil {
		return err
	}
	readers := make([][]services.UserID, len(sizes))
	for i, conversations := range sizes {
		for r := range b.readersPerFollowCount {
			readers[i] = append(readers[i], services.UserID(i*b.readersPerFollowCount+r+1))
		}
		if err := seedConversations(ctx, p.databasePath(), readers[i], talker, conversations); err != nil {
			return err
		}
	}
	server, err := p.start(ctx)
	if err != nil {
		return err
	}
	defer server.stop()
	client, err := p.connect()
	if err != nil {
		return err
	}
	defer client.Close()
	const what = "badge query by conversations"
	var contenders, floors []*contender
	for i, conversations := range sizes {
		if err := checkConversations(ctx, server.api, client, readers[i], conversations); err != nil {
			return err
		}
		if err := warmProfiles(ctx, server.api, memberKeys(readers[i])); err != nil { // the bare server finds readers by their profiles in Redis
			return err
		}
		who := strconv.Itoa(conversations) + " conversations"
		one := &contender{label: who, target: newLoadTarget(server.address, server.pid(), everySourceQuery, memberTokens(readers[i]))}
		contenders = append(contenders, one.profileAs(what+", "+who))
		bare, err := b.startBarePagesServer(ctx, p, server, everySourceQuery, memberKeys(readers[i]), documentRedisCommands)
		if err != nil {
			return err
		}
		defer bare.stop()
		floors = append(floors, &contender{label: bareServerLabel + ", " + who, target: newLoadTarget(bare.address, bare.pid(), everySourceQuery, memberTokens(readers[i]))})
	}
	if err := b.measureContenders(ctx, what, append(contenders, floors...)...); err != nil {
		return err
	}
	least := contenders[0]
	for i, more := range contenders {
		name := what + ", half counted when read: " + more.label
		if more != least {
			b.report.resultLines = append(b.report.resultLines, resultLine{
				measurement: name, reference: "itself, " + least.label, ourFigure: formatRateAndCPU(more.results), referenceFigure: formatRateAndCPU(least.results),
				value: ratio(least.results.medianRate(), more.results.medianRate()), unit: "x the time", goal: atMost(1.5, "<= 1.5 x the time"),
			})
		}
		b.report.resultLines = append(b.report.resultLines, bareServerCPULine(name, more, floors[i]))
	}
	return nil
}

// memberTokens returns the tokens of users that seedUsers has made.
func memberTokens(users []services.UserID) []string { return tokens(memberKeys(users)) }

// memberKeys returns the keys of users that seedUsers has made.
func memberKeys(users []services.UserID) (keys []string) {
	for _, user := range users {
		keys = append(keys, memberKey(int(user)))
	}
	return keys
}

// checkConversations reads each reader's badges twice, first from SQL and then from Redis, and compares the badges and the reader's
// document with the seeded data.
func checkConversations(ctx context.Context, a *apiClient, client *redis.Client, readers []services.UserID, conversations int) error {
	const positionBytes = 8 // the bytes in the document for each conversation that is counted when read
	for _, user := range readers {
		for range 2 {
			var data struct {
				Viewer struct {
					Badges struct {
						Conversations struct {
							Total struct {
								Value     int
								Precision string
							}
						}
					}
				}
			}
			if err := a.doGraphQL(ctx, memberToken(int(user)-1), everySourceQuery, nil, &data); err != nil {
				return err
			}
			if got := data.Viewer.Badges.Conversations.Total; got.Value != unreadPerConversation*conversations || got.Precision != "EXACT" {
				return fmt.Errorf("member %d of %d conversations has %d unread messages (%s), seeded were %d", user, conversations, got.Value, got.Precision, unreadPerConversation*conversations)
			}
		}
		positions, err := client.HStrLen(ctx, fmt.Sprintf("{u%d}:b", user), "R").Result()
		if err != nil {
			return err
		}
		if positions != int64(conversations/2*positionBytes) {
			return fmt.Errorf("member %d: %d conversations are counted when they read, %d should be", user, positions/positionBytes, conversations/2)
		}
	}
	return nil
}
