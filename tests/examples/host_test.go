package examples

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/tests/world"
)

// pair is Tidings and the application of docs/examples/host, as two processes that can be killed.
type pair struct {
	t                 *testing.T
	program, folder   string // the application's binary, and the folder of the data of both
	tidingsAt, hostAt string // the addresses on which they listen
	tidings, host     *world.Process
}

// newSyncedPair makes the application's data, starts the application, and imports the data into Tidings' database while the
// application goes on. The import and the outbox together have everything. The Tidings server is not started yet.
func newSyncedPair(t *testing.T) *pair {
	t.Helper()
	b := &pair{t: t, program: build(t, "docs/examples/host"), folder: t.TempDir(), tidingsAt: freeAddress(t), hostAt: freeAddress(t)}
	tidings, err := world.Program()
	if err != nil {
		t.Fatal(err)
	}
	run := func(command ...string) {
		t.Helper()
		c := exec.Command(command[0], command[1:]...)
		c.Dir, c.Env = b.folder, world.EnvironmentWithoutSettings()
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", command, err, out)
		}
	}
	meanwhile := func() {
		b.act(http.MethodPost, nil, "users", "grace", "articles")
		b.act(http.MethodPut, nil, "users", "ada", "likes", fmt.Sprint(b.facts().Articles[0].ID))
	}
	run(b.program, "-db", b.database(), "seed")
	b.startHost()
	meanwhile()
	run(b.program, "-db", b.database(), "export", b.folder)
	meanwhile()
	b.act(http.MethodPut, nil, "users", "linus", "follows", "grace")
	b.act(http.MethodDelete, nil, "articles", "2") // the export has this article
	for _, kind := range []string{"follows.csv", "posts.jsonl"} {
		name, _, _ := strings.Cut(kind, ".")
		run(tidings, "import", name, filepath.Join(b.folder, kind), "--data", filepath.Join(b.folder, "data"))
		meanwhile()
	}
	return b
}

// database returns the file of the application's database.
func (b *pair) database() string { return filepath.Join(b.folder, "host.db") }

func (b *pair) startTidings() {
	b.t.Helper()
	b.tidings = world.Launch(b.t, "", "--listen", b.tidingsAt, "--data", filepath.Join(b.folder, "data"), "--jwt-secret", world.TestSecret, "--changes",
		"--webhooks-allow", "127.0.0.1", "--log-level", "error", "--rate-limits", "off")
	b.waitServes(b.tidings, "Tidings serves ")
}

func (b *pair) startHost() {
	b.t.Helper()
	b.host = world.LaunchProgram(b.t, b.program, "export TIDINGS_JWT_SECRET="+world.TestSecret, "-db", b.database(), "-listen", b.hostAt, "-tidings", "http://"+b.tidingsAt, "serve")
	b.waitServes(b.host, "The application serves ")
}

// waitServes waits until a process has printed word, which says that it serves.
func (b *pair) waitServes(p *world.Process, word string) {
	b.t.Helper()
	world.Eventually(b.t, time.Minute, word, func() bool {
		select {
		case <-p.Ended:
			b.t.Fatalf("it ended: %s", p.Output.String())
		default:
		}
		return strings.Contains(p.Output.String(), word)
	})
}

// act sends a request to the application, which may be killed meanwhile. Only errors that a caller has to expect are allowed.
func (b *pair) act(method string, into any, path ...string) {
	b.t.Helper()
	address := "http://" + b.hostAt
	for _, part := range path {
		address += "/" + url.PathEscape(part)
	}
	if method == http.MethodPost || method == http.MethodPut {
		address += "?" + url.Values{"body": {"An article"}, "name": {"A name"}}.Encode()
	}
	status, err := send(method, address, nil, nil, into)
	if status != 0 && !slices.Contains([]int{http.StatusOK, http.StatusNotFound, http.StatusServiceUnavailable}, status) {
		b.t.Fatalf("%s %s: %v", method, address, err)
	}
	if into != nil && (err != nil || status != http.StatusOK) {
		b.t.Fatalf("%s %s answers %d, %v", method, address, status, err)
	}
}

// facts is the content of the application's database.
type facts struct {
	Users    []string
	Follows  map[string][]string
	Articles []struct {
		ID          int64
		Ref, Author string
		Likes       int
	}
}

func (b *pair) facts() (found facts) {
	b.t.Helper()
	b.act(http.MethodGet, &found, "facts")
	return found
}

// phone is a phone whose app is closed.
type phone struct {
	Icon, Alerts int    // the number on the icon, and how many alerts were shown
	Alert        string // the last alert
}

func (b *pair) phones() (found map[string]phone) {
	b.t.Helper()
	b.act(http.MethodGet, &found, "phones")
	return found
}

// health has the application's numbers: waiting rows of its outbox, refused events, and users who are being erased.
type health struct{ Waiting, Refused, Erasing int }

func (b *pair) health() (found health) {
	b.t.Helper()
	b.act(http.MethodGet, &found, "health")
	return found
}

// compare returns an error if Tidings differs from the application's database, or an icon from Tidings' total.
func (b *pair) compare() error {
	b.t.Helper()
	if health := b.health(); health.Waiting > 0 || health.Refused > 0 {
		return fmt.Errorf("%+v", health)
	}
	facts, phones := b.facts(), b.phones()
	var found struct {
		Users []*struct {
			Badges struct{ Total struct{ Value int } }
		}
	}
	if err := b.ask("", `query($keys:[String!]!){users(keys:$keys){badges{total{value}}}}`, map[string]any{"keys": facts.Users}, &found); err != nil {
		return err
	}
	for i, key := range facts.Users {
		if found.Users[i] == nil {
			return fmt.Errorf("Tidings does not know %s", key)
		}
		if total := found.Users[i].Badges.Total.Value; total != phones[key].Icon {
			return fmt.Errorf("the icon of %s shows %d, and the total is %d", key, phones[key].Icon, total)
		}
		if err := b.compareFeed(key, facts); err != nil {
			return err
		}
	}
	for key := range phones {
		if !slices.Contains(facts.Users, key) {
			return fmt.Errorf("there is a phone of %s, who is no user", key)
		}
	}
	return b.compareLikes(facts)
}

// compareFeed compares a user's feed with the user's own articles and the articles of the authors that they follow.
func (b *pair) compareFeed(key string, facts facts) error {
	var want []string
	for _, article := range facts.Articles {
		if article.Author == key || slices.Contains(facts.Follows[key], article.Author) {
			want = append(want, article.Ref)
		}
	}
	var found struct {
		Viewer struct {
			HomeFeed struct{ Nodes []struct{ Ref string } }
		}
	}
	if err := b.ask(url.PathEscape(key), `{viewer{homeFeed(first:100){nodes{ref}}}}`, nil, &found); err != nil {
		return err
	}
	var got []string
	for _, post := range found.Viewer.HomeFeed.Nodes {
		got = append(got, post.Ref)
	}
	if want = want[:min(len(want), 100)]; !slices.Equal(got, want) {
		return fmt.Errorf("%s sees %q instead of %q", key, got, want)
	}
	return nil
}

// compareLikes compares the counts of likes in Tidings and in the application's database.
func (b *pair) compareLikes(facts facts) error {
	for articles := range slices.Chunk(facts.Articles, 50) {
		var ids []string
		for _, article := range articles {
			ids = append(ids, "post:ref:"+article.Ref)
		}
		var found struct{ Nodes []*struct{ LikeCount *int } }
		if err := b.ask("ada", `query($ids:[ID!]!){nodes(ids:$ids){...on Post{likeCount}}}`, map[string]any{"ids": ids}, &found); err != nil {
			return err
		}
		for i, article := range articles {
			if node := found.Nodes[i]; node == nil || node.LikeCount == nil || *node.LikeCount != article.Likes {
				return fmt.Errorf("%s has %d likes, and in Tidings %+v", article.Ref, article.Likes, node)
			}
		}
	}
	return nil
}

// waitAgreement waits until everything agrees.
func (b *pair) waitAgreement() {
	b.t.Helper()
	world.EventuallySucceeds(b.t, patience, b.compare)
}

// people are the users who are not erased.
var people = []string{"ada", "grace", "auth0|4711", "margaret"}

// step does one random act of one of the people.
func (b *pair) step(rng *rand.Rand) {
	b.t.Helper()
	one, other, article := people[rng.IntN(len(people))], people[rng.IntN(len(people))], fmt.Sprint(1+rng.IntN(40))
	switch n := rng.IntN(20); {
	case n < 5:
		b.act(http.MethodPost, nil, "users", one, "articles")
	case n < 10:
		b.act(http.MethodPut, nil, "users", one, "likes", article)
	case n < 12:
		b.act(http.MethodDelete, nil, "users", one, "likes", article)
	case n < 14 && one != other:
		b.act(http.MethodPut, nil, "users", one, "follows", other)
	case n < 15 && one != other:
		b.act(http.MethodDelete, nil, "users", one, "follows", other)
	case n < 16:
		b.act(http.MethodDelete, nil, "articles", article)
	case n < 17:
		b.act(http.MethodPut, nil, "users", one)
	default:
		b.act(http.MethodPost, nil, "users", one, "open")
	}
}

// actUnderKills does 40 random acts. At a random moment it kills Tidings, the application or both, depending on the round, and restarts
// them.
func (b *pair) actUnderKills(round int, rng *rand.Rand) {
	b.t.Helper()
	const acts = 40
	dies, returns := rng.IntN(acts), rng.IntN(acts)
	for i := range acts {
		b.step(rng)
		if i == dies && round%3 != 1 {
			b.tidings.Kill()
		}
		if i == dies && round%3 != 0 {
			b.host.Kill()
			b.startHost()
		}
		if i == max(dies, returns) && round%3 != 1 {
			b.startTidings()
		}
	}
}

// Either program of the example, or both, is killed by kill -9 at random moments. Once everything is processed, each phone's icon
// equals its user's badges, and Tidings has everything that the application's database has, once. Nothing is left of a user who
// was erased.
func TestHostExampleSurvivesKills(t *testing.T) {
	b := newSyncedPair(t)
	b.act(http.MethodPut, nil, "users", "margaret") // the application works without Tidings
	b.act(http.MethodPut, nil, "users", "margaret", "follows", "grace")
	b.startTidings()
	for _, key := range slices.Concat(people, []string{"linus"}) {
		b.openApp(key)
	}
	b.waitAgreement()
	b.checkIconUpAndDown()
	b.wantForgedRefused()

	b.act(http.MethodPost, nil, "users", "linus", "articles")
	b.act(http.MethodPut, nil, "users", "linus", "likes", "1")
	b.waitAgreement()
	b.act(http.MethodDelete, nil, "users", "linus")
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	for round := range 6 {
		b.actUnderKills(round, rng)
	}
	b.waitAgreement()
	b.checkIconUpAndDown()
	world.Eventually(t, patience, "the erasure is done", func() bool { return b.health().Erasing == 0 })
	b.waitAgreement()
	var found struct {
		Users []*struct{ User struct{ Key string } }
	}
	if err := b.ask("", `{users(keys:["linus","ada"]){user{key}}}`, nil, &found); err != nil || found.Users[0] != nil || found.Users[1] == nil {
		t.Errorf("after the erasure of linus: %+v, %v", found.Users, err)
	}
	if articles := b.facts().Articles; len(articles) < 10 {
		t.Errorf("nothing happened: there are %d articles", len(articles))
	}
}

// checkIconUpAndDown checks that the icon of a closed app rises with an alert, and falls without one.
func (b *pair) checkIconUpAndDown() {
	b.t.Helper()
	b.act(http.MethodPut, nil, "users", "margaret", "follows", "grace")
	b.waitAgreement()
	b.openApp("margaret")
	b.waitPhoneShows(func(shown phone) bool { return shown.Icon == 0 })
	before := b.phones()["margaret"].Alerts
	b.act(http.MethodPost, nil, "users", "grace", "articles")
	b.waitPhoneShows(func(shown phone) bool { return shown == phone{1, before + 1, "A new article"} })
	b.openApp("margaret")
	b.waitPhoneShows(func(shown phone) bool { return shown.Icon == 0 && shown.Alerts == before+1 })
}

// openApp opens a person's app. On a busy machine the application or Tidings may ask to try again, and then nothing is marked as seen. So
// openApp tries until it succeeds; a second time does no harm.
func (b *pair) openApp(key string) {
	b.t.Helper()
	world.Eventually(b.t, patience, key+" opens the app", func() bool {
		status, err := send(http.MethodPost, "http://"+b.hostAt+"/users/"+url.PathEscape(key)+"/open", nil, nil, nil)
		return err == nil && status == http.StatusOK
	})
}

// wantForgedRefused checks that a webhook that Tidings did not sign is refused and changes no icon.
func (b *pair) wantForgedRefused() {
	b.t.Helper()
	const body = `{"type":"badges.changed","data":{"key":"margaret","version":"9999999999999999","total":77,"silent":true}}`
	for _, signature := range []string{"", "v1,AAAA"} {
		headers := http.Header{"Webhook-Id": {"m1"}, "Webhook-Timestamp": {fmt.Sprint(time.Now().Unix())}, "Webhook-Signature": {signature}}
		if status, err := send(http.MethodPost, "http://"+b.hostAt+"/tidings", headers, []byte(body), nil); status != http.StatusUnauthorized {
			b.t.Errorf("signed by %q: %d, %v", signature, status, err)
		}
	}
	if icon := b.phones()["margaret"].Icon; icon != 0 {
		b.t.Errorf("after a forged webhook the icon shows %d", icon)
	}
}

// waitPhoneShows waits until wanted is true for margaret's phone.
func (b *pair) waitPhoneShows(wanted func(phone) bool) {
	b.t.Helper()
	world.EventuallySucceeds(b.t, patience, func() error {
		phones := b.phones()
		if !wanted(phones["margaret"]) {
			return fmt.Errorf("the phones show %+v of %q", phones, slices.Sorted(maps.Keys(phones)))
		}
		return nil
	})
}
