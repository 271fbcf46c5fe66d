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

// unavoidablePackages are the packages that Tidings cannot do without: HTTP, the drivers of both SQL engines, and the libraries for
// Redis and GraphQL. To compare, the row of the build compiles them alone, without linking a program.
var unavoidablePackages = []string{"net/http", "modernc.org/sqlite", "github.com/jackc/pgx/v5/stdlib", "github.com/redis/go-redis/v9", "github.com/99designs/gqlgen/graphql/handler"}

// measureBuildAndStart measures the row start: how long a build of Tidings takes, and how long the start of a server takes.
func (b *bench) measureBuildAndStart(ctx context.Context) error {
	if err := b.measureBuild(ctx); err != nil {
		return err
	}
	return b.measureTimeToReady(ctx)
}

// measureBuild measures go build of the program from an empty cache, and of the libraries alone.
func (b *bench) measureBuild(ctx context.Context) error {
	b.printProgress("start: building from an empty cache, which takes minutes")
	out := filepath.Join(b.dataFolder, "built")
	whole, said, err := buildCold(ctx, b.dataFolder, "-o", out, b.sizes.packageToBuild)
	if err != nil {
		return err
	}
	libraries, _, err := buildCold(ctx, b.dataFolder, b.sizes.librariesToBuild...)
	if err != nil {
		return err
	}
	b.report.resultLines = append(b.report.resultLines, resultLine{
		measurement: "go build -v from an empty cache", reference: "HTTP, the SQL drivers, the libraries for Redis and GraphQL", ourFigure: fmt.Sprintf("%s s, %d lines printed", formatFigure(whole.Seconds()), said), referenceFigure: formatFigure(libraries.Seconds()) + " s",
		value: whole.Seconds(), unit: "s", goal: atMost(90, "<= 90 s"),
	})
	return os.RemoveAll(out)
}

// buildCold runs go build -v with an empty cache of its own, and returns how long that took and how many lines it printed meanwhile.
// The modules must have been downloaded before: otherwise the time would include the download.
func buildCold(ctx context.Context, folder string, arguments ...string) (took time.Duration, lines int, err error) {
	cache, err := os.MkdirTemp(folder, "go-build-")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cache)) }()
	command := exec.CommandContext(ctx, "go", append([]string{"build", "-v"}, arguments...)...)
	command.Env = append(os.Environ(), "GOCACHE="+cache)
	command.SysProcAttr = childAttributes()
	command.WaitDelay = stopTimeout
	start := time.Now()
	said, err := command.CombinedOutput()
	if err != nil {
		return 0, 0, fmt.Errorf("go build: %w\n%s", err, bytes.TrimSpace(said))
	}
	return time.Since(start), bytes.Count(said, []byte("\n")), nil
}

// measureTimeToReady measures the time until a server is ready: with the follows of a file (--follows) in its database, and with an
// empty database.
func (b *bench) measureTimeToReady(ctx context.Context) (err error) {
	l := resultLine{measurement: "ready with a database of 578,006 follows", reference: "with an empty database", unit: "s", goal: atMost(1, "<= 1 s")}
	if filepath.Base(b.followsPath) != importGoalFollowsFile {
		l.measurement, l.goal = "ready with a database of "+filepath.Base(b.followsPath), goal{}
	}
	if absent, err := b.reportIfFollowsMissing(l); absent || err != nil {
		return err
	}
	full, err := b.newInstallation("start", serverStartRedisDB)
	if err != nil {
		return err
	}
	empty, err := b.newInstallation("start-empty", emptyServerStartRedisDB)
	if err != nil {
		return err
	}
	defer func() {
		ending := context.WithoutCancel(ctx)
		err = errors.Join(err, full.deleteRedisData(ending), empty.deleteRedisData(ending))
	}()
	if _, err := runForOutput(ctx, ".", filepath.Join(binFolder, "tidings"), "import", "follows", b.followsPath, "--both", "--data", filepath.Join(full.dataFolder, "data")); err != nil {
		return err
	}
	var with, without []float64
	for round := range b.rounds + 1 { // the first start after the import is not counted
		if round > 0 {
			b.printProgress("start: round %d of %d", round, b.rounds)
		}
		for site, seconds := range map[*installation]*[]float64{&full: &with, &empty: &without} {
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
	l.ourFigure, l.referenceFigure = formatFigure(median(with))+" s", formatFigure(median(without))+" s"
	b.report.resultLines = append(b.report.resultLines, l)
	return nil
}

// timeToReady starts a server and stops it again, and returns the time until it was ready.
func timeToReady(ctx context.Context, at installation) (time.Duration, error) {
	start := time.Now()
	server, err := at.start(ctx)
	if err != nil {
		return 0, err
	}
	took := time.Since(start)
	server.stop()
	return took, nil
}
