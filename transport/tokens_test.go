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

// testSecret is the shared secret of the tests' tokens.
const testSecret = "0123456789abcdef0123456789abcdef"

// claimsOf returns claims with a subject and an expiry only.
func claimsOf(key string, expires time.Time) jwt.MapClaims {
	return jwt.MapClaims{"sub": key, "exp": expires.Unix()}
}

// signHMAC signs claims with a shared secret.
func signHMAC(t *testing.T, secret string, claims jwt.MapClaims) string {
	t.Helper()
	return sign(t, jwt.SigningMethodHS256, []byte(secret), "", claims)
}

// sign signs claims by any method, with kid in the header unless it is "".
func sign(t *testing.T, method jwt.SigningMethod, key any, kid string, claims jwt.MapClaims) string {
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

// signText signs claims given as JSON text.
func signText(t *testing.T, claims string) string {
	t.Helper()
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	signature, err := jwt.SigningMethodHS256.Sign(text, []byte(testSecret))
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// The names of claims are exact, and a repeated name is refused: an issuer may let anyone add a claim called Scope or SUB.
func TestClaimsAreReadByTheirExactNames(t *testing.T) {
	identity := newIdentity(t, IdentityConfig{HMACSecret: testSecret, Audience: "tidings", Issuer: "https://issuer", Clock: &fixedClock{now: noon}})
	past, future := fmt.Sprint(noon.Add(-time.Hour).Unix()), fmt.Sprint(noon.Add(time.Hour).Unix())
	good := `"sub":"alice","exp":` + future + `,"aud":["tidings"],"iss":"https://issuer"`
	without := func(claim string) string { return strings.Replace(good, claim, `"x":1`, 1) }
	checkTokens(t, []tokenCase{
		{"Good", identity, signText(t, "{"+good+"}"), "", ""},
		{"AScopeByAnotherName", identity, signText(t, "{"+good+`,"Scope":"admin","SCOPE":["ingest"]}`), "", ""},
		{"ASubjectByAnotherName", identity, signText(t, "{"+good+`,"SUB":"evil","Sub":5}`), "", ""},
		{"OnlyASubjectByAnotherName", identity, signText(t, "{"+without(`"sub":"alice"`)+`,"SUB":"alice"}`), services.Unauthenticated, "sub must be"},
		{"AnExpiryByAnotherName", identity, signText(t, "{"+without(`"exp":`+future)+`,"exp":`+past+`,"EXP":`+future+"}"), services.Unauthenticated, "expired"},
		{"OnlyAnExpiryByAnotherName", identity, signText(t, "{"+without(`"exp":`+future)+`,"Exp":`+future+"}"), services.Unauthenticated, "exp is always required"},
		{"AnAudienceByAnotherName", identity, signText(t, "{"+without(`"aud":["tidings"]`)+`,"AUD":"tidings"}`), services.Unauthenticated, "claim is missing"},
		{"AnIssuerByAnotherName", identity, signText(t, "{"+without(`"iss":"https://issuer"`)+`,"ISS":"https://issuer"}`), services.Unauthenticated, "claim is missing"},
		{"NotBeforeCounts", identity, signText(t, "{"+good+`,"nbf":`+future+"}"), services.Unauthenticated, "not valid yet"},
		{"TwoSubjects", identity, signText(t, "{"+good+`,"sub":"evil"}`), services.Unauthenticated, "twice"},
		{"TwoSubjectsOneEscaped", identity, signText(t, "{"+good+`,"s\u0075b":"evil"}`), services.Unauthenticated, "twice"},
		{"TwoOfAnother", identity, signText(t, "{"+good+`,"billing":1,"billing":2}`), services.Unauthenticated, "twice"},
		{"AList", identity, signText(t, "["+"1]"), services.Unauthenticated, "JSON Web Token"},
		{"ATextForATime", identity, signText(t, "{"+without(`"exp":`+future)+`,"exp":"never"}`), services.Unauthenticated, "JSON Web Token"},
	})
}
