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

// writeGraph writes text to a new file of this name and returns its path. It compresses the text if the name ends in .gz.
func writeGraph(t *testing.T, name, text string) string {
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
		g, err := readGraph(writeGraph(t, name, "id_1,id_2\n1,2\n1,3\n3,3\n4,1\n"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(g.people, []string{"1", "2", "3", "4"}) {
			t.Errorf("%s: people %v, want the most followed first", name, g.people)
		}
		if !g.follows["1"]["4"] || !g.follows["4"]["1"] || g.follows["2"]["3"] || g.follows["3"]["3"] {
			t.Errorf("%s: %v", name, g.follows)
		}
	}
	if _, err := readGraph(writeGraph(t, "graph.csv", "1;2\n")); err == nil {
		t.Error("a row of one column is read")
	}
	if _, err := readGraph("missing.csv"); !os.IsNotExist(err) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestExpectedCountsOnlyFollowedAuthors(t *testing.T) {
	g := graph{follows: map[string]map[string]bool{}}
	g.add("a", "b")
	g.add("a", "c")
	posts := []published{{"1", "b"}, {"2", "d"}, {"3", "a"}, {"4", "c"}}
	unread, page := g.expected("a", posts)
	if unread != 2 || !slices.Equal(page, []string{"4", "3", "1"}) {
		t.Errorf("got %d and %v: one's own is listed and does not count", unread, page)
	}
	for i := range services.Retention - 2 {
		posts = append(posts, published{fmt.Sprint("b", i), "b"})
	}
	if unread, page = g.expected("a", posts); unread != services.Retention || len(page) != services.Retention || page[0] != fmt.Sprint("b", services.Retention-3) {
		t.Errorf("got %d and a feed of %d", unread, len(page))
	}
	if unread, _ = g.expected("a", append(posts, published{"5", "b"})); unread != services.Retention {
		t.Errorf("%d are unread, no more than %d are counted", unread, services.Retention)
	}
}

func TestAuthorsAreSpreadOverAllDegrees(t *testing.T) {
	g := graph{}
	for i := range 1000 {
		g.people = append(g.people, fmt.Sprint(i))
	}
	authors := g.authors(1)
	if len(authors) != everyoneAuthors || authors[0] != "0" || authors[99] != "981" {
		t.Errorf("%d authors, %s to %s", len(authors), authors[0], authors[len(authors)-1])
	}
	if authors = g.authors(50); len(authors) != everyoneAuthors || authors[49] != "49" || authors[50] != "50" || authors[99] != "981" {
		t.Errorf("%d authors, %v", len(authors), authors[49:])
	}
	g.people = g.people[:3]
	if authors = g.authors(1); len(authors) != 3 {
		t.Errorf("of three people %d publish", len(authors))
	}
}
