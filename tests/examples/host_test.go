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

// tidingsAndHost is Tidings and the application of docs/examples/host, as two processes that can be killed.
type tidingsAndHost struct {
	t                           *testing.T
	hostProgram, dataFolder     string         // the application's binary, and the folder of the data of both
	tidingsAddress, hostAddress string         // the addresses on which they listen
	tidings, host               *world.Process // the running processes; see startTidings and startHost
}

// newSyncedTidingsAndHost makes the application's data, starts the application, and imports the data into Tidings' database while the
// application goes on. The import has everything up to the export, and the application's outbox has the events since then. The Tidings
// server is not started yet.
func newSyncedTidingsAndHost(t *testing.T) *tidingsAndHost {
	t.Helper()
	b := &tidingsAndHost{t: t, hostProgram: buildProgram(t, "docs/examples/host"), dataFolder: t.TempDir(), tidingsAddress: freeAddress(t), hostAddress: freeAddress(t)}
	tidings, err := world.ProgramPath()
	if err != nil {
		t.Fatal(err)
	}
	run := func(command ...string) {
		t.Helper()
		c := exec.Command(command[0], command[1:]...)
		c.Dir, c.Env = b.dataFolder, world.EnvironmentWithoutSettings()
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", command, err, out)
		}
	}
	meanwhile := func() {
		b.askHost(http.MethodPost, nil, "users", "grace", "articles")
		b.askHost(http.MethodPut, nil, "users", "ada", "likes", fmt.Sprint(b.readFacts().Articles[0].ID))
	}
	run(b.hostProgram, "-db", b.hostDatabaseFile(), "seed")
	b.startHost()
	meanwhile()
	run(b.hostProgram, "-db", b.hostDatabaseFile(), "export", b.dataFolder)
	meanwhile()
	b.askHost(http.MethodPut, nil, "users", "linus", "follows", "grace")
	b.askHost(http.MethodDelete, nil, "articles", "2") // the export, made before, has this article
	for _, kind := range []string{"follows.csv", "posts.jsonl"} {
		name, _, _ := strings.Cut(kind, ".")
		run(tidings, "import", name, filepath.Join(b.dataFolder, kind), "--data", filepath.Join(b.dataFolder, "data"))
		meanwhile()
	}
	return b
}

// hostDatabaseFile returns the file of the application's database.
func (b *tidingsAndHost) hostDatabaseFile() string { return filepath.Join(b.dataFolder, "host.db") }

func (b *tidingsAndHost) startTidings() {
	b.t.Helper()
	b.tidings = world.LaunchProcess(b.t, "", "--listen", b.tidingsAddress, "--data", filepath.Join(b.dataFolder, "data"), "--jwt-secret", world.TestSecret, "--changes",
		"--webhooks-allow", "127.0.0.1", "--log-level", "error", "--rate-limits", "off")
	b.waitUntilServing(b.tidings, "Tidings serves ")
}

func (b *tidingsAndHost) startHost() {
	b.t.Helper()
	b.host = world.LaunchOtherProgram(b.t, b.hostProgram, "export TIDINGS_JWT_SECRET="+world.TestSecret, "-db", b.hostDatabaseFile(), "-listen", b.hostAddress, "-tidings", "http://"+b.tidingsAddress, "serve")
	b.waitUntilServing(b.host, "The application serves ")
}

// waitUntilServing waits until a process has printed word, which says that it serves.
func (b *tidingsAndHost) waitUntilServing(p *world.Process, word string) {
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

// askHost sends a request to the application, which may be killed meanwhile. Only errors that a caller has to expect are allowed.
func (b *tidingsAndHost) askHost(method string, into any, path ...string) {
	b.t.Helper()
	address := "http://" + b.hostAddress
	for _, part := range path {
		address += "/" + url.PathEscape(part)
	}
	if method == http.MethodPost || method == http.MethodPut {
		address += "?" + url.Values{"body": {"An article"}, "name": {"A name"}}.Encode()
	}
	status, err := sendRequest(method, address, nil, nil, into)
	if status != 0 && !slices.Contains([]int{http.StatusOK, http.StatusNotFound, http.StatusServiceUnavailable}, status) {
		b.t.Fatalf("%s %s: %v", method, address, err)
	}
	if into != nil && (err != nil || status != http.StatusOK) {
		b.t.Fatalf("%s %s answers %d, %v", method, address, status, err)
	}
}

// hostFacts is the content of the application's database.
type hostFacts struct {
	Users    []string            // the keys of all users
	Follows  map[string][]string // by the follower's key: the keys of the followed users
	Articles []struct {
		ID          int64
		Ref, Author string
		Likes       int
	}
}

// readFacts asks the application for the content of its database.
func (b *tidingsAndHost) readFacts() (found hostFacts) {
	b.t.Helper()
	b.askHost(http.MethodGet, &found, "facts")
	return found
}

// phoneState is what a user's phone shows while the app is closed.
type phoneState struct {
	Icon, Alerts int    // the number on the icon, and how many alerts were shown
	Alert        string // the last alert
}

// readPhones asks the application for the phones of all users, by the users' keys.
func (b *tidingsAndHost) readPhones() (found map[string]phoneState) {
	b.t.Helper()
	b.askHost(http.MethodGet, &found, "phones")
	return found
}

// hostHealth has the application's numbers: waiting rows of its outbox, refused events, and users who are being erased.
type hostHealth struct{ Waiting, Refused, Erasing int }

// readHealth asks the application for its numbers.
func (b *tidingsAndHost) readHealth() (found hostHealth) {
	b.t.Helper()
	b.askHost(http.MethodGet, &found, "health")
	return found
}

// checkAgreement returns an error if Tidings differs from the application's database, or the icon of a user's phone from the total of
// their badges in Tidings.
func (b *tidingsAndHost) checkAgreement() error {
	b.t.Helper()
	if health := b.readHealth(); health.Waiting > 0 || health.Refused > 0 {
		return fmt.Errorf("%+v", health)
	}
	facts, phones := b.readFacts(), b.readPhones()
	var found struct {
		Users []*struct {
			Badges struct{ Total struct{ Value int } }
		}
	}
	if err := b.askTidings("", `query($keys:[String!]!){users(keys:$keys){badges{total{value}}}}`, map[string]any{"keys": facts.Users}, &found); err != nil {
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
func (b *tidingsAndHost) compareFeed(key string, facts hostFacts) error {
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
	if err := b.askTidings(url.PathEscape(key), `{viewer{homeFeed(first:100){nodes{ref}}}}`, nil, &found); err != nil {
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
func (b *tidingsAndHost) compareLikes(facts hostFacts) error {
	for articles := range slices.Chunk(facts.Articles, 50) {
		var ids []string
		for _, article := range articles {
			ids = append(ids, "post:ref:"+article.Ref)
		}
		var found struct{ Nodes []*struct{ LikeCount *int } }
		if err := b.askTidings("ada", `query($ids:[ID!]!){nodes(ids:$ids){...on Post{likeCount}}}`, map[string]any{"ids": ids}, &found); err != nil {
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

// waitAgreement waits until checkAgreement finds no difference.
func (b *tidingsAndHost) waitAgreement() {
	b.t.Helper()
	world.EventuallySucceeds(b.t, maxProcessingWait, b.checkAgreement)
}

// peopleNotErased are the keys of the application's users that the test does not erase.
var peopleNotErased = []string{"ada", "grace", "auth0|4711", "margaret"}

// doRandomAct does one random act of one of peopleNotErased in the application, such as a new article, a like or a follow.
func (b *tidingsAndHost) doRandomAct(rng *rand.Rand) {
	b.t.Helper()
	one, other, article := peopleNotErased[rng.IntN(len(peopleNotErased))], peopleNotErased[rng.IntN(len(peopleNotErased))], fmt.Sprint(1+rng.IntN(40))
	switch n := rng.IntN(20); {
	case n < 5:
		b.askHost(http.MethodPost, nil, "users", one, "articles")
	case n < 10:
		b.askHost(http.MethodPut, nil, "users", one, "likes", article)
	case n < 12:
		b.askHost(http.MethodDelete, nil, "users", one, "likes", article)
	case n < 14 && one != other:
		b.askHost(http.MethodPut, nil, "users", one, "follows", other)
	case n < 15 && one != other:
		b.askHost(http.MethodDelete, nil, "users", one, "follows", other)
	case n < 16:
		b.askHost(http.MethodDelete, nil, "articles", article)
	case n < 17:
		b.askHost(http.MethodPut, nil, "users", one)
	default:
		b.askHost(http.MethodPost, nil, "users", one, "open")
	}
}

// actWhileKillingProcesses does 40 random acts. At a random moment it kills Tidings, the application or both, depending on the
// round, and restarts them.
func (b *tidingsAndHost) actWhileKillingProcesses(round int, rng *rand.Rand) {
	b.t.Helper()
	const acts = 40
	dies, returns := rng.IntN(acts), rng.IntN(acts)
	for i := range acts {
		b.doRandomAct(rng)
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
	b := newSyncedTidingsAndHost(t)
	b.askHost(http.MethodPut, nil, "users", "margaret") // the application works without Tidings
	b.askHost(http.MethodPut, nil, "users", "margaret", "follows", "grace")
	b.startTidings()
	for _, key := range slices.Concat(peopleNotErased, []string{"linus"}) {
		b.openApp(key)
	}
	b.waitAgreement()
	b.checkIconUpAndDown()
	b.wantForgedWebhookRefused()

	b.askHost(http.MethodPost, nil, "users", "linus", "articles")
	b.askHost(http.MethodPut, nil, "users", "linus", "likes", "1")
	b.waitAgreement()
	b.askHost(http.MethodDelete, nil, "users", "linus")
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	for round := range 6 {
		b.actWhileKillingProcesses(round, rng)
	}
	b.waitAgreement()
	b.checkIconUpAndDown()
	world.Eventually(t, maxProcessingWait, "the erasure is done", func() bool { return b.readHealth().Erasing == 0 })
	b.waitAgreement()
	var found struct {
		Users []*struct{ User struct{ Key string } }
	}
	if err := b.askTidings("", `{users(keys:["linus","ada"]){user{key}}}`, nil, &found); err != nil || found.Users[0] != nil || found.Users[1] == nil {
		t.Errorf("after the erasure of linus: %+v, %v", found.Users, err)
	}
	if articles := b.readFacts().Articles; len(articles) < 10 {
		t.Errorf("nothing happened: there are %d articles", len(articles))
	}
}

// checkIconUpAndDown checks that the number on the icon of a closed app rises with an alert, and falls without one.
func (b *tidingsAndHost) checkIconUpAndDown() {
	b.t.Helper()
	b.askHost(http.MethodPut, nil, "users", "margaret", "follows", "grace")
	b.waitAgreement()
	b.openApp("margaret")
	b.waitPhoneOfMargaret(func(shown phoneState) bool { return shown.Icon == 0 })
	before := b.readPhones()["margaret"].Alerts
	b.askHost(http.MethodPost, nil, "users", "grace", "articles")
	b.waitPhoneOfMargaret(func(shown phoneState) bool { return shown == phoneState{1, before + 1, "A new article"} })
	b.openApp("margaret")
	b.waitPhoneOfMargaret(func(shown phoneState) bool { return shown.Icon == 0 && shown.Alerts == before+1 })
}

// openApp opens a person's app. On a busy machine the application or Tidings may ask to try again, and then nothing is marked as
// seen. So openApp tries until it succeeds; a second time does no harm.
func (b *tidingsAndHost) openApp(key string) {
	b.t.Helper()
	world.Eventually(b.t, maxProcessingWait, key+" opens the app", func() bool {
		status, err := sendRequest(http.MethodPost, "http://"+b.hostAddress+"/users/"+url.PathEscape(key)+"/open", nil, nil, nil)
		return err == nil && status == http.StatusOK
	})
}

// wantForgedWebhookRefused checks that a webhook that Tidings did not sign is refused and changes no icon.
func (b *tidingsAndHost) wantForgedWebhookRefused() {
	b.t.Helper()
	const body = `{"type":"badges.changed","data":{"key":"margaret","version":"9999999999999999","total":77,"silent":true}}`
	for _, signature := range []string{"", "v1,AAAA"} {
		headers := http.Header{"Webhook-Id": {"m1"}, "Webhook-Timestamp": {fmt.Sprint(time.Now().Unix())}, "Webhook-Signature": {signature}}
		if status, err := sendRequest(http.MethodPost, "http://"+b.hostAddress+"/tidings", headers, []byte(body), nil); status != http.StatusUnauthorized {
			b.t.Errorf("signed by %q: %d, %v", signature, status, err)
		}
	}
	if icon := b.readPhones()["margaret"].Icon; icon != 0 {
		b.t.Errorf("after a forged webhook the icon shows %d", icon)
	}
}

// waitPhoneOfMargaret waits until wanted returns true for the phone of the user margaret.
func (b *tidingsAndHost) waitPhoneOfMargaret(wanted func(phoneState) bool) {
	b.t.Helper()
	world.EventuallySucceeds(b.t, maxProcessingWait, func() error {
		phones := b.readPhones()
		if !wanted(phones["margaret"]) {
			return fmt.Errorf("the phones show %+v of %q", phones, slices.Sorted(maps.Keys(phones)))
		}
		return nil
	})
}
