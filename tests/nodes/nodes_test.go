package nodes

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"tidings/services/jobs"
	"tidings/services/node"
	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// checkChangesReachBothNodes checks that changes made through the node here reach badge subscriptions on both nodes. The reader's
// count of new posts follows posts, a deletion, a mark of the feed as seen and an unfollow. The author's badges show a like.
func checkChangesReachBothNodes(t *testing.T, here, there *world.Node) {
	t.Helper()
	reader, author := here.Config.Node+"-reader", there.Config.Node+"-author"
	device, authorDevice := world.OpenBadgeSubscription(t, there.URL, reader), world.OpenBadgeSubscription(t, here.URL, author)
	second := world.OpenBadgeSubscription(t, here.URL, reader)
	shows := func(what string, feed int) {
		t.Helper()
		t.Log(what)
		device.WaitCounts(t, world.DeviceUpdateTimeout, feed, 0)
		second.WaitCounts(t, world.DeviceUpdateTimeout, feed, 0)
	}
	shows("nothing yet", 0)
	here.Follow(reader, author)
	first := here.Publish(author, "one")
	here.Publish(author, "two")
	shows("two posts", 2)
	here.MustAsk(author, `mutation($p:ID!){deletePost(input:{postId:$p}){postId}}`, map[string]any{"p": first}, nil)
	shows("a deletion", 1)
	last := here.Publish(author, "three")
	shows("another", 2)
	here.MustAsk(reader, `mutation($p:ID!){likePost(input:{postId:$p}){post{id}}}`, map[string]any{"p": last}, nil)
	authorDevice.WaitCounts(t, world.DeviceUpdateTimeout, 0, 1)
	here.MarkFeedSeen(reader, last)
	shows("a mark on another device", 0)
	here.Publish(author, "four")
	shows("a post after the mark", 1)
	here.MustAsk(reader, `mutation($u:ID!){unfollow(input:{userId:$u}){user{id}}}`, map[string]any{"u": "user:" + author}, nil)
	shows("an unfollow", 0)
}

// A change through one node reaches the devices on both nodes.
func TestNodesProjectForEachOther(t *testing.T) {
	for name, redis := range map[string]func(*testing.T) string{
		"redis":   func(t *testing.T) string { return redistest.Redis(t) },
		"cluster": func(t *testing.T) string { return redistest.Cluster(t) },
	} {
		t.Run(name, func(t *testing.T) {
			p := world.StartNodePair(t, redis(t), nil)
			checkChangesReachBothNodes(t, p.A, p.B)
			checkChangesReachBothNodes(t, p.B, p.A)
		})
	}
	t.Run("one node, embedded", func(t *testing.T) {
		n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ChangeConfig: func(cfg *node.Config) { cfg.Node = "a" }})
		checkChangesReachBothNodes(t, n, n)
	})
}

// No hint arrives, because Redis forbids the nodes to publish messages. The reconciliation alone must find every change.
func TestReconciliationFindsChangesOfLostHints(t *testing.T) {
	server := redistest.NewServer(t)
	p := world.StartNodePair(t, server.URL(), nil)
	p.A.Follow("reader", "author")
	device := world.OpenBadgeSubscription(t, p.B.URL, "reader")
	device.WaitCounts(t, world.DeviceUpdateTimeout, 0, 0)
	server.Do("ACL", "SETUSER", "default", "-publish")
	for i := range 3 {
		p.A.Publish("author", fmt.Sprint(i))
		device.WaitCounts(t, world.DeviceUpdateTimeout, i+1, 0)
	}
	if repairs := p.A.Hub.Stats().UsersRepaired + p.B.Hub.Stats().UsersRepaired; repairs == 0 {
		t.Error("reconciliation has repaired nothing: the hints arrived after all")
	}
	server.Do("ACL", "SETUSER", "default", "+publish")
	p.A.Publish("author", "told again")
	device.WaitCounts(t, world.DeviceUpdateTimeout, 4, 0)
}

// With the reconciliation off, hints alone notify the devices. After the connection for hints is cut, the reconnection alone must
// show the missed changes.
func TestHintsAloneAndTheirConnectionCut(t *testing.T) {
	server := redistest.NewServer(t)
	p := world.StartNodePair(t, server.URL(), func(cfg *node.Config) { cfg.Push.ReconcileInterval = time.Hour })
	p.A.Follow("reader", "author")
	device := world.OpenBadgeSubscription(t, p.B.URL, "reader")
	device.WaitCounts(t, world.DeviceUpdateTimeout, 0, 0)
	// Without the reconciliation nothing renews the lease of the watched user. The device gets changes only while hints for its user
	// are still sent to the node of the device.
	for i := range 10 {
		if i%3 == 2 {
			server.Do("CLIENT", "KILL", "TYPE", "pubsub")
		}
		p.A.Publish("author", fmt.Sprint(i))
		device.WaitCounts(t, world.DeviceUpdateTimeout, i+1, 0)
	}
}

// Both nodes share the jobs, and each job has its effect once: many users publish and like through either node at the same
// time.
func TestJobsOfTwoNodesTakeEffectOnce(t *testing.T) {
	p := world.StartNodePair(t, redistest.Redis(t), nil)
	nodes := []*world.Node{p.A, p.B}
	const authors, readers, posts = 4, 6, 10
	name := func(kind string, i int) string { return fmt.Sprintf("%s-%d", kind, i) }
	for reader := range readers {
		for author := range authors {
			nodes[reader%2].Follow(name("reader", reader), name("author", author))
		}
	}
	ids := make([][]string, authors)
	var work sync.WaitGroup
	for author := range authors {
		work.Go(func() {
			for i := range posts {
				n := nodes[(author+i)%2]
				id := n.Publish(name("author", author), fmt.Sprint(i))
				ids[author] = append(ids[author], id)
				nodes[i%2].MustAsk(name("reader", i%readers), `mutation($p:ID!){likePost(input:{postId:$p}){post{id}}}`, map[string]any{"p": id}, nil)
			}
		})
	}
	work.Wait()
	want := slices.Concat(ids...)
	slices.Sort(want)
	slices.Reverse(want)
	world.EventuallySucceeds(t, world.RedisLossRecoveryTimeout, func() error {
		for _, n := range nodes {
			for reader := range readers {
				if got := n.Badges(name("reader", reader)); got.HomeFeed.Value != authors*posts {
					return fmt.Errorf("%s has %+v, want %d", name("reader", reader), got.HomeFeed, authors*posts)
				}
				if got := n.ReadWholeFeed(name("reader", reader), 100); !slices.Equal(got, want) {
					return fmt.Errorf("%s lists %v, want %v", name("reader", reader), got, want)
				}
			}
			for author := range authors {
				if got := n.Badges(name("author", author)); got.Notifications.Like.Value != posts {
					return fmt.Errorf("%s has %+v, want %d", name("author", author), got.Notifications.Like, posts)
				}
			}
		}
		return nil
	})
	world.EventuallySucceeds(t, world.RedisLossRecoveryTimeout, func() error {
		waiting, dead, _, err := jobs.JobCounts(t.Context(), p.A.DB)
		if err == nil && waiting+dead > 0 {
			err = fmt.Errorf("%d jobs wait, %d are dead", waiting, dead)
		}
		return err
	})
}

// A change through one node removes the old state from the other node's cache: a deleted post, and a changed profile. This holds
// also while Redis is down.
func TestAChangeInvalidatesTheOtherNodesCache(t *testing.T) {
	server := redistest.NewServer(t)
	p := world.StartNodePair(t, server.URL(), nil)
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprintf("Redis away %t", away), func(t *testing.T) {
			author := fmt.Sprintf("author-%t", away)
			first, second := p.A.Publish(author, "one"), p.A.Publish(author, "two")
			seen := func(n *world.Node, id string) (found bool, name string) {
				t.Helper()
				var data struct {
					Node *struct{ Author struct{ Name *string } }
				}
				n.MustAsk("reader", `query($p:ID!){node(id:$p){... on Post{author{name}}}}`, map[string]any{"p": id}, &data)
				if data.Node == nil {
					return false, ""
				}
				if data.Node.Author.Name != nil {
					name = *data.Node.Author.Name
				}
				return true, name
			}
			for _, n := range []*world.Node{p.A, p.B} {
				for _, id := range []string{first, second} {
					if found, name := seen(n, id); !found || name != "" {
						t.Fatalf("at first %s: %t %q", id, found, name)
					}
				}
			}
			if away {
				server.Kill()
			}
			p.A.MustAsk(author, `mutation($p:ID!){deletePost(input:{postId:$p}){postId}}`, map[string]any{"p": first}, nil)
			p.A.MustAsk(author, `mutation{setProfile(input:{name:"New"}){user{name}}}`, nil, nil)
			if found, _ := seen(p.A, first); found {
				t.Error("the node that deleted the post shows it")
			}
			if _, name := seen(p.A, second); name != "New" {
				t.Errorf("the node that set the profile shows %q", name)
			}
			world.Eventually(t, world.DeviceUpdateTimeout, "the other node has forgotten the post", func() bool {
				found, _ := seen(p.B, first)
				return !found
			})
			world.Eventually(t, world.DeviceUpdateTimeout, "the other node shows the new name", func() bool {
				_, name := seen(p.B, second)
				return name == "New"
			})
		})
	}
}

// A node that stops during work leaves the work to the other node, which continues alone.
func TestOtherNodeTakesOver(t *testing.T) {
	p := world.StartNodePair(t, redistest.Redis(t), nil)
	device := world.OpenBadgeSubscription(t, p.B.URL, "reader")
	p.A.Follow("reader", "author")
	device.WaitCounts(t, world.DeviceUpdateTimeout, 0, 0)
	for i := range 20 {
		p.A.Publish("author", fmt.Sprint(i))
	}
	p.A.Stop()
	device.WaitCounts(t, world.RedisLossRecoveryTimeout, 20, 0)
	p.B.Publish("author", "by the other alone")
	device.WaitCounts(t, world.DeviceUpdateTimeout, 21, 0)
}

// Even if a node reads the changelog only after hints, entries that one node writes reach the node cache of the other: shows that a
// job brings onto boards, their starts, announcements, edited posts.
func TestOtherNodesReadTheLogAfterAHint(t *testing.T) {
	for name, redis := range map[string]func(*testing.T) string{
		"redis":   func(t *testing.T) string { return redistest.Redis(t) },
		"cluster": func(t *testing.T) string { return redistest.Cluster(t) },
	} {
		t.Run(name, func(t *testing.T) {
			p := world.StartNodePair(t, redis(t), func(cfg *node.Config) { cfg.Changelog.PollInterval = time.Hour })
			for _, order := range [][2]*world.Node{{p.A, p.B}, {p.B, p.A}} {
				here, there := order[0], order[1]
				reader, host := here.Config.Node+"-reader", here.Config.Node+"-host"
				here.Follow(reader, host)
				device := there.SubscribeToBoard(t, reader, "", "")
				device.WaitEventWithShortForm("live[] ended[] moved[] gone[] above:0")
				show := here.ScheduleShow(host, "one", here.Clock.Now().Add(time.Hour))
				device.WaitEventWithShortForm("live[] ended[] moved[] gone[] above:1")
				here.MutateShow(host, "startShow", show)
				device.WaitEvent("the start and its number", func(e world.BoardEvent) bool { return len(e.WentLive) == 1 && e.LiveBoard.Value == 1 })
				post := here.Publish(host, "body")
				body := func(n *world.Node) string {
					var data struct{ Node struct{ Body string } }
					n.MustAsk(reader, `query($p:ID!){node(id:$p){... on Post{body}}}`, map[string]any{"p": post}, &data)
					return data.Node.Body
				}
				if got := body(there); got != "body" {
					t.Fatalf("the post is %q", got)
				}
				here.MustAsk(host, `mutation($p:ID!){editPost(input:{postId:$p,body:"edited"}){post{id}}}`, map[string]any{"p": post}, nil)
				world.Eventually(t, world.RedisLossRecoveryTimeout, "the other node shows the edited post", func() bool { return body(there) == "edited" })
				unread := func() int {
					var data struct{ Viewer struct{ Badges world.Badges } }
					there.MustAsk(reader, `{viewer{badges{announcements{value}}}}`, nil, &data)
					return data.Viewer.Badges.Announcements.Value
				}
				before := unread()
				here.Announce(map[string]any{"title": "news"})
				world.Eventually(t, world.RedisLossRecoveryTimeout, "the other node counts the announcement", func() bool { return unread() == before+1 })
			}
		})
	}
}
