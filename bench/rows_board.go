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

// otherSystemBoardsPerSecond is the published rate of another system that has live boards: first pages of boards a second, for viewers
// who follow up to 10 hosts.
const otherSystemBoardsPerSecond = 15_000

// measureBoardRows measures the rows of the live board: first and later pages, and the memory of a node's cache of shows.
func (b *bench) measureBoardRows(ctx context.Context) error {
	if err := b.measureBoardPages(ctx); err != nil {
		return err
	}
	return b.measureShowMemory(ctx)
}

// writeBoardFollows writes, as a file to import, the follows of the readers, who follow 10, 200 or 2,000 hosts. Each follows the first
// hosts, which have the most shows.
func (b *bench) writeBoardFollows(to io.Writer) (err error) {
	for _, follows := range followCounts {
		for r := range b.readersPerFollowCount {
			for host := range follows {
				_, failed := fmt.Fprintf(to, "%s,%s\n", readerKey(follows, r), livetest.HostKey(host))
				err = errors.Join(err, failed)
			}
		}
	}
	return err
}

// measureBoardPages measures first and later pages of the live board.
func (b *bench) measureBoardPages(ctx context.Context) (err error) {
	p, err := b.newInstallation("board", liveBoardRedisDB)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.deleteRedisData(context.WithoutCancel(ctx))) }()
	size := livetest.ShowDaySize{Shows: 10_000, LiveShows: 300, Hosts: followCounts[len(followCounts)-1]}
	d := livetest.NewShowDay(time.Now(), size, showDayRandomSeed)
	b.printProgress("board: importing %s shows of %s hosts", formatThousands(int64(size.Shows)), formatThousands(int64(size.Hosts)))
	if err := p.importFile(ctx, "follows", b.writeBoardFollows); err != nil {
		return err
	}
	if err := p.importFile(ctx, "shows", func(to io.Writer) error { return d.WriteShows(to, 0, len(d.Shows)) }); err != nil {
		return err
	}
	server, err := p.start(ctx)
	if err != nil {
		return err
	}
	defer server.stop()
	if err := server.api.waitForJobsDownTo(ctx, d.CountActiveShows(len(d.Shows))); err != nil {
		return err
	}
	if err := visit(ctx, server.api, allReaderKeys(b.readersPerFollowCount)); err != nil {
		return err
	}
	const what, laterPage = "live board, page of 20", "live board, later page, 10 hosts followed"
	badges := b.newContender("badge query, 10 hosts followed", server, badgeQuery, followCounts[0])
	contenders := []*contender{badges}
	var firsts, laters []*contender
	laterQuery := "" // of a viewer of the fewest hosts
	for _, follows := range followCounts {
		name := formatThousands(int64(follows)) + " hosts followed"
		cursor, err := secondPageCursor(ctx, server.api, readerKey(follows, 0))
		if err != nil {
			return err
		}
		query := boardQuery(strconv.Quote(cursor))
		if follows == followCounts[0] {
			laterQuery = query
		}
		later := &contender{label: "later page, " + name, target: newLoadTarget(server.address, server.pid(), query, tokens(readerKeysFollowing(follows, 1)))}
		firsts, laters = append(firsts, b.newContender("first page, "+name, server, boardQuery("null"), follows)), append(laters, later)
	}
	contenders = append(append(contenders, firsts...), laters...)
	firsts[0].profileAs("live board, first page")
	laters[0].profileAs("live board, later page")
	firstFloor, stopFirst, err := b.startBareBoardServer(ctx, p, server, firsts[0].label, boardQuery("null"), readerKeysFollowing(followCounts[0], b.readersPerFollowCount), documentRedisCommands)
	if err != nil {
		return err
	}
	defer stopFirst()
	laterFloor, stopLater, err := b.startBareBoardServer(ctx, p, server, laters[0].label, laterQuery, readerKeysFollowing(followCounts[0], 1), laterBoardRedisCommands)
	if err != nil {
		return err
	}
	defer stopLater()
	contenders = append(contenders, firstFloor, laterFloor)
	if err := b.measureContenders(ctx, what, contenders...); err != nil {
		return err
	}
	goalLine := resultLine{measurement: "live board, first page, 10 hosts followed", reference: "badge query", goal: atLeast(0.5, ">= 0.5 x its rate"), unit: "x"}
	goalLine.compareRates(firsts[0], badges)
	b.report.resultLines = append(b.report.resultLines, goalLine, resultLine{
		measurement: "the same", reference: "a published system: 15,000/s", ourFigure: formatRateAndCPU(firsts[0].results), referenceFigure: formatFigure(otherSystemBoardsPerSecond) + "/s",
		value: firsts[0].results.medianRate() / otherSystemBoardsPerSecond, unit: "x",
	}, cpuLine(goalLine.measurement, firsts[0].results, 45), bareServerCPULine(goalLine.measurement, firsts[0], firstFloor),
		cpuLine(laterPage, laters[0].results, 60), bareServerCPULine(laterPage, laters[0], laterFloor))
	for i := range followCounts {
		for _, one := range []*contender{firsts[i], laters[i]} {
			if one != firsts[0] {
				l := resultLine{measurement: "live board, " + one.label, reference: firsts[0].label, unit: "x"}
				l.compareRates(one, firsts[0])
				b.report.resultLines = append(b.report.resultLines, l)
			}
		}
	}
	return nil
}

// startBareBoardServer starts the bare server that answers some readers' pages of the board, and returns it as a contender.
func (b *bench) startBareBoardServer(ctx context.Context, at installation, server *program, who, query string, readers []string, commands func(user uint32) [][]any) (floor *contender, stop func(), err error) {
	bare, err := b.startBarePagesServer(ctx, at, server, query, readers, commands)
	if err != nil {
		return nil, nil, err
	}
	return &contender{label: bareServerLabel + ", " + who, target: newLoadTarget(bare.address, bare.pid(), query, tokens(readers))}, bare.stop, nil
}

// boardQuery returns the query of a page of 20 after a cursor, which is a JSON string or null.
func boardQuery(after string) string {
	return `{ viewer { liveBoard(first: 20, after: ` + after + `) { edges { cursor node { id title coverUrl status plannedAt startedAt host { id key name avatarUrl } } }` +
		` pageInfo { hasNextPage hasPreviousPage startCursor endCursor } sessionId lastId end } } }`
}

// secondPageCursor returns the cursor of the second page of a user's board.
func secondPageCursor(ctx context.Context, a *apiClient, person string) (string, error) {
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
	if err := a.doGraphQL(ctx, "dev:"+person, boardQuery("null"), nil, &data); err != nil {
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
	l := resultLine{measurement: "node memory for " + formatThousands(int64(shows)) + " active shows", reference: "-", unit: "MB"}
	if runtime.GOOS != "linux" {
		l.whyAbsent = "only Linux tells"
		b.report.resultLines = append(b.report.resultLines, l)
		return nil
	}
	p, err := b.newInstallation("shows", showsRedisDB)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.deleteRedisData(context.WithoutCancel(ctx))) }()
	without, err := measureResidentMemory(ctx, p, 0)
	if err != nil {
		return err
	}
	b.printProgress("board: importing %s upcoming shows", formatThousands(int64(shows)))
	d := &livetest.ShowDay{}
	for i := range shows {
		title := "Show number " + strconv.Itoa(i) + " of a season, with a title of some length"
		d.Shows = append(d.Shows, livetest.Show{Key: title, HostIndex: i / 20, Planned: time.Now().Add(time.Hour + time.Duration(i)*time.Second).Truncate(time.Millisecond)})
	}
	if err := p.importFile(ctx, "shows", func(to io.Writer) error { return d.WriteShows(to, 0, shows) }); err != nil {
		return err
	}
	// During the first start, jobs write all hosts into the viewers' documents. The second start has no such jobs, and only it is
	// measured.
	if _, err := measureResidentMemory(ctx, p, shows); err != nil {
		return err
	}
	with, err := measureResidentMemory(ctx, p, shows)
	l.value = float64(with-without) / (1 << 20)
	l.ourFigure = formatFigure(float64(with-without)/float64(shows)) + " B each"
	b.report.resultLines = append(b.report.resultLines, l)
	return err
}

// measureResidentMemory starts a server, waits until at most left jobs remain, and returns how many bytes of memory the server uses.
func measureResidentMemory(ctx context.Context, p installation, left int) (int64, error) {
	server, err := p.start(ctx)
	if err != nil {
		return 0, err
	}
	defer server.stop()
	if err := server.api.waitForJobsDownTo(ctx, left); err != nil {
		return 0, err
	}
	if err := pause(ctx, 2*time.Second); err != nil {
		return 0, err
	}
	return residentBytes(server.pid())
}
