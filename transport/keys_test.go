package transport

import (
	"encoding/json"
	"testing"
	"time"

	"tidings/services"
)

// The claim sub of a token contains the user's key as it is, without escapes. A token whose sub is no valid key, or has broken
// characters, is refused.
func TestSubjectsAreKeysAsTheyAre(t *testing.T) {
	identity := newIdentity(t, IdentityConfig{TokenSettings: TokenSettings{HMACSecret: testHMACSecret}})
	for _, key := range []string{"auth0|123", "did:plc:x", "ann@example.org", "Zo\u00eb", "auth0%7C123", "a b", "\u674e\u96f7"} {
		token := signHMAC(t, testHMACSecret, claimsOf(key, time.Now().Add(time.Hour)))
		if viewer, _, err := identity.Viewer(t.Context(), token, "", ""); err != nil || viewer.Key != key {
			t.Errorf("%q: got %q, %v", key, viewer.Key, err)
		}
	}
	exp, err := json.Marshal(time.Now().Add(time.Hour).Unix())
	if err != nil {
		t.Fatal(err)
	}
	for _, claim := range []string{`"alice\ud800"`, `"\udc00\ud800"`, "\"alice\xff\"", `"alice\n"`, `" alice"`, `"zoe\u0308"`, `"\u0000"`, `"a\u202e"`} {
		token := signClaimsText(t, `{"sub":`+claim+`,"exp":`+string(exp)+`}`)
		if viewer, _, err := identity.Viewer(t.Context(), token, "", ""); services.CodeOf(err) != services.Unauthenticated {
			t.Errorf("%s: got %q, %v", claim, viewer.Key, err)
		}
	}
}

// The header Tidings-Act-As is refused unless it has the key, escaped as in IDs, or the user's ID.
func TestActAsTakesOneFormOfAKey(t *testing.T) {
	identity := newIdentity(t, IdentityConfig{Development: true})
	for _, header := range []string{"auth0|123", "auth0%7c123", "%61lice", "alice\xff", "Zo\u00eb", "alice%0D%0AX-Y:%20z", "a%00", "post:0000000000001", "viewer:alice", "user:", "user:user:alice", "a b", "%20a"} {
		if viewer, _, err := identity.Viewer(t.Context(), "dev:host:ingest", header, ""); services.CodeOf(err) != services.Invalid {
			t.Errorf("%q acts as %q, %v", header, viewer.Key, err)
		}
	}
}
