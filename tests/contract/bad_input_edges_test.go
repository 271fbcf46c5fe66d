package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"tidings/services/node"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// jsonHeader makes the header of a request with JSON and a token. more are names and values of further fields.
func jsonHeader(token string, more ...string) http.Header {
	header := http.Header{"Content-Type": {"application/json"}}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(more); i += 2 {
		header.Set(more[i], more[i+1])
	}
	return header
}

// paddedRequest returns a request of this many bytes that has an effect if it is accepted.
func paddedRequest(bytes int) string {
	const request = `{"query":"mutation{publishPost(input:{body:\"too long\"}){post{id}}}","variables":{"padding":"%s"}}`
	return fmt.Sprintf(request, strings.Repeat("x", bytes-len(request)+len("%s")))
}

// Malformed requests, and missing or insufficient tokens, are refused.
func TestBadRequests(t *testing.T) {
	c := newSmallNode(t, nil)
	publish := `{"query":"mutation{publishPost(input:{body:\"b\"}){post{id}}}"}`
	ingest := `{"query":"mutation($e:[IngestEvent!]!){ingest(events:$e){results{id}}}","variables":{"e":[{"as":"user:bob","do":{"publishPost":{"body":"b"}}}]}}`
	alice := jsonHeader("dev:alice")
	with := func(name, value string) http.Header { return jsonHeader("dev:alice", name, value) }
	for _, bad := range []struct {
		name   string
		header http.Header
		body   string
		status int
		want   wantedError
	}{
		{"no JSON", alice, `query{viewer{user{id}}}`, 400, wantedError{"INVALID", []string{"body", "not a JSON object"}}},
		{"half of it", alice, publish[:len(publish)-1], 400, wantedError{"INVALID", []string{"body", "not a JSON object"}}},
		{"two of them", alice, publish + publish, 400, wantedError{"INVALID", []string{"body", "not a JSON object"}}},
		{"a list", alice, `[` + publish + `]`, 400, wantedError{"INVALID", []string{"body", "not a JSON object"}}},
		{"nothing", alice, ``, 400, wantedError{"INVALID", []string{"body", "not a JSON object"}}},
		{"no query", alice, `{}`, 400, wantedError{"INVALID", []string{"query"}}},
		{"variables in a list", alice, `{"query":"{viewer{user{id}}}","variables":[]}`, 400, wantedError{"INVALID", []string{"variables", "JSON object"}}},
		{"broken UTF-8", alice, strings.Replace(publish, `\"b\"`, "\\\"\xff\\\"", 1), 400, wantedError{"INVALID", []string{"body", "not valid UTF-8"}}},
		{"half an emoji", alice, strings.Replace(publish, `\"b\"`, `\"\ud83d\"`, 1), 400, wantedError{"INVALID", []string{"body", `\ud83d is half of a surrogate pair`}}},
		{"half an emoji in the query's own way", alice, strings.Replace(publish, `\"b\"`, `\"\\uDE00\"`, 1), 400, wantedError{"INVALID", []string{"query", `\uDE00 is half of a surrogate pair`}}},
		{"half an emoji in a variable", jsonHeader("dev:host:ingest"), strings.Replace(ingest, `"body":"b"`, `"body":"\ud83d\u0041"`, 1), 400, wantedError{"INVALID", []string{"body", `\ud83d is half of a surrogate pair`}}},
		{"a form", with("Content-Type", "application/x-www-form-urlencoded"), publish, 415, wantedError{"INVALID", []string{"Content-Type", "application/json"}}},
		{"plain text", with("Content-Type", "text/plain"), publish, 415, wantedError{"INVALID", []string{"Content-Type"}}},
		{"another alphabet", with("Content-Type", "application/json; charset=latin1"), publish, 415, wantedError{"INVALID", []string{"Content-Type", "UTF-8"}}},
		{"64 KB and one", alice, paddedRequest(65537), 413, wantedError{"INVALID", []string{"body", "65536 bytes"}}},
		{"10 MB", alice, paddedRequest(10 << 20), 413, wantedError{"INVALID", []string{"body", "65536 bytes"}}},
		{"1 MB and one to ingest", jsonHeader("dev:host:ingest"), paddedRequest(1<<20 + 1), 413, wantedError{"INVALID", []string{"body", "1048576 bytes"}}},

		{"no token", jsonHeader(""), publish, 200, wantedError{"UNAUTHENTICATED", []string{"Authorization: Bearer"}}},
		{"no Bearer", with("Authorization", "dev:alice"), publish, 401, wantedError{"UNAUTHENTICATED", []string{"Authorization", "Bearer TOKEN"}}},
		{"a token of another kind", jsonHeader("eyJhbGciOiJub25lIn0.e30."), publish, 401, wantedError{"UNAUTHENTICATED", []string{"token", "dev:KEY"}}},
		{"a user who cannot be", jsonHeader("dev:a%0Ab"), publish, 401, wantedError{"UNAUTHENTICATED", []string{"token", "1 to 128"}}},
		{"a user of 129 letters", jsonHeader("dev:" + strings.Repeat("k", 129)), publish, 401, wantedError{"UNAUTHENTICATED", []string{"token", "1 to 128"}}},
		{"a user who is not escaped", jsonHeader("dev:a|b"), publish, 401, wantedError{"UNAUTHENTICATED", []string{"token", "percent-encoded"}}},
		{"a scope that is none", jsonHeader("dev:alice:root"), publish, 401, wantedError{"UNAUTHENTICATED", []string{"token", "viewer, ingest and admin"}}},
		{"a token of 9 KB", jsonHeader("dev:" + strings.Repeat("k", 9000)), publish, 401, wantedError{"UNAUTHENTICATED", []string{"token", "8192", "9004"}}},
		{"ingest without its scope", alice, ingest, 200, wantedError{"FORBIDDEN", []string{"scope ingest"}}},
		{"ingest as an admin", jsonHeader("dev:alice:admin"), ingest, 200, wantedError{"FORBIDDEN", []string{"scope ingest"}}},
		{"admin without its scope", alice, `{"query":"{admin{jobs{waiting}}}"}`, 200, wantedError{"FORBIDDEN", []string{"scope admin"}}},
		{"admin with ingest", jsonHeader("dev:host:ingest"), `{"query":"{admin{jobs{waiting}}}"}`, 200, wantedError{"FORBIDDEN", []string{"scope admin"}}},
		{"acting without the scope", with("Tidings-Act-As", "bob"), publish, 403, wantedError{"FORBIDDEN", []string{"Tidings-Act-As", "scope ingest"}}},
		{"acting as nobody", jsonHeader("dev:host:ingest", "Tidings-Act-As", "b ob"), publish, 400, wantedError{"INVALID", []string{"Tidings-Act-As", `"b%20ob"`}}},
		{"acting as a post", jsonHeader("dev:host:ingest", "Tidings-Act-As", "post:0000000000001"), publish, 400, wantedError{"INVALID", []string{"Tidings-Act-As", "user:KEY"}}},
		{"a device of 65 letters", with("Tidings-Device", strings.Repeat("d", 65)), publish, 400, wantedError{"INVALID", []string{"Tidings-Device", "1 to 64", "65"}}},
		{"a page of another site", with("Origin", "https://evil.example"), publish, 403, wantedError{"FORBIDDEN", []string{"Origin"}}},
	} {
		t.Run(bad.name, func(t *testing.T) {
			c.wantNoEffect(t, func(t *testing.T) {
				got := c.sendRaw(t, bad.header, bad.body)
				bad.want.checkAnswer(t, got)
				if got.Status != bad.status {
					t.Errorf("status %d, want %d", got.Status, bad.status)
				}
			})
		})
	}
	t.Run("what is just allowed", func(t *testing.T) { c.wantAcceptedAtLimits(t, publish, ingest) })
}

// wantAcceptedAtLimits checks that requests exactly at the limits are accepted.
func (c *smallNode) wantAcceptedAtLimits(t *testing.T, publish, ingest string) {
	t.Helper()
	alice := jsonHeader("dev:alice")
	for _, good := range []struct {
		header http.Header
		body   string
	}{
		{alice, paddedRequest(65536)},
		{jsonHeader("dev:host:ingest"), paddedRequest(1 << 20)},
		{jsonHeader("dev:host:ingest", "Tidings-Act-As", "bob"), publish},
		{jsonHeader("dev:host:ingest"), ingest},
	} {
		if got := c.sendRaw(t, good.header, good.body); len(got.Errors) > 0 || got.Status != 200 {
			t.Errorf("%d bytes with %v: %+v", len(good.body), good.header, got.Errors)
		}
	}
	var data struct {
		Viewer struct{ HomeFeed world.FeedPage }
	}
	c.MustAsk("bob", `{viewer{homeFeed{edges{node{id}}}}}`, nil, &data)
	if got := len(data.Viewer.HomeFeed.Edges); got != 3 { // an earlier post, one by a token that acts as the user, and one by ingest
		t.Errorf("bob has %d posts, want 3", got)
	}
}

// If a key for tokens is configured, only valid tokens are accepted, over HTTP and on sockets: no forged, expired or development
// tokens.
func TestForgedTokens(t *testing.T) {
	const secret = "0123456789abcdef0123456789abcdef"
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ManualStepping: true, ChangeConfig: func(cfg *node.Config) {
		cfg.JWTSecret, cfg.JWTAudience = secret, "tidings"
	}})
	n.TailChangelog() // makes the node ready for sockets
	now := n.Clock.Now()
	signed := func(method jwt.SigningMethod, key any, change jwt.MapClaims) string {
		t.Helper()
		claims := jwt.MapClaims{"sub": "alice", "aud": "tidings", "exp": now.Add(time.Hour).Unix()}
		maps.Copy(claims, change)
		token, err := jwt.NewWithClaims(method, claims).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	good := signed(jwt.SigningMethodHS256, []byte(secret), nil)
	ask := func(token string) world.Answer {
		t.Helper()
		return n.PostGraphQL("Bearer "+token, []byte(`{"query":"{viewer{user{key}}}"}`))
	}
	if got := ask(good); string(got.Data) != `{"viewer":{"user":{"key":"alice"}}}` {
		t.Fatalf("a good token: %s %+v", got.Data, got.Errors)
	}
	for name, bad := range map[string]struct {
		token, says string
	}{
		"signed by another":       {signed(jwt.SigningMethodHS256, []byte(strings.Repeat("x", 32)), nil), "signature"},
		"signed by nobody":        {signed(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil), "algorithm"},
		"of another algorithm":    {signed(jwt.SigningMethodHS512, []byte(secret), nil), "algorithm"},
		"changed":                 {good[:strings.IndexByte(good, '.')+1] + "eyJzdWIiOiJib2IifQ" + good[strings.LastIndexByte(good, '.'):], "signature"},
		"expired":                 {signed(jwt.SigningMethodHS256, []byte(secret), jwt.MapClaims{"exp": now.Add(-time.Hour).Unix()}), "has expired"},
		"never expiring":          {signed(jwt.SigningMethodHS256, []byte(secret), jwt.MapClaims{"exp": nil}), "exp"},
		"not valid yet":           {signed(jwt.SigningMethodHS256, []byte(secret), jwt.MapClaims{"nbf": now.Add(time.Hour).Unix()}), "not valid yet"},
		"for another":             {signed(jwt.SigningMethodHS256, []byte(secret), jwt.MapClaims{"aud": "others"}), "another audience"},
		"without a user":          {signed(jwt.SigningMethodHS256, []byte(secret), jwt.MapClaims{"sub": ""}), "sub"},
		"of the development mode": {"dev:alice", "development tokens are refused"},
		"no token at all":         {"x.y.z", "not a JSON Web Token"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(bad.token)
			wantedError{"UNAUTHENTICATED", []string{"token", bad.says}}.checkAnswer(t, got)
			if got.Status != http.StatusUnauthorized {
				t.Errorf("status %d, want 401", got.Status)
			}
			if strings.Contains(got.Errors[0].Message, bad.token) {
				t.Errorf("the token is repeated in %q", got.Errors[0].Message)
			}
			if code := n.CloseCodeForToken(t, bad.token); code != 4403 {
				t.Errorf("a socket was closed with %d, want 4403", code)
			}
		})
	}
	t.Run("of a scope of others", func(t *testing.T) {
		got := ask(signed(jwt.SigningMethodHS256, []byte(secret), jwt.MapClaims{"scope": "openid email"}))
		wantedError{"FORBIDDEN", []string{"token", "scope"}}.checkAnswer(t, got)
	})
}

// An invalid subscription ends with its own error, and the socket stays open.
func TestBadSubscriptions(t *testing.T) {
	c := newSmallNode(t, nil)
	conn := c.Dial(t)
	world.Send(t, conn, `{"type":"connection_init","payload":{"authorization":"dev:alice"}}`)
	receive := func() (message struct {
		Type    string
		ID      string
		Payload json.RawMessage
	}) {
		t.Helper()
		_, text, err := conn.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		world.DecodeJSON(t, text, &message)
		return message
	}
	if got := receive(); got.Type != "connection_ack" {
		t.Fatalf("got %+v", got)
	}
	var asked int
	refuse := func(query string, variables map[string]any, want wantedError) {
		t.Helper()
		text, err := json.Marshal(variables)
		if err != nil {
			t.Fatal(err)
		}
		asked++
		world.Send(t, conn, fmt.Sprintf(`{"id":"%d","type":"subscribe","payload":{"query":%q,"variables":%s}}`, asked, query, text))
		got := receive()
		var problem world.Answer
		if got.Type == "error" {
			world.DecodeJSON(t, got.Payload, &problem.Errors)
		} else {
			world.DecodeJSON(t, got.Payload, &problem)
			if end := receive(); end.Type != "complete" {
				t.Errorf("after the error: %+v", end)
			}
		}
		want.checkAnswer(t, problem)
	}
	for _, since := range []string{"", "x", "0", strings.Repeat("1", 33), "0000000000000001.000000000000000x", "post:0000000000001"} {
		for _, shown := range []string{"badgesChanged(since:$s){version}", "notificationsChanged(since:$s){badges{version}}", "conversationsChanged(since:$s){badges{version}}"} {
			refuse("subscription($s:Version){"+shown+"}", map[string]any{"s": since}, wantedError{"INVALID", []string{"since", "version"}})
		}
	}
	for _, first := range []int{-1, 0, 101} {
		for _, name := range []string{"notificationsChanged", "conversationsChanged"} {
			refuse("subscription($f:Int){"+name+"(first:$f){badges{version}}}", map[string]any{"f": first}, wantedError{"INVALID", []string{"first", "1 to 100"}})
		}
	}
	world.Send(t, conn, `{"type":"ping"}`)
	if got := receive(); got.Type != "pong" {
		t.Errorf("afterwards the socket says %+v, want a pong", got)
	}
}

// A mutation with an idempotency key has its effect once, even if many requests with the key come at the same moment. A key
// belongs to one user and to one input.
func TestIdempotencyKeys(t *testing.T) {
	c := newSmallNode(t, nil)
	const query = `mutation($b:String!,$k:String){publishPost(input:{body:$b,idempotencyKey:$k}){post{id}}}`
	publish := func(as, body, key string) (string, world.Answer) {
		got := c.Ask(as, query, map[string]any{"b": body, "k": key})
		return string(got.Data), got
	}
	first, _ := publish("alice", "once", "k1")
	var same sync.WaitGroup
	answers := make([]string, 20)
	for i := range answers {
		same.Go(func() {
			if i%2 == 0 {
				answers[i], _ = publish("alice", "at once", "k2")
			} else {
				answers[i], _ = publish("alice", "once", "k1")
			}
		})
	}
	same.Wait()
	second := answers[0]
	for i, got := range answers {
		if want := []string{second, first}[i%2]; got != want || got == "null" {
			t.Errorf("%d: the answer is %s, want %s", i, got, want)
		}
	}
	if first == second {
		t.Errorf("two keys made one post: %s", first)
	}
	c.wantNoEffect(t, func(t *testing.T) {
		_, got := publish("alice", "twice", "k1")
		wantedError{"CONFLICT", []string{"idempotencyKey", `"k1"`, "24h"}}.checkAnswer(t, got)
		got = c.Ask("alice", `mutation{markHomeFeedSeen(input:{idempotencyKey:"k1"}){badges{version}}}`, nil)
		wantedError{"CONFLICT", []string{"idempotencyKey", `"k1"`}}.checkAnswer(t, got)
	})
	if other, got := publish("bob", "once", "k1"); len(got.Errors) > 0 || other == first {
		t.Errorf("bob's key: %s %+v", other, got.Errors)
	}
	// A refusal is stored under its key like any answer.
	const follow = `mutation($u:ID!,$k:String!){follow(input:{userId:$u,idempotencyKey:$k}){user{key}}}`
	c.MustAsk("dave", `mutation{block(input:{userId:"user:alice"}){user{key}}}`, nil, nil)
	for range 2 {
		wantedError{"NOT_FOUND", []string{"userId"}}.checkAnswer(t, c.Ask("alice", follow, map[string]any{"u": "user:dave", "k": "k3"}))
	}
	wantedError{"CONFLICT", []string{"idempotencyKey", `"k3"`}}.checkAnswer(t, c.Ask("alice", follow, map[string]any{"u": "user:carol", "k": "k3"}))
	for range 3 {
		c.MustAsk("alice", follow, map[string]any{"u": "user:carol", "k": "k4"}, nil)
	}
	c.SettleJobsAndCaches()
	if got := c.ReadWholeFeed("alice", 10); len(got) != 5 { // two posts of bob, and three of alice
		t.Errorf("alice's feed has %d posts, want 5: %v", len(got), got)
	}
	c.Clock.Advance(25 * time.Hour)
	if again, got := publish("alice", "twice", "k1"); len(got.Errors) > 0 || again == first {
		t.Errorf("after a day: %s %+v", again, got.Errors)
	}
}
