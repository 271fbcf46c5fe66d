package command

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/audit"
	"tidings/services/changelog"
	"tidings/services/chat"
	"tidings/services/devices"
	"tidings/services/fanout"
	"tidings/services/feed"
	"tidings/services/jobs"
	"tidings/services/live"
	"tidings/services/messages"
	"tidings/services/node"
	"tidings/services/projector"
	"tidings/services/push"
	"tidings/services/social"
	"tidings/services/stream"
	"tidings/services/webhooks"
	"tidings/transport"
)

// parse reads a command line, written as one text, in an environment of NAME=value items.
func parse(t *testing.T, line string, environment ...string) (Command, error) {
	t.Helper()
	return ParseArgs(strings.Fields(line), environmentOf(environment), io.Discard)
}

// environmentOf is an environment of NAME=value items, as a function like os.Getenv.
func environmentOf(items []string) func(string) string {
	return func(name string) string {
		for _, item := range items {
			if key, value, _ := strings.Cut(item, "="); key == name {
				return value
			}
		}
		return ""
	}
}

// mustParse reads a command line as parse does. A fault ends the test.
func mustParse(t *testing.T, line string, environment ...string) Command {
	t.Helper()
	command, err := parse(t, line, environment...)
	if err != nil {
		t.Fatalf("%q %v: %v", line, environment, err)
	}
	return command
}

// signingSecret is a valid --jwt-secret.
const signingSecret = "0123456789-0123456789-0123456789"

// vapidKey is a valid --vapid-private-key: the key with the value 1.
const vapidKey = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE"

func TestDefaults(t *testing.T) {
	got := mustParse(t, "")
	if got.Config.Node == "" {
		t.Error("the node got no name")
	}
	got.Config.Node = ""
	want := Command{Name: "serve", Config: node.Config{
		Listen: "127.0.0.1:8080", Data: "./data", Redis: "auto", DemoPace: 60,
		Introspection: "development", LogLevel: slog.LevelInfo, LogFormat: "text",
		Requests: transport.RequestSettings{
			OperationTimeout: 5 * time.Second, BodyLimit: 64 << 10, IngestBodyLimit: 1 << 20, MaxQueryTokens: 1000, DocumentLimits: transport.DocumentLimits{Depth: 12, Fields: 300, Aliases: 30, Directives: 30, RootFields: 10},
			MaxQueryCost: 30_000, QueryCacheBytes: 32 << 20, MaxPersistedQueryBytes: 8 << 20, MaxAnswerBytes: 4 << 20, RequestDeadline: 10 * time.Second, WriteTimeout: 30 * time.Second, ConnectionsPerAddress: 3000,
		},
		Sockets: transport.SocketSettings{MaxOperations: 20, MaxPerUser: 50, MaxPerAddress: 2000, WriteTimeout: 10 * time.Second}, Drain: 8 * time.Second,
		Jobs: jobs.Settings{Workers: 4}, Projector: projector.Settings{DormantAfter: 30 * 24 * time.Hour, IdleAfter: 7 * 24 * time.Hour, CleanEvery: 10 * time.Minute}, Fanout: fanout.Settings{BigFollowers: 5000, HugeFollowers: 1_000_000},
		Social: social.Settings{MaxFollowees: 2000, MaxMutes: 10_000, MaxBlocks: 10_000, MaxHides: 10_000}, Feed: feed.Settings{KindsInFeeds: []string{"POST"}}, Messages: messages.Settings{Types: []string{"general"}},
		Chat: chat.Settings{MaxGroupMembers: 500, MaxMembersCountedOnWrite: 500, MaxLoadCountedOnWrite: 20_000, InsideLease: time.Minute},
		Live: live.Settings{Limits: live.ShowLimits{CloseUnstartedAfter: 6 * time.Hour, CloseLiveAfter: 12 * time.Hour}, SessionScope: "request", SessionIdleTime: 30 * time.Minute},
		Push: push.Settings{MinSendInterval: 100 * time.Millisecond, ReconcileInterval: time.Second}, Changelog: changelog.Settings{PollInterval: 500 * time.Millisecond}, Audit: audit.Settings{LapTime: 10 * time.Minute},
		Stream: stream.Settings{ChangeInterval: time.Second, LapInterval: time.Minute}, Webhooks: webhooks.Settings{Timeout: 10 * time.Second, ParallelRequests: 8}, Devices: devices.Settings{Timeout: 10 * time.Second, RequestsPerService: 32},
	}, Token: tokenOptions{Scopes: []string{"viewer"}, ValidFor: time.Hour}, Webhooks: webhookOptions{Overlap: 24 * time.Hour}, Erase: eraseOptions{Wait: 10 * time.Minute}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the defaults (-want +got):\n%s", diff)
	}
}

// A package that gets no settings has the defaults of the command line, except for a zero that is allowed.
func TestSettingsThatAreLeftOutHaveTheDefaults(t *testing.T) {
	parsed := mustParse(t, "").Config
	parsed.Node = "" // each start makes a name
	for _, flag := range settingsOf(services.WithDefaults(node.Config{})) {
		want := settingText(parsed, flag.Name)
		if least := flag.Tag.Get("min"); least != "" && parseBound(flag, least) == 0 {
			want = least
		}
		if got := flagText(flag); got != want {
			t.Errorf("--%s that is left out is %q, want %q", flag.Name, got, want)
		}
	}
}

func TestCommands(t *testing.T) {
	for line, want := range map[string]string{
		"":                                 "serve",
		"serve":                            "serve",
		"serve --workers 2":                "serve",
		"--workers=2 serve":                "serve",
		"version":                          "version",
		"--version":                        "version",
		"help":                             "help",
		"-h":                               "help",
		"serve --help":                     "help",
		"--help=true --data d":             "help",
		"-version":                         "version",
		"help import":                      "help",
		"import --help":                    "help",
		"import follows f.csv --help":      "help",
		"import follows f.csv":             "import follows",
		"import follows -":                 "import follows",
		"import posts p.jsonl":             "import posts",
		"import shows s.jsonl":             "import shows",
		"export alice --out f":             "export",
		"webhooks add a https://x --away":  "webhooks add",
		"webhooks list":                    "webhooks list",
		"vapid":                            "vapid",
		"webhooks status a":                "webhooks status",
		"schema":                           "schema",
		"schema --help":                    "help",
		"help export":                      "help",
		"--quiet import follows -- --both": "import follows",
	} {
		if got := mustParse(t, line); got.Name != want {
			t.Errorf("%q: got the command %q, want %q", line, got.Name, want)
		}
	}
}

// A flag takes precedence over its environment variable, and the variable over the default.
func TestFlagBeforeEnvironmentBeforeDefault(t *testing.T) {
	for _, c := range []struct {
		line string
		env  []string
		want int
	}{
		{"", nil, 4},
		{"", []string{"TIDINGS_WORKERS=7"}, 7},
		{"", []string{"TIDINGS_WORKERS="}, 4},
		{"--workers 9", []string{"TIDINGS_WORKERS=7"}, 9},
		{"-workers=9", []string{"TIDINGS_WORKERS=not a number, but not looked at"}, 9},
		{"--workers 8 --workers 9", nil, 9},
	} {
		if got := mustParse(t, c.line, c.env...).Config.Jobs.Workers; got != c.want {
			t.Errorf("%q %v: %d workers, want %d", c.line, c.env, got, c.want)
		}
	}
	if got := mustParse(t, "--redis=", "REDIS_URL=redis://cache:6379").Config.Redis; got != "" {
		t.Errorf("an empty flag leaves %q of the environment", got)
	}
	for _, scheme := range []string{"redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"} {
		if url := scheme + "://cache:1/name"; mustParse(t, "--redis "+url).Config.Redis != url {
			t.Errorf("--redis %s does not arrive", url)
		}
	}
}

// Every setting can be given by its flag and by its variable, and arrives in its field.
func TestEverySettingSetsItsField(t *testing.T) {
	given := map[string]string{
		"listen": "localhost:0", "operations-listen": "localhost:0", "data": "d", "database": "sqlite:x.db", "redis": "embedded", "node": "n-1",
		"jwt-secret": signingSecret, "jwt-public-key": "key.pem", "jwks": "https://id.example.com/jwks", "jwt-audience": "app", "jwt-issuer": "id",
		"origins": "https://a.example.com,http://b.example.com:8081", "display-caps": "TOTAL=9,HOME_FEED=9999", "feed-kinds": "POST,REPLY", "notification-expiry": "LIKE=2,MENTION=never", "badge-expiry": "CONVERSATIONS=7,HOME_FEED=never", "introspection": "always", "log-level": "debug", "log-format": "json",
		"operation-timeout": "2s", "body-limit": "2048", "ingest-body-limit": "1048577", "query-tokens": "500", "query-depth": "11", "query-fields": "200", "query-aliases": "12", "query-directives": "13", "query-root-fields": "9", "query-cache": "65537", "answer-limit": "65538", "request-deadline": "4s", "answer-deadline": "5s", "connections-per-address": "0", "socket-subscriptions": "3",
		"socket-write-deadline": "3s", "drain": "1s", "workers": "1", "active-for": "24h0m0s", "max-followees": "10", "max-mutes": "11", "max-blocks": "12", "max-hides": "13", "push-interval": "50ms", "reconcile-interval": "2s",
		"max-group": "50", "max-write-members": "40", "max-write-load": "3000", "inside-lease": "30s", "show-late-after": "1h0m0s", "show-longest": "3h0m0s", "mute-mentions": "true",
		"categories": "orders,promotions=dot+never+single", "site-message-types": "general,billing", "audit-every": "5m0s", "clean-every": "20m0s", "changes": "true", "changes-interval": "2s", "changes-lap": "5m0s", "webhooks-allow": "10.0.0.0/8,127.0.0.1", "webhooks-timeout": "2s", "webhooks-requests": "3", "vapid-private-key": vapidKey, "vapid-subject": "mailto:ops@example.com", "web-push-away": "true", "web-push-allow": "10.0.0.0/8", "web-push-timeout": "3s", "web-push-requests": "4", "board-sessions": "device", "board-session-for": "10m0s",
		"persisted-queries": "4096", "trusted-documents": "m.json", "trusted-only": "true", "demo": "true", "pprof": "true", "traces": "http://127.0.0.1:4318", "demo-pace": "7", "query-cost": "5000", "log-interval": "1s", "sockets-per-user": "7", "sockets-per-address": "70", "rate-limits": "WRITES=5,FOLLOWS=0", "trusted-proxies": "10.0.0.0/8,192.0.2.1", "idle-after": "48h0m0s", "big-followers": "100", "huge-followers": "6000000",
	}
	for _, flag := range settingsOf(node.Config{}) {
		value, known := given[flag.Name]
		if !known {
			t.Errorf("--%s: this test gives it no value", flag.Name)
			continue
		}
		line, environment := []string{"--" + flag.Name, value}, []string{environmentVariable(flag) + "=" + value}
		if flag.IsBool() {
			line = []string{"--" + flag.Name + "=" + value}
		}
		if flag.Name == "trusted-only" {
			line, environment = append(line, "--trusted-documents", "m.json"), append(environment, "TIDINGS_TRUSTED_DOCUMENTS=m.json")
		}
		if flag.Name == "jwt-audience" || flag.Name == "jwt-issuer" { // refused without a key
			line, environment = append(line, "--jwt-secret", signingSecret), append(environment, "TIDINGS_JWT_SECRET="+signingSecret)
		}
		for flagOf, other := range map[string]string{"vapid-private-key": "vapid-subject", "vapid-subject": "vapid-private-key"} { // not without each other
			if flag.Name == flagOf {
				line, environment = append(line, "--"+other, given[other]), append(environment, "TIDINGS_"+strings.ToUpper(strings.ReplaceAll(other, "-", "_"))+"="+given[other])
			}
		}
		byFlag := mustParse(t, strings.Join(line, " ")).Config
		byVariable := mustParse(t, "", environment...).Config
		for way, config := range map[string]node.Config{"flag": byFlag, "variable": byVariable} {
			if got := settingText(config, flag.Name); got != value {
				t.Errorf("--%s by %s: the field holds %q, want %q", flag.Name, way, got, value)
			}
		}
	}
}

// A flag that was renamed is still taken by its former name and variable. The new variable takes precedence, and the help has only
// the new name.
func TestFormerNamesOfFlagsStillWork(t *testing.T) {
	for _, config := range []node.Config{
		mustParse(t, "--sweep-interval 2s").Config,
		mustParse(t, "", "TIDINGS_SWEEP_INTERVAL=2s").Config,
		mustParse(t, "", "TIDINGS_SWEEP_INTERVAL=3s", "TIDINGS_RECONCILE_INTERVAL=2s").Config,
		mustParse(t, "--reconcile-interval 2s", "TIDINGS_SWEEP_INTERVAL=3s").Config,
	} {
		if config.Push.ReconcileInterval != 2*time.Second {
			t.Errorf("the interval is %v", config.Push.ReconcileInterval)
		}
	}
	_, err := ParseArgs(nil, func(name string) string {
		return map[string]string{"TIDINGS_SWEEP_INTERVAL": "soon"}[name]
	}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "--reconcile-interval (TIDINGS_RECONCILE_INTERVAL), formerly --sweep-interval, is ") {
		t.Errorf("a wrong value under the former name: %v", err)
	}
	var help strings.Builder
	if _, err := ParseArgs([]string{"--help"}, func(string) string { return "" }, &help); err != nil || strings.Contains(strings.ToLower(help.String()), "sweep") {
		t.Errorf("the help has the former name, or fails: %v", err)
	}
}

// settingText is the value of the setting with this flag, as text.
func settingText(config node.Config, name string) string {
	for _, flag := range settingsOf(config) {
		if flag.Name == name {
			return flagText(flag)
		}
	}
	return ""
}

func TestTrustedOnlyNeedsItsDocuments(t *testing.T) {
	if _, err := parse(t, "--trusted-only"); err == nil || !strings.Contains(err.Error(), "--trusted-documents") {
		t.Errorf("got %v", err)
	}
}

// Outside development mode, --pprof needs --operations-listen.
func TestProfilesNeedAnAddressOfOperators(t *testing.T) {
	_, err := parse(t, "--pprof --jwt-secret "+signingSecret)
	if err == nil || !strings.Contains(err.Error(), "--pprof (TIDINGS_PPROF)") || !strings.Contains(err.Error(), "--operations-listen (TIDINGS_OPERATIONS_LISTEN)") {
		t.Errorf("got %v", err)
	}
	mustParse(t, "--pprof")
	mustParse(t, "--pprof --operations-listen :9090 --jwt-secret "+signingSecret)
}

// A variable that only the server reads does not stop an import.
func TestImport(t *testing.T) {
	got := mustParse(t, "import follows f.csv --both --prefix u --database sqlite:x.db --quiet", "TIDINGS_LISTEN=:80", "TIDINGS_WORKERS=x", "TIDINGS_DATA=d")
	if want := (importOptions{What: "follows", File: "f.csv", Both: true, Prefix: "u", Quiet: true}); got.Import != want {
		t.Errorf("got %+v, want %+v", got.Import, want)
	}
	if got.Config.DatabaseURL() != "sqlite:x.db" || got.Config.Data != "d" {
		t.Errorf("database %q, data %q", got.Config.DatabaseURL(), got.Config.Data)
	}
	if got := mustParse(t, "import follows -- --both"); got.Import.File != "--both" || got.Import.Both {
		t.Errorf("a file after --: %+v", got.Import)
	}
	if got := mustParse(t, "import follows f --data d").Config.DatabaseURL(); got != "sqlite:d/tidings.db" {
		t.Errorf("the database in the data folder is %q", got)
	}
}

func TestDevelopmentAndIntrospection(t *testing.T) {
	for _, c := range []struct {
		line          string
		development   bool
		introspection string
	}{
		{"", true, "development"},
		{"--introspection never", true, "never"},
		{"--listen [::1]:0", true, "development"},
		{"--listen :8080 --jwt-secret " + signingSecret, false, "development"},
		{"--listen :8080 --jwt-public-key k.pem --introspection always", false, "always"},
		{"--listen example.com:443 --jwks k.json", false, "development"},
	} {
		got := mustParse(t, c.line).Config
		if got.Development() != c.development || got.Introspection != c.introspection {
			t.Errorf("%q: development %t, introspection %s", c.line, got.Development(), got.Introspection)
		}
	}
}

// No password is printed: not at the start, and not in a fault.
func TestSecretsAreHidden(t *testing.T) {
	const password = "s3cr/t@x"
	for _, value := range []string{
		"redis://user:" + password + "@cache:6379/0", "redis+cluster://:" + password + "@h1:1,h2:2", "rediss://h:1?password=" + password,
		"h:1?token=" + password, "user:" + password + "@cache", "redis://u:" + password + "\n@h",
	} {
		config := node.Config{Tokens: transport.TokenSettings{HMACSecret: password, JWKS: value}, Redis: value, Database: value}
		shown := fmt.Sprint(maskedSettings(config))
		for _, flag := range settingsOf(config) {
			shown += fmt.Sprint(checkSetting(flag, config.Faults()))
		}
		if strings.Contains(shown, "s3cr") || strings.Contains(shown, "t@x") {
			t.Errorf("%q comes out: %s", value, shown)
		}
		if !strings.Contains(shown, secretMask) {
			t.Errorf("%q: nothing is hidden in %s", value, shown)
		}
	}
	masked := fmt.Sprint(maskedSettings(node.Config{Listen: "127.0.0.1:1", Redis: "redis://u:p@cache:6379/0"}))
	if !strings.Contains(masked, "listen=127.0.0.1:1") || !strings.Contains(masked, "redis=redis://u:***@cache:6379/0") {
		t.Errorf("what is no secret is not shown: %s", masked)
	}
}

func TestNodeNames(t *testing.T) {
	first, second := node.NewNodeName(1), node.NewNodeName(2)
	if fault := (node.Config{Node: first}).Faults()["node"]; first == second || fault != "" {
		t.Errorf("the nodes %q and %q: %s", first, second, fault)
	}
}

func TestTheDemoIsRefusedBesideProductionSettings(t *testing.T) {
	if got := mustParse(t, "--demo").Config; !got.Demo || got.Data != "" {
		t.Errorf("--demo alone: %t, data %q", got.Demo, got.Data)
	}
	if got := mustParse(t, "--demo --data d").Config.Data; got != "d" {
		t.Errorf("--demo --data d: data %q", got)
	}
	if got := mustParse(t, "--demo", "TIDINGS_DATA=d").Config.Data; got != "d" {
		t.Errorf("--demo with TIDINGS_DATA=d: data %q", got)
	}
	for line, want := range map[string]string{
		"--demo --database postgres://db/x":    "--demo (TIDINGS_DEMO) is \"true\": the demo has a database of its own, and --database (DATABASE_URL) is set",
		"--demo --database sqlite:x.db":        "the demo has a database of its own",
		"--demo --redis redis://cache":         "the demo has a Redis of its own, and --redis (REDIS_URL) names another",
		"--demo --jwks keys.json":              "the demo is for development mode, and --jwks (TIDINGS_JWKS) is set",
		"--demo --jwt-public-key key.pem":      "the demo is for development mode",
		"--demo --jwt-secret " + signingSecret: "the demo is for development mode, and --jwt-secret (TIDINGS_JWT_SECRET) is set",
		"--demo --listen 0.0.0.0:80":           "loopback only",
		"import follows f.csv --demo":          "--demo is not a flag of tidings import follows",
		"--demo --demo-pace=-1":                "0 to 6000 is allowed",
	} {
		if _, err := parse(t, line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", line, err, want)
		}
	}
	if _, err := parse(t, "--demo", "DATABASE_URL=postgres://db/x"); err == nil {
		t.Error("the demo takes the database of the environment for its own")
	}
}
