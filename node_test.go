package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/jobs"
)

// node is a whole server in this process, on a port of its own.
type node struct {
	*server
	tb      testing.TB
	url     string
	clock   *stepClock
	workers []*jobs.Worker
	stop    func() // ends the node as SIGTERM does, once; the test's end does it too
}

// nodeOptions say what a node runs on. A manual node has no workers and no loops of its own: the test steps them.
type nodeOptions struct {
	database, redis string
	manual          bool
	change          func(*Config)
	carrying        func(*fanout.Config)
	ahead           time.Duration // of its clock, before the machine's
}

// startNode starts a node in development mode; the test's end drains it.
func startNode(tb testing.TB, options nodeOptions) *node {
	tb.Helper()
	command, err := parseArgs(nil, func(string) string { return "" }, io.Discard)
	if err != nil {
		tb.Fatal(err)
	}
	cfg := command.Config
	cfg.Data, cfg.Database, cfg.Redis, cfg.Drain, cfg.RateLimits = tb.TempDir(), options.database, options.redis, 0, []string{"off"}
	if options.change != nil {
		options.change(&cfg)
	}
	n := &node{tb: tb, clock: &stepClock{}}
	n.clock.advance(options.ahead)
	log := slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	var changes []func(*fanout.Config)
	if options.carrying != nil {
		changes = append(changes, options.carrying)
	}
	if n.server, err = newServer(tb.Context(), cfg, n.clock, log, changes...); err != nil {
		tb.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	n.url = "http://" + listener.Addr().String()
	n.workers = n.fanout.Workers(1)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.serveFor(ctx, options.manual, listener) }()
	stopped := false
	n.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil && err != http.ErrServerClosed {
			tb.Errorf("the node ended with %v", err)
		}
	}
	tb.Cleanup(n.stop)
	if !options.manual {
		eventually(tb, 30*time.Second, "the node has read the shows of boards", n.memory.Shows.Loaded)
	}
	return n
}

// serveFor runs the node as the program does, or, when it is manual, only answers requests.
func (n *node) serveFor(ctx context.Context, manual bool, listener net.Listener) error {
	if !manual {
		return n.run(ctx, listeners{public: listener})
	}
	go func() {
		<-ctx.Done()
		_ = n.http.Close()
	}()
	err := n.http.Serve(listener)
	if closed := n.store.Close(); closed != nil {
		return closed
	}
	if closed := n.redis.Close(); closed != nil {
		return closed
	}
	return err
}

// settle does every job that there is, also those that are due within a quarter of an hour, and catches the memory up with the log.
func (n *node) settle() {
	n.tb.Helper()
	ctx := n.tb.Context()
	for range 1000 {
		claimed := 0
		for _, worker := range n.workers {
			claimed += n.work(worker)
		}
		if claimed > 0 {
			continue
		}
		_, dead, _, err := n.store.JobCounts(ctx)
		if err != nil || dead > 0 {
			n.tb.Fatalf("jobs: %d dead, %v", dead, err)
		}
		waits, err := n.store.JobWaits(ctx, math.MaxInt64, n.clock.Now().Add(15*time.Minute))
		if err == nil && !waits {
			n.tail()
			return
		}
		n.clock.advance(time.Second)
	}
	n.tb.Fatal("the jobs do not end")
}

// work lets a worker do what is due and answers how many jobs it claimed. On a busy machine Redis may miss its deadline:
// the jobs are then released, to be done again.
func (n *node) work(worker *jobs.Worker) (claimed int) {
	n.tb.Helper()
	claimed, err := worker.RunOnce(n.tb.Context())
	if services.IsUnavailable(err) {
		eventually(n.tb, 10*time.Second, "Redis answers", func() bool { return n.redis.Ping(n.tb.Context()) == nil })
		return claimed
	}
	if err != nil {
		n.tb.Fatalf("a worker: %v", err)
	}
	return claimed
}

// answer is what a GraphQL request came to.
type answer struct {
	Data   json.RawMessage
	Errors []struct {
		Message    string
		Extensions struct{ Code string }
	}
	Status int
}

// code is the code of the first error, "" when there is none.
func (a answer) code() string {
	if len(a.Errors) == 0 {
		return ""
	}
	return a.Errors[0].Extensions.Code
}

// ask sends a request as a user of the development mode ("alice", "alice:admin"); "" sends no token.
func (n *node) ask(as, query string, variables map[string]any) answer {
	n.tb.Helper()
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		n.tb.Fatal(err)
	}
	token := ""
	if as != "" {
		token = "Bearer dev:" + as
	}
	return n.post(token, body)
}

func (n *node) post(authorization string, body []byte) (result answer) {
	n.tb.Helper()
	request, err := http.NewRequestWithContext(n.tb.Context(), http.MethodPost, n.url+"/graphql", bytes.NewReader(body))
	if err != nil {
		n.tb.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		n.tb.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		n.tb.Fatal(err)
	}
	if err := json.Unmarshal(text, &result); err != nil {
		n.tb.Fatalf("%s is no GraphQL answer: %v", text, err)
	}
	result.Status = response.StatusCode
	return result
}

// must asks, wants no error, and reads the data into a value.
func (n *node) must(as, query string, variables map[string]any, into any) {
	n.tb.Helper()
	got := n.ask(as, query, variables)
	if len(got.Errors) > 0 {
		n.tb.Fatalf("%s as %s: %s (%s)", query, as, got.Errors[0].Message, got.code())
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(got.Data, into); err != nil {
		n.tb.Fatalf("%s: %v", got.Data, err)
	}
}

// badgeFields is every field of the badges, for queries and subscriptions.
const badgeFields = `version quiet total{value display precision inTotal} homeFeed{value precision inTotal}
	notifications{newest total{value precision inTotal} like{value precision inTotal} comment{value precision inTotal}
		mention{value precision inTotal} follow{value precision inTotal}}
	siteMessages{total{value precision inTotal} types{type count{value precision inTotal}}}
	announcements{value precision inTotal} conversations{total{value precision inTotal} mentions{value precision inTotal}} dots{name lit}`

// badges is the document as a client sees it.
type badges struct {
	Version         string
	Quiet           bool
	Total, HomeFeed count
	Notifications   struct {
		Newest                                *string
		Total, Like, Comment, Mention, Follow count
	}
	SiteMessages struct {
		Total count
		Types []struct {
			Type  string
			Count count
		}
	}
	Announcements count
	Conversations struct{ Total, Mentions count }
	Dots          []struct {
		Name string
		Lit  bool
	}
}

type count struct {
	Value     int
	Display   string
	Precision string
	InTotal   bool
}

// check holds P1 and P5 against a document: each total is the sum of the parts that enter it, and nothing is negative.
func (b badges) check() error {
	notifications := []count{b.Notifications.Like, b.Notifications.Comment, b.Notifications.Mention, b.Notifications.Follow}
	var messages []count
	for _, kind := range b.SiteMessages.Types {
		messages = append(messages, kind.Count)
	}
	for _, sum := range []struct {
		what  string
		total count
		parts []count
	}{
		{"notifications", b.Notifications.Total, notifications},
		{"site messages", b.SiteMessages.Total, messages},
		{"everything", b.Total, append(append(notifications, messages...), b.HomeFeed, b.Announcements, b.Conversations.Total)},
	} {
		value := 0
		for _, part := range sum.parts {
			if part.Value < 0 {
				return fmt.Errorf("negative count in %+v", b)
			}
			if part.InTotal {
				value += part.Value
			}
		}
		if sum.total.Value != value && sum.total.InTotal {
			return fmt.Errorf("total %d of %s is not the sum of its parts, %d: %+v", sum.total.Value, sum.what, value, b)
		}
	}
	return nil
}

func (n *node) badges(as string) badges {
	n.tb.Helper()
	var data struct{ Viewer struct{ Badges badges } }
	n.must(as, `{viewer{badges{`+badgeFields+`}}}`, nil, &data)
	if err := data.Viewer.Badges.check(); err != nil {
		n.tb.Fatal(err)
	}
	return data.Viewer.Badges
}

// publish posts and answers the post's id.
func (n *node) publish(as, body string) string {
	n.tb.Helper()
	var data struct {
		PublishPost struct{ Post struct{ ID string } }
	}
	n.must(as, `mutation($b:String!){publishPost(input:{body:$b}){post{id}}}`, map[string]any{"b": body}, &data)
	return data.PublishPost.Post.ID
}

func (n *node) markFeedSeen(as, upTo string) badges {
	n.tb.Helper()
	var place any
	if upTo != "" {
		place = upTo
	}
	var data struct{ MarkHomeFeedSeen struct{ Badges badges } }
	n.must(as, `mutation($p:ID){markHomeFeedSeen(input:{upTo:$p}){badges{`+badgeFields+`}}}`, map[string]any{"p": place}, &data)
	return data.MarkHomeFeedSeen.Badges
}

// feedPage is a page of a home feed as a client sees it.
type feedPage struct {
	Edges []struct {
		Cursor string
		Node   struct{ ID, Body string }
	}
	PageInfo struct {
		HasNextPage bool
		EndCursor   *string
	}
	LastID, End *string
}

func (p feedPage) ids() []string {
	ids := make([]string, len(p.Edges))
	for i, edge := range p.Edges {
		ids[i] = edge.Node.ID
	}
	return ids
}

// page reads a page of a feed; after and lastID are left out when they are "".
func (n *node) page(as string, first int, after, lastID string) feedPage {
	n.tb.Helper()
	variables := map[string]any{"first": first}
	if after != "" {
		variables["after"] = after
	}
	if lastID != "" {
		variables["last"] = lastID
	}
	var data struct{ Viewer struct{ HomeFeed feedPage } }
	n.must(as, `query($first:Int,$after:String,$last:ID){viewer{homeFeed(first:$first,after:$after,lastId:$last){
		edges{cursor node{id body}} pageInfo{hasNextPage endCursor} lastId end}}}`, variables, &data)
	return data.Viewer.HomeFeed
}

// walk reads a whole feed page by page.
func (n *node) walk(as string, first int) []string {
	n.tb.Helper()
	var ids []string
	for after := ""; ; {
		page := n.page(as, first, after, "")
		ids = append(ids, page.ids()...)
		if !page.PageInfo.HasNextPage {
			return ids
		}
		after = *page.PageInfo.EndCursor
	}
}

// eventually waits for a condition and fails when it does not come in time.
func eventually(tb testing.TB, within time.Duration, what string, condition func() bool) {
	tb.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		if condition() {
			tick.Stop()
			return
		}
		select {
		case <-deadline.C:
			tb.Fatalf("not within %s: %s", within, what)
		case <-tick.C:
		}
	}
}
