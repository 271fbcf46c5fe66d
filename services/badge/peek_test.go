package badge

import (
	"context"
	"slices"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/rdb"
)

// Peek returns the badges of an idle user, of one without a document and of an active one, and is no visit. ExplainNewest names the
// newest item of the count.
func TestPeekIsNoVisit(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		users := n.MakeUsers(3)
		big, reader, stranger := users[0], users[1], users[2]
		n.Follow(big, reader)
		n.SetMode(big, services.AuthorBig)
		n.RunAllJobs(n.World.Fanout)
		n.read(reader)
		left := n.Clock.Now()
		for range 3 {
			n.Clock.Advance(3 * 24 * time.Hour)
			n.Post(big)
			n.RunAllJobs(n.World.Fanout)
		}
		newest := n.Post(big)
		n.RunAllJobs(n.World.Fanout)
		peek := func(what string, want int) {
			t.Helper()
			badges, errs := n.Peek(t.Context(), []services.UserID{reader, stranger, 0}) // 0 is nobody
			if errs[0] != nil || errs[1] != nil || errs[2] != nil || badges[0].HomeFeed.Value != want || badges[1].Total.Value != 0 || badges[2].Total.Value != 0 {
				t.Errorf("%s: %+v, %v", what, badges, errs)
				return
			}
			n.checkInvariants(badges[0])
			found, err := n.ExplainNewest(t.Context(), reader, badges[0], []services.Source{services.SourceHomeFeed, services.SourceSiteMessages}, time.Time{})
			if err != nil || len(found) != 1 || found[0].Items[0].ID != services.GlobalID(services.PostType, newest.String()) {
				t.Errorf("%s: the newest item is %+v, %v", what, found, err)
			}
		}
		peek("of an idle user", 4)
		n.Must(n.Redis.ResetUserData(t.Context(), reader))
		peek("without a document", 4)
		if documents, err := n.Redis.Documents(t.Context(), []services.UserID{reader}); err != nil || documents[0].Ready {
			t.Errorf("a document was made because others looked: %v", err)
		}
		if n.isActiveFollower(big, reader, left.Add(time.Hour)) {
			t.Error("a user became active because others looked")
		}
		if got := n.read(reader).HomeFeed; got.Value != 4 {
			t.Errorf("the user returns to %+v", got)
		}
		peek("of an active user", 4)
	})
}

// When the host application reads the badges of users, no user becomes active by it and no document is made.
func TestReadForHostIsNoVisit(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		users := n.MakeUsers(3)
		big, reader, stranger := users[0], users[1], users[2]
		n.Follow(big, reader)
		n.SetMode(big, services.AuthorBig)
		n.RunAllJobs(n.World.Fanout)
		n.read(reader)
		left := n.Clock.Now()
		holds := func(what string, want int, precision services.Precision) {
			t.Helper()
			badges, errs := n.ReadForHost(t.Context(), []services.UserID{reader, stranger})
			if errs[0] != nil || errs[1] != nil || badges[0].HomeFeed.Value != want || badges[1].Total.Value != 0 {
				t.Errorf("%s: %+v, %v", what, badges, errs)
				return
			}
			if got := badges[0].HomeFeed; got.Precision != precision || precision == services.Stale && !got.AsOf().Equal(n.Clock.Now()) {
				t.Errorf("%s the count is %s as of %v, want %s", what, got.Precision, got.AsOf(), precision)
			}
		}
		n.Post(big)
		n.RunAllJobs(n.World.Fanout)
		holds("of an active user", 1, services.Exact)
		for i := range 3 {
			n.Clock.Advance(3 * 24 * time.Hour)
			n.Post(big)
			n.RunAllJobs(n.World.Fanout)
			if i == 0 {
				holds("of a user who came some days ago", 2, services.Exact)
				if _, err := n.WriteVisits(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
		holds("of an idle user", 4, services.Stale)
		n.Must(n.Redis.ResetUserData(t.Context(), reader))
		holds("without a document", 4, services.Stale)
		if documents, err := n.Redis.Documents(t.Context(), []services.UserID{reader}); err != nil || documents[0].Ready {
			t.Errorf("a document was made because the host looked: %v", err)
		}
		if n.isActiveFollower(big, reader, left.Add(time.Hour)) {
			t.Error("a user became active because the host looked")
		}
		before, _ := n.ReadForHost(t.Context(), []services.UserID{reader})
		if got := n.read(reader); got.HomeFeed.Value != 4 || got.Version <= before[0].Version {
			t.Errorf("the user returns to %+v, version %s after %s", got.HomeFeed, got.Version, before[0].Version)
		}
	})
}

// Peek returns no badges of a user if one of the sources cannot be counted: its callers compare badges, which must not be
// incomplete.
func TestPeekHasAllSourcesOrNone(t *testing.T) {
	n := redisServerNode(t)
	reader, stranger := n.MakeUsers(1)[0], n.MakeNeverSeenUsers(1)[0]
	n.breakSource("site messages", failAtOnce)
	badges, errs := n.Peek(t.Context(), []services.UserID{reader, stranger})
	if errs[0] != nil || badges[0] == nil || !services.IsUnavailable(errs[1]) || badges[1] != nil {
		t.Errorf("%+v, %v", badges, errs)
	}
}

// panickingSource is a source that panics when its facts are read.
type panickingSource struct{ Source }

func (panickingSource) Facts(context.Context, []services.UserID, int64, []rdb.Document) error {
	panic("while it counts")
}

// A source that panics in a goroutine of a read ends that read alone: the panic reaches the reader, who recovers it.
func TestAPanicOfASourceReachesItsReader(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		users := n.MakeUsers(2)
		for _, user := range users { // without a document, the facts are counted
			n.read(user)
			n.Must(n.Redis.ResetUserData(t.Context(), user))
		}
		n.Service.sources = slices.Clone(n.Service.sources)
		n.Service.sources[0] = panickingSource{n.Service.sources[0]}
		peek := func() (err error) {
			defer services.Recover(&err)
			n.Peek(t.Context(), users)
			return nil
		}
		if err := peek(); !services.IsPanic(err) {
			t.Errorf("the reader gets %v", err)
		}
	})
}
