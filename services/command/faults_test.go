package command

import (
	"errors"
	"strings"
	"testing"
)

// Each line has one fault, and its message must contain each of the words.
func TestConfigFaults(t *testing.T) {
	wantParseFaults(t, map[string][]string{
		"--workers 0":                          {"--workers (TIDINGS_WORKERS)", `"0"`, "1 to 256"},
		"--workers 257":                        {`"257"`, "1 to 256"},
		"--workers many":                       {`"many"`, "whole number"},
		"--push-interval 1ms":                  {"TIDINGS_PUSH_INTERVAL", `"1ms"`, "10ms to 10s"},
		"--drain 13s":                          {"0s to 12s"},
		"--drain 8":                            {`"8"`, "duration with its unit"},
		"--log-level loud":                     {`"loud"`, "debug, info, warn or error"},
		"--log-format xml":                     {`"xml"`, "text, json"},
		"--introspection on":                   {"development, always, never"},
		"--listen 127.0.0.1":                   {"HOST:PORT"},
		"--listen 127.0.0.1:70000":             {"0 to 65535"},
		"--listen 127.0.0.1:http":              {"0 to 65535"},
		"--listen :8080":                       {"development mode", "loopback only", "--jwt-secret", "--jwt-public-key", "--jwks"},
		"--listen 0.0.0.0:8080":                {`"0.0.0.0:8080"`, "loopback only"},
		"--listen example.com:80":              {"loopback only"},
		"--data=":                              {"TIDINGS_DATA", "folder"},
		"--database mysql://h/n":               {"DATABASE_URL", "postgres://", "sqlite:FILE"},
		"--database sqlite:":                   {"sqlite:FILE"},
		"--database postgres:n":                {"postgres://"},
		"--redis cache:6379":                   {"REDIS_URL", "redis+cluster://", "rediss+cluster://"},
		"--redis redis://":                     {"redis://"},
		"--node a/b":                           {"TIDINGS_NODE", `"a/b"`, "1 to 64"},
		"--origins https://a/path":             {"TIDINGS_ORIGINS", `"https://a/path"`, "scheme://host"},
		"--origins https://ok,*":               {`"*" is not an origin`},
		"--feed-kinds SONG":                    {"TIDINGS_FEED_KINDS", `"SONG" is not a kind`, "COMMENT"},
		"--feed-kinds=,":                       {"at least one kind"},
		"--notification-expiry SONG=2":         {"TIDINGS_NOTIFICATION_EXPIRY", `"SONG=2" is not a category`, "LIKE"},
		"--notification-expiry LIKE=8":         {`"LIKE=8": 1 to 7 or never`},
		"--notification-expiry LIKE=0":         {`"LIKE=0": 1 to 7 or never`},
		"--notification-expiry LIKE":           {`"LIKE": 1 to 7 or never`},
		"--notification-expiry LIKE=1,LIKE=2":  {"LIKE is named twice"},
		"--display-caps WEATHER=5":             {"TIDINGS_DISPLAY_CAPS", `"WEATHER=5" is not a source`, "HOME_FEED"},
		"--display-caps TOTAL":                 {`"TOTAL": 1 to 9999`},
		"--display-caps TOTAL=0":               {`"TOTAL=0": 1 to 9999`},
		"--display-caps TOTAL=9,TOTAL=8":       {"TOTAL is named twice"},
		"--body-limit 1000":                    {"1024 to 16777216"},
		"--big-followers 7 --huge-followers 6": {"--huge-followers", "at least --big-followers, 7"},
		"--body-limit 2097152":                 {"--ingest-body-limit", "at least --body-limit, 2097152"},
		"--jwt-secret short":                   {"TIDINGS_JWT_SECRET", "at least 32 bytes", "got 5"},
		"--jwt-audience app":                   {"without a key", "--jwks"},
		"--jwt-issuer id":                      {"without a key"},
		"--jwks ftp://h/jwks":                  {"https://"},
		"--jwks k --jwt-public-key p":          {"--jwks (TIDINGS_JWKS)", "only one key"},
		"--lisen x":                            {"unknown flag --lisen", `did you mean "--listen"?`, "tidings --help"},
		"--nothing-like-it":                    {"unknown flag --nothing-like-it"},
		"--data":                               {"--data: a value is required"},
		"--data --workers 3":                   {"--data: a value is required"},
		"--both":                               {"--both is not a flag of tidings serve"},
		"srve":                                 {"unexpected argument srve", `did you mean "serve"?`, "tidings --help"},
		"serve now":                            {"unexpected argument now"},
		"import":                               {`expected "<what> <file>"`, "tidings import --help"},
		"import likes f":                       {`"likes" is not a kind of import`, "follows, messages, posts and shows are"},
		"import posts":                         {`expected "<file>"`, "tidings import --help"},
		"import posts a --both":                {"--both is not a flag of tidings import posts"},
		"import posts a --factor 5":            {"--factor is not a flag of tidings import posts"},
		"import posts a --feed-kinds NEWS":     {"--feed-kinds", "NEWS"},
		"import follows":                       {`expected "<file>"`},
		"import follows a b":                   {"unexpected argument b"},
		"import follows a --listen :1":         {"--listen is not a flag of tidings import follows"},
		"import follows a --prefix \u200b":     {"--prefix", `"\u200b"`, "printable"},
		"import follows a --both=maybe":        {"--both", `"maybe"`, "true", "false"},
	})
}

func TestFaultsOfCategories(t *testing.T) {
	wantParseFaults(t, map[string][]string{
		"--categories LIKE":               {"TIDINGS_CATEGORIES", `"LIKE" is not a name`},
		"--categories orders=8":           {`"orders=8": after the = are options`, "1 to 7"},
		"--categories orders=":            {`"orders=": after the = are options`},
		"--categories orders,orders=dot":  {"orders is named twice"},
		"--categories orders=dot+apart":   {`"orders=dot+apart": after the = are options`},
		"--categories orders=single+dot+": {`"orders=single+dot+": after the = are options`},
	})
}

// wantParseFaults parses lines that have one fault each. The message of each must contain all of its words.
func wantParseFaults(t *testing.T, lines map[string][]string) {
	t.Helper()
	for line, words := range lines {
		_, err := parse(t, line)
		if err == nil {
			t.Errorf("%q was taken", line)
			continue
		}
		if usage, ok := errors.AsType[*usageError](err); !ok || len(usage.faults) != 1 {
			t.Errorf("%q: want one fault, got %v", line, err)
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q: the message lacks %q:\n%v", line, word, err)
			}
		}
	}
}

func TestAllConfigFaultsAreReported(t *testing.T) {
	_, err := parse(t, "--workers x --drain 1h", "TIDINGS_LISTEN=:1", "REDIS_URL=what", "TIDINGS_QUERY_TOKENS=5")
	for _, flag := range []string{"--workers", "--drain", "--listen", "--redis", "--query-tokens"} {
		if err == nil || !strings.Contains(err.Error(), "\n  "+flag+" (") {
			t.Errorf("%s is not reported: %v", flag, err)
		}
	}
	if !strings.HasPrefix(err.Error(), "5 faults:\n") || !strings.HasSuffix(err.Error(), "\ntidings --help lists every command and flag.") {
		t.Errorf("the frame of the message: %v", err)
	}
}
