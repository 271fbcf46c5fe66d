package transport

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"tidings/services"
)

// testHMACSecret is the shared secret of the tests' tokens.
const testHMACSecret = "0123456789abcdef0123456789abcdef"

// claimsOf returns claims with a subject and an expiry only.
func claimsOf(key string, expires time.Time) jwt.MapClaims {
	return jwt.MapClaims{"sub": key, "exp": expires.Unix()}
}

// signHMAC signs claims with a shared secret.
func signHMAC(t *testing.T, secret string, claims jwt.MapClaims) string {
	t.Helper()
	return signClaims(t, jwt.SigningMethodHS256, []byte(secret), "", claims)
}

// signClaims signs claims by any method, with kid in the header unless it is "".
func signClaims(t *testing.T, method jwt.SigningMethod, key any, kid string, claims jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	if kid != "" {
		token.Header["kid"] = kid
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// signClaimsText signs claims given as JSON text with testHMACSecret.
func signClaimsText(t *testing.T, claims string) string {
	t.Helper()
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	signature, err := jwt.SigningMethodHS256.Sign(text, []byte(testHMACSecret))
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// The names of claims are exact, and a repeated name is refused: an issuer may let anyone add a claim called Scope or SUB.
func TestClaimsAreReadByTheirExactNames(t *testing.T) {
	identity := newIdentity(t, IdentityConfig{TokenSettings: TokenSettings{HMACSecret: testHMACSecret, Audience: "tidings", Issuer: "https://issuer"}, Clock: &fixedClock{now: noon}})
	past, future := fmt.Sprint(noon.Add(-time.Hour).Unix()), fmt.Sprint(noon.Add(time.Hour).Unix())
	good := `"sub":"alice","exp":` + future + `,"aud":["tidings"],"iss":"https://issuer"`
	without := func(claim string) string { return strings.Replace(good, claim, `"x":1`, 1) }
	checkTokens(t, []tokenCase{
		{"Good", identity, signClaimsText(t, "{"+good+"}"), "", ""},
		{"AScopeByAnotherName", identity, signClaimsText(t, "{"+good+`,"Scope":"admin","SCOPE":["ingest"]}`), "", ""},
		{"ASubjectByAnotherName", identity, signClaimsText(t, "{"+good+`,"SUB":"evil","Sub":5}`), "", ""},
		{"OnlyASubjectByAnotherName", identity, signClaimsText(t, "{"+without(`"sub":"alice"`)+`,"SUB":"alice"}`), services.Unauthenticated, "sub must be"},
		{"AnExpiryByAnotherName", identity, signClaimsText(t, "{"+without(`"exp":`+future)+`,"exp":`+past+`,"EXP":`+future+"}"), services.Unauthenticated, "expired"},
		{"OnlyAnExpiryByAnotherName", identity, signClaimsText(t, "{"+without(`"exp":`+future)+`,"Exp":`+future+"}"), services.Unauthenticated, "exp is always required"},
		{"AnAudienceByAnotherName", identity, signClaimsText(t, "{"+without(`"aud":["tidings"]`)+`,"AUD":"tidings"}`), services.Unauthenticated, "claim is missing"},
		{"AnIssuerByAnotherName", identity, signClaimsText(t, "{"+without(`"iss":"https://issuer"`)+`,"ISS":"https://issuer"}`), services.Unauthenticated, "claim is missing"},
		{"NotBeforeCounts", identity, signClaimsText(t, "{"+good+`,"nbf":`+future+"}"), services.Unauthenticated, "not valid yet"},
		{"TwoSubjects", identity, signClaimsText(t, "{"+good+`,"sub":"evil"}`), services.Unauthenticated, "twice"},
		{"TwoSubjectsOneEscaped", identity, signClaimsText(t, "{"+good+`,"s\u0075b":"evil"}`), services.Unauthenticated, "twice"},
		{"TwoOfAnother", identity, signClaimsText(t, "{"+good+`,"billing":1,"billing":2}`), services.Unauthenticated, "twice"},
		{"AList", identity, signClaimsText(t, "["+"1]"), services.Unauthenticated, "JSON Web Token"},
		{"ATextForATime", identity, signClaimsText(t, "{"+without(`"exp":`+future)+`,"exp":"never"}`), services.Unauthenticated, "JSON Web Token"},
	})
}
