package erasures

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"tidings/services/erase"
	"tidings/services/fanout/fanouttest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// manyErasuresWorld is a node on SQLite whose users have notes. Its file is so large that a scrub takes several parts.
type manyErasuresWorld struct {
	*erasureWorld
	databaseFile string       // the path of the database's file
	serverLog    bytes.Buffer // the server's log
	erasures     []Erasure    // of all users, as they were when they began
}

// newManyErasuresWorld makes a node with this many users, and begins to erase all of them.
func newManyErasuresWorld(t *testing.T, users int) *manyErasuresWorld {
	t.Helper()
	url := sqltest.SQLite(t)
	c := &manyErasuresWorld{databaseFile: strings.TrimPrefix(url, "sqlite:")}
	c.erasureWorld = newErasureWorld(t, fanouttest.Options{SQLURL: url, RedisURL: "embedded"}, erase.DeleteRows("notes", "notes", "user_number", "id"))
	c.cfg.Logger = slog.New(slog.NewTextHandler(&c.serverLog, nil))
	keys := make([]string, users)
	for i := range keys {
		keys[i] = fmt.Sprintf("parting-%03d", i)
	}
	ids := c.MakeNamedUsers(keys...)
	c.Write(func(ctx context.Context, tx *sql.Tx) error {
		texts := []string{
			`CREATE TABLE notes (id INTEGER PRIMARY KEY, user_number INTEGER NOT NULL, text TEXT NOT NULL)`,
			`CREATE TABLE large (data BLOB)`, `INSERT INTO large VALUES (randomblob(9000000))`,
		}
		for _, id := range ids {
			texts = append(texts, fmt.Sprintf(`INSERT INTO notes (user_number, text) VALUES (%d, 'a secret of %d')`, id, id))
		}
		for _, text := range texts {
			if _, err := sqltest.QueryLines(ctx, tx, text); err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
		}
		return nil
	})
	for _, key := range keys {
		erasure, err := c.Begin(t.Context(), key)
		c.Must(err)
		c.erasures = append(c.erasures, erasure)
	}
	return c
}

// countUnfinished returns how many erasures go on.
func (c *manyErasuresWorld) countUnfinished() (left int) {
	c.TB.Helper()
	for _, erasure := range c.erasures {
		now, _, err := c.ByName(c.TB.Context(), erasure.Name)
		if c.Must(err); !now.Done() {
			left++
		}
	}
	return left
}

// runAllToEnd runs the due jobs, second by second, until all users are erased. It calls beforeEachSecond before each further
// second.
func (c *manyErasuresWorld) runAllToEnd(beforeEachSecond func()) {
	c.TB.Helper()
	for range 300 {
		c.RunDueJobs(c.Fanout)
		if c.countUnfinished() == 0 {
			return
		}
		beforeEachSecond()
		c.Clock.Advance(time.Second)
	}
	c.TB.Fatalf("%d erasures do not end", c.countUnfinished())
}

// countEndedScrubRounds returns how many rounds over the file have ended.
func (c *manyErasuresWorld) countEndedScrubRounds() int {
	return strings.Count(c.serverLog.String(), "a round over the database's file has ended")
}

// assertNoUserDataLeft checks that the file and its log have nothing of the users, and that the server logged no warning.
func (c *manyErasuresWorld) assertNoUserDataLeft() {
	c.TB.Helper()
	for _, name := range []string{c.databaseFile, c.databaseFile + "-wal"} {
		data, err := os.ReadFile(name)
		c.Must(err)
		for _, text := range []string{"a secret of", "parting-"} {
			if at := bytes.Index(data, []byte(text)); at >= 0 {
				c.TB.Errorf("%s has %q", name, data[at:min(at+20, len(data))])
			}
		}
	}
	if text := c.serverLog.String(); strings.Contains(text, "level=WARN") {
		c.TB.Errorf("the log says %s", text)
	}
}

// Concurrent erasures share the rounds over the file: twenty need the two rounds that one erasure needs, and at most two more for
// the erasures that came too late for the first round.
func TestErasuresShareRounds(t *testing.T) {
	c := newManyErasuresWorld(t, 20)
	c.runAllToEnd(func() {})
	c.assertNoUserDataLeft()
	if rounds := c.countEndedScrubRounds(); rounds < 2 || rounds > 4 {
		t.Errorf("%d rounds", rounds)
	}
}

// An erasure that comes to the scrub during a round is served by the next round, and not by the round in progress.
func TestAnErasureWaitsForTheNextRound(t *testing.T) {
	c := newManyErasuresWorld(t, 2)
	comes := func(erasure string) {
		c.Write(func(ctx context.Context, tx *sql.Tx) error {
			_, err := sqltest.QueryLines(ctx, tx, fmt.Sprintf(`UPDATE erasures SET step = '%s' WHERE id = '%s'`, stepScrubFile, erasure))
			return err
		})
	}
	first, second := erasureProgress{id: c.erasures[0].Name, step: stepScrubFile}, erasureProgress{id: c.erasures[1].Name, step: stepScrubFile}
	comes(first.id)
	if wait, err := c.joinScrubRound(t.Context(), first); err != nil || wait > 0 {
		t.Fatalf("the first waits for %v, %v", wait, err)
	}
	comes(second.id)
	if wait, err := c.joinScrubRound(t.Context(), second); err != nil || wait == 0 {
		t.Errorf("the second waits for %v, %v", wait, err)
	}
	if serves := c.erasuresOfRound(first.id); len(serves) != 1 || serves[0] != first.id {
		t.Errorf("the round serves %q", serves)
	}
	c.Clock.Advance(2 * scrubRoundStaleAfter)
	if wait, err := c.joinScrubRound(t.Context(), second); err != nil || wait == 0 {
		t.Errorf("while a part takes long the second waits for %v, %v", wait, err)
	}
	c.pauseScrubRound(first.id)
	c.Clock.Advance(scrubRoundStaleAfter / 2)
	if wait, err := c.joinScrubRound(t.Context(), second); err != nil || wait == 0 {
		t.Errorf("between two parts the second waits for %v, %v", wait, err)
	}
	c.endScrubRound(first.id, stepScrubFile)
	if wait, err := c.joinScrubRound(t.Context(), second); err != nil || wait > 0 {
		t.Errorf("after the round the second waits for %v, %v", wait, err)
	}
}

// A node that restarts in the middle of a round forgets the round: its leader ends the step alone, and the other erasures have a
// new round. A round that stands still because its job has died is taken over after a while.
func TestErasuresEndDespiteALostRound(t *testing.T) {
	c := newManyErasuresWorld(t, 5)
	restarts := 0
	c.runAllToEnd(func() {
		if c.scrubState.round.leaderErasure != "" {
			restarts++
			c.scrubState.round = scrubRound{}
		}
	})
	c.assertNoUserDataLeft()

	c = newManyErasuresWorld(t, 3)
	began := c.Clock.Now()
	c.scrubState.round = scrubRound{leaderErasure: "of a job that died", began: began, lastPartEndedAt: began.Add(time.Minute)}
	c.runAllToEnd(func() {})
	c.assertNoUserDataLeft()
	if took := c.Clock.Now().Sub(began); took < time.Minute {
		t.Errorf("a round that stands still was taken over after %v", took)
	}
}
