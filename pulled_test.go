package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"tidings/services"
	"tidings/services/rdb/rdbtest"
	"tidings/services/store"
	"tidings/services/store/storetest"
)

// makeHuge pins authors' mode, so that their posts are pulled from now on.
func (n *node) makeHuge(keys ...string) {
	n.tb.Helper()
	numbers := n.numbersOf(keys...)
	err := n.store.Write(n.tb.Context(), func(tx *store.Tx) error {
		for _, number := range numbers {
			huge := services.AuthorHuge
			if _, err := tx.PutAuthor(n.tb.Context(), services.Author{Number: number, Mode: huge, Pinned: &huge}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		n.tb.Fatal(err)
	}
}

// feedWatch is an open subscription to homeFeedChanged.
type feedWatch struct {
	t    *testing.T
	conn *websocket.Conn
}

func (n *node) watchFeed(t *testing.T, as string) feedWatch {
	t.Helper()
	conn := n.dial(t)
	send(t, conn, `{"type":"connection_init","payload":{"authorization":"dev:`+as+`"}}`)
	send(t, conn, `{"id":"1","type":"subscribe","payload":{"query":`+
		quoted(`subscription{homeFeedChanged{newPosts{value} newestId authors{key} badges{version homeFeed{value}}}}`)+`}}`)
	return feedWatch{t, conn}
}

// tells waits for an event with so many new posts, which names the newest and its authors.
func (w feedWatch) tells(count int, newest string, authors ...string) {
	w.t.Helper()
	if err := w.conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		w.t.Fatal(err)
	}
	for last := ""; ; {
		_, text, err := w.conn.ReadMessage()
		if err != nil {
			w.t.Fatalf("%d new posts were not told of: %v; the last was %s", count, err, last)
		}
		last = string(text)
		var message struct {
			Type    string
			Payload struct {
				Data struct {
					HomeFeedChanged struct {
						NewPosts struct{ Value int }
						NewestID *string
						Authors  []struct{ Key string }
						Badges   struct{ HomeFeed struct{ Value int } }
					}
				}
			}
		}
		if err := json.Unmarshal(text, &message); err != nil || message.Type == "error" {
			w.t.Fatalf("%s: %v", text, err)
		}
		told := message.Payload.Data.HomeFeedChanged
		if message.Type != "next" || told.NewPosts.Value != count {
			continue
		}
		var keys []string
		for _, author := range told.Authors {
			keys = append(keys, author.Key)
		}
		if told.Badges.HomeFeed != told.NewPosts || (told.NewestID == nil) != (newest == "") || newest != "" && *told.NewestID != newest || !slices.Equal(keys, authors) {
			w.t.Errorf("told: %s, want %s of %v", text, newest, authors)
		}
		return
	}
}

// A post that is pulled is on every node: in the subscriptions that are open there, in the badges and on the page, also
// after Redis has lost everything.
func TestAPulledPostIsOnEveryNode(t *testing.T) {
	server := rdbtest.NewServer(t)
	p := startPair(t, server.URL(), nil)
	p.a.makeHuge("star")
	p.a.follow("reader", "star")
	p.b.follow("reader", "friend")
	feed, badges := p.b.watchFeed(t, "reader"), openWatch(t, p.b.url, "reader")
	feed.tells(0, "")
	first := p.a.publish("star", "one")
	feed.tells(1, first, "star")
	badges.shows(t, soon, 1, 0)
	if got := p.b.page("reader", 10, "", "").ids(); !slices.Equal(got, []string{first}) {
		t.Errorf("the page on the other node has %v", got)
	}
	second := p.a.publish("friend", "two")
	feed.tells(2, second, "friend", "star")
	server.Do("FLUSHALL")
	third := p.b.publish("star", "three")
	feed.tells(3, third, "star", "friend")
	eventually(t, 30*time.Second, "both nodes show the feed", func() bool {
		for _, n := range []*node{p.a, p.b} {
			if !slices.Equal(n.page("reader", 10, "", "").ids(), []string{third, second, first}) || n.badges("reader").HomeFeed.Value != 3 {
				return false
			}
		}
		return true
	})
	p.a.must("star", `mutation($p:ID!){deletePost(input:{postId:$p}){postId}}`, map[string]any{"p": third}, nil)
	feed.tells(2, second, "friend", "star")
	p.b.markFeedSeen("reader", "")
	feed.tells(0, "")
}

// Pages upwards, and what is not one.
func TestNewerThanThroughTheAPI(t *testing.T) {
	n := startNode(t, nodeOptions{database: storetest.SQLite(t), redis: "embedded", manual: true})
	n.follow("reader", "author")
	n.settle()
	var ids []string
	for i := range 5 {
		n.clock.advance(time.Minute)
		ids = append(ids, n.publish("author", fmt.Sprint(i)))
	}
	n.settle()
	query := `query($n:ID,$f:Int,$l:ID,$a:String){viewer{homeFeed(newerThan:$n,first:$f,lastId:$l,after:$a){
		edges{cursor node{id}} pageInfo{hasNextPage endCursor} lastId end building}}}`
	var got []string
	for than := ids[0]; ; {
		var data struct {
			Viewer struct {
				HomeFeed struct {
					feedPage
					Building bool
				}
			}
		}
		n.must("reader", query, map[string]any{"n": than, "f": 3}, &data)
		page := data.Viewer.HomeFeed
		got = append(got, page.ids()...)
		if page.End != nil || page.Building || page.LastID == nil {
			t.Fatalf("%+v", page)
		}
		if than = *page.LastID; !page.PageInfo.HasNextPage {
			break
		}
	}
	if !slices.Equal(got, ids[1:]) {
		t.Errorf("walked %v, want %v", got, ids[1:])
	}
	for what, variables := range map[string]map[string]any{
		"with lastId": {"n": ids[0], "l": ids[1]}, "with after": {"n": ids[0], "a": "x"}, "a user": {"n": "user:author"}, "no id": {"n": "x"},
		"no page": {"n": ids[0], "f": 0},
	} {
		got := n.ask("reader", query, variables)
		if got.code() != "INVALID" || what != "no page" && !strings.Contains(got.Errors[0].Message, "newerThan") {
			t.Errorf("%s: %+v", what, got.Errors)
		}
	}
}
