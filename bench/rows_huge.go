package main

import (
	"context"
	"fmt"
	"strconv"
)

// hugeAuthors is how many huge authors there are in the row huge. The row measures how the time of the home feed page and of the badge
// query depends on how many authors a reader follows, and how many of them are huge: their posts are pulled.
const hugeAuthors = 50

// followMixture is how many authors a reader follows, and how many of these are huge.
type followMixture struct{ follows, huge int }

func (m followMixture) String() string {
	return fmt.Sprintf("%s followed, %d of them huge", formatThousands(int64(m.follows)), m.huge)
}

// readerKey returns the key of the i-th reader who follows this mixture of authors.
func (m followMixture) readerKey(i int) string {
	return fmt.Sprintf("mixed-%d-%d-%d", m.follows, m.huge, i)
}

// allFollowMixtures returns all mixtures of followed authors that the row huge measures.
func allFollowMixtures() (all []followMixture) {
	for _, follows := range followCounts {
		for _, huge := range []int{0, 5, hugeAuthors} {
			if huge < follows {
				all = append(all, followMixture{follows, huge})
			}
		}
	}
	return all
}

// hugeAuthorKey returns the key of the i-th huge author.
func hugeAuthorKey(i int) string { return "huge-" + strconv.Itoa(i) }

// measureHugeAuthors measures the row huge on a server of its own.
func (b *bench) measureHugeAuthors(ctx context.Context) error {
	return b.runOnOwnServer(ctx, "huge", hugeAuthorRedisDB, b.runHugeRounds)
}

// runHugeRounds seeds the readers and the authors, and measures and reports the two queries of the row huge.
func (b *bench) runHugeRounds(ctx context.Context, _ installation, server *program) error {
	all := allFollowMixtures()
	b.printProgress("huge: seeding the follows of %d readers", len(all)*b.readersPerFollowCount)
	if err := seedMixtures(ctx, server.api, all, b.readersPerFollowCount); err != nil {
		return err
	}
	for _, query := range []struct{ what, text string }{{"home feed page of 20", feedQuery}, {"badge query", badgeQuery}} {
		var contenders []*contender
		for _, m := range all {
			contenders = append(contenders, &contender{label: m.String(), target: newLoadTarget(server.address, server.pid(), query.text, tokens(mixtureReaderKeys(m, b.readersPerFollowCount)))})
		}
		what := query.what + " by the number of huge authors"
		contenders[len(contenders)-1].profileAs(what)
		if err := b.measureContenders(ctx, what, contenders...); err != nil {
			return err
		}
		first, last := contenders[0], contenders[len(contenders)-1]
		b.report.resultLines = append(b.report.resultLines, resultLine{
			measurement: query.what + ", " + last.label, reference: first.label, ourFigure: formatRateAndCPU(last.results), referenceFigure: formatRateAndCPU(first.results),
			value: ratio(first.results.medianRate(), last.results.medianRate()), unit: "x the time", goal: atMost(1.5, "<= 1.5 x the time"),
		})
	}
	return nil
}

// mixtureReaderKeys returns the keys of the readers who follow a mixture of authors.
func mixtureReaderKeys(m followMixture, readers int) (keys []string) {
	for i := range readers {
		keys = append(keys, m.readerKey(i))
	}
	return keys
}

// seedMixtures makes the authors, some of them huge, the readers of all mixtures, and posts that are unread for the readers.
func seedMixtures(ctx context.Context, a *apiClient, all []followMixture, readers int) error {
	var events []ingestEvent
	for i := range followCounts[len(followCounts)-1] {
		events = append(events, profileEvent(authorKey(i), "Author "+strconv.Itoa(i)))
	}
	for i := range hugeAuthors {
		events = append(events, profileEvent(hugeAuthorKey(i), "Huge "+strconv.Itoa(i)))
	}
	for _, m := range all {
		for r := range readers {
			for i := range m.huge {
				events = append(events, followEvent(m.readerKey(r), hugeAuthorKey(i)))
			}
			for i := range m.follows - m.huge {
				events = append(events, followEvent(m.readerKey(r), authorKey(i)))
			}
		}
	}
	if _, err := a.ingest(ctx, events); err != nil {
		return err
	}
	for i := range hugeAuthors {
		if err := a.pinMode(ctx, hugeAuthorKey(i), "HUGE"); err != nil {
			return err
		}
	}
	var keys []string
	for _, m := range all {
		keys = append(keys, mixtureReaderKeys(m, readers)...)
	}
	if err := visit(ctx, a, keys); err != nil {
		return err
	}
	events = nil
	for i := range 2 * unreadPostsPerReader {
		events = append(events, publishEvent(authorKey(i%followCounts[0]/2), postBody(i)), publishEvent(hugeAuthorKey(i%hugeAuthors), postBody(i)))
	}
	if _, err := a.ingest(ctx, events); err != nil {
		return err
	}
	if err := a.waitForJobs(ctx); err != nil {
		return err
	}
	return checkMixtureCounts(ctx, a, all, readers)
}

// checkMixtureCounts compares the readers' counts with the published posts.
func checkMixtureCounts(ctx context.Context, a *apiClient, all []followMixture, readers int) error {
	for _, m := range all {
		want := 2 * unreadPostsPerReader // the posts of the few authors that everybody follows
		for i := range 2 * unreadPostsPerReader {
			if i%hugeAuthors < m.huge {
				want++
			}
		}
		for r := range readers {
			got, page, err := readBadgeAndFeed(ctx, a, m.readerKey(r))
			if err != nil {
				return err
			}
			if got != want || len(page) != want {
				return fmt.Errorf("who has %s has %d new posts and a page of %d, published were %d", m, got, len(page), want)
			}
		}
	}
	return nil
}
