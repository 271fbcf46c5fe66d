package world

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
	"tidings/services/command"
	"tidings/services/jobs"
	"tidings/services/node"
	"tidings/tests/eventually"
)

// Node is a whole server in this process, on its own port.
type Node struct {
	*node.Server
	TB      testing.TB
	URL     string
	Clock   *offsetClock
	Workers []*jobs.Worker // of the test itself: RunWorkerOnce and SettleJobsAndCaches run jobs with them
	Stop    func()         // ends the node as SIGTERM does; only the first call has an effect. The test's end calls it too
}

// NodeOptions are the engines and settings of a node. With ManualStepping the node starts no workers and no loops of its own.
type NodeOptions struct {
	Database, Redis string             // the settings of these names; Redis may be "embedded"
	ManualStepping  bool               // nothing runs by itself: the test steps the node
	ChangeConfig    func(*node.Config) // changes the settings of the node
	ClockAhead      time.Duration      // how far its clock is ahead of the machine's
}

// StartNode starts a node in development mode; the test's end drains it.
func StartNode(tb testing.TB, options NodeOptions) *Node {
	tb.Helper()
	command, err := command.ParseArgs(nil, func(string) string { return "" }, io.Discard)
	if err != nil {
		tb.Fatal(err)
	}
	cfg := command.Config
	cfg.Data, cfg.Database, cfg.Redis, cfg.Drain, cfg.RateLimit.Budgets = tb.TempDir(), options.Database, options.Redis, 0, []string{"off"}
	if options.ChangeConfig != nil {
		options.ChangeConfig(&cfg)
	}
	n := &Node{TB: tb, Clock: &offsetClock{}}
	n.Clock.Advance(options.ClockAhead)
	log := slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	if n.Server, err = node.NewServer(tb.Context(), cfg, n.Clock, log); err != nil {
		tb.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	n.URL = "http://" + listener.Addr().String()
	n.Workers = n.Jobs.Workers(1)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.serveUntilDone(ctx, options.ManualStepping, listener) }()
	stopped := false
	n.Stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil && err != http.ErrServerClosed {
			tb.Errorf("the node ended with %v", err)
		}
	}
	tb.Cleanup(n.Stop)
	if !options.ManualStepping {
		Eventually(tb, 30*time.Second, "the node has read the shows of boards", n.Live.Memory.Loaded)
	}
	return n
}

// serveUntilDone runs the node as the program does until ctx ends. If manual is true, the node only answers requests.
func (n *Node) serveUntilDone(ctx context.Context, manual bool, listener net.Listener) error {
	if !manual {
		return n.Run(ctx, node.Listeners{Public: listener})
	}
	go func() {
		<-ctx.Done()
		_ = n.Front.Close()
	}()
	err := n.Front.Serve(listener)
	if closed := n.DB.Close(); closed != nil {
		return closed
	}
	if closed := n.Redis.Close(); closed != nil {
		return closed
	}
	return err
}

// SettleJobsAndCaches runs every job that is due now or within a quarter of an hour, and brings the node cache up to date with the
// changelog.
func (n *Node) SettleJobsAndCaches() {
	n.TB.Helper()
	ctx := n.TB.Context()
	for range 1000 {
		claimed := 0
		for _, worker := range n.Workers {
			claimed += n.RunWorkerOnce(worker)
		}
		if claimed > 0 {
			continue
		}
		_, dead, _, err := jobs.JobCounts(ctx, n.DB)
		if err != nil || dead > 0 {
			n.TB.Fatalf("jobs: %d dead, %v", dead, err)
		}
		soon := n.Clock.Now().Add(15 * time.Minute)
		waits, err := jobs.AnyJobWaits(ctx, n.DB, math.MaxInt64, soon, soon)
		if err == nil && !waits {
			n.TailChangelog()
			return
		}
		n.Clock.Advance(time.Second)
	}
	n.TB.Fatal("the jobs do not end")
}

// RunWorkerOnce lets a worker run the due jobs and returns how many it claimed. On a busy machine Redis may miss its deadline: the
// jobs are then released, to be done again.
func (n *Node) RunWorkerOnce(worker *jobs.Worker) (claimed int) {
	n.TB.Helper()
	claimed, err := worker.RunOnce(n.TB.Context())
	if services.IsUnavailable(err) {
		Eventually(n.TB, 10*time.Second, "Redis answers", func() bool { return n.Redis.Client.Ping(n.TB.Context()) == nil })
		return claimed
	}
	if err != nil {
		n.TB.Fatalf("a worker: %v", err)
	}
	return claimed
}

// Ask sends a request as a user of development mode ("alice", "alice:admin"); "" sends no token.
func (n *Node) Ask(as, query string, variables map[string]any) Answer {
	n.TB.Helper()
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		n.TB.Fatal(err)
	}
	token := ""
	if as != "" {
		token = "Bearer dev:" + as
	}
	return n.PostGraphQL(token, body)
}

// PostGraphQL sends the body of a GraphQL request and reads the answer. An empty authorization sends no header.
func (n *Node) PostGraphQL(authorization string, body []byte) (result Answer) {
	n.TB.Helper()
	request, err := http.NewRequestWithContext(n.TB.Context(), http.MethodPost, n.URL+"/graphql", bytes.NewReader(body))
	if err != nil {
		n.TB.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		n.TB.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		n.TB.Fatal(err)
	}
	if err := json.Unmarshal(text, &result); err != nil {
		n.TB.Fatalf("%s is no GraphQL answer: %v", text, err)
	}
	result.Status = response.StatusCode
	return result
}

// MustAsk sends a request as a user of development mode (see Ask), and fails the test at an error. It decodes the data into the value
// that into points to, unless into is nil.
func (n *Node) MustAsk(as, query string, variables map[string]any, into any) {
	n.TB.Helper()
	got := n.Ask(as, query, variables)
	if len(got.Errors) > 0 {
		n.TB.Fatalf("%s as %s: %s (%s)", query, as, got.Errors[0].Message, got.ErrorCode())
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(got.Data, into); err != nil {
		n.TB.Fatalf("%s: %v", got.Data, err)
	}
}

// BadgeFields is every field of the badges, for queries and subscriptions.
const BadgeFields = `version quiet total{value display precision inTotal} homeFeed{value precision inTotal}
	notifications{newest total{value precision inTotal} like{value precision inTotal} comment{value precision inTotal}
		mention{value precision inTotal} follow{value precision inTotal} categories{name count{value precision inTotal}}}
	siteMessages{total{value precision inTotal} types{type count{value precision inTotal}}}
	announcements{value precision inTotal} conversations{total{value precision inTotal} mentions{value precision inTotal}}
	liveBoard{value precision inTotal} views{value precision inTotal} dots{name lit}`

// Badges are the badges as a client sees them.
type Badges struct {
	Version         string
	Quiet           bool // the quiet hours of the person are in effect
	Total, HomeFeed Count
	Notifications   struct {
		Newest                                *string // the position of the newest notification, for upTo; nil: there never was one
		Total, Like, Comment, Mention, Follow Count
		Categories                            []struct { // all categories, including those of the host application
			Name  string
			Count Count
		}
	}
	SiteMessages struct {
		Total Count
		Types []struct {
			Type  string
			Count Count
		}
	}
	Announcements Count
	Conversations struct{ Total, Mentions Count }
	LiveBoard     Count
	Views         Count
	Dots          []struct {
		Name string
		Lit  bool
	}
}

// Count is a count of the badges as a client sees it.
type Count struct {
	Value     int
	Display   string // the text to show, such as 99+
	Precision string // EXACT, AT_LEAST, STALE or UNKNOWN
	InTotal   bool   // it counts in the total
}

// checkTotals returns an error if a part of a total is negative, or if a total is not the sum of the parts that are in it. It does
// not compare the total of a source that is out of the whole total.
func (b Badges) checkTotals() error {
	var notifications, messages []Count
	for _, category := range b.Notifications.Categories {
		notifications = append(notifications, category.Count)
	}
	for _, kind := range b.SiteMessages.Types {
		messages = append(messages, kind.Count)
	}
	for _, sum := range []struct {
		what  string
		total Count
		parts []Count
	}{
		{"notifications", b.Notifications.Total, notifications},
		{"site messages", b.SiteMessages.Total, messages},
		{"everything", b.Total, append(append(notifications, messages...), b.HomeFeed, b.Announcements, b.Conversations.Total, b.LiveBoard, b.Views)},
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

// Badges reads a person's badges and checks that each total is the sum of its parts.
func (n *Node) Badges(as string) Badges {
	n.TB.Helper()
	var data struct{ Viewer struct{ Badges Badges } }
	n.MustAsk(as, `{viewer{badges{`+BadgeFields+`}}}`, nil, &data)
	if err := data.Viewer.Badges.checkTotals(); err != nil {
		n.TB.Fatal(err)
	}
	return data.Viewer.Badges
}

// Publish posts and returns the post's ID.
func (n *Node) Publish(as, body string) string {
	n.TB.Helper()
	var data struct {
		PublishPost struct{ Post struct{ ID string } }
	}
	n.MustAsk(as, `mutation($b:String!){publishPost(input:{body:$b}){post{id}}}`, map[string]any{"b": body}, &data)
	return data.PublishPost.Post.ID
}

// MarkFeedSeen marks the home feed as seen up to a post, or as a whole with "", and returns the badges after the mark.
func (n *Node) MarkFeedSeen(as, upTo string) Badges {
	n.TB.Helper()
	var position any
	if upTo != "" {
		position = upTo
	}
	var data struct{ MarkHomeFeedSeen struct{ Badges Badges } }
	n.MustAsk(as, `mutation($p:ID){markHomeFeedSeen(input:{upTo:$p}){badges{`+BadgeFields+`}}}`, map[string]any{"p": position}, &data)
	return data.MarkHomeFeedSeen.Badges
}

// FeedPage is a page of a home feed as a client sees it.
type FeedPage struct {
	Edges []struct {
		Cursor string
		Node   struct{ ID, Body string }
	}
	PageInfo struct {
		HasNextPage bool
		EndCursor   *string
	}
	LastID, End *string // the position for the next page, and the reason why no page follows; nil: none
}

// Ids returns the IDs of the posts on the page, in order.
func (p FeedPage) Ids() []string {
	ids := make([]string, len(p.Edges))
	for i, edge := range p.Edges {
		ids[i] = edge.Node.ID
	}
	return ids
}

// ReadFeedPage reads a page of a feed; after and lastID are omitted when they are "".
func (n *Node) ReadFeedPage(as string, first int, after, lastID string) FeedPage {
	n.TB.Helper()
	variables := map[string]any{"first": first}
	if after != "" {
		variables["after"] = after
	}
	if lastID != "" {
		variables["last"] = lastID
	}
	var data struct{ Viewer struct{ HomeFeed FeedPage } }
	n.MustAsk(as, `query($first:Int,$after:String,$last:ID){viewer{homeFeed(first:$first,after:$after,lastId:$last){
		edges{cursor node{id body}} pageInfo{hasNextPage endCursor} lastId end}}}`, variables, &data)
	return data.Viewer.HomeFeed
}

// ReadWholeFeed reads a whole feed page by page, and returns the IDs of its posts.
func (n *Node) ReadWholeFeed(as string, first int) []string {
	n.TB.Helper()
	var ids []string
	for after := ""; ; {
		page := n.ReadFeedPage(as, first, after, "")
		ids = append(ids, page.Ids()...)
		if !page.PageInfo.HasNextPage {
			return ids
		}
		after = *page.PageInfo.EndCursor
	}
}

// Eventually waits until the condition holds, and fails the test if that takes longer than within. what describes the condition.
func Eventually(tb testing.TB, within time.Duration, what string, condition func() bool) {
	tb.Helper()
	eventually.HoldsWithin(tb, within, what, condition)
}
