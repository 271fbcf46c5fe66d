package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// prepare fills a server and Redis, and leaves all data in Redis that the peers read.
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
	// What the server wrote itself is in its memory and not in Redis: another one reads it from SQL and leaves copies.
	if server, err = b.startServer(ctx); err != nil {
		return err
	}
	defer server.stop()
	b.say("warming Redis")
	keys := allReaders(b.readers)
	for i := range watchers {
		keys = append(keys, watcher(i))
	}
	if err := look(ctx, server.api, keys); err != nil {
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
	mercurius, err := b.startMercurius(ctx, b.mercuriusProcesses)
	absent := ""
	switch {
	case errors.Is(err, errNoNode):
		absent = err.Error()
	case err != nil:
		return err
	default:
		defer mercurius.stop()
	}
	gqlgen, err := b.startGqlgen(ctx)
	if err != nil {
		return err
	}
	defer gqlgen.stop()
	for _, peer := range []*program{mercurius, gqlgen} {
		for _, query := range []string{badgeQuery, feedQuery} {
			if peer == nil {
				continue
			}
			if err := sameAnswers(ctx, server.api, peer.api, query, allReaders(b.readers)); err != nil {
				return err
			}
		}
	}
	b.say("the peers give the same answers")
	if b.wants("badge") {
		if err := b.measureBadges(ctx, server, mercurius, absent); err != nil {
			return err
		}
	}
	if b.wants("feed") {
		return b.measureFeeds(ctx, server, mercurius, gqlgen, absent)
	}
	return nil
}

// contender is one program in a row of queries.
type contender struct {
	who    string
	target target
	values series
}

func (b *bench) contender(who string, p *program, query string, follows int) *contender {
	pid := p.pid()
	if who == whoMercurius && b.mercuriusProcesses > 1 {
		pid = 0 // its first process only distributes connections, so its time means nothing and is omitted
	}
	return &contender{who: who, target: newTarget(p.address, pid, query, tokens(readersOf(follows, b.readers)))}
}

// compete lets the contenders take turns. A first, short turn of each is not counted.
func (b *bench) compete(ctx context.Context, what string, contenders ...*contender) error {
	length := time.Duration(b.seconds * float64(time.Second))
	for round := range b.rounds + 1 {
		if round > 0 {
			b.say("%s: round %d of %d", what, round, b.rounds)
		}
		for _, c := range contenders {
			turn := length
			if round == 0 {
				turn = max(length/4, 100*time.Millisecond)
			}
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
	}
	return nil
}

const (
	whoMercurius = "Mercurius + ioredis, auto-pipelining"
	whoGqlgen    = "stock gqlgen, one Redis call a command"
	whoStatic    = "our own static {__typename}"
)

func (b *bench) measureBadges(ctx context.Context, server, mercurius *program, absent string) error {
	const what = "badge query over HTTP"
	ours := b.contender("Tidings, 200 followed", server, badgeQuery, 200)
	few := b.contender("Tidings, 10 followed", server, badgeQuery, 10)
	many := b.contender("Tidings, 2,000 followed", server, badgeQuery, 2000)
	static := b.contender(whoStatic, server, staticQuery, 200)
	contenders := []*contender{ours, static, few, many}
	var peer *contender
	if mercurius != nil {
		peer = b.contender(whoMercurius, mercurius, badgeQuery, 200)
		contenders = []*contender{ours, peer, static, few, many}
	}
	if err := b.compete(ctx, what, contenders...); err != nil {
		return err
	}
	first := line{what: what + ", 200 followed", limit: "(a) " + whoMercurius, goal: atLeast(1.5, ">= 1.5 x"), unit: "x", absent: absent}
	if peer != nil {
		first.compare(ours, peer)
	}
	second := line{what: what + ", 200 followed", limit: "(b) " + whoStatic, goal: atLeast(0.6, ">= 0.6 x"), unit: "x"}
	second.compare(ours, static)
	// In a closed loop the time of a query is the inverse of the rate.
	third := line{
		what: "the same, 2,000 followed instead of 10", limit: "itself, 10 followed", goal: atMost(1.5, "<= 1.5 x the time"), unit: "x the time",
		ours: rate(many.values), theirs: rate(few.values), value: ratio(few.values.rate(), many.values.rate()),
	}
	b.report.lines = append(b.report.lines, first, second, third)
	return nil
}

// compare fills a line with the ratio of two rates.
func (l *line) compare(ours, theirs *contender) {
	l.ours, l.theirs, l.value = rate(ours.values), rate(theirs.values), ratio(ours.values.rate(), theirs.values.rate())
}

func rate(values series) string { return figure(values.rate()) + "/s" }

func (b *bench) measureFeeds(ctx context.Context, server, mercurius, gqlgen *program, absent string) error {
	const what = "home feed page of 20"
	ours := b.contender("Tidings", server, feedQuery, 200)
	stock := b.contender(whoGqlgen, gqlgen, feedQuery, 200)
	contenders := []*contender{ours, stock}
	first := line{what: what, limit: "(a) " + whoMercurius, goal: atLeast(3, ">= 3 x"), unit: "x", absent: absent}
	var peer *contender
	if mercurius != nil {
		peer = b.contender(whoMercurius, mercurius, feedQuery, 200)
		contenders = []*contender{ours, peer, stock}
	}
	if err := b.compete(ctx, what, contenders...); err != nil {
		return err
	}
	if peer != nil {
		first.compare(ours, peer)
	}
	second := line{what: what, limit: "(b) " + whoGqlgen, goal: atLeast(3, ">= 3 x"), unit: "x"}
	second.compare(ours, stock)
	b.report.lines = append(b.report.lines, first, second)
	return nil
}

// The graph that the goal is about.
const (
	goalGraph = "follows-github.csv.gz"
	goalEdges = 578_006
)

// measureImport runs the import of a follow graph, each time into a fresh database.
func (b *bench) measureImport(ctx context.Context) error {
	l := line{what: "import of 578,006 edges", limit: "-", goal: atMost(20, "<= 20 s"), unit: "s"}
	if filepath.Base(b.follows) != goalGraph {
		l.what, l.goal = "import of "+filepath.Base(b.follows), goal{}
	}
	if _, err := os.Stat(b.follows); errors.Is(err, fs.ErrNotExist) {
		l.absent = filepath.Base(b.follows) + " is not there (--follows)"
		b.report.lines = append(b.report.lines, l)
		return nil
	} else if err != nil {
		return err
	}
	var seconds []float64
	for round := range b.importRounds {
		b.say("import: round %d of %d", round+1, b.importRounds)
		data := filepath.Join(b.folder, "import")
		begin := time.Now()
		if _, err := runOnce(ctx, ".", filepath.Join(binFolder, "tidings"), "import", "follows", b.follows, "--both", "--data", data); err != nil {
			return err
		}
		seconds = append(seconds, time.Since(begin).Seconds())
		if err := os.RemoveAll(data); err != nil {
			return err
		}
	}
	l.value = median(seconds)
	if l.goal != (goal{}) {
		l.ours = figure(goalEdges/l.value) + " edges/s"
	}
	b.report.lines = append(b.report.lines, l)
	return nil
}
