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

// prepare fills a server and Redis, and leaves in Redis all data that the peers read.
func (b *bench) prepare(ctx context.Context) error {
	server, err := b.startServer(ctx)
	if err != nil {
		return err
	}
	watchers := 0
	if b.wants("sockets") {
		watchers = b.sockets
	}
	err = seed(ctx, server.api, b.readers, watchers, b.say)
	server.stop()
	if err != nil {
		return err
	}
	// The first server keeps what it wrote in its own memory. Only another server reads it from SQL, and puts copies into Redis.
	if server, err = b.startServer(ctx); err != nil {
		return err
	}
	defer server.stop()
	b.say("warming Redis")
	keys := allReaders(b.readers)
	for i := range watchers {
		keys = append(keys, watcher(i))
	}
	if err := readUsers(ctx, server.api, keys); err != nil {
		return err
	}
	if err := visit(ctx, server.api, keys); err != nil {
		return err
	}
	if err := checkSeeded(ctx, server.api, allReaders(b.readers)); err != nil {
		return err
	}
	b.numbers, b.usersFile, err = readNumbers(ctx, b.redis, b.folder)
	return err
}

// measureQueries measures the rows of queries over HTTP.
func (b *bench) measureQueries(ctx context.Context) error {
	server, err := b.startServer(ctx)
	if err != nil {
		return err
	}
	defer server.stop()
	bun, err := b.startPeer(ctx, b.startBun)
	if err != nil {
		return err
	}
	defer bun.stop()
	mercurius, err := b.startPeer(ctx, func(ctx context.Context) (*program, error) { return b.startMercurius(ctx, b.mercuriusProcesses) })
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
			if err := compareAnswers(ctx, server.api, other.api, query, allReaders(b.readers)); err != nil {
				return err
			}
		}
	}
	b.say("the peers give the same answers")
	if b.wants("badge") {
		if err := b.measureBadges(ctx, server, bun, mercurius); err != nil {
			return err
		}
	}
	if b.wants("feed") {
		if err := b.measureFeeds(ctx, server, bun, mercurius, gqlgen); err != nil {
			return err
		}
	}
	if b.wants("operations") {
		return b.measureOperations(ctx, server)
	}
	return nil
}

// peer is a running program to compare with, or the reason why it is not measured.
type peer struct {
	*program
	whyAbsent string // "" if it runs
}

// stop stops the peer if it runs.
func (p peer) stop() {
	if p.program != nil {
		p.program.stop()
	}
}

// startPeer starts a peer. If a program that it needs is not installed, the rows with the peer say so.
func (b *bench) startPeer(ctx context.Context, start func(context.Context) (*program, error)) (peer, error) {
	p, err := start(ctx)
	if errors.Is(err, errNoNode) {
		return peer{whyAbsent: err.Error()}, nil
	}
	return peer{program: p}, err
}

// contender is one program in a row of queries.
type contender struct {
	who     string // its name in the report
	target  target
	values  series // its samples so far
	profile string // the name under which its profile is kept; "" if none is kept
}

// contender makes a contender that sends a query as the readers who follow so many people. Its profile is not kept: see profileAs.
func (b *bench) contender(who string, p *program, query string, follows int) *contender {
	pid := p.pid()
	if who == whoMercurius && b.mercuriusProcesses > 1 {
		pid = 0 // its first process only distributes connections, so its processor time is meaningless and omitted
	}
	return &contender{who: who, target: newTarget(p.address, pid, query, tokens(readersOf(follows, b.readers)))}
}

// profileAs makes the profiler keep a profile of this contender's turns, under a name. It returns the contender.
func (c *contender) profileAs(name string) *contender {
	c.profile = name
	return c
}

// compete lets the contenders take turns. A first, short turn of each is not counted.
func (b *bench) compete(ctx context.Context, what string, contenders ...*contender) error {
	length := time.Duration(b.seconds * float64(time.Second))
	defer b.profiles.begin("") // the following work is not a turn
	for round := range b.rounds + 1 {
		if round > 0 {
			b.say("%s: round %d of %d", what, round, b.rounds)
		}
		for _, c := range contenders {
			turn := length
			if round == 0 {
				turn = max(length/4, 100*time.Millisecond)
			}
			b.profiles.begin(c.profile)
			result, err := c.target.load(ctx, b.connections, turn)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", what, c.who, err)
			}
			if round > 0 {
				c.values = append(c.values, result)
			}
		}
	}
	for _, c := range contenders {
		b.report.details = append(b.report.details, detail{what: what, who: c.who, values: c.values})
		b.report.clientLines = append(b.report.clientLines, fmt.Sprintf("%s, %s: %s us", what, c.who, formatFigure(c.values.client())))
	}
	return nil
}

const (
	// These name the programs in the report.
	whoBun       = "Bun + graphql-jit + Bun's Redis client"
	whoMercurius = "Mercurius + ioredis, auto-pipelining"
	whoGqlgen    = "stock gqlgen, one Redis call a command"
	whoStatic    = "our own static {__typename}"
)

// addPeers adds contenders for the peers that run. fromBun and fromMercurius are these contenders, or nil. all has them and the given
// ones.
func (b *bench) addPeers(query string, bun, mercurius peer, contenders ...*contender) (fromBun, fromMercurius *contender, all []*contender) {
	all = contenders
	if bun.program != nil {
		fromBun = b.contender(whoBun, bun.program, query, 200)
		all = append(all, fromBun)
	}
	if mercurius.program != nil {
		fromMercurius = b.contender(whoMercurius, mercurius.program, query, 200)
		all = append(all, fromMercurius)
	}
	return fromBun, fromMercurius, all
}

func (b *bench) measureBadges(ctx context.Context, server *program, bun, mercurius peer) error {
	const what = "badge query over HTTP"
	ours := b.contender("Tidings, 200 followed", server, badgeQuery, 200).profileAs(what)
	few := b.contender("Tidings, 10 followed", server, badgeQuery, 10)
	many := b.contender("Tidings, 2,000 followed", server, badgeQuery, 2000)
	static := b.contender(whoStatic, server, staticQuery, 200).profileAs("static")
	bare, err := b.startBarePages(ctx, b.site(), server, badgeQuery, readersOf(200, b.readers), documentCommands)
	if err != nil {
		return err
	}
	defer bare.stop()
	floor := b.contender(whoBareServer, bare, badgeQuery, 200)
	fromBun, fromMercurius, all := b.addPeers(badgeQuery, bun, mercurius, ours)
	if err := b.compete(ctx, what, append(all, static, few, many, floor)...); err != nil {
		return err
	}
	first := line{what: what + ", 200 followed", limit: "(a) " + whoBun, goal: atLeast(1.5, ">= 1.5 x"), unit: "x", whyAbsent: bun.whyAbsent}
	cpu := line{what: what + ", server CPU each", limit: whoBun, goal: atMost(0.75, "<= 0.75 x"), unit: "x the CPU", whyAbsent: bun.whyAbsent}
	if fromBun != nil {
		first.compare(ours, fromBun)
		cpu.compareCPU(ours, fromBun)
	}
	second := line{what: what + ", 200 followed", limit: "(b) " + whoMercurius, goal: atLeast(3, ">= 3 x"), unit: "x", whyAbsent: mercurius.whyAbsent}
	if fromMercurius != nil {
		second.compare(ours, fromMercurius)
	}
	third := line{what: what + ", 200 followed", limit: "(c) " + whoStatic, goal: atLeast(0.6, ">= 0.6 x"), unit: "x"}
	third.compare(ours, static)
	// Each connection has one request at a time, so the time of a query is the inverse of the rate.
	fourth := line{
		what: "the same, 2,000 followed instead of 10", limit: "itself, 10 followed", goal: atMost(1.5, "<= 1.5 x the time"), unit: "x the time",
		ours: formatRateAndCPU(many.values), theirs: formatRateAndCPU(few.values), value: ratio(few.values.rate(), many.values.rate()),
	}
	b.report.lines = append(b.report.lines, first, cpu, second, third, cpuLine(whoStatic, static.values, 20), fourth, floorLine(what+", 200 followed", ours, floor))
	return nil
}

// compare fills a line with two rates and their ratio.
func (l *line) compare(ours, theirs *contender) {
	l.ours, l.theirs, l.value = formatRateAndCPU(ours.values), formatRateAndCPU(theirs.values), ratio(ours.values.rate(), theirs.values.rate())
}

// compareCPU fills a line with the ratio of the servers' processor times for one answer.
func (l *line) compareCPU(ours, theirs *contender) {
	l.compare(ours, theirs)
	l.value = ratio(ours.values.cpu(), theirs.values.cpu())
}

// formatRate prints the rate of a series.
func formatRate(values series) string { return formatFigure(values.rate()) + "/s" }

// formatRateAndCPU returns the rate and, if it is known, the server's processor time for one answer.
func formatRateAndCPU(values series) string {
	if cpu := values.cpu(); !math.IsNaN(cpu) {
		return formatRate(values) + ", " + formatFigure(cpu) + " us"
	}
	return formatRate(values)
}

// cpuLine returns the line with the server's processor time for one answer. The goal is at most `most` microseconds.
func cpuLine(what string, values series, most float64) line {
	return line{what: what + ": server CPU each", limit: "-", ours: formatRate(values), value: values.cpu(), unit: "us", goal: atMost(most, fmt.Sprintf("<= %.0f us", most))}
}

func (b *bench) measureFeeds(ctx context.Context, server *program, bun, mercurius peer, gqlgen *program) error {
	const what = "home feed page of 20"
	ours := b.contender("Tidings", server, feedQuery, 200).profileAs(what)
	stock := b.contender(whoGqlgen, gqlgen, feedQuery, 200)
	floor, err := b.startBarePages(ctx, b.site(), server, feedQuery, readersOf(200, b.readers), inboxCommands)
	if err != nil {
		return err
	}
	defer floor.stop()
	bare := b.contender(whoBareServer, floor, feedQuery, 200)
	fromBun, fromMercurius, all := b.addPeers(feedQuery, bun, mercurius, ours)
	if err := b.compete(ctx, what, append(all, stock, bare)...); err != nil {
		return err
	}
	first := line{what: what, limit: "(a) " + whoBun, goal: atLeast(2, ">= 2 x"), unit: "x", whyAbsent: bun.whyAbsent}
	if fromBun != nil {
		first.compare(ours, fromBun)
	}
	second := line{what: what, limit: "(b) " + whoMercurius, goal: atLeast(6, ">= 6 x"), unit: "x", whyAbsent: mercurius.whyAbsent}
	if fromMercurius != nil {
		second.compare(ours, fromMercurius)
	}
	third := line{what: what, limit: "(c) " + whoGqlgen, goal: atLeast(20, ">= 20 x"), unit: "x"}
	third.compare(ours, stock)
	b.report.lines = append(b.report.lines, first, second, third, cpuLine(what, ours.values, 50), floorLine(what, ours, bare))
	return nil
}

// The graph of the goal for imports: the goal counts only if this graph is imported.
const (
	goalGraph = "follows-github.csv.gz" // its file
	goalEdges = 578_006                 // the follows in it
)

// reportMissingFollows reports whether the follow graph is missing. If it is missing, it adds the line to the report as not measured.
func (b *bench) reportMissingFollows(l line) (absent bool, err error) {
	if _, err = os.Stat(b.followsPath); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	l.whyAbsent = filepath.Base(b.followsPath) + " is not there (--follows)"
	b.report.lines = append(b.report.lines, l)
	return true, nil
}

// measureImport runs the import of a follow graph, each time into a fresh database.
func (b *bench) measureImport(ctx context.Context) error {
	l := line{what: "import of 578,006 edges", limit: "-", goal: atMost(20, "<= 20 s"), unit: "s"}
	if filepath.Base(b.followsPath) != goalGraph {
		l.what, l.goal = "import of "+filepath.Base(b.followsPath), goal{}
	}
	if absent, err := b.reportMissingFollows(l); absent || err != nil {
		return err
	}
	var seconds []float64
	for round := range b.importRounds {
		b.say("import: round %d of %d", round+1, b.importRounds)
		data := filepath.Join(b.folder, "import")
		begin := time.Now()
		if _, err := runOnce(ctx, ".", filepath.Join(binFolder, "tidings"), "import", "follows", b.followsPath, "--both", "--data", data); err != nil {
			return err
		}
		seconds = append(seconds, time.Since(begin).Seconds())
		if err := os.RemoveAll(data); err != nil {
			return err
		}
	}
	l.value = median(seconds)
	if l.goal != (goal{}) {
		l.ours = formatFigure(goalEdges/l.value) + " edges/s"
	}
	b.report.lines = append(b.report.lines, l)
	return nil
}
