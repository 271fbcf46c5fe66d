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
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// The check of everyone: a real follow graph is imported, some people publish, and then every person's badge and feed,
// read through the API, is held against a count straight from the rows of the file.

const (
	everyoneAuthors     = 100 // who publish: the one with the most followers, and others from the most followed to the least
	everyoneConnections = 16
	everyonePage        = 100
)

// graph is who follows whom, by the rows of the file.
type graph struct {
	people  []string                   // everyone, the most followed first
	follows map[string]map[string]bool // person -> whom he follows
}

func readGraph(file string) (graph, error) {
	g := graph{follows: map[string]map[string]bool{}}
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
		g.add(a, b)
		g.add(b, a)
	}
	for person := range g.follows {
		g.people = append(g.people, person)
	}
	// Rows go both ways: whoever follows many is followed by many.
	slices.SortFunc(g.people, func(a, b string) int {
		if d := len(g.follows[b]) - len(g.follows[a]); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return g, lines.Err()
}

func (g graph) add(follower, followee string) {
	if follower == followee {
		return
	}
	if g.follows[follower] == nil {
		g.follows[follower] = map[string]bool{}
	}
	g.follows[follower][followee] = true
}

// authors are the most followed person and others, spread over all degrees.
func (g graph) authors() (authors []string) {
	step := max(1, len(g.people)/everyoneAuthors)
	for i := 0; i < len(g.people) && len(authors) < everyoneAuthors; i += step {
		authors = append(authors, g.people[i])
	}
	return authors
}

// published is a post and its author, in the order of publication.
type published struct{ id, author string }

// expected is what a person's badge and first page must be.
func (g graph) expected(person string, posts []published) (unread int, page []string) {
	for _, post := range slices.Backward(posts) {
		if g.follows[person][post.author] {
			unread++
		}
		if (g.follows[person][post.author] || post.author == person) && len(page) < everyonePage {
			page = append(page, post.id)
		}
	}
	return unread, page
}

// checkEveryone does it: half of the people are seen before the second round of posts, so that theirs are pushed; the
// others are seen for the first time at the end; and all are read once more after Redis has lost everything.
func (b *bench) checkEveryone(ctx context.Context) error {
	if _, err := os.Stat(b.follows); os.IsNotExist(err) {
		b.report.everyone = append(b.report.everyone, filepath.Base(b.follows)+" is not there (--follows)")
		return nil
	}
	g, err := readGraph(b.follows)
	if err != nil {
		return err
	}
	own, err := b.aside("everyone", everyoneDatabase)
	if err != nil {
		return err
	}
	b.say("everyone: importing %s", filepath.Base(b.follows))
	data := filepath.Join(own.folder, "data")
	if _, err := runOnce(ctx, ".", filepath.Join(binFolder, "tidings"), "import", "follows", b.follows, "--both", "--data", data); err != nil {
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
	server.api.client.Transport = &http.Transport{MaxIdleConnsPerHost: everyoneConnections}
	var posts []published
	for round, seen := range [][]string{g.people[:len(g.people)/2], g.people} {
		if posts, err = publishAll(ctx, server.api, g.authors(), posts); err != nil {
			return err
		}
		if err := b.compareAll(ctx, server.api, g, seen, posts, fmt.Sprintf("after %d posts", len(posts))); err != nil {
			return err
		}
		b.say("everyone: round %d of 2 is done", round+1)
	}
	if err := b.redis.FlushAll(ctx).Err(); err != nil {
		return err
	}
	return b.compareAll(ctx, server.api, g, g.people, posts, "after FLUSHALL")
}

// publishAll lets each author publish once, the most followed one last, and waits until every feed has it.
func publishAll(ctx context.Context, a *api, authors []string, posts []published) ([]published, error) {
	var events []event
	for _, author := range slices.Backward(authors) {
		events = append(events, publish(author, postBody(len(posts)+len(events))))
	}
	ids, err := a.ingest(ctx, events)
	if err != nil {
		return nil, err
	}
	for i, author := range slices.Backward(authors) {
		posts = append(posts, published{id: ids[len(authors)-1-i], author: author})
	}
	return posts, a.waitForJobs(ctx)
}

// compareAll reads the people's badges and first pages and writes down how many are right. A wrong one is an error.
func (b *bench) compareAll(ctx context.Context, a *api, g graph, people []string, posts []published, when string) error {
	var badges, feeds atomic.Int64
	var wrong atomic.Pointer[string]
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(everyoneConnections)
	for _, person := range people {
		group.Go(func() error {
			unread, page := g.expected(person, posts)
			gotUnread, gotPage, err := readPerson(ctx, a, person)
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
				text := fmt.Sprintf("%s has a page of %d posts, the rows say %d", person, len(gotPage), len(page))
				wrong.Store(&text)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	line := fmt.Sprintf("%d of %d badges right, %d of %d feeds right (%s)", badges.Load(), len(people), feeds.Load(), len(people), when)
	b.report.everyone = append(b.report.everyone, line)
	b.say("everyone: %s", line)
	if text := wrong.Load(); text != nil {
		return fmt.Errorf("everyone: %s: %s", when, *text)
	}
	return nil
}

func readPerson(ctx context.Context, a *api, person string) (unread int, page []string, err error) {
	var data struct {
		Viewer struct {
			Badges   struct{ HomeFeed struct{ Value int } }
			HomeFeed struct {
				Edges []struct{ Node struct{ ID string } }
			}
		}
	}
	query := fmt.Sprintf(`{ viewer { badges { homeFeed { value } } homeFeed(first: %d) { edges { node { id } } } } }`, everyonePage)
	if err := a.do(ctx, "dev:"+person, query, nil, &data); err != nil {
		return 0, nil, err
	}
	for _, edge := range data.Viewer.HomeFeed.Edges {
		page = append(page, edge.Node.ID)
	}
	return data.Viewer.Badges.HomeFeed.Value, page, nil
}
