package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"time"

	"tidings/services/live/livetest"
)

// publishedBoardRate is the published rate of another system: first pages a second, for viewers of up to 10 hosts.
const publishedBoardRate = 15_000

// measureBoard measures the rows of the live board: first and later pages, and the memory of a node's cache of shows.
func (b *bench) measureBoard(ctx context.Context) error {
	if err := b.measureBoards(ctx); err != nil {
		return err
	}
	return b.measureShowMemory(ctx)
}

// writeBoardFollows writes, as a file to import, the follows of the readers, who follow 10, 200 or 2,000 hosts. Each follows the first
// hosts, which have the most shows.
func (b *bench) writeBoardFollows(to io.Writer) (err error) {
	for _, follows := range followCounts {
		for r := range b.readers {
			for host := range follows {
				_, failed := fmt.Fprintf(to, "%s,%s\n", reader(follows, r), livetest.Host(host))
				err = errors.Join(err, failed)
			}
		}
	}
	return err
}

// measureBoards measures first and later pages of the live board.
func (b *bench) measureBoards(ctx context.Context) (err error) {
	p, err := b.newSite("board", boardDatabase)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.deleteRedisData(context.WithoutCancel(ctx))) }()
	size := livetest.Size{Shows: 10_000, Live: 300, Hosts: followCounts[len(followCounts)-1]}
	d := livetest.NewDay(time.Now(), size, daySeed)
	b.say("board: importing %s shows of %s hosts", formatThousands(int64(size.Shows)), formatThousands(int64(size.Hosts)))
	if err := p.importInto(ctx, "follows", b.writeBoardFollows); err != nil {
		return err
	}
	if err := p.importInto(ctx, "shows", func(to io.Writer) error { return d.WriteShows(to, 0, len(d.Shows)) }); err != nil {
		return err
	}
	server, err := p.start(ctx)
	if err != nil {
		return err
	}
	defer server.stop()
	if err := server.api.waitForJobsBut(ctx, d.Active(len(d.Shows))); err != nil {
		return err
	}
	if err := visit(ctx, server.api, allReaders(b.readers)); err != nil {
		return err
	}
	const what, laterPage = "live board, page of 20", "live board, later page, 10 hosts followed"
	badges := b.contender("badge query, 10 hosts followed", server, badgeQuery, followCounts[0])
	contenders := []*contender{badges}
	var firsts, laters []*contender
	laterQuery := "" // of a viewer of the fewest hosts
	for _, follows := range followCounts {
		name := formatThousands(int64(follows)) + " hosts followed"
		cursor, err := boardCursor(ctx, server.api, reader(follows, 0))
		if err != nil {
			return err
		}
		query := boardQuery(strconv.Quote(cursor))
		if follows == followCounts[0] {
			laterQuery = query
		}
		later := &contender{who: "later page, " + name, target: newTarget(server.address, server.pid(), query, tokens(readersOf(follows, 1)))}
		firsts, laters = append(firsts, b.contender("first page, "+name, server, boardQuery("null"), follows)), append(laters, later)
	}
	contenders = append(append(contenders, firsts...), laters...)
	firsts[0].profileAs("live board, first page")
	laters[0].profileAs("live board, later page")
	firstFloor, stopFirst, err := b.boardFloor(ctx, p, server, firsts[0].who, boardQuery("null"), readersOf(followCounts[0], b.readers))
	if err != nil {
		return err
	}
	defer stopFirst()
	laterFloor, stopLater, err := b.boardFloor(ctx, p, server, laters[0].who, laterQuery, readersOf(followCounts[0], 1))
	if err != nil {
		return err
	}
	defer stopLater()
	contenders = append(contenders, firstFloor, laterFloor)
	if err := b.compete(ctx, what, contenders...); err != nil {
		return err
	}
	goalLine := line{what: "live board, first page, 10 hosts followed", limit: "badge query", goal: atLeast(0.5, ">= 0.5 x its rate"), unit: "x"}
	goalLine.compare(firsts[0], badges)
	b.report.lines = append(b.report.lines, goalLine, line{
		what: "the same", limit: "a published system: 15,000/s", ours: formatRateAndCPU(firsts[0].values), theirs: formatFigure(publishedBoardRate) + "/s",
		value: firsts[0].values.rate() / publishedBoardRate, unit: "x",
	}, cpuLine(goalLine.what, firsts[0].values, 45), floorLine(goalLine.what, firsts[0], firstFloor),
		cpuLine(laterPage, laters[0].values, 60), floorLine(laterPage, laters[0], laterFloor))
	for i := range followCounts {
		for _, one := range []*contender{firsts[i], laters[i]} {
			if one != firsts[0] {
				l := line{what: "live board, " + one.who, limit: firsts[0].who, unit: "x"}
				l.compare(one, firsts[0])
				b.report.lines = append(b.report.lines, l)
			}
		}
	}
	return nil
}

// boardFloor starts the bare server that answers some readers' pages of the board, and returns it as a contender.
func (b *bench) boardFloor(ctx context.Context, at site, server *program, who, query string, readers []string) (floor *contender, stop func(), err error) {
	bare, err := b.startBarePages(ctx, at, server, query, readers, documentCommands)
	if err != nil {
		return nil, nil, err
	}
	return &contender{who: whoBareServer + ", " + who, target: newTarget(bare.address, bare.pid(), query, tokens(readers))}, bare.stop, nil
}

// boardQuery returns the query of a page of 20 after a cursor, which is a JSON string or null.
func boardQuery(after string) string {
	return `{ viewer { liveBoard(first: 20, after: ` + after + `) { edges { cursor node { id title coverUrl status plannedAt startedAt host { id key name avatarUrl } } }` +
		` pageInfo { hasNextPage hasPreviousPage startCursor endCursor } sessionId lastId end } } }`
}

// boardCursor returns the cursor of the second page of a user's board.
func boardCursor(ctx context.Context, a *api, person string) (string, error) {
	var data struct {
		Viewer struct {
			LiveBoard struct {
				Edges    []json.RawMessage
				PageInfo struct {
					HasNextPage bool
					EndCursor   string
				}
			}
		}
	}
	if err := a.do(ctx, "dev:"+person, boardQuery("null"), nil, &data); err != nil {
		return "", err
	}
	board := data.Viewer.LiveBoard
	if !board.PageInfo.HasNextPage || len(board.Edges) != pageSize {
		return "", fmt.Errorf("the board of %s is %d shows, and not several pages", person, len(board.Edges))
	}
	return board.PageInfo.EndCursor, nil
}

// measureShowMemory measures how much more memory a node uses with many active shows in its cache.
func (b *bench) measureShowMemory(ctx context.Context) (err error) {
	shows := b.sizes.activeShows
	l := line{what: "node memory for " + formatThousands(int64(shows)) + " active shows", limit: "-", unit: "MB"}
	if runtime.GOOS != "linux" {
		l.whyAbsent = "only Linux tells"
		b.report.lines = append(b.report.lines, l)
		return nil
	}
	p, err := b.newSite("shows", showsDatabase)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.deleteRedisData(context.WithoutCancel(ctx))) }()
	without, err := measureResidentMemory(ctx, p, 0)
	if err != nil {
		return err
	}
	b.say("board: importing %s upcoming shows", formatThousands(int64(shows)))
	d := &livetest.Day{}
	for i := range shows {
		title := "Show number " + strconv.Itoa(i) + " of a season, with a title of some length"
		d.Shows = append(d.Shows, livetest.Show{Key: title, Host: i / 20, Planned: time.Now().Add(time.Hour + time.Duration(i)*time.Second).Truncate(time.Millisecond)})
	}
	if err := p.importInto(ctx, "shows", func(to io.Writer) error { return d.WriteShows(to, 0, shows) }); err != nil {
		return err
	}
	// During the first start, jobs write all hosts into the viewers' documents. The second start has no such jobs, and only it is
	// measured.
	if _, err := measureResidentMemory(ctx, p, shows); err != nil {
		return err
	}
	with, err := measureResidentMemory(ctx, p, shows)
	l.value = float64(with-without) / (1 << 20)
	l.ours = formatFigure(float64(with-without)/float64(shows)) + " B each"
	b.report.lines = append(b.report.lines, l)
	return err
}

// measureResidentMemory starts a server, waits until at most left jobs remain, and returns the memory that the server uses.
func measureResidentMemory(ctx context.Context, p site, left int) (int64, error) {
	server, err := p.start(ctx)
	if err != nil {
		return 0, err
	}
	defer server.stop()
	if err := server.api.waitForJobsBut(ctx, left); err != nil {
		return 0, err
	}
	if err := pause(ctx, 2*time.Second); err != nil {
		return 0, err
	}
	return residentBytes(server.pid())
}
