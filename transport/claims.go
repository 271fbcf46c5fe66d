package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"tidings/services"
)

// tokenClaims are the claims that the server reads. The library checks the registered ones; this file checks scope and sub.
type tokenClaims struct {
	jwt.RegisteredClaims
	// Scope has no JSON tag, because UnmarshalJSON reads the claims by their names without reflection.
	Scope scopeClaim
}

// errDuplicateClaim refuses a token with a repeated claim: two readers could understand it differently.
var errDuplicateClaim = services.Errorf(services.Unauthenticated, "token: it has a claim twice")

// UnmarshalJSON reads the claims by their exact names. Decoding into a struct would take Scope for scope and SUB for sub: an issuer
// may let anyone put claims with such names into a token. It would also use the last of two claims with one name.
func (c *tokenClaims) UnmarshalJSON(data []byte) error {
	known := map[string]any{
		"iss": &c.Issuer, "sub": &c.Subject, "aud": &c.Audience, "exp": &c.ExpiresAt, "nbf": &c.NotBefore, "iat": &c.IssuedAt, "scope": &c.Scope,
	}
	// The JSON is read token by token, because only then a repeated name can be seen.
	decoder := json.NewDecoder(bytes.NewReader(data))
	if open, err := decoder.Token(); err != nil || open != json.Delim('{') {
		return errors.Join(err, jwt.ErrTokenMalformed)
	}
	seen := map[string]bool{}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		claim, _ := name.(string) // the decoder guarantees that a key is a string
		if seen[claim] {
			return errDuplicateClaim
		}
		seen[claim] = true
		// Each value is read, known or not: a claim that is not JSON makes the whole token malformed.
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return err
		}
		if into, ok := known[claim]; ok {
			if err := json.Unmarshal(value, into); err != nil {
				return err
			}
		}
	}
	return nil
}

// scopeClaim is the claim scope: one string with spaces, or a list. Issuers use both. The zero value stands for a token without
// this claim.
type scopeClaim struct {
	// present distinguishes an absent claim, which means viewer, from a claim without any known scope, which is refused.
	present bool
	names   []string // of scopes, in their order
}

// UnmarshalJSON reads the claim from a string or a list.
func (s *scopeClaim) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	s.present = true
	var text string
	if json.Unmarshal(data, &text) == nil {
		s.names = strings.Fields(text)
		return nil
	}
	return json.Unmarshal(data, &s.names)
}

// scopes returns the scopes in the claim that this server knows. A token without the claim has the scope viewer, because most
// issuers set no scope for the application's own users. Scopes of other servers are normal, and are skipped.
func (s scopeClaim) scopes() ([]services.Scope, error) {
	if !s.present {
		return []services.Scope{services.ScopeViewer}, nil
	}
	var scopes []services.Scope
	for _, name := range s.names {
		if scope, ok := knownScope(name); ok && !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	if len(scopes) == 0 {
		// A token that is restricted to other scopes must not be treated as a viewer's token.
		return nil, services.Errorf(services.Forbidden, "token: its scope has none of viewer, ingest and admin")
	}
	return scopes, nil
}

// knownScope finds a scope by its name, which is compared exactly.
func knownScope(name string) (services.Scope, bool) {
	switch scope := services.Scope(name); scope {
	case services.ScopeViewer, services.ScopeIngest, services.ScopeAdmin:
		return scope, true
	default:
		return "", false
	}
}

// viewer returns the user of verified claims. When the application later acts for a user, Key changes, and Subject stays the key
// in the token.
func (c *tokenClaims) viewer() (services.Viewer, error) {
	scopes, err := c.Scope.scopes()
	if err != nil {
		return services.Viewer{}, err
	}
	viewer := services.Viewer{Key: c.Subject, Subject: c.Subject, Scopes: scopes}
	return viewer, checkSubject(viewer)
}

// checkSubject checks that the token names a user. Only a token with the scope ingest, which is the host application's, may name
// none. The key is checked like every user key, because it becomes part of IDs and of rows in SQL.
func checkSubject(viewer services.Viewer) error {
	if viewer.Key == "" && viewer.Has(services.ScopeIngest) {
		return nil
	}
	if services.CheckUserKey(viewer.Key) != nil {
		return services.Errorf(services.Unauthenticated,
			"token: sub must be the user's key, 1 to %d printable characters; it may be missing only with the scope ingest", services.MaxKeyCharacters)
	}
	return nil
}

// devTokenPrefix begins every token of development mode. It cannot begin a JWT: the parts of a JWT are base64url, which has no colon.
const devTokenPrefix = "dev:"

// devViewer reads a token of development mode: dev:KEY, or dev:KEY:SCOPE,SCOPE, with the key escaped as in IDs. The viewer always
// has the scope viewer. The token has no secret: LoopbackOnly keeps other machines out.
func devViewer(token string) (services.Viewer, error) {
	rest, isDev := strings.CutPrefix(token, devTokenPrefix)
	if !isDev {
		return services.Viewer{}, services.Errorf(services.Unauthenticated,
			"token: this server is in development mode and accepts dev:KEY or dev:KEY:SCOPE,SCOPE")
	}
	// No escaped key has a colon, so the first one ends it.
	escaped, list, more := strings.Cut(rest, ":")
	key, err := services.UnescapeKey(escaped)
	if err != nil {
		return services.Viewer{}, services.Errorf(services.Unauthenticated, "token: the key in dev:KEY must be percent-encoded, as in user:KEY")
	}
	viewer := services.Viewer{Key: key, Subject: key, Scopes: []services.Scope{services.ScopeViewer}}
	if more {
		for name := range strings.SplitSeq(list, ",") {
			scope, ok := knownScope(name)
			if !ok {
				return services.Viewer{}, services.Errorf(services.Unauthenticated, "token: the scopes are viewer, ingest and admin")
			}
			if !viewer.Has(scope) {
				viewer.Scopes = append(viewer.Scopes, scope)
			}
		}
	}
	return viewer, checkSubject(viewer)
}
