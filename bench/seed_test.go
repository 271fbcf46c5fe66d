package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// discardProgress is for the parameter say of seedServer. It prints nothing.
func discardProgress(string, ...any) {}

// eventCountingServer is a server that counts the events that it gets.
type eventCountingServer struct {
	eventCountByKind        map[string]int // kind of event, such as "follow" -> how many
	followeeCountByFollower map[string]int // follower -> how many followees
	queryCountByToken       map[string]int // token -> how many queries
	queryAnswer             string         // the answer to queries
}

// answer counts the events of a request, or answers a query.
func (w *eventCountingServer) answer(q receivedRequest) string {
	for _, e := range q.Variables.Events {
		do, _ := e["do"].(map[string]any)
		for kind := range do {
			w.eventCountByKind[kind]++
			if kind == "follow" {
				w.followeeCountByFollower[e["as"].(string)]++
			}
		}
	}
	switch {
	case len(q.Variables.Events) > 0:
		return ingestAnswer(q)
	case strings.Contains(q.Query, "jobs"):
		return `{"data":{"admin":{"jobs":{"waiting":0,"dead":0}}}}`
	}
	w.queryCountByToken[q.token]++
	return w.queryAnswer
}

func newEventCountingServer(answered string) *eventCountingServer {
	return &eventCountingServer{eventCountByKind: map[string]int{}, followeeCountByFollower: map[string]int{}, queryCountByToken: map[string]int{}, queryAnswer: answered}
}

func TestSeed(t *testing.T) {
	w := newEventCountingServer(`{"data":{"viewer":{}}}`)
	if err := seedServer(t.Context(), startStubAPI(t, w.answer), 2, 30, discardProgress); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		"setProfile": 2000, "follow": 2*(10+200+2000) + 30, "publishPost": oldPostsPerAuthor*200 + unreadPostsPerReader + 6*likedPostsPerReader, "likePost": 6 * likedPostsPerReader,
	}
	if fmt.Sprint(w.eventCountByKind) != fmt.Sprint(want) {
		t.Errorf("seeded %v, want %v", w.eventCountByKind, want)
	}
	for key, follows := range map[string]int{"reader-10-0": 10, "reader-200-1": 200, "reader-2000-1": 2000, "watcher-29": 1} {
		if got := w.followeeCountByFollower["user:"+key]; got != follows {
			t.Errorf("%s follows %d, want %d", key, got, follows)
		}
	}
	if len(w.queryCountByToken) != 6 || w.queryCountByToken["dev:reader-2000-1"] == 0 {
		t.Errorf("seen before the news: %v", w.queryCountByToken)
	}
}

func TestSeedEndsWithTheFirstError(t *testing.T) {
	asked := 0
	a := startStubAPI(t, func(receivedRequest) string { asked++; return `{"errors":[{"message":"full"}]}` })
	if err := seedServer(t.Context(), a, 1, 1, discardProgress); err == nil || asked != 1 {
		t.Errorf("%d questions, %v", asked, err)
	}
}

func TestCheckSeeded(t *testing.T) {
	answer := func(posts, likes, edges int) string {
		return fmt.Sprintf(`{"data":{"viewer":{"badges":{"homeFeed":{"value":%d},"notifications":{"like":{"value":%d}}},"homeFeed":{"edges":[%s]}}}}`,
			posts, likes, strings.TrimSuffix(strings.Repeat(`{"cursor":"x"},`, edges), ","))
	}
	check := func(text string) error {
		return checkSeeded(t.Context(), startStubAPI(t, newEventCountingServer(text).answer), []string{"reader-10-0"})
	}
	if err := check(answer(unreadPostsPerReader, likedPostsPerReader, pageSize)); err != nil {
		t.Error(err)
	}
	for _, text := range []string{answer(0, likedPostsPerReader, pageSize), answer(unreadPostsPerReader, 0, pageSize), answer(unreadPostsPerReader, likedPostsPerReader, 0), `{"errors":[{"message":"no"}]}`} {
		if err := check(text); err == nil {
			t.Errorf("%.100s is taken for the seeded data", text)
		}
	}
}

func TestWarmProfilesReadsEveryUser(t *testing.T) {
	seen := map[string]bool{}
	a := startStubAPI(t, func(q receivedRequest) string {
		if len(q.Variables.IDs) > 100 {
			t.Errorf("%d ids at once", len(q.Variables.IDs))
		}
		for _, id := range q.Variables.IDs {
			seen[id] = true
		}
		return `{"data":{"nodes":[]}}`
	})
	var keys []string
	for i := range 250 {
		keys = append(keys, watcherKey(i))
	}
	if err := warmProfiles(t.Context(), a, keys); err != nil || len(seen) != 250 || !seen["user:watcher-249"] {
		t.Errorf("%d users, %v", len(seen), err)
	}
}

func TestReadUserIDs(t *testing.T) {
	engine := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: engine.Addr()})
	defer client.Close()
	const version = "0001763697600000"
	for key, value := range map[string]string{"{u1}:p": version + "2147480000" + `{"k":"anna"}`, "{u4000000000}:p": version + `{"k":"bert","n":"Bert"}`, "{u1}:b": "no copy", "p:0": "no user"} {
		if err := engine.Set(key, value); err != nil {
			t.Fatal(err)
		}
	}
	ids, file, err := readUserIDs(t.Context(), client, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var written map[string]uint32
	if err := json.Unmarshal(text, &written); err != nil {
		t.Fatal(err)
	}
	want := map[string]uint32{"anna": 1, "bert": 4_000_000_000}
	if fmt.Sprint(ids) != fmt.Sprint(want) || fmt.Sprint(written) != fmt.Sprint(want) {
		t.Errorf("read %v, written %v", ids, written)
	}
	if err := engine.Set("{u2}:p", "broken"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readUserIDs(t.Context(), client, t.TempDir()); err == nil {
		t.Error("a broken copy was read")
	}
}

func TestParseProfile(t *testing.T) {
	const version = "0001763697600000"
	for _, bad := range [][2]string{{"{ux}:p", version + `{}`}, {"{u1}:b", version + `{}`}, {"{u1}:p", version}, {"{u1}:p", version + `{`}, {"{u4294967296}:p", version + `{}`}} {
		if id, key, err := parseProfile(bad[0], bad[1]); err == nil {
			t.Errorf("%v was read as %d %q", bad, id, key)
		}
	}
}
