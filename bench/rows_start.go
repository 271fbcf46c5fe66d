package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// The rows of the start measure two things. The first is a build with an empty cache, as the README's first command does it on a new
// machine. The second is the time from the start of the program until it is ready, with a whole follow graph in its database.

// buildFloor are the packages that cannot be left out: HTTP, the drivers of both SQL engines, and the libraries for Redis and GraphQL.
// They are compiled and not linked.
var buildFloor = []string{"net/http", "modernc.org/sqlite", "github.com/jackc/pgx/v5/stdlib", "github.com/redis/go-redis/v9", "github.com/99designs/gqlgen/graphql/handler"}

func (b *bench) measureStart(ctx context.Context) error {
	if err := b.measureBuild(ctx); err != nil {
		return err
	}
	return b.measureReady(ctx)
}

func (b *bench) measureBuild(ctx context.Context) error {
	b.say("start: building from an empty cache, which takes minutes")
	out := filepath.Join(b.folder, "built")
	whole, said, err := buildCold(ctx, b.folder, "-o", out, b.sizes.program)
	if err != nil {
		return err
	}
	libraries, _, err := buildCold(ctx, b.folder, b.sizes.libraries...)
	if err != nil {
		return err
	}
	b.report.lines = append(b.report.lines, line{
		what: "go build -v from an empty cache", limit: "HTTP, the SQL drivers, the libraries for Redis and GraphQL", ours: fmt.Sprintf("%s s, %d lines printed", formatFigure(whole.Seconds()), said), theirs: formatFigure(libraries.Seconds()) + " s",
		value: whole.Seconds(), unit: "s", goal: atMost(90, "<= 90 s"),
	})
	return os.RemoveAll(out)
}

// buildCold runs go build -v with an empty cache of its own, and returns how long it took and how many lines it printed meanwhile. The
// modules must have been downloaded before: otherwise it would measure the network.
func buildCold(ctx context.Context, folder string, arguments ...string) (took time.Duration, lines int, err error) {
	cache, err := os.MkdirTemp(folder, "go-build-")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cache)) }()
	command := exec.CommandContext(ctx, "go", append([]string{"build", "-v"}, arguments...)...)
	command.Env = append(os.Environ(), "GOCACHE="+cache)
	command.SysProcAttr = childAttributes()
	command.WaitDelay = stopLimit
	start := time.Now()
	said, err := command.CombinedOutput()
	if err != nil {
		return 0, 0, fmt.Errorf("go build: %w\n%s", err, bytes.TrimSpace(said))
	}
	return time.Since(start), bytes.Count(said, []byte("\n")), nil
}

func (b *bench) measureReady(ctx context.Context) (err error) {
	l := line{what: "ready with a database of 578,006 follows", limit: "with an empty database", unit: "s", goal: atMost(1, "<= 1 s")}
	if filepath.Base(b.followsPath) != goalGraph {
		l.what, l.goal = "ready with a database of "+filepath.Base(b.followsPath), goal{}
	}
	if absent, err := b.reportMissingFollows(l); absent || err != nil {
		return err
	}
	full, err := b.newSite("start", startDatabase)
	if err != nil {
		return err
	}
	empty, err := b.newSite("start-empty", emptyDatabase)
	if err != nil {
		return err
	}
	defer func() {
		ending := context.WithoutCancel(ctx)
		err = errors.Join(err, full.deleteRedisData(ending), empty.deleteRedisData(ending))
	}()
	if _, err := runOnce(ctx, ".", filepath.Join(binFolder, "tidings"), "import", "follows", b.followsPath, "--both", "--data", filepath.Join(full.folder, "data")); err != nil {
		return err
	}
	var with, without []float64
	for round := range b.rounds + 1 { // the first start after the import is not counted
		if round > 0 {
			b.say("start: round %d of %d", round, b.rounds)
		}
		for site, seconds := range map[*site]*[]float64{&full: &with, &empty: &without} {
			took, err := timeToReady(ctx, *site)
			if err != nil {
				return err
			}
			if round > 0 {
				*seconds = append(*seconds, took.Seconds())
			}
		}
	}
	l.value = median(with)
	l.ours, l.theirs = formatFigure(median(with))+" s", formatFigure(median(without))+" s"
	b.report.lines = append(b.report.lines, l)
	return nil
}

// timeToReady starts a server and stops it again, and returns the time until it was ready.
func timeToReady(ctx context.Context, at site) (time.Duration, error) {
	start := time.Now()
	server, err := at.start(ctx)
	if err != nil {
		return 0, err
	}
	took := time.Since(start)
	server.stop()
	return took, nil
}
