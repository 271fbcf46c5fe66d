package model

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/services"
	"tidings/services/importer"
	"tidings/services/redis/redistest"
	"tidings/services/social"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// followGraph is a graph of people who follow each other. Each follow has its counterpart in the other direction.
type followGraph struct {
	people    []string                   // everyone, the most followed first
	followees map[string]map[string]bool // person -> the people they follow
	rows      bytes.Buffer               // the file of an import with BothDirections
}

// The people of the graph: the first follow everyone, the next half of the people, and each of the rest a few.
const (
	graphPeople         = 240
	graphFollowAll      = 4
	graphFollowHalf     = 12
	graphFewestFollowed = 3
)

// generateFollowGraph makes the graph, the same at each call.
func generateFollowGraph() *followGraph {
	g := &followGraph{followees: map[string]map[string]bool{}}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range graphPeople {
		g.people = append(g.people, fmt.Sprintf("person-%03d", i))
		g.followees[g.people[i]] = map[string]bool{}
	}
	for i, person := range g.people {
		others := g.people[i+1:]
		switch {
		case i < graphFollowAll:
		case i < graphFollowAll+graphFollowHalf:
			others = slices.DeleteFunc(slices.Clone(others), func(string) bool { return random.IntN(2) == 0 })
		default:
			others = []string{}
			for range graphFewestFollowed + i%5 {
				others = append(others, g.people[random.IntN(graphPeople)])
			}
		}
		for _, other := range others {
			if other != person && !g.followees[person][other] {
				g.followees[person][other], g.followees[other][person] = true, true
				_, _ = fmt.Fprintf(&g.rows, "%s,%s\n", person, other) // a buffer takes everything
			}
		}
	}
	slices.SortFunc(g.people, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(g.followees[b]), len(g.followees[a])), cmp.Compare(a, b))
	})
	return g
}

// chooseAuthors returns count people: the most followed ones, as many as most says, and others spread evenly over the rest.
func (g *followGraph) chooseAuthors(most, count int) []string {
	authors, rest := slices.Clone(g.people[:most]), g.people[most:]
	for i := range count - most {
		authors = append(authors, rest[i*len(rest)/(count-most)])
	}
	return authors
}

// authoredPost is the ID of a post, and its author.
type authoredPost struct{ id, author string }

// expectedBadgeAndFeed counts, over the follows of a person, their unread posts and lists their feed. posts are in the order of
// publication. Nobody has marked anything as seen.
func (g *followGraph) expectedBadgeAndFeed(person string, posts []authoredPost) (unread int, feed []string) {
	for _, post := range slices.Backward(posts) {
		if g.followees[person][post.author] {
			unread++
		}
		if (g.followees[person][post.author] || post.author == person) && len(feed) < services.FeedRetention {
			feed = append(feed, post.id)
		}
	}
	return min(unread, services.FeedRetention), feed
}

// everyoneTest compares every person's badge and feed with a count over the follows, as the row everyone of the bench does with a real
// graph.
type everyoneTest struct {
	*followGraph
	t       *testing.T
	node    *world.Node
	authors []string
	posts   []authoredPost
}

// publishOncePerAuthor lets each author publish once, the most followed one last, and runs the jobs.
func (e *everyoneTest) publishOncePerAuthor() {
	e.t.Helper()
	var events []map[string]any
	for i, author := range slices.Backward(e.authors) {
		events = append(events, map[string]any{"as": "user:" + author, "do": map[string]any{"publishPost": map[string]any{"body": fmt.Sprint("post ", len(e.posts), ", ", i)}}})
		e.posts = append(e.posts, authoredPost{author: author})
	}
	var data struct {
		Ingest struct {
			Results []struct {
				ID    string
				Error *struct{ Code, Message string }
			}
		}
	}
	e.node.MustAsk("host:ingest", `mutation($e:[IngestEvent!]!){ingest(events:$e){results{id error{code message}}}}`, map[string]any{"e": events}, &data)
	if got := len(data.Ingest.Results); got != len(events) {
		e.t.Fatalf("%d results of %d events", got, len(events))
	}
	for i, result := range data.Ingest.Results {
		if result.Error != nil {
			e.t.Fatalf("%v: %+v", events[i], *result.Error)
		}
		e.posts[len(e.posts)-len(events)+i].id = result.ID
	}
	e.node.SettleJobsAndCaches()
}

// readBadgeAndFeed reads a person's badge and, page by page, their feed.
func (e *everyoneTest) readBadgeAndFeed(person string) (unread int, feed []string, err error) {
	const query = `query($after:String){viewer{badges{homeFeed{value}} homeFeed(first:100,after:$after){edges{node{id}} pageInfo{hasNextPage endCursor}}}}`
	for variables := map[string]any{}; ; {
		var data struct {
			Viewer struct {
				Badges   struct{ HomeFeed struct{ Value int } }
				HomeFeed world.FeedPage
			}
		}
		if err := world.Ask(e.node.URL, person, query, variables, &data); err != nil {
			return 0, nil, err
		}
		page := data.Viewer.HomeFeed
		feed = append(feed, page.Ids()...)
		if !page.PageInfo.HasNextPage {
			return data.Viewer.Badges.HomeFeed.Value, feed, nil
		}
		variables["after"] = *page.PageInfo.EndCursor
	}
}

// compareBadgesAndFeeds reads the badges and feeds of people, several at a time, and compares them with the count over the follows.
func (e *everyoneTest) compareBadgesAndFeeds(people []string, when string) {
	e.t.Helper()
	var group errgroup.Group
	group.SetLimit(16)
	for _, person := range people {
		group.Go(func() error {
			wantUnread, wantFeed := e.expectedBadgeAndFeed(person, e.posts)
			unread, feed, err := e.readBadgeAndFeed(person)
			switch {
			case err != nil:
				return fmt.Errorf("%s: %w", person, err)
			case unread != wantUnread:
				return fmt.Errorf("%s has %d new posts, the follows make %d", person, unread, wantUnread)
			case !slices.Equal(feed, wantFeed):
				return fmt.Errorf("%s has a feed of %d posts, the follows make %d:\n%v\n%v", person, len(feed), len(wantFeed), feed, wantFeed)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		e.t.Fatalf("%s, after %d posts: %v", when, len(e.posts), err)
	}
}

// setThresholds sets the numbers of followers from which authors are big and huge. Afterwards some authors are small, some big and
// some huge.
func (e *everyoneTest) setThresholds(big, huge int) {
	e.t.Helper()
	e.node.MustAsk("operator:admin", `mutation($b:Int!,$h:Int!){setFanoutThresholds(input:{bigFollowers:$b,hugeFollowers:$h}){fanout{bigFollowers}}}`, map[string]any{"b": big, "h": huge}, nil)
	e.node.SettleJobsAndCaches()
	modes := map[string]int{}
	for _, author := range e.authors {
		modes[e.node.AuthorAudience(author).Mode]++
	}
	if len(modes) != 3 {
		e.t.Fatalf("the modes of the authors are %v, want all three", modes)
	}
}

// everyoneSetting is one set of authors, and of thresholds for their modes.
type everyoneSetting struct {
	name                        string
	mostFollowedAuthors         int // how many authors are taken from the most followed people
	rounds                      int // how often each author publishes
	bigThreshold, hugeThreshold int // numbers of followers from which authors are big and huge; 0: the defaults, which no author reaches
}

// Every person's badge and feed equal a count over the follows, whichever way the posts take to their followers. Half of the people
// visit before the last round of posts, so that posts are pushed to them; the others visit for the first time at the end. All are
// compared again after Redis has lost all data.
func TestEveryonesBadgeAndFeedEqualTheirFollows(t *testing.T) {
	for _, s := range []everyoneSetting{
		{name: "all are small", mostFollowedAuthors: 1, rounds: 2},
		{name: "small, big and huge", mostFollowedAuthors: 18, rounds: 9, bigThreshold: 60, hugeThreshold: 200},
	} {
		t.Run(s.name, func(t *testing.T) { checkEveryone(t, s) })
	}
}

// checkEveryone imports the graph and compares everyone, in one setting.
func checkEveryone(t *testing.T, s everyoneSetting) {
	const authors = 36
	server, database, g := redistest.NewServer(t), sqltest.SQLite(t), generateFollowGraph()
	importGraph(t, database, g)
	n := world.StartNode(t, world.NodeOptions{Database: database, Redis: server.URL(), ManualStepping: true})
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	e := &everyoneTest{followGraph: g, t: t, node: n, authors: g.chooseAuthors(s.mostFollowedAuthors, authors)}
	n.SettleJobsAndCaches()
	if s.bigThreshold > 0 {
		e.setThresholds(s.bigThreshold, s.hugeThreshold)
	}
	var visitors []string
	for i := 0; i < len(g.people); i += 2 {
		visitors = append(visitors, g.people[i])
	}
	for round := range s.rounds {
		e.publishOncePerAuthor()
		switch round {
		case s.rounds - 2:
			e.compareBadgesAndFeeds(visitors, "half of the people")
		case s.rounds - 1:
			e.compareBadgesAndFeeds(g.people, "everyone")
		}
	}
	if _, feed := g.expectedBadgeAndFeed(g.people[0], e.posts); s.bigThreshold > 0 && (len(feed) < services.FeedRetention || len(e.posts) <= services.FeedRetention) {
		t.Errorf("%d posts, %d in the longest feed: nobody has more than a feed keeps", len(e.posts), len(feed))
	}
	server.Flush()
	e.compareBadgesAndFeeds(g.people, "after FLUSHALL")
}

// importGraph imports the follows of the graph into a database that no node has open.
func importGraph(t *testing.T, database string, g *followGraph) {
	t.Helper()
	db, err := sql.Open(t.Context(), sql.Config{URL: database})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows := bytes.Count(g.rows.Bytes(), []byte("\n"))
	report, err := social.Import(30*24*time.Hour).Run(t.Context(), db, services.NewIDClock(services.SystemClock{}, 1),
		importer.Options{File: "-", Input: &g.rows, BothDirections: true})
	if err != nil || report.BadLines > 0 || report.NewItems != int64(2*rows) {
		t.Fatalf("%s rows: %s, %v", strconv.Itoa(rows), report, err)
	}
}
