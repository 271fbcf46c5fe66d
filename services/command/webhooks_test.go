package command

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"tidings/services"
	"tidings/services/acts"
	"tidings/services/people"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// callWebhooks runs a whole command on webhooks: command line, database, requests.
func callWebhooks(t *testing.T, line string, environment ...string) (exit int, printed string) {
	t.Helper()
	var out bytes.Buffer
	exit = Run(t.Context(), append([]string{"webhooks"}, strings.Fields(line)...), environmentOf(environment), &out, &out)
	return exit, out.String()
}

// webhookReceiver is a server that keeps the last request.
type webhookReceiver struct {
	mu         sync.Mutex // guards the fields below
	lastBody   []byte
	lastHeader http.Header
}

func (i *webhookReceiver) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lastBody, _ = io.ReadAll(r.Body)
	i.lastHeader = r.Header
}

// hasValidSignature reports whether the last request is signed by the secret that a command printed, in its first line. It
// implements the specification without the library.
func (i *webhookReceiver) hasValidSignature(t *testing.T, printed string) bool {
	t.Helper()
	secret, _, _ := strings.Cut(printed, "\n")
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) != 32 || !strings.HasPrefix(secret, "whsec_") {
		t.Fatalf("no secret: %s", printed)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	by := hmac.New(sha256.New, key)
	by.Write([]byte(i.lastHeader.Get("webhook-id") + "." + i.lastHeader.Get("webhook-timestamp") + "." + string(i.lastBody)))
	want := "v1," + base64.StdEncoding.EncodeToString(by.Sum(nil))
	return len(i.lastBody) > 0 && slices.Contains(strings.Fields(i.lastHeader.Get("webhook-signature")), want)
}

// makeDatabase makes data/tidings.db in an empty folder, with the user ann, and checks that a command does not disturb a server there.
func makeDatabase(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	if exit, printed := callWebhooks(t, "list"); exit != 1 || !strings.Contains(printed, "does not exist") {
		t.Errorf("without a database: %d, %s", exit, printed)
	}
	if err := os.Mkdir("data", 0o700); err != nil {
		t.Fatal(err)
	}
	db := sqltest.Must(sql.Open(t.Context(), sql.Config{URL: "sqlite:" + filepath.Join("data", "tidings.db")}))(t)
	if exit, printed := callWebhooks(t, "list"); exit != 1 || !strings.Contains(printed, "in use") {
		t.Errorf("beside a server: %d, %s", exit, printed)
	}
	sqltest.Equal(t, db.Write(t.Context(), func(tx *sql.Tx) error { _, err := people.Ensure(t.Context(), tx, []string{"ann"}); return err }), nil)
	sqltest.Equal(t, db.Close(), nil)
}

// An endpoint is added, tested, rotated, shown, and removed by the command line; each secret verifies.
func TestWebhooksCommand(t *testing.T) {
	makeDatabase(t)
	got := &webhookReceiver{}
	server := httptest.NewServer(got)
	defer server.Close()
	here := []string{"TIDINGS_CHANGES=true", "TIDINGS_WEBHOOKS_ALLOW=127.0.0.1"}
	if exit, printed := callWebhooks(t, "add app "+server.URL, here[1]); exit != 1 || !strings.Contains(printed, "start every node with --changes (TIDINGS_CHANGES=true)") {
		t.Errorf("without the change stream: %d, %s", exit, printed)
	}
	if exit, printed := callWebhooks(t, "add app "+server.URL, here[0]); exit != 1 || !strings.Contains(printed, "--webhooks-allow") {
		t.Errorf("a private address: %d, %s", exit, printed)
	}
	_, first := callWebhooks(t, "add app "+server.URL+" --away --sources CONVERSATIONS,NOTIFICATIONS:MENTION", here...)
	for _, c := range []struct {
		line  string
		exit  int
		words []string
	}{
		{"add app " + server.URL, 1, []string{"there is a webhook"}},
		{"list", 0, []string{"app", "idle", "away sources=CONVERSATIONS,NOTIFICATIONS:MENTION", server.URL}},
		{"status", 0, []string{"delivered", "last success", "never", "secrets", "behind", "nothing"}},
		{"status other", 1, []string{`no webhook "other"`}},
		{"dead app", 0, nil},
		{"dead other", 1, []string{`no webhook "other"`}},
		{"replay app", 0, []string{"0 dead letters"}},
		{"replay app --user ann", 0, []string{"0 dead letters"}},
		{"replay app --user bob", 1, []string{`no user "bob"`}},
		{"test app", 0, []string{"answered 200"}},
	} {
		exit, printed := callWebhooks(t, c.line, here...)
		if exit != c.exit {
			t.Errorf("%s: exit code %d, want %d: %s", c.line, exit, c.exit, printed)
		}
		for _, word := range c.words {
			if !strings.Contains(printed, word) {
				t.Errorf("%s: printed without %q:\n%s", c.line, word, printed)
			}
		}
	}
	if !got.hasValidSignature(t, first) {
		t.Errorf("the test is not signed by the secret: %v", got.lastHeader)
	}
	_, second := callWebhooks(t, "rotate app", here...)
	callWebhooks(t, "test app", here...)
	if !got.hasValidSignature(t, first) || !got.hasValidSignature(t, second) {
		t.Error("during the overlap both secrets sign")
	}
	_, third := callWebhooks(t, "rotate app --overlap 0s", here...)
	callWebhooks(t, "test app", here...)
	if got.hasValidSignature(t, first) || got.hasValidSignature(t, second) || !got.hasValidSignature(t, third) {
		t.Error("without an overlap the new secret alone signs")
	}
	server.Close()
	if exit, printed := callWebhooks(t, "test app", here...); exit != 1 || !strings.Contains(printed, "the test of app failed") {
		t.Errorf("a receiver that is not there: %d, %s", exit, printed)
	}
	if exit, printed := callWebhooks(t, "remove app", here...); exit != 0 || !strings.Contains(printed, "app is removed") {
		t.Errorf("%d, %s", exit, printed)
	}
	if exit, printed := callWebhooks(t, "list", here...); exit != 0 || printed != "" {
		t.Errorf("%d, %s", exit, printed)
	}
	checkRecordedActs(t)
}

// checkRecordedActs checks that the commands that change something are among the acts of operators, and that commands that only show
// something are not.
func checkRecordedActs(t *testing.T) {
	t.Helper()
	db := sqltest.Must(sql.Open(t.Context(), sql.Config{URL: "sqlite:" + filepath.Join("data", "tidings.db")}))(t)
	defer func() { sqltest.Equal(t, db.Close(), nil) }()
	var got []string
	for _, act := range sqltest.Must(acts.New(acts.Config{DB: db}).List(t.Context(), services.MaxSortableID, 100))(t) {
		if got = append(got, strings.TrimPrefix(act.Action, "tidings webhooks ")+" "+act.Outcome); act.Target != "app" || act.Actor != "" || act.Details != "" {
			t.Errorf("%+v", act)
		}
	}
	slices.Reverse(got)
	want := []string{
		"add CONFLICT", "add INVALID", "add DONE", "add CONFLICT", "replay DONE", "replay DONE", "replay NOT_FOUND", "test DONE",
		"rotate DONE", "test DONE", "rotate DONE", "test DONE", "test INTERNAL", "remove DONE",
	}
	sqltest.Equal(t, got, want)
}

// Wrong arguments are reported like those of the other commands.
func TestWebhooksFaults(t *testing.T) {
	for line, words := range map[string][]string{
		"--webhooks-allow 10.0.0.0/8,home": {"--webhooks-allow (TIDINGS_WEBHOOKS_ALLOW)", `"home"`, "10.0.0.0/8"},
		"webhooks":                         {"expected \"<what>", "tidings webhooks --help"},
		"webhooks drop a":                  {`"drop"`, "replay"},
		"webhooks add a":                   {"needs the address"},
		"webhooks remove":                  {"needs the name"},
		"webhooks list a":                  {`"a" is too much`},
		"webhooks rotate a --overlap 721h": {"0s to 720h"},
		"webhooks list --away":             {"--away is not a flag of tidings webhooks list"},
	} {
		_, err := parse(t, line)
		for _, word := range words {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%q is printed without %q: %v", line, word, err)
			}
		}
	}
}
