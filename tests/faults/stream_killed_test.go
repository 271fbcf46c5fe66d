package faults

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
	"tidings/tests/world"
)

// A node is killed again and again while it writes the change stream, runs jobs and marks the users whose badges may have changed. A
// reader follows the stream through the other node: no version of a user falls, and once all jobs are done each user's last change equals
// their badges.
func TestNodesKilledWriteEveryChange(t *testing.T) {
	database, redis := sqltest.Postgres(t), redistest.Redis(t)
	start := func(name string) *world.Process {
		return world.StartServingProcess(t, "", "--database", database, "--redis", redis, "--node", name, "--rate-limits", "off",
			"--changes", "--changes-interval", "20ms", "--changes-lap", "24h")
	}
	stays, dies := start("stays"), start("dies")
	keys := []string{"ann", "bob", "cat", "dan", "eve", "fay"}
	posts := make([]string, len(keys))
	for i, key := range keys {
		var data struct {
			PublishPost struct{ Post struct{ ID string } }
		}
		if err := world.Ask(stays.URL, key, `mutation{publishPost(input:{body:"a post"}){post{id}}}`, nil, &data); err != nil {
			t.Fatal(err)
		}
		posts[i] = data.PublishPost.Post.ID
	}
	var url atomic.Pointer[string]
	url.Store(&dies.URL)
	stop := make(chan struct{})
	var acting sync.WaitGroup
	for actor := range 3 {
		random := rand.New(rand.NewPCG(7, uint64(actor)))
		acting.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				me, post := keys[random.IntN(len(keys))], posts[random.IntN(len(posts))]
				verb := []string{`mutation($p:ID!){likePost(input:{postId:$p}){post{id}}}`, `mutation($p:ID!){unlikePost(input:{postId:$p}){post{id}}}`}[random.IntN(2)]
				_ = world.Ask(*url.Load(), me, verb, map[string]any{"p": post}, nil) // fails while the node is dead
			}
		})
	}
	reader := &world.ChangesReader{}
	for range histories.ShortOrFull(t, 4, 15) {
		for range 8 {
			if err := reader.ReadToEnd(stays.URL); err != nil {
				t.Fatal(err)
			}
		}
		dies.Kill()
		dies.WaitExit(10 * time.Second)
		dies = start("dies")
		url.Store(&dies.URL)
	}
	close(stop)
	acting.Wait()
	world.EventuallySucceeds(t, 30*time.Second, func() error {
		if err := reader.ReadToEnd(stays.URL); err != nil {
			return err
		}
		for _, key := range keys {
			var data struct{ Viewer struct{ Badges world.Badges } }
			if err := world.Ask(stays.URL, key, `{viewer{badges{`+world.BadgeFields+`}}}`, nil, &data); err != nil {
				return err
			}
			if err := reader.LastByKey[key].CheckAgainst(data.Viewer.Badges); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
		return nil
	})
}
