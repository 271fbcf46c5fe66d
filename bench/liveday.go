package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/services/live/livetest"
)

// The check of a day of shows imports the day, reads the boards of a sample of viewers through the API page by page, and compares them
// with boards that are sorted from the day itself.

// showDayRandomSeed is the seed of the random day of shows: each run has the same shows, at other hours.
const showDayRandomSeed = 1

// importFile writes a file and imports it into the database of an installation without a running server. what is the kind of import,
// such as "follows".
func (p installation) importFile(ctx context.Context, what string, write func(to io.Writer) error) (err error) {
	path := filepath.Join(p.dataFolder, what)
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(write(file), file.Close()); err != nil {
		return err
	}
	_, err = runForOutput(ctx, ".", filepath.Join(binFolder, "tidings"), "import", what, path, "--data", filepath.Join(p.dataFolder, "data"), "--quiet")
	return errors.Join(err, os.Remove(path))
}

// checkShowDayBoards imports the first half of a day of shows and compares the boards, then imports the other half and compares
// them again.
func (b *bench) checkShowDayBoards(ctx context.Context) (err error) {
	p, err := b.newInstallation("liveday", liveDayRedisDB)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.deleteRedisData(context.WithoutCancel(ctx))) }()
	d := livetest.NewShowDay(time.Now(), b.sizes.showDaySize, showDayRandomSeed)
	b.printProgress("liveday: importing the follows of %s viewers", formatThousands(int64(len(d.FollowedHosts))))
	if err := p.importFile(ctx, "follows", d.WriteFollows); err != nil {
		return err
	}
	half := len(d.Shows) / 2
	for i, part := range []struct{ from, until int }{{0, half}, {half, len(d.Shows)}} {
		b.printProgress("liveday: importing shows %d to %d", part.from, part.until)
		if err := p.importFile(ctx, "shows", func(to io.Writer) error { return d.WriteShows(to, part.from, part.until) }); err != nil {
			return err
		}
		if err := b.compareBoards(ctx, p, d, part.until, i == 1); err != nil {
			return err
		}
	}
	return nil
}

// compareBoards starts a server and compares the live boards of a sample of viewers with the imported shows, which are the first shows
// of the day. shows is how many were imported. If flush is set, it compares once more after Redis has lost all data.
func (b *bench) compareBoards(ctx context.Context, p installation, d *livetest.ShowDay, shows int, flush bool) error {
	server, err := p.start(ctx)
	if err != nil {
		return err
	}
	defer server.stop()
	server.api.client.Transport = &http.Transport{MaxIdleConnsPerHost: peopleReadAtOnce}
	if err := server.api.waitForJobsDownTo(ctx, d.CountActiveShows(shows)); err != nil {
		return err
	}
	// Within a second the node cache has what the jobs have changed.
	if err := pause(ctx, 1500*time.Millisecond); err != nil {
		return err
	}
	if err := b.compareSampledBoards(ctx, server.api, d, shows, fmt.Sprintf("%s shows", formatThousands(int64(shows)))); err != nil || !flush {
		return err
	}
	if err := p.deleteRedisData(ctx); err != nil {
		return err
	}
	return b.compareSampledBoards(ctx, server.api, d, shows, "after FLUSHALL")
}

// compareSampledBoards reads the live boards of a sample of the day's viewers, and adds to the report how many of them are right.
func (b *bench) compareSampledBoards(ctx context.Context, a *apiClient, d *livetest.ShowDay, shows int, when string) error {
	var right, lines atomic.Int64
	var wrong atomic.Pointer[string]
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(peopleReadAtOnce)
	step := max(1, len(d.FollowedHosts)/b.sizes.sampledViewers)
	sampled := 0
	for viewer := 0; viewer < len(d.FollowedHosts); viewer += step {
		sampled++
		group.Go(func() error {
			want, cut := d.ExpectedBoard(viewer, shows)
			got, end, err := readBoard(ctx, a, livetest.ViewerKey(viewer), []int{100, 23, 50}[viewer/step%3])
			if err != nil {
				return fmt.Errorf("%s: %w", livetest.ViewerKey(viewer), err)
			}
			lines.Add(int64(len(got)))
			if slices.Equal(got, want) && (end == "RETENTION") == cut {
				right.Add(1)
				return nil
			}
			at := 0
			for at < min(len(got), len(want)) && got[at] == want[at] {
				at++
			}
			text := fmt.Sprintf("%s, who follows %d, has a board of %d to %s, the day says %d; they differ from line %d on: %q, and %q",
				livetest.ViewerKey(viewer), len(d.FollowedHosts[viewer]), len(got), end, len(want), at+1, got[at:min(at+3, len(got))], want[at:min(at+3, len(want))])
			wrong.Store(&text)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	line := fmt.Sprintf("%d of %d live boards of a day right, %s lines (%s)", right.Load(), sampled, formatThousands(lines.Load()), when)
	b.report.everyoneCheckLines = append(b.report.everyoneCheckLines, line)
	b.printProgress("liveday: %s", line)
	if text := wrong.Load(); text != nil {
		return fmt.Errorf("%s: %s", when, *text)
	}
	return nil
}

// readBoard reads a user's board page by page: title and status of each show, and the reason why it ends.
func readBoard(ctx context.Context, a *apiClient, person string, first int) (lines []string, end string, err error) {
	for after := "null"; ; {
		var data struct {
			Viewer struct {
				LiveBoard struct {
					Edges []struct {
						Status string
						Node   struct{ Title string }
					}
					PageInfo struct {
						HasNextPage bool
						EndCursor   string
					}
					End        string
					NewSession bool
				}
			}
		}
		query := fmt.Sprintf(`{ viewer { liveBoard(first: %d, after: %s) { edges { status node { title } } pageInfo { hasNextPage endCursor } end newSession } } }`, first, after)
		if err := a.doGraphQL(ctx, "dev:"+person, query, nil, &data); err != nil {
			return nil, "", err
		}
		board := data.Viewer.LiveBoard
		for _, edge := range board.Edges {
			lines = append(lines, strings.Join([]string{edge.Node.Title, edge.Status}, " "))
		}
		if board.NewSession {
			return nil, "", errors.New("the session ended between two pages")
		}
		if !board.PageInfo.HasNextPage {
			return lines, board.End, nil
		}
		if len(board.Edges) == 0 {
			return nil, "", fmt.Errorf("after %d shows a page has none, and more are to follow", len(lines))
		}
		after = strconv.Quote(board.PageInfo.EndCursor)
	}
}
