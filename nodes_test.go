package main

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"tidings/services/rdb/rdbtest"
	"tidings/services/store/storetest"
)

// soon is how long a change may take to a device on a machine that is busy with other tests; the promise is a second.
const soon = 5 * time.Second

// pair is two nodes on one PostgreSQL and one Redis.
type pair struct {
	t    *testing.T
	a, b *node
}

func startPair(t *testing.T, redis string, change func(*Config)) pair {
	t.Helper()
	database := storetest.Postgres(t)
	start := func(name string) *node {
		return startNode(t, nodeOptions{database: database, redis: redis, change: func(cfg *Config) {
			cfg.Node = name
			if change != nil {
				change(cfg)
			}
		}})
	}
	return pair{t: t, a: start("a"), b: start("b")}
}

// carries holds that what is done through one node is seen on a device at the other: posts, deletions, likes, marks and
// unfollows.
func carries(t *testing.T, here, there *node) {
	t.Helper()
	reader, author := here.cfg.Node+"-reader", there.cfg.Node+"-author"
	device, his := openWatch(t, there.url, reader), openWatch(t, here.url, author)
	second := openWatch(t, here.url, reader)
	shows := func(what string, feed int) {
		t.Helper()
		t.Log(what)
		device.shows(t, soon, feed, 0)
		second.shows(t, soon, feed, 0)
	}
	shows("nothing yet", 0)
	here.follow(reader, author)
	first := here.publish(author, "one")
	here.publish(author, "two")
	shows("two posts", 2)
	here.must(author, `mutation($p:ID!){deletePost(input:{postId:$p}){postId}}`, map[string]any{"p": first}, nil)
	shows("a deletion", 1)
	last := here.publish(author, "three")
	shows("another", 2)
	here.must(reader, `mutation($p:ID!){likePost(input:{postId:$p}){post{id}}}`, map[string]any{"p": last}, nil)
	his.shows(t, soon, 0, 1)
	here.markFeedSeen(reader, last)
	shows("a mark on another device", 0)
	here.publish(author, "four")
	shows("a post after the mark", 1)
	here.must(reader, `mutation($u:ID!){unfollow(input:{userId:$u}){user{id}}}`, map[string]any{"u": "user:" + author}, nil)
	shows("an unfollow", 0)
}

// A change through one node reaches the devices on both.
func TestNodesCarryToEachOther(t *testing.T) {
	for name, redis := range map[string]func(*testing.T) string{
		"redis":   func(t *testing.T) string { return rdbtest.Redis(t) },
		"cluster": func(t *testing.T) string { return rdbtest.Cluster(t) },
	} {
		t.Run(name, func(t *testing.T) {
			p := startPair(t, redis(t), nil)
			carries(t, p.a, p.b)
			carries(t, p.b, p.a)
		})
	}
	t.Run("one node, embedded", func(t *testing.T) {
		n := startNode(t, nodeOptions{database: storetest.SQLite(t), redis: "embedded", change: func(cfg *Config) { cfg.Node = "a" }})
		carries(t, n, n)
	})
}

// Not one hint arrives: no node may publish. The sweep alone must find every change.
func TestLostHintsHeal(t *testing.T) {
	server := rdbtest.NewServer(t)
	p := startPair(t, server.URL(), nil)
	p.a.follow("reader", "author")
	device := openWatch(t, p.b.url, "reader")
	device.shows(t, soon, 0, 0)
	server.Do("ACL", "SETUSER", "default", "-publish")
	for i := range 3 {
		p.a.publish("author", fmt.Sprint(i))
		device.shows(t, soon, i+1, 0)
	}
	if repairs := p.a.hub.Stats().Repairs + p.b.hub.Stats().Repairs; repairs == 0 {
		t.Error("the sweep has repaired nothing: the hints arrived after all")
	}
	server.Do("ACL", "SETUSER", "default", "+publish")
	p.a.publish("author", "told again")
	device.shows(t, soon, 4, 0)
}

// With a sweep that never comes in time, hints alone carry; and when their connection is cut, coming back is enough to
// see what was missed.
func TestHintsAloneAndTheirConnectionCut(t *testing.T) {
	server := rdbtest.NewServer(t)
	p := startPair(t, server.URL(), func(cfg *Config) { cfg.SweepInterval = time.Hour })
	p.a.follow("reader", "author")
	device := openWatch(t, p.b.url, "reader")
	device.shows(t, soon, 0, 0)
	// Without a sweep nobody renews the lease: the device has entered when hints reach it.
	for i := range 10 {
		if i%3 == 2 {
			server.Do("CLIENT", "KILL", "TYPE", "pubsub")
		}
		p.a.publish("author", fmt.Sprint(i))
		device.shows(t, soon, i+1, 0)
	}
}

// Jobs are shared by both nodes, and each has its effect once: many publish and like through either, at the same time.
func TestNodesShareJobs(t *testing.T) {
	p := startPair(t, rdbtest.Redis(t), nil)
	nodes := []*node{p.a, p.b}
	const authors, readers, posts = 4, 6, 10
	name := func(kind string, i int) string { return fmt.Sprintf("%s-%d", kind, i) }
	for reader := range readers {
		for author := range authors {
			nodes[reader%2].follow(name("reader", reader), name("author", author))
		}
	}
	ids := make([][]string, authors)
	var work sync.WaitGroup
	for author := range authors {
		work.Go(func() {
			for i := range posts {
				n := nodes[(author+i)%2]
				id := n.publish(name("author", author), fmt.Sprint(i))
				ids[author] = append(ids[author], id)
				nodes[i%2].must(name("reader", i%readers), `mutation($p:ID!){likePost(input:{postId:$p}){post{id}}}`, map[string]any{"p": id}, nil)
			}
		})
	}
	work.Wait()
	want := slices.Concat(ids...)
	slices.Sort(want)
	slices.Reverse(want)
	converge(t, convergence, func() error {
		for _, n := range nodes {
			for reader := range readers {
				if got := n.badges(name("reader", reader)); got.HomeFeed.Value != authors*posts {
					return fmt.Errorf("%s has %+v, want %d", name("reader", reader), got.HomeFeed, authors*posts)
				}
				if got := n.walk(name("reader", reader), 100); !slices.Equal(got, want) {
					return fmt.Errorf("%s lists %v, want %v", name("reader", reader), got, want)
				}
			}
			for author := range authors {
				if got := n.badges(name("author", author)); got.Notifications.Like.Value != posts {
					return fmt.Errorf("%s has %+v, want %d", name("author", author), got.Notifications.Like, posts)
				}
			}
		}
		return nil
	})
	converge(t, convergence, func() error {
		waiting, dead, _, err := p.a.store.JobCounts(t.Context())
		if err == nil && waiting+dead > 0 {
			err = fmt.Errorf("%d jobs wait, %d are dead", waiting, dead)
		}
		return err
	})
}

// What one node changes leaves the memory of the other: a deleted post, and a profile, also without Redis.
func TestNodesForgetWhatChanged(t *testing.T) {
	server := rdbtest.NewServer(t)
	p := startPair(t, server.URL(), nil)
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprintf("Redis away %t", away), func(t *testing.T) {
			author := fmt.Sprintf("author-%t", away)
			first, second := p.a.publish(author, "one"), p.a.publish(author, "two")
			seen := func(n *node, id string) (found bool, name string) {
				t.Helper()
				var data struct {
					Node *struct{ Author struct{ Name *string } }
				}
				n.must("reader", `query($p:ID!){node(id:$p){... on Post{author{name}}}}`, map[string]any{"p": id}, &data)
				if data.Node == nil {
					return false, ""
				}
				if data.Node.Author.Name != nil {
					name = *data.Node.Author.Name
				}
				return true, name
			}
			for _, n := range []*node{p.a, p.b} {
				for _, id := range []string{first, second} {
					if found, name := seen(n, id); !found || name != "" {
						t.Fatalf("at first %s: %t %q", id, found, name)
					}
				}
			}
			if away {
				server.Kill()
			}
			p.a.must(author, `mutation($p:ID!){deletePost(input:{postId:$p}){postId}}`, map[string]any{"p": first}, nil)
			p.a.must(author, `mutation{setProfile(input:{name:"New"}){user{name}}}`, nil, nil)
			if found, _ := seen(p.a, first); found {
				t.Error("the node that deleted the post shows it")
			}
			if _, name := seen(p.a, second); name != "New" {
				t.Errorf("the node that set the profile shows %q", name)
			}
			eventually(t, soon, "the other node has forgotten the post", func() bool {
				found, _ := seen(p.b, first)
				return !found
			})
			eventually(t, soon, "the other node shows the new name", func() bool {
				_, name := seen(p.b, second)
				return name == "New"
			})
		})
	}
}

// A node that goes away while there is work leaves it to the other, which goes on alone.
func TestOtherNodeTakesOver(t *testing.T) {
	p := startPair(t, rdbtest.Redis(t), nil)
	device := openWatch(t, p.b.url, "reader")
	p.a.follow("reader", "author")
	device.shows(t, soon, 0, 0)
	for i := range 20 {
		p.a.publish("author", fmt.Sprint(i))
	}
	p.a.stop()
	device.shows(t, convergence, 20, 0)
	p.b.publish("author", "by the other alone")
	device.shows(t, soon, 21, 0)
}

// With a log that is never read without a hint, what one node appends to it is in the other's memory all the same: shows that a
// job brings onto boards, their starts, announcements, edited posts.
func TestOtherNodesHearOfTheLogByHint(t *testing.T) {
	for name, redis := range map[string]func(*testing.T) string{
		"redis":   func(t *testing.T) string { return rdbtest.Redis(t) },
		"cluster": func(t *testing.T) string { return rdbtest.Cluster(t) },
	} {
		t.Run(name, func(t *testing.T) {
			p := startPair(t, redis(t), func(cfg *Config) { cfg.LogInterval = time.Hour })
			for _, order := range [][2]*node{{p.a, p.b}, {p.b, p.a}} {
				here, there := order[0], order[1]
				reader, host := here.cfg.Node+"-reader", here.cfg.Node+"-host"
				here.follow(reader, host)
				device := there.watchBoard(t, reader, "", "")
				device.tells("live[] ended[] moved[] gone[] above:0")
				show := here.schedule(host, "one", here.clock.Now().Add(time.Hour))
				device.tells("live[] ended[] moved[] gone[] above:1")
				here.onShow(host, "startShow", show)
				device.until("the start and its number", func(e boardEvent) bool { return len(e.WentLive) == 1 && e.LiveBoard.Value == 1 })
				post := here.publish(host, "body")
				body := func(n *node) string {
					var data struct{ Node struct{ Body string } }
					n.must(reader, `query($p:ID!){node(id:$p){... on Post{body}}}`, map[string]any{"p": post}, &data)
					return data.Node.Body
				}
				if got := body(there); got != "body" {
					t.Fatalf("the post is %q", got)
				}
				here.must(host, `mutation($p:ID!){editPost(input:{postId:$p,body:"edited"}){post{id}}}`, map[string]any{"p": post}, nil)
				eventually(t, convergence, "the other node shows the edited post", func() bool { return body(there) == "edited" })
				unread := func() int {
					var data struct{ Viewer struct{ Badges badges } }
					there.must(reader, `{viewer{badges{announcements{value}}}}`, nil, &data)
					return data.Viewer.Badges.Announcements.Value
				}
				before := unread()
				here.announce(map[string]any{"title": "news"})
				eventually(t, convergence, "the other node counts the announcement", func() bool { return unread() == before+1 })
			}
		})
	}
}
