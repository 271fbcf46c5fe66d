package main

import (
	"bufio"
	"context"
	database "database/sql"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"time"
)

// The kinds of single writes. A round takes them in turn, one write after the other.
const (
	singleLikeKind       = iota // a mutation that likes a post
	singleMessageKind           // a mutation that sends a message
	singlePostKind              // a mutation that publishes a post
	bareCommitKind              // the floor: this program itself inserts one row, a transaction of its own
	bareServerCommitKind        // the floor with HTTP: net/http inserts such a row for each request
)

// singleWriteNames are the names of the kinds of single writes in the report, by kind.
var singleWriteNames = []string{
	singleLikeKind: "a like as a mutation", singleMessageKind: "a message as a mutation", singlePostKind: "a post as a mutation",
	bareCommitKind: "a bare commit", bareServerCommitKind: "a bare commit behind net/http",
}

// serverConnection is a connection to a server, which has one request at a time.
type serverConnection struct {
	address      string
	conn         net.Conn
	answerReader *bufio.Reader
}

func newServerConnection(ctx context.Context, address string) (*serverConnection, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &serverConnection{address: address, conn: conn, answerReader: bufio.NewReader(conn)}, nil
}

// singleWrites sends the writes of one user over one connection, and makes the bare commits to compare with.
type singleWrites struct {
	server, bareServer *serverConnection // to Tidings, and to the bare server
	pids               []int             // of the process that makes each kind of write; 0 where its processor time is not measured
	bareDatabase       *database.DB      // the database of the bare commits
	unlikedPosts       []string          // not yet liked
	conversationID     string            // the conversation that gets the messages
	writeCount         int               // how many writes were made, of all kinds
	resultsByKind      []series          // by kind
}

// newSingleWrites creates the user of writerKey with a conversation, and opens the connections of singleWrites.
func newSingleWrites(ctx context.Context, server, floor *program, bare *database.DB, posts []string) (*singleWrites, error) {
	ids, err := server.api.ingest(ctx, []ingestEvent{
		userEvent(writerKey, "createConversation", map[string]any{"kind": "GROUP", "title": "Harbour", "memberIds": []string{"user:" + burstPersonKey(0)}}),
	})
	if err != nil {
		return nil, err
	}
	w, err := openSingleWrites(ctx, server.address, floor.address, bare)
	if err == nil {
		w.unlikedPosts, w.conversationID = posts, ids[0]
		for kind := range w.pids {
			w.pids[kind] = server.pid()
		}
		w.pids[bareCommitKind], w.pids[bareServerCommitKind] = 0, floor.pid()
	}
	return w, err
}

// createBareCommitTable makes the table of the bare commits.
func createBareCommitTable(ctx context.Context, bare *database.DB) error {
	_, err := bare.ExecContext(ctx, `CREATE TABLE bare (number BIGINT PRIMARY KEY, who BIGINT NOT NULL, body TEXT NOT NULL)`)
	return err
}

// openSingleWrites connects to a server and to the bare server.
func openSingleWrites(ctx context.Context, address, floor string, bare *database.DB) (*singleWrites, error) {
	w := &singleWrites{bareDatabase: bare, resultsByKind: make([]series, len(singleWriteNames)), pids: make([]int, len(singleWriteNames))}
	var err error
	if w.server, err = newServerConnection(ctx, address); err != nil {
		return nil, err
	}
	if w.bareServer, err = newServerConnection(ctx, floor); err != nil {
		return nil, errors.Join(err, w.server.conn.Close())
	}
	return w, nil
}

func (w *singleWrites) close() { _, _ = w.server.conn.Close(), w.bareServer.conn.Close() }

// measureRound makes count writes of each kind, in turns. The processor time of a write is that of its process until the next write
// begins: its jobs run during the pause between the two.
func (w *singleWrites) measureRound(ctx context.Context, count int) error {
	latencies, busy := make([][]time.Duration, len(singleWriteNames)), make([]time.Duration, len(singleWriteNames))
	for range count {
		for kind := range singleWriteNames {
			w.writeCount++
			write, err := w.nextWrite(kind)
			if err != nil {
				return err
			}
			before := threadTimeOrUnknown(w.pids[kind])
			start := time.Now()
			if err := write(ctx); err != nil {
				return fmt.Errorf("%s: %w", singleWriteNames[kind], err)
			}
			latencies[kind] = append(latencies[kind], time.Since(start))
			if err := pause(ctx, pauseAfterWrite); err != nil {
				return err
			}
			busy[kind] += threadTimeOrUnknown(w.pids[kind]) - before
		}
	}
	for kind, all := range latencies {
		slices.Sort(all)
		one := newSample(all, sum(all))
		if busy[kind] > 0 {
			one = one.withServerCPU(busy[kind] / time.Duration(count))
		}
		w.resultsByKind[kind] = append(w.resultsByKind[kind], one)
	}
	return nil
}

// threadTimeOrUnknown returns the threadTime of a process. Where that is not known, it is always 0, so that a difference is 0 too.
func threadTimeOrUnknown(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	busy, err := threadTime(pid)
	if err != nil {
		return 0
	}
	return busy
}

// nextWrite returns a function that makes the next write of a kind.
func (w *singleWrites) nextWrite(kind int) (func(context.Context) error, error) {
	asked, body := w.server, ""
	switch kind {
	case bareCommitKind:
		number := w.writeCount
		return func(ctx context.Context) error { return insertBareCommitRow(ctx, w.bareDatabase, number) }, nil
	case bareServerCommitKind:
		asked, body = w.bareServer, strconv.Itoa(w.writeCount)
	default:
		var err error
		if body, err = w.nextMutation(kind); err != nil {
			return nil, err
		}
	}
	request := newLoadTarget(asked.address, 0, body, []string{"dev:" + writerKey}).requests[0]
	return func(ctx context.Context) error { return asked.sendAndReadAnswer(ctx, request) }, nil
}

// nextMutation returns the text of the next mutation of a kind.
func (w *singleWrites) nextMutation(kind int) (string, error) {
	switch kind {
	case singleLikeKind:
		if len(w.unlikedPosts) == 0 {
			return "", errors.New("every post is liked")
		}
		post := w.unlikedPosts[0]
		w.unlikedPosts = w.unlikedPosts[1:]
		return `mutation { likePost(input: {postId: "` + post + `"}) { changed } }`, nil
	case singleMessageKind:
		return `mutation { sendMessage(input: {conversationId: "` + w.conversationID + `", body: "Number ` + strconv.Itoa(w.writeCount) + `"}) { created } }`, nil
	default:
		return `mutation { publishPost(input: {body: "` + postBody(w.writeCount) + `"}) { created } }`, nil
	}
}

// sendAndReadAnswer sends a request and reads its answer.
func (a *serverConnection) sendAndReadAnswer(ctx context.Context, request []byte) error {
	deadline := time.Now().Add(answerTimeout)
	if until, bounded := ctx.Deadline(); bounded && until.Before(deadline) {
		deadline = until
	}
	if err := a.conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := a.conn.Write(request); err != nil {
		return err
	}
	return readAnswer(a.answerReader)
}

// compareKinds returns a line that compares the median time of a kind of single writes with that of the kind floor, a bare commit.
func (w *singleWrites) compareKinds(kind, floor int, what, limit string, g goal) resultLine {
	ours, theirs := w.resultsByKind[kind].medianLatencyP50(), w.resultsByKind[floor].medianLatencyP50()
	return resultLine{measurement: what, reference: limit, ourFigure: w.formatTimeAndCPU(kind), referenceFigure: w.formatTimeAndCPU(floor), value: ratio(float64(ours), float64(theirs)), unit: "x the time", goal: g}
}

// formatTimeAndCPU prints the median time of a kind of single writes and, where it is known, the processor time of one.
func (w *singleWrites) formatTimeAndCPU(kind int) string {
	text := formatMilliseconds(w.resultsByKind[kind].medianLatencyP50())
	if cpu := w.resultsByKind[kind].medianServerCPUMicros(); !math.IsNaN(cpu) {
		text += ", " + formatFigure(cpu) + " us"
	}
	return text
}
