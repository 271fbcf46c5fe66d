package main

import (
	"bufio"
	"context"
	database "database/sql"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"tidings/services/sql/sqltest"
)

// The rows of writes, on both SQL engines: mixed events by ingest, and mutations one after the other, compared with a bare commit on
// the same engine. A bare commit is one SQL row, inserted by a statement that is a whole transaction.
const (
	writerKey   = "writer"              // the user who sends the mutations
	writesPause = 20 * time.Millisecond // before each single write, so that the jobs of the last one are done
)

// sqlEngine is an engine that is written to.
type sqlEngine struct {
	name      string  // for the report
	events    float64 // a second, that ingest should take: the goal
	site      site
	arguments []string // of a server on it
	// driver and bare are the arguments of openBareDatabase for the database of the bare commits.
	driver, bare string
	// store is the address of Tidings' own database, as the driver takes it. newTwin makes an empty one for insertFloor.
	store   string
	newTwin func(ctx context.Context) (url, name string, err error)
}

// measureWrites measures SQLite and PostgreSQL, each with a server of its own.
func (b *bench) measureWrites(ctx context.Context) error {
	sqlite := sqlEngine{name: "SQLite", events: 10_000}
	var err error
	if sqlite.site, err = b.newSite("writes-sqlite", sqliteDatabase); err != nil {
		return err
	}
	sqlite.driver, sqlite.bare, sqlite.store, sqlite.newTwin = "sqlite", filepath.Join(sqlite.site.folder, "bare.db"), sqlite.site.databasePath(), newFiles(sqlite.site.folder)
	if err := b.measureEngine(ctx, sqlite, nil); err != nil {
		return err
	}
	server, err := sqltest.NewDurableServer()
	if err != nil {
		b.report.lines = append(b.report.lines, line{what: "ingest of mixed events, PostgreSQL", limit: "-", whyAbsent: err.Error()})
		return nil
	}
	defer server.Close()
	postgres := sqlEngine{name: "PostgreSQL", events: 5000}
	if postgres.site, err = b.newSite("writes-postgres", postgresDatabase); err != nil {
		return err
	}
	url, err := server.Create(ctx, "tidings")
	if err != nil {
		return err
	}
	postgres.arguments, postgres.store = []string{"--database", url}, url
	twins := 0
	postgres.newTwin = func(ctx context.Context) (string, string, error) {
		twins++
		url, err := server.Create(ctx, fmt.Sprint("twin", twins))
		return url, url, err
	}
	if url, err = server.Create(ctx, "bare"); err != nil {
		return err
	}
	postgres.driver, postgres.bare = "pgx", url
	return b.measureEngine(ctx, postgres, b.measureTwoNodes)
}

// measureEngine measures one engine. Then it calls more with the engine and its server, unless more is nil.
func (b *bench) measureEngine(ctx context.Context, engine sqlEngine, more func(context.Context, sqlEngine, *program) error) (err error) {
	defer func() { err = errors.Join(err, engine.site.deleteRedisData(context.WithoutCancel(ctx))) }()
	server, err := engine.site.start(ctx, engine.arguments...)
	if err != nil {
		return err
	}
	defer server.stop()
	if err := b.runWriteRounds(ctx, server, engine); err != nil || more == nil {
		return err
	}
	return more(ctx, engine, server)
}

func (b *bench) runWriteRounds(ctx context.Context, server *program, engine sqlEngine) error {
	size := b.sizes.burstSize
	people := size / 10
	b.say("writes: seeding %s people on %s", formatThousands(int64(people)), engine.name)
	posts, err := seedBurst(ctx, server.api, people, 0)
	if err != nil {
		return err
	}
	bare, err := openBareDatabase(engine.driver, engine.bare)
	if err != nil {
		return err
	}
	defer bare.Close()
	if err := createBareTable(ctx, bare); err != nil {
		return err
	}
	floor, err := startBareServer(ctx, engine.site.folder, bareWrites, engine.driver, engine.bare)
	if err != nil {
		return err
	}
	defer floor.stop()
	singles, err := newSingleWrites(ctx, server, floor.address, bare, posts)
	if err != nil {
		return err
	}
	defer singles.close()
	inserts, err := openInsertFloor(engine.driver, engine.store, burstSenders, engine.newTwin)
	if err != nil {
		return err
	}
	defer inserts.source.Close()
	var taken, done series
	for round := range b.socketRounds {
		b.say("writes on %s: round %d of %d", engine.name, round+1, b.socketRounds)
		if err := inserts.begin(ctx); err != nil {
			return err
		}
		start, cpu := time.Now(), measureCPU(server.pid())
		if err := sendBurst(ctx, server.api, burstEvents(size, people, posts, round)); err != nil {
			return err
		}
		taken = append(taken, rateOf(size, time.Since(start)).withCPU(cpu(size)))
		if err := server.api.waitForJobs(ctx); err != nil {
			return err
		}
		done = append(done, rateOf(size, time.Since(start)).withCPU(cpu(size)))
		if err := errors.Join(inserts.end(ctx, size), inserts.round(ctx)); err != nil {
			return err
		}
		if err := singles.round(ctx, b.sizes.publications/2); err != nil {
			return err
		}
		if err := server.api.waitForJobs(ctx); err != nil {
			return err
		}
	}
	b.reportWrites(engine, singles, taken, done, inserts)
	return nil
}

func (b *bench) reportWrites(engine sqlEngine, singles *singleWrites, taken, done series, inserts *insertFloor) {
	ingest := "ingest of mixed events, " + engine.name
	b.report.lines = append(b.report.lines, line{
		what: ingest, limit: "-", ours: formatRateAndCPU(taken), value: taken.rate(), unit: "a second", goal: atLeast(engine.events, ">= "+formatThousands(int64(engine.events))+" a second"),
	}, inserts.line(ingest, taken))
	b.report.details = append(b.report.details, detail{what: ingest, who: "taken", values: taken}, detail{what: ingest, who: "with their jobs", values: done},
		detail{what: ingest, who: whoInserts, values: inserts.values})
	for kind, name := range singleWriteNames {
		what := "writes one after the other, " + engine.name
		b.report.details = append(b.report.details, detail{what: what, who: name, values: singles.values[kind]})
		if kind >= bareCommit { // the floors
			continue
		}
		b.report.lines = append(b.report.lines, singles.line(kind, bareCommit, name+", "+engine.name, "a bare commit on the same engine", atMost(1.3, "<= 1.3 x the time")),
			singles.line(kind, askedCommit, name+", "+engine.name, "a bare commit behind net/http", goal{}))
	}
}

// line compares the median of a kind with the median of the kind floor.
func (w *singleWrites) line(kind, floor int, what, limit string, g goal) line {
	ours, theirs := w.values[kind].p50(), w.values[floor].p50()
	return line{what: what, limit: limit, ours: formatMilliseconds(ours), theirs: formatMilliseconds(theirs), value: ratio(float64(ours), float64(theirs)), unit: "x the time", goal: g}
}

// The kinds of single writes. A round takes them in turn, one write after the other.
const (
	singleLike = iota
	singleMessage
	singlePost
	bareCommit
	askedCommit
)

// singleWriteNames are the names of the kinds of single writes in the report, by kind.
var singleWriteNames = []string{
	singleLike: "a like as a mutation", singleMessage: "a message as a mutation", singlePost: "a post as a mutation",
	bareCommit: "a bare commit", askedCommit: "a bare commit behind net/http",
}

// asker is a connection to a server, which has one request at a time.
type asker struct {
	address string
	conn    net.Conn
	answers *bufio.Reader
}

func newAsker(ctx context.Context, address string) (*asker, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &asker{address: address, conn: conn, answers: bufio.NewReader(conn)}, nil
}

// singleWrites sends the writes of one user over one connection, and makes the bare commits to compare with.
type singleWrites struct {
	server, floor *asker       // floor is the bare server
	bare          *database.DB // the database of the bare commits
	posts         []string     // not yet liked
	conversation  string       // its ID
	sent          int          // how many writes were made, of all kinds
	values        []series     // by kind
}

// newSingleWrites creates the user of writerKey with a conversation, and opens the connections of singleWrites.
func newSingleWrites(ctx context.Context, server *program, floor string, bare *database.DB, posts []string) (*singleWrites, error) {
	ids, err := server.api.ingest(ctx, []event{
		userEvent(writerKey, "createConversation", map[string]any{"kind": "GROUP", "title": "Harbour", "memberIds": []string{"user:" + burstPerson(0)}}),
	})
	if err != nil {
		return nil, err
	}
	w, err := openSingleWrites(ctx, server.address, floor, bare)
	if err == nil {
		w.posts, w.conversation = posts, ids[0]
	}
	return w, err
}

// createBareTable makes the table of the bare commits.
func createBareTable(ctx context.Context, bare *database.DB) error {
	_, err := bare.ExecContext(ctx, `CREATE TABLE bare (number BIGINT PRIMARY KEY, who BIGINT NOT NULL, body TEXT NOT NULL)`)
	return err
}

// openSingleWrites connects to a server and to the bare server.
func openSingleWrites(ctx context.Context, address, floor string, bare *database.DB) (*singleWrites, error) {
	w := &singleWrites{bare: bare, values: make([]series, len(singleWriteNames))}
	var err error
	if w.server, err = newAsker(ctx, address); err != nil {
		return nil, err
	}
	if w.floor, err = newAsker(ctx, floor); err != nil {
		return nil, errors.Join(err, w.server.conn.Close())
	}
	return w, nil
}

func (w *singleWrites) close() { _, _ = w.server.conn.Close(), w.floor.conn.Close() }

// round makes count writes of each kind, in turns.
func (w *singleWrites) round(ctx context.Context, count int) error {
	latencies := make([][]time.Duration, len(singleWriteNames))
	for range count {
		for kind := range singleWriteNames {
			if err := pause(ctx, writesPause); err != nil {
				return err
			}
			w.sent++
			write, err := w.nextWrite(kind)
			if err != nil {
				return err
			}
			start := time.Now()
			if err := write(ctx); err != nil {
				return fmt.Errorf("%s: %w", singleWriteNames[kind], err)
			}
			latencies[kind] = append(latencies[kind], time.Since(start))
		}
	}
	for kind, all := range latencies {
		slices.Sort(all)
		w.values[kind] = append(w.values[kind], newSample(all, sum(all)))
	}
	return nil
}

// nextWrite returns a function that makes the next write of a kind.
func (w *singleWrites) nextWrite(kind int) (func(context.Context) error, error) {
	asked, body := w.server, ""
	switch kind {
	case bareCommit:
		number := w.sent
		return func(ctx context.Context) error { return insertBareRow(ctx, w.bare, number) }, nil
	case askedCommit:
		asked, body = w.floor, strconv.Itoa(w.sent)
	default:
		var err error
		if body, err = w.nextMutation(kind); err != nil {
			return nil, err
		}
	}
	request := newTarget(asked.address, 0, body, []string{"dev:" + writerKey}).requests[0]
	return func(ctx context.Context) error { return asked.exchange(ctx, request) }, nil
}

// nextMutation returns the text of the next mutation of a kind.
func (w *singleWrites) nextMutation(kind int) (string, error) {
	switch kind {
	case singleLike:
		if len(w.posts) == 0 {
			return "", errors.New("every post is liked")
		}
		post := w.posts[0]
		w.posts = w.posts[1:]
		return `mutation { likePost(input: {postId: "` + post + `"}) { changed } }`, nil
	case singleMessage:
		return `mutation { sendMessage(input: {conversationId: "` + w.conversation + `", body: "Number ` + strconv.Itoa(w.sent) + `"}) { created } }`, nil
	default:
		return `mutation { publishPost(input: {body: "` + postBody(w.sent) + `"}) { created } }`, nil
	}
}

// exchange sends a request and reads its answer.
func (a *asker) exchange(ctx context.Context, request []byte) error {
	deadline := time.Now().Add(answerLimit)
	if until, bounded := ctx.Deadline(); bounded && until.Before(deadline) {
		deadline = until
	}
	if err := a.conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := a.conn.Write(request); err != nil {
		return err
	}
	return readAnswer(a.answers)
}

// measureTwoNodes starts a second server on the engine. Shows start at the first server. Their hosts' followers have sockets at the
// first server, to compare, and then at the second.
func (b *bench) measureTwoNodes(ctx context.Context, engine sqlEngine, first *program) (err error) {
	other, err := b.newSite("writes-postgres-2", postgresDatabase)
	if err != nil {
		return err
	}
	second, err := other.start(ctx, engine.arguments...)
	if err != nil {
		return err
	}
	defer second.stop()
	pairs := b.sizes.publications
	if _, err := seedBurst(ctx, first.api, 0, pairs); err != nil {
		return err
	}
	nodes, started := []*program{first, second}, 0
	values := make([]series, len(nodes))
	for i, node := range nodes {
		followers, err := openFleet(ctx, node.address, pairs, subscribe(node.address, func(i int) string { return "dev:" + burstReader(i) }))
		if err != nil {
			return err
		}
		for round := range b.socketRounds {
			b.say("shows that start at one of two nodes: round %d of %d, sockets at the %s", round+1, b.socketRounds, []string{"same", "other"}[i])
			var late []time.Duration
			if late, err = startShows(ctx, first.api, followers, started); err != nil {
				break
			}
			started += pairs
			values[i] = append(values[i], newSample(late, sum(late)))
		}
		followers.close()
		if err != nil {
			return err
		}
	}
	const what = "a show's start at one of two nodes, until the push at the other one: p50"
	same, there := values[0], values[1]
	b.report.lines = append(b.report.lines, line{
		what: what, limit: "at the same one: " + formatMilliseconds(same.p50()), ours: "p99 " + formatMilliseconds(there.p99()),
		value: float64(there.p50()) / float64(time.Millisecond), unit: "ms", goal: atMost(100, "<= 100 ms: by hint, and not by the poll of 500 ms"),
	})
	b.report.details = append(b.report.details, detail{what: what, who: "sockets at the same node", values: same}, detail{what: what, who: "sockets at the other node", values: there})
	return nil
}

// startShows plans a show of every author, and starts the shows one after the other. It returns the sorted times until the followers'
// pushes. started is how many shows were started before.
func startShows(ctx context.Context, a *api, followers *fleet, started int) ([]time.Duration, error) {
	planned := make([]event, len(followers.sockets))
	for i := range planned {
		planned[i] = userEvent(burstAuthor(i), "scheduleShow", map[string]any{"title": "Harbour at night", "plannedAt": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)})
	}
	shows, err := a.ingest(ctx, planned)
	if err == nil {
		// Some jobs wait for long: each new show has one for its planned time, and each show that was started before has one for its
		// planned time and one for its end.
		err = a.waitForJobsBut(ctx, len(shows)+2*started)
	}
	if err != nil {
		return nil, err
	}
	return measurePushes(ctx, followers, func(ctx context.Context, i int) error {
		var data any
		return a.do(ctx, "dev:"+burstAuthor(i), `mutation { startShow(input: {showId: "`+shows[i]+`"}) { changed } }`, nil, &data)
	}, nil)
}
