package transport

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"tidings/services"
)

// sha256Hex returns the hash of a text as a client sends it.
func sha256Hex(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// persistedQueryRequest is a request that names its query by hash, and contains the text too if that is not "".
func persistedQueryRequest(hash, query string) string {
	request := map[string]any{"extensions": map[string]any{"persistedQuery": map[string]any{"version": 1, "sha256Hash": hash}}}
	if query != "" {
		request["query"] = query
	}
	return string(must(json.Marshal(request)))
}

// withPersistedQueries changes a configuration so that the handler stores automatic persisted queries.
func withPersistedQueries(cfg *Config) { cfg.MaxPersistedQueryBytes = 1 << 20 }

// A client sends only the hash, gets PERSISTED_QUERY_NOT_FOUND, sends the hash with the text once, and then only the hash.
func TestAutomaticPersistedQueries(t *testing.T) {
	const query = "query Q { hello }"
	hash := sha256Hex(query)
	byGet := func(handler http.Handler, query string) httpAnswer {
		values := url.Values{"extensions": {`{"persistedQuery":{"version":1,"sha256Hash":"` + hash + `"}}`}}
		if query != "" {
			values.Set("query", query)
		}
		return askHandler(t, handler, http.MethodGet, "/graphql?"+values.Encode(), "")
	}
	byPost := func(handler http.Handler, query string) httpAnswer {
		return askHandler(t, handler, http.MethodPost, "/graphql", persistedQueryRequest(hash, query))
	}
	for name, send := range map[string]func(http.Handler, string) httpAnswer{"GET": byGet, "POST": byPost} {
		handler := newDevelopmentHandler(t, withPersistedQueries)
		got := send(handler, "")
		if want := `{"errors":[{"message":"PersistedQueryNotFound","extensions":{"code":"PERSISTED_QUERY_NOT_FOUND"}}]}`; got.status != 200 || got.body != want {
			t.Errorf("%s: an unknown hash: %d %s", name, got.status, got.body)
		}
		for _, text := range []string{query, ""} {
			if got := send(handler, text); got.body != `{"data":{"hello":"world"}}` {
				t.Errorf("%s: with the text %q: %d %s", name, text, got.status, got.body)
			}
		}
		if got := byGet(handler, ""); got.body != `{"data":{"hello":"world"}}` {
			t.Errorf("what came by %s is not known by GET: %s", name, got.body)
		}
	}
	off := newDevelopmentHandler(t, nil)
	if got := byPost(off, ""); got.errorCode() != services.PersistedQueryNotSupported || got.parsed.Errors[0].Message != "PersistedQueryNotSupported" {
		t.Errorf("without a db: %s", got.body)
	}
	if got := byPost(off, query); got.body != `{"data":{"hello":"world"}}` {
		t.Errorf("without a store, with the text: %s", got.body)
	}
}

// A hash must match its text, and only a text that can be executed is stored.
func TestPersistedQueriesAreChecked(t *testing.T) {
	handler := newDevelopmentHandler(t, withPersistedQueries)
	good := "{ hello }"
	for name, body := range map[string]string{
		"AnotherText": persistedQueryRequest(sha256Hex("{ who }"), good),
		"UpperCase":   persistedQueryRequest(strings.ToUpper(sha256Hex(good)), good),
		"Short":       persistedQueryRequest("abcd", good),
		"NoHex":       persistedQueryRequest(strings.Repeat("x", 64), ""),
		"Version":     `{"extensions":{"persistedQuery":{"version":2,"sha256Hash":"` + sha256Hex(good) + `"}}}`,
		"NoObject":    `{"extensions":{"persistedQuery":true}}`,
		"NotValid":    persistedQueryRequest(sha256Hex("{ nothing }"), "{ nothing }"),
		"TooDeep":     persistedQueryRequest(sha256Hex("{"+strings.Repeat("a{", 50)), "{"+strings.Repeat("a{", 50)),
	} {
		if got := askHandler(t, handler, http.MethodPost, "/graphql", body); got.errorCode() != services.Invalid {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	for _, text := range []string{"{ who }", "{ nothing }", good} {
		if got := askHandler(t, handler, http.MethodPost, "/graphql", persistedQueryRequest(sha256Hex(text), "")); got.errorCode() != services.PersistedQueryNotFound {
			t.Errorf("%s was stored: %s", text, got.body)
		}
	}
	hash := sha256Hex(`mutation { set(text: "a") }`)
	askHandler(t, handler, http.MethodPost, "/graphql", persistedQueryRequest(hash, `mutation { set(text: "a") }`))
	got := askHandler(t, handler, http.MethodGet, "/graphql?extensions="+url.QueryEscape(`{"persistedQuery":{"version":1,"sha256Hash":"`+hash+`"}}`), "")
	if got.status != http.StatusMethodNotAllowed {
		t.Errorf("a mutation by its hash and GET: %d %s", got.status, got.body)
	}
	dear := newDevelopmentHandler(t, func(cfg *Config) { withPersistedQueries(cfg); cfg.MaxQueryCost = 1 })
	askHandler(t, dear, http.MethodPost, "/graphql", persistedQueryRequest(sha256Hex("{hello who}"), "{hello who}"))
	if got := askHandler(t, dear, http.MethodPost, "/graphql", persistedQueryRequest(sha256Hex("{hello who}"), "")); got.errorCode() != services.Invalid || !strings.Contains(got.body, "costs") {
		t.Errorf("the cost does not hold on a hash: %s", got.body)
	}
}

// The store keeps the newest texts within its limit of bytes.
func TestThePersistedStoreIsBounded(t *testing.T) {
	p := newPersistedQueries(Config{RequestSettings: RequestSettings{MaxPersistedQueryBytes: 10 << 10}})
	for i := range 1000 {
		text := fmt.Sprintf("{ hello%d %s }", i, strings.Repeat(" ", i%3000))
		p.add(sha256.Sum256([]byte(text)), text)
		if p.bytes > p.maxBytes || p.bytes < 0 {
			t.Fatalf("%d bytes of %d", p.bytes, p.maxBytes)
		}
		if _, known := p.get(sha256.Sum256([]byte(text))); !known {
			t.Fatalf("text %d of %d bytes was not stored", i, len(text))
		}
	}
	long := strings.Repeat("a", 11<<10)
	p.add(sha256.Sum256([]byte(long)), long)
	if _, known := p.get(sha256.Sum256([]byte(long))); known || p.textByHash.Len() == 0 {
		t.Error("one that is larger than the store took its place")
	}
}

// The text of a query in a URL is a substring of the request line. The store must not keep the whole line in memory.
func TestThePersistedStoreKeepsOnlyTheText(t *testing.T) {
	handler := newDevelopmentHandler(t, withPersistedQueries)
	variables := "&variables=" + url.QueryEscape(`{"t":"`+strings.Repeat("a", 30<<10)+`"}`)
	heap := func() uint64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.GC() // the first collection only moves pooled objects to the victim cache
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := heap()
	for i := range 1000 {
		query := fmt.Sprintf("{a%d:hello}", i)
		target := "/graphql?query=" + query + "&extensions=" + url.QueryEscape(`{"persistedQuery":{"version":1,"sha256Hash":"`+sha256Hex(query)+`"}}`) + variables
		if got := askHandler(t, handler, http.MethodGet, target, ""); got.status != http.StatusOK {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	if grown := int64(heap()) - int64(before); grown > 15<<20 {
		t.Errorf("1,000 stored texts of 12 bytes hold %d bytes", grown)
	}
	runtime.KeepAlive(handler)
}

// Hashes work on sockets and event streams, where subscriptions by hash share an operation context like those by text.
func TestPersistedQueriesOfSubscriptions(t *testing.T) {
	const query = "subscription { ticks }"
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		c := w.openSocket("alice")
		c.send(`{"type":"subscribe","id":"1","payload":` + persistedQueryRequest(sha256Hex(query), "") + `}`)
		c.expectMessage(`{"type":"error","id":"1","payload":[{"message":"PersistedQueryNotFound","extensions":{"code":"PERSISTED_QUERY_NOT_FOUND"}}]}`)
		c.send(`{"type":"subscribe","id":"1","payload":` + persistedQueryRequest(sha256Hex(query), query) + `}`)
		synctest.Wait()
		c.send(`{"type":"subscribe","id":"2","payload":` + persistedQueryRequest(sha256Hex(query), "") + `}`)
		e := w.readEventStream(w.sendHTTP(http.MethodPost, "", persistedQueryRequest(sha256Hex(query), ""), "Accept", typeEvents))
		synctest.Wait()
		if n := len(w.sockets.sharedContexts.entries); n != 1 {
			t.Errorf("%d documents are held for one", n)
		}
		w.schema.hub.publish(1)
		e.expectEvent(nextEventText(`{"data":{"ticks":1}}`))
	})
}

// readManifest reads a manifest of trusted documents that has this text.
func readManifest(t *testing.T, text string) (*TrustedDocuments, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manifest.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return ReadTrustedDocuments(path)
}

// A trusted document is executed by its ID, its hash or its text. With TrustedOnly no other document is executed.
func TestTrustedDocuments(t *testing.T) {
	const query, mutation = "query Q($t: String!) { echo(text: $t) }", `mutation { set(text: "it") }`
	for name, text := range map[string]string{
		"Object":      fmt.Sprintf(`{"sha256:%s":%q,%q:%q}`, sha256Hex(query), query, sha256Hex(mutation), mutation),
		"ApolloTools": fmt.Sprintf(`{"format":"apollo-persisted-query-manifest","version":1,"operations":[{"id":%q,"name":"Q","type":"query","body":%q},{"id":%q,"body":%q}]}`, sha256Hex(query), query, sha256Hex(mutation), mutation),
	} {
		trusted, err := readManifest(t, text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, only := range []bool{false, true} {
			handler := newDevelopmentHandler(t, func(cfg *Config) { cfg.Trusted, cfg.TrustedOnly, cfg.MaxPersistedQueryBytes = trusted, only, 1<<20 })
			const variables = `"variables":{"t":"a"}`
			for form, body := range map[string]string{
				"ID": `{"documentId":"sha256:` + sha256Hex(query) + `",` + variables + `}`, "Hash": strings.TrimSuffix(persistedQueryRequest(sha256Hex(query), ""), "}") + `,` + variables + `}`,
				"Text": fmt.Sprintf(`{"query":%q,%s}`, query, variables),
			} {
				if got := askHandler(t, handler, http.MethodPost, "/graphql", body); got.body != `{"data":{"echo":"a"}}` {
					t.Errorf("%s, %s, only %t: %d %s", name, form, only, got.status, got.body)
				}
			}
			if got := askHandler(t, handler, http.MethodGet, "/graphql?documentId=sha256:"+sha256Hex(query)+"&variables=%7B%22t%22:%22b%22%7D", ""); got.body != `{"data":{"echo":"b"}}` {
				t.Errorf("%s: by GET: %s", name, got.body)
			}
			if got := askHandler(t, handler, http.MethodGet, "/graphql?documentId=sha256:"+sha256Hex(mutation), ""); got.status != http.StatusMethodNotAllowed {
				t.Errorf("%s: a mutation by GET: %d %s", name, got.status, got.body)
			}
			for _, other := range []string{"{ hello }", query + " "} {
				want := map[bool]services.Code{false: "", true: services.Forbidden}[only]
				if got := askHandler(t, handler, http.MethodPost, "/graphql", fmt.Sprintf(`{"query":%q,%s}`, other, variables)); got.errorCode() != want {
					t.Errorf("%s: a text that is not trusted, only %t: %s", name, only, got.body)
				}
				if got := askHandler(t, handler, http.MethodPost, "/graphql", persistedQueryRequest(sha256Hex(other), other)); only && got.errorCode() != services.Forbidden {
					t.Errorf("%s: a hash that is not trusted: %s", name, got.body)
				}
			}
			for _, id := range []string{"sha256:" + sha256Hex("{ hello }"), sha256Hex(query), "Q", "md5:abc", "sha256:" + strings.ToUpper(sha256Hex(query))} {
				if got := askHandler(t, handler, http.MethodPost, "/graphql", `{"documentId":"`+id+`"}`); got.errorCode() != services.NotFound || len(got.parsed.Errors) != 1 {
					t.Errorf("%s: the id %s: %s", name, id, got.body)
				}
			}
			if got := askHandler(t, handler, http.MethodPost, "/graphql", `{"documentId":"sha256:`+sha256Hex(query)+`","query":"{ hello }"}`); got.errorCode() != services.Invalid {
				t.Errorf("%s: an id and a text: %s", name, got.body)
			}
		}
	}
}

func TestInvalidManifests(t *testing.T) {
	for text, says := range map[string]string{
		`[]`: "JSON object", `{`: "JSON object", `{"a":"{ hello }"}`: `"a"`, `{"sha256:` + sha256Hex("{ who }") + `":"{ hello }"}`: "SHA-256",
		`{"format":"other","operations":[]}`: `"other"`, `{"format":"apollo-persisted-query-manifest","operations":[{"id":"x","body":"{ hello }"}]}`: `"x"`,
	} {
		if _, err := readManifest(t, text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := ReadTrustedDocuments("nowhere.json"); err == nil {
		t.Error("a file that is not there")
	}
}
