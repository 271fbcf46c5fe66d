package main

import (
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tidings/services"
)

// writeFollowGraphFile writes text to a new file of this name and returns its path. It compresses the text if the name ends in .gz.
func writeFollowGraphFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(name, ".gz") {
		packed := gzip.NewWriter(file)
		if _, err := packed.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := packed.Close(); err != nil {
			t.Fatal(err)
		}
	} else if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadGraphMakesFollowsMutual(t *testing.T) {
	for _, name := range []string{"graph.csv", "graph.csv.gz"} {
		g, err := readFollowGraph(writeFollowGraphFile(t, name, "id_1,id_2\n1,2\n1,3\n3,3\n4,1\n"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(g.people, []string{"1", "2", "3", "4"}) {
			t.Errorf("%s: people %v, want the most followed first", name, g.people)
		}
		if !g.followeesByPerson["1"]["4"] || !g.followeesByPerson["4"]["1"] || g.followeesByPerson["2"]["3"] || g.followeesByPerson["3"]["3"] {
			t.Errorf("%s: %v", name, g.followeesByPerson)
		}
	}
	if _, err := readFollowGraph(writeFollowGraphFile(t, "graph.csv", "1;2\n")); err == nil {
		t.Error("a row of one column is read")
	}
	if _, err := readFollowGraph("missing.csv"); !os.IsNotExist(err) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestExpectedCountsOnlyFollowedAuthors(t *testing.T) {
	g := followGraph{followeesByPerson: map[string]map[string]bool{}}
	g.addFollow("a", "b")
	g.addFollow("a", "c")
	posts := []publishedPost{{"1", "b"}, {"2", "d"}, {"3", "a"}, {"4", "c"}}
	unread, page := g.expectedBadgeAndFeed("a", posts)
	if unread != 2 || !slices.Equal(page, []string{"4", "3", "1"}) {
		t.Errorf("got %d and %v: one's own is listed and does not count", unread, page)
	}
	for i := range services.FeedRetention - 2 {
		posts = append(posts, publishedPost{fmt.Sprint("b", i), "b"})
	}
	if unread, page = g.expectedBadgeAndFeed("a", posts); unread != services.FeedRetention || len(page) != services.FeedRetention || page[0] != fmt.Sprint("b", services.FeedRetention-3) {
		t.Errorf("got %d and a feed of %d", unread, len(page))
	}
	if unread, _ = g.expectedBadgeAndFeed("a", append(posts, publishedPost{"5", "b"})); unread != services.FeedRetention {
		t.Errorf("%d are unread, no more than %d are counted", unread, services.FeedRetention)
	}
}

// Beside the most followed people, chooseAuthors takes people of all numbers of followers.
func TestChosenAuthorsHaveAllNumbersOfFollowers(t *testing.T) {
	g := followGraph{}
	for i := range 1000 {
		g.people = append(g.people, fmt.Sprint(i))
	}
	authors := g.chooseAuthors(1)
	if len(authors) != everyoneCheckAuthorCount || authors[0] != "0" || authors[99] != "981" {
		t.Errorf("%d authors, %s to %s", len(authors), authors[0], authors[len(authors)-1])
	}
	if authors = g.chooseAuthors(50); len(authors) != everyoneCheckAuthorCount || authors[49] != "49" || authors[50] != "50" || authors[99] != "981" {
		t.Errorf("%d authors, %v", len(authors), authors[49:])
	}
	g.people = g.people[:3]
	if authors = g.chooseAuthors(1); len(authors) != 3 {
		t.Errorf("of three people %d publish", len(authors))
	}
}
