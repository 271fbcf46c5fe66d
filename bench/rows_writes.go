package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"tidings/services/sql/sqltest"
)

// The rows of writes, on both SQL engines: mixed events by ingest, and mutations one after the other, compared with a bare commit on
// the same engine. A bare commit is one SQL row, inserted by a statement that is a whole transaction.
const (
	writerKey       = "writer"              // the user who sends the mutations
	pauseAfterWrite = 20 * time.Millisecond // after each single write, in which its jobs are done
)

// sqlEngine is SQLite or PostgreSQL, with the databases that the row writes to.
type sqlEngine struct {
	name                string       // for the report
	eventsPerSecondGoal float64      // the goal of ingest
	installation        installation // of the server on this engine
	serverArguments     []string     // the arguments of a server on this engine
	// driver and bareDatabaseAddress are the arguments of openBareCommitDatabase for the database of the bare commits.
	driver, bareDatabaseAddress string
	// databaseAddress is the address of Tidings' own database, as the driver takes it. newEmptyDatabase makes one for an insertBaseline.
	databaseAddress  string
	newEmptyDatabase func(ctx context.Context) (url, name string, err error)
}

// measureWrites measures SQLite and PostgreSQL, each with a server of its own.
func (b *bench) measureWrites(ctx context.Context) error {
	sqlite := sqlEngine{name: "SQLite", eventsPerSecondGoal: 10_000}
	var err error
	if sqlite.installation, err = b.newInstallation("writes-sqlite", sqliteWritesRedisDB); err != nil {
		return err
	}
	sqlite.driver, sqlite.bareDatabaseAddress, sqlite.databaseAddress, sqlite.newEmptyDatabase = "sqlite", filepath.Join(sqlite.installation.dataFolder, "bare.db"), sqlite.installation.databasePath(), sqliteDatabaseFactory(sqlite.installation.dataFolder)
	if err := b.measureEngineWrites(ctx, sqlite, nil); err != nil {
		return err
	}
	server, err := sqltest.NewDurableServer()
	if err != nil {
		b.report.resultLines = append(b.report.resultLines, resultLine{measurement: "ingest of mixed events, PostgreSQL", reference: "-", whyAbsent: err.Error()})
		return nil
	}
	defer server.Close()
	postgres := sqlEngine{name: "PostgreSQL", eventsPerSecondGoal: 5000}
	if postgres.installation, err = b.newInstallation("writes-postgres", postgresWritesRedisDB); err != nil {
		return err
	}
	url, err := server.CreateDatabase(ctx, "tidings")
	if err != nil {
		return err
	}
	postgres.serverArguments, postgres.databaseAddress = []string{"--database", url}, url
	twins := 0
	postgres.newEmptyDatabase = func(ctx context.Context) (string, string, error) {
		twins++
		url, err := server.CreateDatabase(ctx, fmt.Sprint("twin", twins))
		return url, url, err
	}
	if url, err = server.CreateDatabase(ctx, "bare"); err != nil {
		return err
	}
	postgres.driver, postgres.bareDatabaseAddress = "pgx", url
	return b.measureEngineWrites(ctx, postgres, b.measureCrossNodePushes)
}

// measureEngineWrites measures one engine. Then it calls more with the engine and its server, unless more is nil.
func (b *bench) measureEngineWrites(ctx context.Context, engine sqlEngine, more func(context.Context, sqlEngine, *program) error) (err error) {
	defer func() { err = errors.Join(err, engine.installation.deleteRedisData(context.WithoutCancel(ctx))) }()
	server, err := engine.installation.start(ctx, engine.serverArguments...)
	if err != nil {
		return err
	}
	defer server.stop()
	if err := b.runWriteRounds(ctx, server, engine); err != nil || more == nil {
		return err
	}
	return more(ctx, engine, server)
}

// runWriteRounds measures the rounds of one engine and reports them.
func (b *bench) runWriteRounds(ctx context.Context, server *program, engine sqlEngine) error {
	size := b.sizes.eventsPerBurst
	people := size / 10
	b.printProgress("writes: seeding %s people on %s", formatThousands(int64(people)), engine.name)
	posts, err := seedBurst(ctx, server.api, people, 0)
	if err != nil {
		return err
	}
	bare, err := openBareCommitDatabase(engine.driver, engine.bareDatabaseAddress)
	if err != nil {
		return err
	}
	defer bare.Close()
	if err := createBareCommitTable(ctx, bare); err != nil {
		return err
	}
	floor, err := startBareServer(ctx, engine.installation.dataFolder, bareServerWritesKind, engine.driver, engine.bareDatabaseAddress)
	if err != nil {
		return err
	}
	defer floor.stop()
	singles, err := newSingleWrites(ctx, server, floor, bare, posts)
	if err != nil {
		return err
	}
	defer singles.close()
	inserts, err := openInsertBaseline(engine.driver, engine.databaseAddress, burstSenders, engine.newEmptyDatabase)
	if err != nil {
		return err
	}
	defer inserts.loadDatabase.Close()
	var taken, done series
	for round := range b.socketRounds {
		b.printProgress("writes on %s: round %d of %d", engine.name, round+1, b.socketRounds)
		if err := inserts.recordRowsBeforeLoad(ctx); err != nil {
			return err
		}
		start, cpu := time.Now(), startCPUTimer(server.pid())
		if err := sendBurst(ctx, server.api, burstEvents(size, people, posts, round)); err != nil {
			return err
		}
		taken = append(taken, newRateSample(size, time.Since(start)).withServerCPU(cpu(size)))
		if err := server.api.waitForJobs(ctx); err != nil {
			return err
		}
		done = append(done, newRateSample(size, time.Since(start)).withServerCPU(cpu(size)))
		if err := errors.Join(inserts.collectWrittenRows(ctx, size), inserts.measureRound(ctx)); err != nil {
			return err
		}
		b.profiler.beginMeasurement("single mutations on " + engine.name)
		if err := singles.measureRound(ctx, b.sizes.publicationsPerRound/2); err != nil {
			return err
		}
		if err := server.api.waitForJobs(ctx); err != nil {
			return err
		}
	}
	b.reportWrites(engine, singles, taken, done, inserts)
	return nil
}

// reportWrites adds the results of one engine to the report.
func (b *bench) reportWrites(engine sqlEngine, singles *singleWrites, taken, done series, inserts *insertBaseline) {
	ingest := "ingest of mixed events, " + engine.name
	b.report.resultLines = append(b.report.resultLines, resultLine{
		measurement: ingest, reference: "-", ourFigure: formatRateAndCPU(taken), value: taken.medianRate(), unit: "a second", goal: atLeast(engine.eventsPerSecondGoal, ">= "+formatThousands(int64(engine.eventsPerSecondGoal))+" a second"),
	}, inserts.compareLoad(ingest, taken))
	b.report.detailLines = append(b.report.detailLines, detailLine{measurement: ingest, label: "taken", results: taken}, detailLine{measurement: ingest, label: "with their jobs", results: done},
		detailLine{measurement: ingest, label: bareInsertsLabel, results: inserts.results})
	for kind, name := range singleWriteNames {
		what := "writes one after the other, " + engine.name
		b.report.detailLines = append(b.report.detailLines, detailLine{measurement: what, label: name, results: singles.resultsByKind[kind]})
		if kind >= bareCommitKind { // the bare commits, which the other kinds are compared with
			continue
		}
		b.report.resultLines = append(b.report.resultLines, singles.compareKinds(kind, bareCommitKind, name+", "+engine.name, "a bare commit on the same engine", atMost(1.3, "<= 1.3 x the time")),
			singles.compareKinds(kind, bareServerCommitKind, name+", "+engine.name, "a bare commit behind net/http", goal{}))
	}
}

// measureCrossNodePushes measures pushes to sockets at another node. It starts a second server on the engine. Shows start at the first
// server. Their hosts' followers have sockets at the first server, to compare, and then at the second.
func (b *bench) measureCrossNodePushes(ctx context.Context, engine sqlEngine, first *program) (err error) {
	other, err := b.newInstallation("writes-postgres-2", postgresWritesRedisDB)
	if err != nil {
		return err
	}
	second, err := other.start(ctx, engine.serverArguments...)
	if err != nil {
		return err
	}
	defer second.stop()
	pairs := b.sizes.publicationsPerRound
	if _, err := seedBurst(ctx, first.api, 0, pairs); err != nil {
		return err
	}
	nodes, started := []*program{first, second}, 0
	values := make([]series, len(nodes))
	for i, node := range nodes {
		followers, err := openFleet(ctx, node.address, pairs, badgeSubscriptionOpener(node.address, func(i int) string { return "dev:" + burstReaderKey(i) }))
		if err != nil {
			return err
		}
		for round := range b.socketRounds {
			b.printProgress("shows that start at one of two nodes: round %d of %d, sockets at the %s", round+1, b.socketRounds, []string{"same", "other"}[i])
			var result sample
			if result, err = measureShowStartPushes(ctx, nodes, followers, started); err != nil {
				break
			}
			started += pairs
			values[i] = append(values[i], result)
		}
		followers.close()
		if err != nil {
			return err
		}
	}
	const what = "a show's start at one of two nodes, until the push at the other one: p50"
	same, there := values[0], values[1]
	b.report.resultLines = append(b.report.resultLines, resultLine{
		measurement: what, reference: "at the same one: " + formatMilliseconds(same.medianLatencyP50()), ourFigure: "p99 " + formatMilliseconds(there.medianLatencyP99()),
		value: float64(there.medianLatencyP50()) / float64(time.Millisecond), unit: "ms", goal: atMost(35, "<= 35 ms: by hint, and not by the poll of 500 ms"),
	})
	b.report.detailLines = append(b.report.detailLines, detailLine{measurement: what, label: "sockets at the same node", results: same}, detailLine{measurement: what, label: "sockets at the other node", results: there})
	return nil
}

// measureShowStartPushes plans a show of every author, and starts the shows one after the other at the first of the nodes. It returns the
// times until the followers' pushes, and the nodes' processor time for each start. started is how many shows were started before.
func measureShowStartPushes(ctx context.Context, nodes []*program, followers *socketFleet, started int) (sample, error) {
	a := nodes[0].api
	planned := make([]ingestEvent, len(followers.sockets))
	for i := range planned {
		planned[i] = userEvent(burstAuthorKey(i), "scheduleShow", map[string]any{"title": "Harbour at night", "plannedAt": formatTime(time.Now().Add(time.Hour))})
	}
	shows, err := a.ingest(ctx, planned)
	if err == nil {
		// Some jobs wait for long: each new show has one for its planned time, and each show started before has this and one for its end.
		err = a.waitForJobsDownTo(ctx, len(shows)+2*started)
	}
	if err != nil {
		return sample{}, err
	}
	timers := make([]func(n int) time.Duration, len(nodes))
	for i, node := range nodes {
		timers[i] = startCPUTimer(node.pid())
	}
	late, err := measurePushLatencies(ctx, followers, showStartInterval, func(ctx context.Context, i int) error {
		var data any
		return a.doGraphQL(ctx, "dev:"+burstAuthorKey(i), `mutation { startShow(input: {showId: "`+shows[i]+`"}) { changed } }`, nil, &data)
	}, nil)
	var cpu time.Duration
	for _, each := range timers {
		cpu += each(len(shows))
	}
	return newSample(late, sum(late)).withServerCPU(cpu), err
}
