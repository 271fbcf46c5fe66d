package main

import (
	"context"
	"fmt"
	"strconv"
)

// This row measures how the time of the home feed page and of the badge query depends on how many authors a reader follows, and how
// many of them are huge. The posts of huge authors are merged in from memory when a page is read.
const hugeAuthors = 50

// mixture is how many authors a reader follows, and how many of these are huge.
type mixture struct{ follows, huge int }

func (m mixture) String() string {
	return fmt.Sprintf("%s followed, %d of them huge", formatThousands(int64(m.follows)), m.huge)
}

func (m mixture) reader(i int) string { return fmt.Sprintf("mixed-%d-%d-%d", m.follows, m.huge, i) }

// mixtures returns all mixtures that the row measures.
func mixtures() (all []mixture) {
	for _, follows := range followCounts {
		for _, huge := range []int{0, 5, hugeAuthors} {
			if huge < follows {
				all = append(all, mixture{follows, huge})
			}
		}
	}
	return all
}

// hugeAuthor returns the key of the i-th huge author.
func hugeAuthor(i int) string { return "huge-" + strconv.Itoa(i) }

func (b *bench) measureHuge(ctx context.Context) error {
	return b.runAlone(ctx, "huge", hugeDatabase, b.runHugeRounds)
}

func (b *bench) runHugeRounds(ctx context.Context, _ site, server *program) error {
	all := mixtures()
	b.say("huge: seeding the follows of %d readers", len(all)*b.readers)
	if err := seedMixtures(ctx, server.api, all, b.readers); err != nil {
		return err
	}
	for _, query := range []struct{ what, text string }{{"home feed page of 20", feedQuery}, {"badge query", badgeQuery}} {
		var contenders []*contender
		for _, m := range all {
			contenders = append(contenders, &contender{who: m.String(), target: newTarget(server.address, server.pid(), query.text, tokens(readersOfMixture(m, b.readers)))})
		}
		what := query.what + " by the number of huge authors"
		if err := b.compete(ctx, what, contenders...); err != nil {
			return err
		}
		first, last := contenders[0], contenders[len(contenders)-1]
		b.report.lines = append(b.report.lines, line{
			what: query.what + ", " + last.who, limit: first.who, ours: formatRateAndCPU(last.values), theirs: formatRateAndCPU(first.values),
			value: ratio(first.values.rate(), last.values.rate()), unit: "x the time", goal: atMost(1.5, "<= 1.5 x the time"),
		})
	}
	return nil
}

func readersOfMixture(m mixture, readers int) (keys []string) {
	for i := range readers {
		keys = append(keys, m.reader(i))
	}
	return keys
}

// seedMixtures makes the authors, some of them huge, the readers, and their unread posts.
func seedMixtures(ctx context.Context, a *api, all []mixture, readers int) error {
	var events []event
	for i := range followCounts[len(followCounts)-1] {
		events = append(events, profileEvent(author(i), "Author "+strconv.Itoa(i)))
	}
	for i := range hugeAuthors {
		events = append(events, profileEvent(hugeAuthor(i), "Huge "+strconv.Itoa(i)))
	}
	for _, m := range all {
		for r := range readers {
			for i := range m.huge {
				events = append(events, followEvent(m.reader(r), hugeAuthor(i)))
			}
			for i := range m.follows - m.huge {
				events = append(events, followEvent(m.reader(r), author(i)))
			}
		}
	}
	if _, err := a.ingest(ctx, events); err != nil {
		return err
	}
	for i := range hugeAuthors {
		if err := a.pinMode(ctx, hugeAuthor(i), "HUGE"); err != nil {
			return err
		}
	}
	var keys []string
	for _, m := range all {
		keys = append(keys, readersOfMixture(m, readers)...)
	}
	if err := visit(ctx, a, keys); err != nil {
		return err
	}
	events = nil
	for i := range 2 * unreadPosts {
		events = append(events, publishEvent(author(i%followCounts[0]/2), postBody(i)), publishEvent(hugeAuthor(i%hugeAuthors), postBody(i)))
	}
	if _, err := a.ingest(ctx, events); err != nil {
		return err
	}
	if err := a.waitForJobs(ctx); err != nil {
		return err
	}
	return checkMixtures(ctx, a, all, readers)
}

// checkMixtures compares the readers' counts with the published posts.
func checkMixtures(ctx context.Context, a *api, all []mixture, readers int) error {
	for _, m := range all {
		want := 2 * unreadPosts // the posts of the few authors that everybody follows
		for i := range 2 * unreadPosts {
			if i%hugeAuthors < m.huge {
				want++
			}
		}
		for r := range readers {
			got, page, err := readPerson(ctx, a, m.reader(r))
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
