package faults

import (
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"tidings/services/jobs"
	"tidings/services/redis/redistest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// orphanedJobsDoneWithin is the time within which the jobs of a killed process must be done after its restart. On SQLite they need not
// wait for the end of the killed process's leases.
const orphanedJobsDoneWithin = 12 * time.Second

// restartableProcess is a process of Tidings that a test can kill and start again on the same data.
type restartableProcess struct {
	*world.Process
	tb         testing.TB
	arguments  []string               // the command line of each start
	currentURL atomic.Pointer[string] // the URL since the last start; each start has another port
}

// startRestartableProcess starts a process on a new SQLite database. redis is the value of the flag --redis.
func startRestartableProcess(tb testing.TB, redis string) *restartableProcess {
	tb.Helper()
	r := &restartableProcess{tb: tb, arguments: []string{"--data", tb.TempDir(), "--redis", redis}}
	r.start()
	return r
}

func (r *restartableProcess) start() {
	r.tb.Helper()
	r.Process = world.StartServingProcess(r.tb, "", r.arguments...)
	r.currentURL.Store(&r.URL)
}

// presentURL returns the process's present URL.
func (r *restartableProcess) presentURL() string { return *r.currentURL.Load() }

// The process is killed under load, three times. Acknowledged mutations are kept, repeated mutations without an
// acknowledgement have one effect, every job is done, and the badges are right. A private Redis, which the process starts itself,
// loses all projections each time; in a Redis that runs by itself they stay and are stale.
func TestServerKilledUnderLoad(t *testing.T) {
	for name, redis := range map[string]func(t *testing.T) string{
		"private":    func(*testing.T) string { return "private" },
		"of another": func(t *testing.T) string { return redistest.Redis(t) },
	} {
		t.Run(name, func(t *testing.T) {
			server := startRestartableProcess(t, redis(t))
			l := newUserLoad(t, true, server.presentURL)
			l.start()
			for range 3 {
				l.waitForMutations(30)
				server.Kill()
				server.start()
			}
			watches := l.openBadgeWatches(server.URL)
			l.waitForMutations(20)
			l.stop()
			server.WaitForJobs(orphanedJobsDoneWithin)
			l.stopAndWaitUntilLedgerMatches(world.RedisLossRecoveryTimeout, watches...)
		})
	}
}

// The process is killed while jobs wait because Redis hangs. No job is lost.
func TestServerKilledWhileJobsWait(t *testing.T) {
	redis := redistest.NewServer(t)
	server := startRestartableProcess(t, redis.URL())
	l := newUserLoad(t, false, server.presentURL)
	reader, author := l.people[0], l.people[1]
	mutation := func(as, query string, variables map[string]any) {
		t.Helper()
		if code := l.mutate(as, query, variables, nil); code != "" {
			t.Fatalf("%s: %s", query, code)
		}
	}
	l.followOutsideLoad(reader, author)
	if got, err := l.badgesOf(reader); err != nil || got.Total.Value != 0 {
		t.Fatalf("at first: %+v, %v", got, err)
	}
	server.WaitForJobs(world.RedisLossRecoveryTimeout)

	redis.Pause()
	for range 7 {
		mutation(author, `mutation($key:String){publishPost(input:{body:"late",idempotencyKey:$key}){post{id}}}`, nil)
	}
	server.Kill()
	db := sqltest.Open(t, sql.Config{URL: "sqlite:" + filepath.Join(server.arguments[1], "tidings.db")})
	if waiting, dead, _, err := jobs.JobCounts(t.Context(), db); err != nil || waiting == 0 || dead > 0 {
		t.Errorf("after the kill %d jobs wait and %d are dead, %v", waiting, dead, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	redis.Resume()
	server.start()
	server.WaitForJobs(orphanedJobsDoneWithin)
	if got, err := l.badgesOf(reader); err != nil || got.HomeFeed.Value != 7 || got.HomeFeed.Precision != "EXACT" {
		t.Errorf("in the end: %+v, %v", got, err)
	}
}

// followOutsideLoad makes one user follow the other, without an entry in the ledger.
func (l *userLoad) followOutsideLoad(reader, author string) {
	l.tb.Helper()
	code := l.mutate(reader, `mutation($key:String,$u:ID!){follow(input:{userId:$u,idempotencyKey:$key}){user{id}}}`, map[string]any{"u": "user:" + author}, nil)
	if code != "" {
		l.tb.Fatalf("follow: %s", code)
	}
}

// SIGTERM under load: every socket is asked to reconnect, the process ends within 15 s with exit code 0, and nothing that
// was acknowledged is lost.
func TestDrainUnderLoad(t *testing.T) {
	server := startRestartableProcess(t, redistest.Redis(t))
	l := newUserLoad(t, true, server.presentURL)
	watches := l.openBadgeWatches(server.URL)
	l.start()
	l.waitForMutations(40)
	server.Terminate()
	if code := server.WaitExit(15 * time.Second); code != 0 {
		t.Errorf("exit code %d: %s", code, server.Output.String())
	}
	for _, w := range watches {
		if code := w.WaitCloseCode(t, world.RedisLossRecoveryTimeout); code != websocket.CloseServiceRestart {
			t.Errorf("the socket of %s was closed with %d, want %d", w.Person, code, websocket.CloseServiceRestart)
		}
	}
	server.start()
	watches = l.openBadgeWatches(server.URL)
	l.waitForMutations(20)
	l.stop()
	server.WaitForJobs(world.RedisLossRecoveryTimeout) // a drained process leaves no leases
	l.stopAndWaitUntilLedgerMatches(world.RedisLossRecoveryTimeout, watches...)
}

// On a full disk only mutations that were stored are acknowledged, reads continue, and acknowledged mutations are kept.
func TestFullDisk(t *testing.T) {
	t.Run("files of limited size", func(t *testing.T) {
		data := t.TempDir()
		p := world.StartServingProcess(t, "ulimit -f 4096", "--data", data, "--redis", "embedded")
		kept := fillDiskWithPosts(t, p)
		p.Kill()
		wantStoredPosts(t, world.StartServingProcess(t, "", "--data", data, "--redis", "embedded"), kept)
	})
	data := t.TempDir()
	if !sqltest.MountSmallDisk(t, data, "2m") {
		return // without a small disk only the file size limit above is tested
	}
	t.Run("a disk of 2 MB", func(t *testing.T) {
		p := world.StartServingProcess(t, "", "--data", data, "--redis", "embedded")
		kept := fillDiskWithPosts(t, p)
		world.Eventually(t, 30*time.Second, "the node is not ready", func() bool { return readyzRefusesWrites(t, p) })
		if out, err := exec.Command("mount", "-o", "remount,size=64m", data).CombinedOutput(); err != nil {
			t.Fatalf("remount: %v %s", err, out)
		}
		world.Eventually(t, 30*time.Second, "the node is ready again", func() bool { return !readyzRefusesWrites(t, p) })
		id, code := publishTo(t, p, "there is room again")
		if code != "" {
			t.Errorf("with room again: %s", code)
		}
		kept = append(kept, id)
		p.Kill()
		wantStoredPosts(t, world.StartServingProcess(t, "", "--data", data, "--redis", "embedded"), kept)
	})
}

// readyzRefusesWrites reports whether /readyz of a node says that its database refuses writes.
func readyzRefusesWrites(t *testing.T, p *world.Process) bool {
	t.Helper()
	response, err := http.Get(p.URL + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	refused := response.StatusCode == http.StatusServiceUnavailable
	if refused != strings.Contains(string(text), "the database refuses writes") {
		t.Errorf("/readyz answers %d %q", response.StatusCode, text)
	}
	return refused
}

// fillDiskWithPosts publishes posts until five were refused because the disk is full. It returns the IDs of the acknowledged posts.
func fillDiskWithPosts(t *testing.T, p *world.Process) (kept []string) {
	t.Helper()
	refused := 0
	for range 500 {
		id, code := publishTo(t, p, strings.Repeat("x", 4000))
		switch code {
		case "":
			kept = append(kept, id)
		case "UNAVAILABLE":
			refused++
		default:
			t.Fatalf("after %d posts: code %s", len(kept), code)
		}
		if refused == 5 {
			break
		}
	}
	if refused < 5 || len(kept) == 0 {
		t.Fatalf("%d posts were kept and %d refused: the disk is not full", len(kept), refused)
	}
	var data struct{ Viewer struct{ Badges world.Badges } }
	if err := world.Ask(p.URL, "author", `{viewer{badges{`+world.BadgeFields+`}}}`, nil, &data); err != nil || data.Viewer.Badges.CheckInvariants() != nil {
		t.Errorf("on a full disk the badges are %+v, %v", data.Viewer.Badges, err)
	}
	return kept
}

// publishTo publishes a post of the user "author" through a process, and returns its ID or the code of the error.
func publishTo(t *testing.T, p *world.Process, body string) (id, code string) {
	t.Helper()
	var data struct {
		PublishPost struct{ Post struct{ ID string } }
	}
	got, err := world.SendRequest(t.Context(), p.URL, "author", `mutation($b:String!){publishPost(input:{body:$b}){post{id}}}`, map[string]any{"b": body})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Errors) > 0 {
		return "", got.ErrorCode()
	}
	world.DecodeJSON(t, got.Data, &data)
	return data.PublishPost.Post.ID, ""
}

// wantStoredPosts checks that exactly these posts, which were acknowledged, are in the author's feed.
func wantStoredPosts(t *testing.T, p *world.Process, kept []string) {
	t.Helper()
	l := newUserLoad(t, false, func() string { return p.URL })
	p.WaitForJobs(orphanedJobsDoneWithin)
	listed, err := l.wholeFeedOf("author")
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(listed)
	if !slices.Equal(listed, kept) {
		t.Errorf("%d posts are there, %d were acknowledged: %v, want %v", len(listed), len(kept), listed, kept)
	}
}
