package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/services"
)

// The check of everyone, which is the row everyone, imports a real follow graph from a file and lets some people publish. Then it reads
// every person's badge and feed through the API, and compares them with a count over the rows of the file.

const (
	everyoneCheckAuthorCount = 100 // how many people publish: the most followed ones, and others with all numbers of followers
	peopleReadAtOnce         = 16  // how many people are read at a time
	everyoneCheckPageSize    = 100 // posts of a page, when a feed is read
)

// followGraph holds the follows from the rows of a file (--follows).
type followGraph struct {
	people            []string                   // everyone, the most followed first
	followeesByPerson map[string]map[string]bool // person -> the people they follow
}

// readFollowGraph reads the follows from a file of pairs of people. Each pair is a follow in both directions.
func readFollowGraph(file string) (followGraph, error) {
	g := followGraph{followeesByPerson: map[string]map[string]bool{}}
	raw, err := os.Open(file)
	if err != nil {
		return g, err
	}
	defer raw.Close()
	var text io.Reader = raw
	if strings.HasSuffix(file, ".gz") {
		if text, err = gzip.NewReader(raw); err != nil {
			return g, fmt.Errorf("%s: %w", file, err)
		}
	}
	lines := bufio.NewScanner(text)
	for first := true; lines.Scan(); first = false {
		a, b, found := strings.Cut(lines.Text(), ",")
		if first && found && strings.HasPrefix(a, "id") {
			continue
		}
		if !found {
			return g, fmt.Errorf("%s: the row %q is not two people", file, lines.Text())
		}
		g.addFollow(a, b)
		g.addFollow(b, a)
	}
	for person := range g.followeesByPerson {
		g.people = append(g.people, person)
	}
	// Each row of the file is a follow in both directions, so a person has as many followers as followed people.
	slices.SortFunc(g.people, func(a, b string) int {
		if d := len(g.followeesByPerson[b]) - len(g.followeesByPerson[a]); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return g, lines.Err()
}

// addFollow adds a follow. It ignores a person who follows themselves.
func (g followGraph) addFollow(follower, followee string) {
	if follower == followee {
		return
	}
	if g.followeesByPerson[follower] == nil {
		g.followeesByPerson[follower] = map[string]bool{}
	}
	g.followeesByPerson[follower][followee] = true
}

// chooseAuthors returns everyoneCheckAuthorCount people: the most followed ones, at most `most` of them, and others spread evenly over
// the rest.
func (g followGraph) chooseAuthors(most int) (authors []string) {
	authors = append(authors, g.people[:min(most, len(g.people))]...)
	rest := g.people[len(authors):]
	step := max(1, len(rest)/(everyoneCheckAuthorCount-most))
	for i := 0; i < len(rest) && len(authors) < everyoneCheckAuthorCount; i += step {
		authors = append(authors, rest[i])
	}
	return authors
}

// publishedPost is a post and its author. Slices of it are in the order of publication.
type publishedPost struct{ id, author string }

// expectedBadgeAndFeed returns the number of unread posts in the badge, and the IDs of the posts in the feed, that a person must see.
func (g followGraph) expectedBadgeAndFeed(person string, posts []publishedPost) (unread int, list []string) {
	for _, post := range slices.Backward(posts) {
		if g.followeesByPerson[person][post.author] {
			unread++
		}
		if (g.followeesByPerson[person][post.author] || post.author == person) && len(list) < services.FeedRetention {
			list = append(list, post.id)
		}
	}
	return min(unread, services.FeedRetention), list
}

// everyoneCheckSetting is one set of authors, and of thresholds for their modes, with which every person's badge and feed is checked.
type everyoneCheckSetting struct {
	name                        string // shown in the report
	mostFollowedAuthorCount     int    // how many authors are taken from the most followed people
	postRounds                  int    // how often each author publishes
	bigThreshold, hugeThreshold int    // numbers of followers from which authors are big and huge; 0: the defaults, which no author reaches
}

// everyoneCheckSettings are the settings with which every person's badge and feed is checked.
var everyoneCheckSettings = []everyoneCheckSetting{
	{name: "all are small", mostFollowedAuthorCount: 1, postRounds: 2},
	{name: "small, big and huge", mostFollowedAuthorCount: everyoneCheckAuthorCount / 2, postRounds: 4, bigThreshold: 400, hugeThreshold: 1500},
}

// checkEveryonesBadgesAndFeeds checks every person in each setting. Half of the people visit before the last round of posts, so
// that posts are pushed to them; the others visit for the first time at the end. All are read again after Redis has lost all data.
func (b *bench) checkEveryonesBadgesAndFeeds(ctx context.Context) error {
	if _, err := os.Stat(b.followsPath); os.IsNotExist(err) {
		b.report.everyoneCheckLines = append(b.report.everyoneCheckLines, filepath.Base(b.followsPath)+" is not there (--follows)")
		return nil
	}
	g, err := readFollowGraph(b.followsPath)
	if err != nil {
		return err
	}
	for i, s := range everyoneCheckSettings {
		own, err := b.newInstallation("everyone-"+strconv.Itoa(i), everyoneRedisDB)
		if err != nil {
			return err
		}
		if err := b.checkEveryoneInSetting(ctx, own, g, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// checkEveryoneInSetting imports the graph into the installation own and compares every person's badge and feed, in one setting.
func (b *bench) checkEveryoneInSetting(ctx context.Context, own installation, g followGraph, s everyoneCheckSetting) error {
	b.printProgress("everyone, %s: importing %s", s.name, filepath.Base(b.followsPath))
	data := filepath.Join(own.dataFolder, "data")
	if _, err := runForOutput(ctx, ".", filepath.Join(binFolder, "tidings"), "import", "follows", b.followsPath, "--both", "--data", data); err != nil {
		return err
	}
	if err := b.redis.FlushAll(ctx).Err(); err != nil {
		return err
	}
	server, err := own.start(ctx)
	if err != nil {
		return err
	}
	defer server.stop()
	server.api.client.Transport = &http.Transport{MaxIdleConnsPerHost: peopleReadAtOnce}
	authors := g.chooseAuthors(s.mostFollowedAuthorCount)
	if s.bigThreshold > 0 {
		if err := server.api.setThresholds(ctx, s, authors); err != nil {
			return err
		}
	}
	var posts []publishedPost
	for round := range s.postRounds {
		if posts, err = publishOncePerAuthor(ctx, server.api, authors, posts); err != nil {
			return err
		}
		if round < s.postRounds-2 {
			continue
		}
		seen := g.people
		if round < s.postRounds-1 {
			seen = g.people[:len(g.people)/2]
		}
		if err := b.compareBadgesAndFeeds(ctx, server.api, g, seen, posts, fmt.Sprintf("%s, after %d posts", s.name, len(posts))); err != nil {
			return err
		}
	}
	if err := b.redis.FlushAll(ctx).Err(); err != nil {
		return err
	}
	return b.compareBadgesAndFeeds(ctx, server.api, g, g.people, posts, s.name+", after FLUSHALL")
}

// setThresholds sets the thresholds of a setting and waits until some author is small, some author is big and some author is huge.
func (a *apiClient) setThresholds(ctx context.Context, s everyoneCheckSetting, authors []string) error {
	var data any
	mutation := fmt.Sprintf(`mutation { setFanoutThresholds(input: {bigFollowers: %d, hugeFollowers: %d}) { fanout { bigFollowers } } }`, s.bigThreshold, s.hugeThreshold)
	if err := a.doGraphQL(ctx, adminToken, mutation, nil, &data); err != nil {
		return err
	}
	for {
		if err := a.waitForJobs(ctx); err != nil {
			return err
		}
		modes := map[string]int{}
		for _, author := range authors {
			mode, err := a.authorMode(ctx, author)
			if err != nil {
				return err
			}
			modes[mode]++
		}
		if len(modes) == 3 {
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("the authors' modes are %v, and not three: %w", modes, err)
		}
	}
}

// publishOncePerAuthor lets each author publish once, the most followed one last, and waits until every feed has the posts. It
// returns the given posts with the new ones.
func publishOncePerAuthor(ctx context.Context, a *apiClient, authors []string, posts []publishedPost) ([]publishedPost, error) {
	var events []ingestEvent
	for _, author := range slices.Backward(authors) {
		events = append(events, publishEvent(author, postBody(len(posts)+len(events))))
	}
	ids, err := a.ingest(ctx, events)
	if err != nil {
		return nil, err
	}
	for i, author := range slices.Backward(authors) {
		posts = append(posts, publishedPost{id: ids[len(authors)-1-i], author: author})
	}
	return posts, a.waitForJobs(ctx)
}

// compareBadgesAndFeeds reads the people's badges and feeds, and adds to the report how many are right. A wrong badge or feed is an
// error.
func (b *bench) compareBadgesAndFeeds(ctx context.Context, a *apiClient, g followGraph, people []string, posts []publishedPost, when string) error {
	var badges, feeds atomic.Int64
	var wrong atomic.Pointer[string]
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(peopleReadAtOnce)
	for _, person := range people {
		group.Go(func() error {
			unread, page := g.expectedBadgeAndFeed(person, posts)
			gotUnread, gotPage, err := readBadgeAndFeed(ctx, a, person)
			if err != nil {
				return fmt.Errorf("%s: %w", person, err)
			}
			if gotUnread == unread {
				badges.Add(1)
			} else {
				text := fmt.Sprintf("%s has %d new posts, the rows say %d", person, gotUnread, unread)
				wrong.Store(&text)
			}
			if slices.Equal(gotPage, page) {
				feeds.Add(1)
			} else {
				text := fmt.Sprintf("%s has a feed of %d posts, the rows say %d", person, len(gotPage), len(page))
				wrong.Store(&text)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	line := fmt.Sprintf("%d of %d badges right, %d of %d feeds right (%s)", badges.Load(), len(people), feeds.Load(), len(people), when)
	b.report.everyoneCheckLines = append(b.report.everyoneCheckLines, line)
	b.printProgress("everyone: %s", line)
	if text := wrong.Load(); text != nil {
		return fmt.Errorf("everyone: %s: %s", when, *text)
	}
	return nil
}

// readBadgeAndFeed reads a person's badge and feed, page by page to the end.
func readBadgeAndFeed(ctx context.Context, a *apiClient, person string) (unread int, list []string, err error) {
	after := "null"
	for {
		var data struct {
			Viewer struct {
				Badges   struct{ HomeFeed struct{ Value int } }
				HomeFeed struct {
					Edges    []struct{ Node struct{ ID string } }
					PageInfo struct {
						HasNextPage bool
						EndCursor   string
					}
				}
			}
		}
		query := fmt.Sprintf(`{ viewer { badges { homeFeed { value } } homeFeed(first: %d, after: %s) { edges { node { id } } pageInfo { hasNextPage endCursor } } } }`,
			everyoneCheckPageSize, after)
		if err := a.doGraphQL(ctx, "dev:"+person, query, nil, &data); err != nil {
			return 0, nil, err
		}
		feed := data.Viewer.HomeFeed
		for _, edge := range feed.Edges {
			list = append(list, edge.Node.ID)
		}
		if !feed.PageInfo.HasNextPage {
			return data.Viewer.Badges.HomeFeed.Value, list, nil
		}
		after = strconv.Quote(feed.PageInfo.EndCursor)
	}
}
