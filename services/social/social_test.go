package social

import (
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/notifications/notificationstest"
	"tidings/services/people"
)

// testNode is the social service of one node on real engines.
type testNode struct {
	*fanouttest.World
	service *Service
}

// maxPeoplePerList is each limit of these tests: of followees, mutes, blocks and hides.
const maxPeoplePerList = 3

// newNode makes the service on the engines of a world.
func newNode(w *fanouttest.World) testNode {
	return testNode{w, New(Config{DB: w.DB, People: w.Caches.People, Projector: w.Projector, Fanout: w.Fanout.Fanout, IDs: w.IDs, Notifications: notificationstest.New(w),
		Settings: Settings{MaxFollowees: maxPeoplePerList, MaxMutes: maxPeoplePerList, MaxBlocks: maxPeoplePerList, MaxHides: maxPeoplePerList}})}
}

// eachNode runs a test on both engine pairs.
func eachNode(t *testing.T, test func(t *testing.T, n testNode)) {
	t.Helper()
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) { test(t, newNode(w)) })
}

// commitCommand commits a command, a second after the last one.
func (n testNode) commitCommand(cmd *jobs.Command) error {
	n.TB.Helper()
	n.Clock.Advance(time.Second)
	return n.Fanout.Commit(n.TB.Context(), cmd)[0]
}

// wantCode checks that a command fails with a code.
func (n testNode) wantCode(what string, cmd *jobs.Command, code services.Code) {
	n.TB.Helper()
	if err := n.commitCommand(cmd); services.CodeOf(err) != code {
		n.TB.Errorf("%s: %v, want %s", what, err, code)
	}
}

// wantUnchanged checks that a command succeeds and changes nothing.
func (n testNode) wantUnchanged(what string, cmd *jobs.Command) {
	n.TB.Helper()
	if err := n.commitCommand(cmd); err != nil || cmd.Changed() {
		n.TB.Errorf("%s: %v, changed %t", what, err, cmd.Changed())
	}
}

// The feed shows a follow and its end before the command is answered.
func TestAFollowIsSeenAtOnce(t *testing.T) {
	eachNode(t, func(t *testing.T, n testNode) {
		users := n.MakeUsers(2)
		author, reader := users[0], users[1]
		n.Post(author)
		n.RunAllJobs(n.Fanout)
		for range 3 {
			n.Must(n.commitCommand(n.service.Follow(reader, author)))
			n.CheckAgainstFacts(reader)
			if entries := n.Inbox(reader); len(entries) != 1 || entries[0].CountsAsNew {
				t.Errorf("after the follow: %+v; what is older is listed and does not count", entries)
			}
			n.Must(n.commitCommand(n.service.Unfollow(reader, author)))
			n.CheckAgainstFacts(reader)
			if entries := n.Inbox(reader); len(entries) != 0 {
				t.Errorf("after the unfollow: %+v", entries)
			}
		}
		n.RunAllJobs(n.Fanout)
		n.CheckAgainstFacts(users...)
	})
}

func TestRefusedFollowsAndUnfollows(t *testing.T) {
	eachNode(t, func(t *testing.T, n testNode) {
		users := n.MakeUsers(2)
		n.wantCode("oneself", n.service.Follow(users[0], users[0]), services.Invalid)
		n.wantUnchanged("who is not followed", n.service.Unfollow(users[0], users[1]))
		n.Must(n.commitCommand(n.service.Follow(users[0], users[1])))
		n.RunAllJobs(n.Fanout)
		n.wantUnchanged("twice", n.service.Follow(users[0], users[1]))
		n.wantUnchanged("the other way", n.service.Unfollow(users[1], users[0]))
		if waiting, _ := n.CountJobs(); waiting != 0 {
			t.Errorf("what was refused left %d jobs", waiting)
		}
		if edge, follows, err := people.Edge(t.Context(), n.DB, users[0], users[1]); !follows || err != nil {
			t.Errorf("%+v, %t, %v: the first follow stands", edge, follows, err)
		}
	})
}

// A user can reach the limit and not exceed it. The error names the limit, and an unfollow makes room.
func TestTheNumberFollowedIsLimited(t *testing.T) {
	eachNode(t, func(t *testing.T, n testNode) {
		users := n.MakeUsers(maxPeoplePerList + 2)
		reader, others := users[0], users[1:]
		for _, other := range others[:maxPeoplePerList] {
			n.Must(n.commitCommand(n.service.Follow(reader, other)))
		}
		err := n.commitCommand(n.service.Follow(reader, others[maxPeoplePerList]))
		if services.CodeOf(err) != services.Conflict || !strings.Contains(err.Error(), "at most 3") {
			t.Errorf("one too many: %v", err)
		}
		if _, follows, err := people.Edge(t.Context(), n.DB, reader, others[maxPeoplePerList]); follows || err != nil {
			t.Errorf("refused, and there: %v", err)
		}
		n.wantUnchanged("one of those followed, again", n.service.Follow(reader, others[0]))
		n.Must(n.commitCommand(n.service.Unfollow(reader, others[0])))
		n.Must(n.commitCommand(n.service.Follow(reader, others[maxPeoplePerList])))
		n.Must(n.commitCommand(n.service.Follow(others[0], reader))) // followers do not count toward the limit
	})
}

func TestTheDefaultLimit(t *testing.T) {
	service := New(Config{})
	if want := (Settings{MaxFollowees: 2000, MaxMutes: 10_000, MaxBlocks: 10_000, MaxHides: 10_000}); service.limits != want {
		t.Errorf("%+v", service.limits)
	}
}

// A follower's count has only posts from after the follow. After an unfollow and a new follow, it has only posts from after the
// new follow.
func TestPostsPublishedAfterTheFollowCount(t *testing.T) {
	eachNode(t, func(t *testing.T, n testNode) {
		users := n.MakeUsers(2)
		author, reader := users[0], users[1]
		n.Must(n.commitCommand(n.service.Follow(reader, author)))
		n.Post(author)
		n.RunAllJobs(n.Fanout)
		if count := n.Document(reader).FeedCount; count != 1 {
			t.Errorf("%d are new", count)
		}
		n.Must(n.commitCommand(n.service.Unfollow(reader, author)))
		if count := n.Document(reader).FeedCount; count != 0 {
			t.Errorf("after the unfollow %d are new", count)
		}
		n.Must(n.commitCommand(n.service.Follow(reader, author)))
		n.CheckAgainstFacts(reader)
		if count := n.Document(reader).FeedCount; count != 0 || len(n.Inbox(reader)) != 1 {
			t.Errorf("after following again %d are new, %d listed", count, len(n.Inbox(reader)))
		}
	})
}

func TestAUserIDIsAssignedOnce(t *testing.T) {
	eachNode(t, func(t *testing.T, n testNode) {
		if _, known, err := n.service.FindUser(t.Context(), "ada"); known || err != nil {
			t.Errorf("known before they are mentioned: %v", err)
		}
		const callers = 10
		ids := make([]services.UserID, callers)
		var together sync.WaitGroup
		for i := range callers {
			together.Go(func() { ids[i], _ = n.service.EnsureUser(t.Context(), "ada") })
		}
		together.Wait()
		for _, id := range ids {
			if id == 0 || id != ids[0] {
				t.Errorf("numbers %v of one key", ids)
			}
		}
		if id, known, err := n.service.FindUser(t.Context(), "ada"); !known || id != ids[0] || err != nil {
			t.Errorf("%d, %t, %v", id, known, err)
		}
		for _, key := range []string{"", " a", "a\u00a0b", "e\u0301", strings.Repeat("a", services.MaxKeyCharacters+1)} {
			if _, err := n.service.EnsureUser(t.Context(), key); services.CodeOf(err) != services.Invalid {
				t.Errorf("%q: %v", key, err)
			}
		}
	})
}

// Users see a change of their own profile at once. nil leaves a field as it is, and "" removes it.
func TestProfiles(t *testing.T) {
	eachNode(t, func(t *testing.T, n testNode) {
		user := n.MakeUsers(1)[0]
		text := func(s string) *string { return &s }
		for _, step := range []struct {
			name, avatar         *string
			wantName, wantAvatar string
		}{
			{text("Ada"), nil, "Ada", ""},
			{nil, text("https://example.com/a.png"), "Ada", "https://example.com/a.png"},
			{nil, nil, "Ada", "https://example.com/a.png"},
			{text(""), nil, "", "https://example.com/a.png"},
			{text("Ada L"), text(""), "Ada L", ""},
		} {
			cmd, err := n.service.SetProfile(user, step.name, step.avatar)
			n.Must(err)
			n.Must(n.commitCommand(cmd))
			_, users, err := n.Caches.Reader.Read(t.Context(), nil, []services.UserID{user})
			if got := users[user]; got.Name != step.wantName || got.AvatarURL != step.wantAvatar || err != nil {
				t.Errorf("read %+v, %v; want %q, %q", got, err, step.wantName, step.wantAvatar)
			}
		}
		n.RunAllJobs(n.Fanout)
		_, copies, err := n.Redis.Copies(t.Context(), nil, []services.UserID{user})
		if copies[user].Name != "Ada L" || err != nil {
			t.Errorf("the copy is %+v, %v", copies[user], err)
		}
	})
}

func TestRefusedProfiles(t *testing.T) {
	service := New(Config{})
	long := "https://example.com/"
	for what, profile := range map[string]struct {
		field, text string
		fits        bool // the text is accepted
	}{
		"the longest name":    {"name", strings.Repeat("é", maxNameLength), true},
		"a longer name":       {"name", strings.Repeat("é", maxNameLength+1), false},
		"a NUL":               {"name", "a\x00", false},
		"broken UTF-8":        {"name", "\xff", false},
		"no name":             {"name", "", true},
		"http":                {"avatarUrl", "http://example.com", true},
		"the longest address": {"avatarUrl", long + strings.Repeat("a", 2048-len(long)), true},
		"a longer address":    {"avatarUrl", long + strings.Repeat("a", 2048-len(long)+1), false},
		"a script":            {"avatarUrl", "javascript:alert(1)", false},
		"data":                {"avatarUrl", "data:image/png;base64,AA==", false},
		"no host":             {"avatarUrl", "https:///a.png", false},
		"a path":              {"avatarUrl", "/a.png", false},
		"no address":          {"avatarUrl", "", true},
		"an address broken":   {"avatarUrl", "https://[", false},
	} {
		var err error
		if profile.field == "name" {
			_, err = service.SetProfile(1, &profile.text, nil)
		} else {
			_, err = service.SetProfile(1, nil, &profile.text)
		}
		if (err == nil) != profile.fits || err != nil && (services.CodeOf(err) != services.Invalid || !strings.HasPrefix(err.Error(), profile.field+": ")) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A job for the profile of a user who was erased meanwhile writes no copy, neither for that user nor for user 0.
func TestTheProfileOfAnErasedUserIsNotCopied(t *testing.T) {
	eachNode(t, func(t *testing.T, n testNode) {
		const nobody = 77
		if err := n.Projector.Profiles.Project(t.Context(), nobody); err != nil {
			t.Error(err)
		}
		_, copies, err := n.Redis.Copies(t.Context(), nil, []services.UserID{0, nobody})
		if err != nil || len(copies) > 0 {
			t.Errorf("%+v, %v", copies, err)
		}
	})
}
