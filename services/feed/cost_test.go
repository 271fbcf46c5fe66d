package feed

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/people"
	"tidings/services/sql"
)

// statementLog records the names of the SQL statements that ran. It is safe for concurrent use.
type statementLog struct {
	mu    sync.Mutex // guards names
	names []string   // since the last takeNames
}

// addName adds the name of a statement.
func (s *statementLog) addName(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = append(s.names, name)
}

// takeNames returns the names since the last call.
func (s *statementLog) takeNames() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.names
	s.names = nil
	return taken
}

// A post's transaction runs the same statements for any number of followers: none of them reads followers. A pulled post adds two
// statements for the changelog, and one for the version of its author.
func TestPublishingCostsTheSameWhoeverPublishes(t *testing.T) {
	asked := &statementLog{}
	w := fanouttest.New(t, fanouttest.Options{RedisURL: "embedded", Trace: asked.addName})
	n := newNode(w)
	users := n.MakeUsers(3)
	small, big, huge := users[0], users[1], users[2]
	synthetic := func(author services.UserID, count int) {
		for first := 0; first < count; first += 10_000 {
			n.Write(func(ctx context.Context, tx *sql.Tx) error {
				edges := make([]services.FollowEdge, min(10_000, count-first))
				for i := range edges {
					edges[i] = services.FollowEdge{Follower: services.UserID(1000 + first + i), Followee: author}
				}
				_, err := people.ImportFollows(ctx, tx, edges)
				return err
			})
		}
	}
	synthetic(small, 10)
	synthetic(big, 100_000)
	synthetic(huge, 100_000)
	n.SetMode(big, services.AuthorBig)
	n.SetMode(huge, services.AuthorHuge)
	statements := func(author services.UserID) []string {
		cmd, err := n.Publish(author, Draft{Body: "a post"})
		n.Must(err)
		asked.takeNames()
		n.Must(n.DB.Write(t.Context(), func(tx *sql.Tx) error {
			_, err := cmd.Apply(t.Context(), tx)
			return err
		}))
		return asked.takeNames()
	}
	ofSmall, ofBig, ofHuge := statements(small), statements(big), statements(huge)
	if len(ofSmall) == 0 || !slices.Equal(ofSmall, ofBig) {
		t.Errorf("with 10 followers SQL is asked %q, with 100,000 %q", ofSmall, ofBig)
	}
	logged := []string{"raise a log's last sequence", "append to the log", "set the version of an author's pulled posts"}
	pulled := slices.DeleteFunc(slices.Clone(ofHuge), func(name string) bool { return slices.Contains(logged, name) })
	if !slices.Equal(pulled, ofSmall) || len(ofHuge) != len(ofSmall)+len(logged) {
		t.Errorf("of a huge author SQL is asked %q, of a small one %q", ofHuge, ofSmall)
	}
}

// A user who was idle sees on their first page the posts that were not pushed to them, and is active afterwards.
func TestThePageOfAReturningUserIsComplete(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		author, reader := n.newAuthorAndReader()
		n.SetMode(author, services.AuthorBig)
		n.publish(author, "before they left")
		n.RunAllJobs(n.fan)
		n.Clock.Advance(10 * 24 * time.Hour)
		n.publish(author, "while they were away")
		n.RunAllJobs(n.fan)
		if entries := n.Inbox(reader); len(entries) != 1 {
			t.Fatalf("a big author's post was pushed to somebody idle: %v", entries)
		}
		if got := n.feedBodies(reader); !slices.Equal(got, []string{"while they were away", "before they left"}) {
			t.Errorf("who returns is shown %q", got)
		}
		n.CheckAgainstFacts(reader)
		n.publish(author, "now")
		n.RunAllJobs(n.fan)
		if entries := n.Inbox(reader); len(entries) != 3 {
			t.Errorf("who has returned is pushed to again: %v", entries)
		}
	})
}
