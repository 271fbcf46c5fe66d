package rdb

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/redis"
	"tidings/services/redis/redistest"
	"tidings/tests/eventually"
)

// readsRefusedWithWrites are the reads whose results are not trusted while Redis refuses writes.
var readsRefusedWithWrites = map[string]func(context.Context, *Projections) error{
	"documents": func(ctx context.Context, c *Projections) error {
		_, err := c.Documents(ctx, []services.UserID{reader, otherUser})
		return err
	},
	"versions": func(ctx context.Context, c *Projections) error {
		_, err := c.DocumentVersions(ctx, []services.UserID{reader})
		return err
	},
	"a page": func(ctx context.Context, c *Projections) error { _, err := c.Inbox(ctx, reader, 9, 9); return err },
	"copies": func(ctx context.Context, c *Projections) error {
		_, _, err := c.Copies(ctx, []services.PostID{1}, nil)
		return err
	},
	"snapshots": func(ctx context.Context, c *Projections) error {
		_, err := c.ReadUserSnapshots(ctx, []services.UserID{reader})
		return err
	},
}

// wantReadsAnswered checks that every read is answered, or that every read is UNAVAILABLE.
func (v feedTest) wantReadsAnswered(answered bool, when string) {
	v.Helper()
	for name, read := range readsRefusedWithWrites {
		if err := read(v.Context(), v.projections); (err == nil) != answered || err != nil && !services.IsUnavailable(err) {
			v.Errorf("%s, %s: %v", when, name, err)
		}
	}
}

func TestReadsFailWhileWritesAreRefused(t *testing.T) {
	servers := map[string]func(t *testing.T) (string, []*redistest.Server){
		"single": func(t *testing.T) (string, []*redistest.Server) {
			server := redistest.NewServer(t)
			return server.URL(), []*redistest.Server{server}
		},
		"cluster": func(t *testing.T) (string, []*redistest.Server) { return redistest.ClusterServers(t) },
	}
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			url, servers := start(t)
			log := &redistest.LogRecorder{}
			v, onlyReads := feedTest{t, openProjections(t, redis.Options{URL: url, Log: log.Log()})}, feedTest{t, openProjections(t, redis.Options{URL: url})}
			v.buildFromFacts(FeedFacts{Entries: makeEntries(1, 3, countedEntry)})
			v.wantReadsAnswered(true, "at first")
			full := servers[len(servers)-1]
			full.Do("CONFIG", "SET", "maxmemory", "100kb")
			users := make([]services.UserID, 200) // enough that some are on the master that is full
			for i := range users {
				users[i] = services.UserID(i)
			}
			if err := v.projections.Presence.WriteOnlineLeases(t.Context(), users, time.Minute); !services.IsUnavailable(err) || !v.projections.Client.RefusesWrites() {
				t.Fatalf("a write: %v, refused %v", err, v.projections.Client.RefusesWrites())
			}
			v.wantReadsAnswered(false, "after a refusal")
			onlyReads.wantReadsAnswered(true, "before its probe")
			if err := onlyReads.projections.Client.CheckWrites(t.Context()); !services.IsUnavailable(err) {
				t.Errorf("a probe of a full Redis: %v", err)
			}
			onlyReads.wantReadsAnswered(false, "after its probe")

			full.Do("CONFIG", "SET", "maxmemory", "0")
			v.must(v.projections.Client.CheckWrites(t.Context()))
			v.wantReadsAnswered(false, "after one probe that was taken")
			full.Do("CONFIG", "SET", "maxmemory", "100kb")
			_ = v.projections.Client.CheckWrites(t.Context())
			full.Do("CONFIG", "SET", "maxmemory", "0")
			v.must(v.projections.Client.CheckWrites(t.Context()))
			v.wantReadsAnswered(false, "after one probe since the last refusal")
			v.must(v.projections.Client.CheckWrites(t.Context()))
			v.wantReadsAnswered(true, "after two")
			if text := log.String(); strings.Count(text, "Redis refuses writes") != 1 || strings.Count(text, "accepts writes again") != 1 {
				t.Errorf("the log: %s", text)
			}
		})
	}
}

// Open detects a replica. Once it is a master, probes find that it accepts writes, and it is trusted.
func TestRefusedWritesAreDetectedAtOpen(t *testing.T) {
	server := redistest.NewServer(t)
	server.Do("REPLICAOF", "127.0.0.1", "1")
	v := feedTest{t, openProjections(t, redis.Options{URL: server.URL()})}
	v.wantReadsAnswered(false, "of a replica")
	server.Do("REPLICAOF", "NO", "ONE")
	eventually.Succeeds(t, 10*time.Second, "it is trusted", func() error {
		if err := v.projections.Client.CheckWrites(t.Context()); err != nil {
			return err
		}
		if v.projections.Client.RefusesWrites() {
			return fmt.Errorf("not yet")
		}
		return nil
	})
}
