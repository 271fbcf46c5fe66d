package contract

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"tidings/services/node"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// If a key for tokens is configured, only valid tokens are accepted, over HTTP and on sockets: no forged, expired or development
// tokens.
func TestOnlyValidTokensAreAccepted(t *testing.T) {
	const secret = "0123456789abcdef0123456789abcdef"
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ManualStepping: true, ChangeConfig: func(cfg *node.Config) {
		cfg.Tokens.HMACSecret, cfg.Tokens.Audience = secret, "tidings"
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
			unauthenticated("token", bad.says).checkAnswer(t, got)
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
		forbidden("token", "scope").checkAnswer(t, got)
	})
}
