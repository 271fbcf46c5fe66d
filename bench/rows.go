package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"
)

// prepareSharedData makes the users, posts and likes of the shared installation, and leaves in Redis all data that the baselines read.
func (b *bench) prepareSharedData(ctx context.Context) error {
	server, err := b.startServer(ctx)
	if err != nil {
		return err
	}
	watchers := 0
	if b.isRowSelected("sockets") {
		watchers = b.socketCount
	}
	err = seedServer(ctx, server.api, b.readersPerFollowCount, watchers, b.printProgress)
	server.stop()
	if err != nil {
		return err
	}
	// The first server keeps what it wrote in its own memory. Only another server reads it from SQL, and puts copies into Redis.
	if server, err = b.startServer(ctx); err != nil {
		return err
	}
	defer server.stop()
	b.printProgress("warming Redis")
	keys := allReaderKeys(b.readersPerFollowCount)
	for i := range watchers {
		keys = append(keys, watcherKey(i))
	}
	if err := warmProfiles(ctx, server.api, keys); err != nil {
		return err
	}
	if err := visit(ctx, server.api, keys); err != nil {
		return err
	}
	if err := checkSeeded(ctx, server.api, allReaderKeys(b.readersPerFollowCount)); err != nil {
		return err
	}
	b.userIDByKey, b.seededUsersFile, err = readUserIDs(ctx, b.redis, b.dataFolder)
	return err
}

// measureQueries measures the rows of queries over HTTP.
func (b *bench) measureQueries(ctx context.Context) error {
	server, err := b.startServer(ctx)
	if err != nil {
		return err
	}
	defer server.stop()
	bun, err := b.startBaseline(ctx, b.startBun)
	if err != nil {
		return err
	}
	defer bun.stop()
	mercurius, err := b.startBaseline(ctx, func(ctx context.Context) (*program, error) { return b.startMercurius(ctx, b.mercuriusProcesses) })
	if err != nil {
		return err
	}
	defer mercurius.stop()
	gqlgen, err := b.startGqlgen(ctx)
	if err != nil {
		return err
	}
	defer gqlgen.stop()
	for _, other := range []*program{bun.program, mercurius.program, gqlgen} {
		for _, query := range []string{badgeQuery, feedQuery} {
			if other == nil {
				continue
			}
			if err := compareAnswers(ctx, server.api, other.api, query, allReaderKeys(b.readersPerFollowCount)); err != nil {
				return err
			}
		}
	}
	b.printProgress("the baselines give the same answers")
	if b.isRowSelected("badge") {
		if err := b.measureBadges(ctx, server, bun, mercurius); err != nil {
			return err
		}
	}
	if b.isRowSelected("feed") {
		if err := b.measureFeeds(ctx, server, bun, mercurius, gqlgen); err != nil {
			return err
		}
	}
	if b.isRowSelected("operations") {
		return b.measureCompiledOperations(ctx, server)
	}
	return nil
}

// baseline is a running program to compare with, or the reason why it is not measured.
type baseline struct {
	*program
	whyAbsent string // "" if it runs
}

// stop stops the baseline if it runs.
func (p baseline) stop() {
	if p.program != nil {
		p.program.stop()
	}
}

// startBaseline starts a baseline. If a program that it needs is not installed, the rows with the baseline say so.
func (b *bench) startBaseline(ctx context.Context, start func(context.Context) (*program, error)) (baseline, error) {
	p, err := start(ctx)
	if errors.Is(err, errNodeJSMissing) {
		return baseline{whyAbsent: err.Error()}, nil
	}
	return baseline{program: p}, err
}

// contender is one program that takes turns with others in a row, or one kind of queries to it.
type contender struct {
	label       string     // its name in the report
	target      loadTarget // its server, and the requests that the server gets
	results     series     // its samples so far
	profileName string     // the name under which its profile is kept; "" if none is kept
}

// newContender makes a contender: program p gets a query from the readers who follow so many people. who is the contender's name in the
// report. Its profile is not kept, unless profileAs is called.
func (b *bench) newContender(who string, p *program, query string, follows int) *contender {
	pid := p.pid()
	if who == mercuriusLabel && b.mercuriusProcesses > 1 {
		pid = 0 // its first process only distributes connections, so its processor time is meaningless and omitted
	}
	return &contender{label: who, target: newLoadTarget(p.address, pid, query, tokens(readerKeysFollowing(follows, b.readersPerFollowCount)))}
}

// profileAs makes the profiler keep a profile of this contender's turns, under a name. It returns the contender.
func (c *contender) profileAs(name string) *contender {
	c.profileName = name
	return c
}

// measureContenders loads the contenders in turn, in each round, and adds their samples to the report under the name what. A first,
// short turn of each is not counted.
func (b *bench) measureContenders(ctx context.Context, what string, contenders ...*contender) error {
	length := time.Duration(b.turnSeconds * float64(time.Second))
	defer b.profiler.beginMeasurement("") // the following work is not a turn
	for round := range b.rounds + 1 {
		if round > 0 {
			b.printProgress("%s: round %d of %d", what, round, b.rounds)
		}
		for _, c := range contenders {
			turn := length
			if round == 0 {
				turn = max(length/4, 100*time.Millisecond)
			}
			b.profiler.beginMeasurement(c.profileName)
			result, err := c.target.load(ctx, b.connections, turn)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", what, c.label, err)
			}
			if round > 0 {
				c.results = append(c.results, result)
			}
		}
	}
	for _, c := range contenders {
		b.report.detailLines = append(b.report.detailLines, detailLine{measurement: what, label: c.label, results: c.results})
		b.report.clientCPULines = append(b.report.clientCPULines, fmt.Sprintf("%s, %s: %s us", what, c.label, formatFigure(c.results.medianClientCPUMicros())))
	}
	return nil
}

const (
	// These are the labels of contenders: the names of the programs in the report.
	bunLabel       = "Bun + graphql-jit + Bun's Redis client"
	mercuriusLabel = "Mercurius + ioredis, auto-pipelining"
	gqlgenLabel    = "stock gqlgen, one Redis call a command"
	staticLabel    = "our own static {__typename}"
)

// addBaselineContenders makes a contender for each of the baselines that run: fromBun and fromMercurius, which are nil if their
// baseline does not run. all has the given contenders and these.
func (b *bench) addBaselineContenders(query string, bun, mercurius baseline, contenders ...*contender) (fromBun, fromMercurius *contender, all []*contender) {
	all = contenders
	if bun.program != nil {
		fromBun = b.newContender(bunLabel, bun.program, query, 200)
		all = append(all, fromBun)
	}
	if mercurius.program != nil {
		fromMercurius = b.newContender(mercuriusLabel, mercurius.program, query, 200)
		all = append(all, fromMercurius)
	}
	return fromBun, fromMercurius, all
}

// measureBadges measures the rows of the badge query over HTTP.
func (b *bench) measureBadges(ctx context.Context, server *program, bun, mercurius baseline) error {
	const what = "badge query over HTTP"
	ours := b.newContender("Tidings, 200 followed", server, badgeQuery, 200).profileAs(what)
	few := b.newContender("Tidings, 10 followed", server, badgeQuery, 10)
	many := b.newContender("Tidings, 2,000 followed", server, badgeQuery, 2000)
	static := b.newContender(staticLabel, server, staticQuery, 200).profileAs("static")
	bare, err := b.startBarePagesServer(ctx, b.sharedInstallation(), server, badgeQuery, readerKeysFollowing(200, b.readersPerFollowCount), documentRedisCommands)
	if err != nil {
		return err
	}
	defer bare.stop()
	floor := b.newContender(bareServerLabel, bare, badgeQuery, 200)
	fromBun, fromMercurius, all := b.addBaselineContenders(badgeQuery, bun, mercurius, ours)
	if err := b.measureContenders(ctx, what, append(all, static, few, many, floor)...); err != nil {
		return err
	}
	first := resultLine{measurement: what + ", 200 followed", reference: "(a) " + bunLabel, goal: atLeast(1.5, ">= 1.5 x"), unit: "x", whyAbsent: bun.whyAbsent}
	cpu := resultLine{measurement: what + ", server CPU each", reference: bunLabel, goal: atMost(0.75, "<= 0.75 x"), unit: "x the CPU", whyAbsent: bun.whyAbsent}
	if fromBun != nil {
		first.compareRates(ours, fromBun)
		cpu.compareCPU(ours, fromBun)
	}
	second := resultLine{measurement: what + ", 200 followed", reference: "(b) " + mercuriusLabel, goal: atLeast(3, ">= 3 x"), unit: "x", whyAbsent: mercurius.whyAbsent}
	if fromMercurius != nil {
		second.compareRates(ours, fromMercurius)
	}
	third := resultLine{measurement: what + ", 200 followed", reference: "(c) " + staticLabel, goal: atLeast(0.6, ">= 0.6 x"), unit: "x"}
	third.compareRates(ours, static)
	// Each connection has one request at a time, so the time of a query is the inverse of the rate.
	fourth := resultLine{
		measurement: "the same, 2,000 followed instead of 10", reference: "itself, 10 followed", goal: atMost(1.5, "<= 1.5 x the time"), unit: "x the time",
		ourFigure: formatRateAndCPU(many.results), referenceFigure: formatRateAndCPU(few.results), value: ratio(few.results.medianRate(), many.results.medianRate()),
	}
	b.report.resultLines = append(b.report.resultLines, first, cpu, second, third, cpuLine(staticLabel, static.results, 20), fourth, bareServerCPULine(what+", 200 followed", ours, floor))
	return nil
}

// compareRates fills a line of the report with two rates and their ratio.
func (l *resultLine) compareRates(ours, theirs *contender) {
	l.ourFigure, l.referenceFigure, l.value = formatRateAndCPU(ours.results), formatRateAndCPU(theirs.results), ratio(ours.results.medianRate(), theirs.results.medianRate())
}

// compareCPU fills a line of the report with the ratio of the servers' processor times for one answer.
func (l *resultLine) compareCPU(ours, theirs *contender) {
	l.compareRates(ours, theirs)
	l.value = ratio(ours.results.medianServerCPUMicros(), theirs.results.medianServerCPUMicros())
}

// formatRate prints the rate of a series.
func formatRate(values series) string { return formatFigure(values.medianRate()) + "/s" }

// formatRateAndCPU returns the rate and, if it is known, the server's processor time for one answer.
func formatRateAndCPU(values series) string {
	if cpu := values.medianServerCPUMicros(); !math.IsNaN(cpu) {
		return formatRate(values) + ", " + formatFigure(cpu) + " us"
	}
	return formatRate(values)
}

// cpuLine returns the line of the report with the server's processor time for one answer. The goal is at most `most` microseconds.
func cpuLine(what string, values series, most float64) resultLine {
	return resultLine{measurement: what + ": server CPU each", reference: "-", ourFigure: formatRate(values), value: values.medianServerCPUMicros(), unit: "us", goal: atMost(most, fmt.Sprintf("<= %.0f us", most))}
}

// measureFeeds measures the rows of the home feed page.
func (b *bench) measureFeeds(ctx context.Context, server *program, bun, mercurius baseline, gqlgen *program) error {
	const what = "home feed page of 20"
	ours := b.newContender("Tidings", server, feedQuery, 200).profileAs(what)
	stock := b.newContender(gqlgenLabel, gqlgen, feedQuery, 200)
	floor, err := b.startBarePagesServer(ctx, b.sharedInstallation(), server, feedQuery, readerKeysFollowing(200, b.readersPerFollowCount), inboxRedisCommands)
	if err != nil {
		return err
	}
	defer floor.stop()
	bare := b.newContender(bareServerLabel, floor, feedQuery, 200)
	fromBun, fromMercurius, all := b.addBaselineContenders(feedQuery, bun, mercurius, ours)
	if err := b.measureContenders(ctx, what, append(all, stock, bare)...); err != nil {
		return err
	}
	first := resultLine{measurement: what, reference: "(a) " + bunLabel, goal: atLeast(2, ">= 2 x"), unit: "x", whyAbsent: bun.whyAbsent}
	if fromBun != nil {
		first.compareRates(ours, fromBun)
	}
	second := resultLine{measurement: what, reference: "(b) " + mercuriusLabel, goal: atLeast(6, ">= 6 x"), unit: "x", whyAbsent: mercurius.whyAbsent}
	if fromMercurius != nil {
		second.compareRates(ours, fromMercurius)
	}
	third := resultLine{measurement: what, reference: "(c) " + gqlgenLabel, goal: atLeast(20, ">= 20 x"), unit: "x"}
	third.compareRates(ours, stock)
	b.report.resultLines = append(b.report.resultLines, first, second, third, cpuLine(what, ours.results, 50), bareServerCPULine(what, ours, bare))
	return nil
}

// The follow graph for which the goals of the rows import and start are meant: with another graph, there is no goal.
const (
	importGoalFollowsFile = "follows-github.csv.gz" // the file of this graph
	importGoalFollowCount = 578_006                 // the follows in it: two for each row, of people who follow each other
)

// reportIfFollowsMissing reports whether the file of the follow graph (--follows) is missing. If so, it adds the line l to the report
// as not measured.
func (b *bench) reportIfFollowsMissing(l resultLine) (absent bool, err error) {
	if _, err = os.Stat(b.followsPath); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	l.whyAbsent = filepath.Base(b.followsPath) + " is not there (--follows)"
	b.report.resultLines = append(b.report.resultLines, l)
	return true, nil
}

// measureImport runs the import of a follow graph, each time into a fresh database.
func (b *bench) measureImport(ctx context.Context) error {
	l := resultLine{measurement: "import of 578,006 edges", reference: "-", goal: atMost(20, "<= 20 s"), unit: "s"}
	if filepath.Base(b.followsPath) != importGoalFollowsFile {
		l.measurement, l.goal = "import of "+filepath.Base(b.followsPath), goal{}
	}
	if absent, err := b.reportIfFollowsMissing(l); absent || err != nil {
		return err
	}
	var seconds, busySeconds []float64
	for round := range b.importRounds {
		b.printProgress("import: round %d of %d", round+1, b.importRounds)
		data := filepath.Join(b.dataFolder, "import")
		begin := time.Now()
		_, busy, err := runForCPUTime(ctx, ".", filepath.Join(binFolder, "tidings"), "import", "follows", b.followsPath, "--both", "--data", data)
		if err != nil {
			return err
		}
		seconds, busySeconds = append(seconds, time.Since(begin).Seconds()), append(busySeconds, busy.Seconds())
		if err := os.RemoveAll(data); err != nil {
			return err
		}
	}
	l.value = median(seconds)
	if l.goal != (goal{}) {
		l.ourFigure = formatFigure(importGoalFollowCount/l.value) + " edges/s, " + formatFigure(1e6*median(busySeconds)/importGoalFollowCount) + " us"
	}
	b.report.resultLines = append(b.report.resultLines, l)
	return nil
}
