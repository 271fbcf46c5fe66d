package transport

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"tidings/services"
)

// rsaKey and ed25519Key are made once: an RSA key takes a while.
var (
	rsaKey     = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	ed25519Key = sync.OnceValue(func() ed25519.PrivateKey {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return must(key, err)
	})
)

// must returns the value, and panics if there is an error.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// writePublicKeyPEM writes a public key to a PEM file, as in a deployment.
func writePublicKeyPEM(t *testing.T, key any) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(key))})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// newIdentity is NewIdentity, but fails the test on an error.
func newIdentity(t *testing.T, cfg IdentityConfig) *Identity {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = discardLog
	}
	identity, err := NewIdentity(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return identity
}

// noon is the time of the clock in most tests.
var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// tokenCase is a token, the expected error code, "" if the token is valid, and a part of the expected message.
type tokenCase struct {
	name            string
	identity        *Identity
	token           string
	wantCode        services.Code
	wantMessagePart string
}

// claimsValidAtNoon returns valid claims with changes, given as names and values; the value nil removes a claim.
func claimsValidAtNoon(change ...any) jwt.MapClaims {
	claims := jwt.MapClaims{"sub": "alice", "exp": noon.Add(time.Hour).Unix(), "aud": "tidings", "iss": "https://issuer"}
	for i := 0; i < len(change); i += 2 {
		if name := change[i].(string); change[i+1] == nil {
			delete(claims, name)
		} else {
			claims[name] = change[i+1]
		}
	}
	return claims
}

// checkTokens checks each token. A valid one must be alice's, and the message about any other must repeat nothing of it.
func checkTokens(t *testing.T, cases []tokenCase) {
	t.Helper()
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			viewer, expires, err := test.identity.Viewer(t.Context(), test.token, "", "")
			if got := services.CodeOf(err); got != test.wantCode {
				t.Fatalf("code %q, want %q (%v)", got, test.wantCode, err)
			}
			if err == nil {
				if viewer.Key != "alice" || !slices.Equal(viewer.Scopes, []services.Scope{services.ScopeViewer}) || expires.Before(noon) {
					t.Errorf("%+v until %v", viewer, expires)
				}
				return
			}
			message := messageOf(err)
			if !strings.Contains(message, test.wantMessagePart) {
				t.Errorf("message %q does not say %q", message, test.wantMessagePart)
			}
			if strings.Contains(message, test.token) || strings.Contains(message, "billing") || strings.Contains(message, "evil") {
				t.Errorf("message %q repeats the token", message)
			}
			if viewer.Key != "" || len(viewer.Scopes) > 0 {
				t.Errorf("a viewer beside the error: %+v", viewer)
			}
		})
	}
}

// withAudienceIssuerAndClock adds the audience, the issuer and the clock of the tests below to a configuration.
func withAudienceIssuerAndClock(cfg IdentityConfig) IdentityConfig {
	cfg.Audience, cfg.Issuer, cfg.Clock = "tidings", "https://issuer", &fixedClock{now: noon}
	return cfg
}

func TestTokenKeysAndAlgorithms(t *testing.T) {
	rsaPublic := must(x509.MarshalPKIXPublicKey(rsaKey().Public()))
	rsaPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: rsaPublic})
	byRSA := newIdentity(t, withAudienceIssuerAndClock(IdentityConfig{TokenSettings: TokenSettings{PublicKeyFile: writePublicKeyPEM(t, rsaKey().Public())}}))
	byEd := newIdentity(t, withAudienceIssuerAndClock(IdentityConfig{TokenSettings: TokenSettings{PublicKeyFile: writePublicKeyPEM(t, ed25519Key().Public())}}))
	byHMAC := newIdentity(t, withAudienceIssuerAndClock(IdentityConfig{TokenSettings: TokenSettings{HMACSecret: testHMACSecret}}))
	good := claimsValidAtNoon()
	forged := func(token string) string {
		parts := strings.Split(token, ".")
		parts[1] = base64URL([]byte(`{"sub":"root","scope":"admin","exp":9999999999,"aud":"tidings","iss":"https://issuer"}`))
		return strings.Join(parts, ".")
	}
	rs := signClaims(t, jwt.SigningMethodRS256, rsaKey(), "", good)
	hs := signHMAC(t, testHMACSecret, good)
	critical := func(value any) string {
		token := jwt.NewWithClaims(jwt.SigningMethodHS256, good)
		token.Header["crit"] = value
		return must(token.SignedString([]byte(testHMACSecret)))
	}
	none := signClaims(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "", good)
	const no = services.Unauthenticated
	checkTokens(t, []tokenCase{
		{"HS256", byHMAC, hs, "", ""},
		{"RS256", byRSA, rs, "", ""},
		{"EdDSA", byEd, signClaims(t, jwt.SigningMethodEdDSA, ed25519Key(), "", good), "", ""},
		{"AlgNone", byRSA, none, no, "algorithm"},
		{"AlgNoneHMAC", byHMAC, none, no, "algorithm"},
		{"HMACWithThePublicKeyAsSecret", byRSA, signClaims(t, jwt.SigningMethodHS256, rsaPEM, "", good), no, "algorithm"},
		{"HMACWithTheRawPublicKey", byRSA, signClaims(t, jwt.SigningMethodHS256, rsaPublic, "", good), no, "algorithm"},
		{"EdDSAForRSA", byRSA, signClaims(t, jwt.SigningMethodEdDSA, ed25519Key(), "", good), no, "algorithm"},
		{"Critical", byHMAC, critical([]string{"b64"}), no, "crit"},
		{"CriticalNothing", byHMAC, critical([]string{}), no, "crit"},
		{"CriticalNoList", byHMAC, critical("exp"), no, "crit"},
		{"RS512", byRSA, signClaims(t, jwt.SigningMethodRS512, rsaKey(), "", good), no, "algorithm"},
		{"HS512", byHMAC, signClaims(t, jwt.SigningMethodHS512, []byte(testHMACSecret), "", good), no, "algorithm"},
		{"OtherKey", byRSA, signClaims(t, jwt.SigningMethodRS256, must(rsa.GenerateKey(rand.Reader, 2048)), "", good), no, "signature"},
		{"OtherSecret", byHMAC, signHMAC(t, strings.Repeat("x", 32), good), no, "signature"},
		{"ForgedClaims", byRSA, forged(rs), no, "signature"},
		{"ForgedClaimsHMAC", byHMAC, forged(hs), no, "signature"},
		{"NoToken", byRSA, "nonsense", no, "not a JSON Web Token"},
		{"TwoParts", byRSA, "a.b", no, "not a JSON Web Token"},
		{"TooLong", byRSA, strings.Repeat("a", 8<<10+1), no, "8192"},
		{"DevelopmentToken", byRSA, "dev:alice", no, "development tokens are refused"},
	})
}

func TestTokenClaims(t *testing.T) {
	identity := newIdentity(t, withAudienceIssuerAndClock(IdentityConfig{TokenSettings: TokenSettings{HMACSecret: testHMACSecret}}))
	with := func(change ...any) string { return signHMAC(t, testHMACSecret, claimsValidAtNoon(change...)) }
	const no = services.Unauthenticated
	checkTokens(t, []tokenCase{
		{"AudienceInAList", identity, with("aud", []string{"other", "tidings"}), "", ""},
		{"ExpiredWithinTheLeeway", identity, with("exp", noon.Add(-29*time.Second).Unix()), "", ""},
		{"NotYetWithinTheLeeway", identity, with("nbf", noon.Add(29*time.Second).Unix()), "", ""},
		{"Expired", identity, with("exp", noon.Add(-31*time.Second).Unix()), no, "expired"},
		{"NotYet", identity, with("nbf", noon.Add(31*time.Second).Unix()), no, "not valid yet"},
		{"NoExp", identity, with("exp", nil), no, "exp"},
		{"ExpNoNumber", identity, with("exp", "tomorrow"), no, "token"},
		{"OtherAudience", identity, with("aud", "billing"), no, "another audience"},
		{"NoAudience", identity, with("aud", nil), no, "aud"},
		{"OtherIssuer", identity, with("iss", "https://evil"), no, "another issuer"},
		{"NoIssuer", identity, with("iss", nil), no, "iss"},
		{"NoSubject", identity, with("sub", nil), no, "sub"},
		{"BadSubject", identity, with("sub", "a\nb"), no, "sub"},
		{"SubjectNoText", identity, with("sub", 5), no, "token"},
	})
}

func TestExpiresIsWhenTheTokenStopsBeingAccepted(t *testing.T) {
	clock := &fixedClock{now: noon}
	identity := newIdentity(t, IdentityConfig{TokenSettings: TokenSettings{HMACSecret: testHMACSecret}, Clock: clock})
	token := signHMAC(t, testHMACSecret, claimsOf("alice", noon.Add(time.Minute)))
	_, expires, err := identity.Viewer(t.Context(), token, "", "")
	if err != nil {
		t.Fatal(err)
	}
	clock.advance(expires.Sub(noon) - time.Second)
	if _, _, err := identity.Viewer(t.Context(), token, "", ""); err != nil {
		t.Errorf("a second before: %v", err)
	}
	clock.advance(2 * time.Second)
	if _, _, err := identity.Viewer(t.Context(), token, "", ""); services.CodeOf(err) != services.Unauthenticated {
		t.Errorf("a second after: %v", err)
	}
}

func TestScopes(t *testing.T) {
	identity := newIdentity(t, IdentityConfig{TokenSettings: TokenSettings{HMACSecret: testHMACSecret}, Clock: &fixedClock{now: noon}})
	for _, test := range []struct {
		name  string
		scope any              // the claim; nil omits it
		sub   string           // the claim; "" omits it
		actAs string           // the header Tidings-Act-As
		key   string           // of the viewer
		want  []services.Scope // of the viewer
		code  services.Code    // of the error
	}{
		{"None", nil, "alice", "", "alice", []services.Scope{"viewer"}, ""},
		{"Text", "openid viewer admin", "alice", "", "alice", []services.Scope{"viewer", "admin"}, ""},
		{"List", []string{"admin", "admin"}, "alice", "", "alice", []services.Scope{"admin"}, ""},
		{"OnlyForeign", "openid profile", "alice", "", "", nil, services.Forbidden},
		{"Empty", "", "alice", "", "", nil, services.Forbidden},
		{"Number", 5, "alice", "", "", nil, services.Unauthenticated},
		{"Host", "ingest", "", "", "", []services.Scope{"ingest"}, ""},
		{"HostActs", "ingest", "", "bob", "bob", []services.Scope{"ingest", "viewer"}, ""},
		{"HostWithANameActs", "ingest viewer", "host", "bob", "bob", []services.Scope{"ingest", "viewer"}, ""},
		{"HostActsForABadKey", "ingest", "", "b b", "", nil, services.Invalid},
		{"ViewerActs", "viewer", "alice", "bob", "", nil, services.Forbidden},
		{"AdminActs", "admin", "alice", "bob", "", nil, services.Forbidden},
		{"AdminWithoutAName", "admin", "", "", "", nil, services.Unauthenticated},
	} {
		t.Run(test.name, func(t *testing.T) {
			claims := claimsOf(test.sub, noon.Add(time.Hour))
			if test.sub == "" {
				delete(claims, "sub")
			}
			if test.scope != nil {
				claims["scope"] = test.scope
			}
			viewer, _, err := identity.Viewer(t.Context(), signHMAC(t, testHMACSecret, claims), test.actAs, "")
			if services.CodeOf(err) != test.code {
				t.Fatalf("code %q, want %q (%v)", services.CodeOf(err), test.code, err)
			}
			if viewer.Key != test.key || !slices.Equal(viewer.Scopes, test.want) {
				t.Errorf("got %+v", viewer)
			}
		})
	}
}

func TestDevelopmentTokens(t *testing.T) {
	identity := newIdentity(t, IdentityConfig{Development: true})
	for token, want := range map[string]struct {
		key    string
		scopes []services.Scope
		code   services.Code
	}{
		"dev:alice":              {"alice", []services.Scope{"viewer"}, ""},
		"dev:alice:admin":        {"alice", []services.Scope{"viewer", "admin"}, ""},
		"dev:alice:admin,ingest": {"alice", []services.Scope{"viewer", "admin", "ingest"}, ""},
		"dev:alice:viewer":       {"alice", []services.Scope{"viewer"}, ""},
		"dev::ingest":            {"", []services.Scope{"viewer", "ingest"}, ""},
		"dev:":                   {"", nil, services.Unauthenticated},
		"dev::admin":             {"", nil, services.Unauthenticated},
		"dev:alice:root":         {"", nil, services.Unauthenticated},
		"dev:alice:":             {"", nil, services.Unauthenticated},
		"dev:a b":                {"", nil, services.Unauthenticated},
		"alice":                  {"", nil, services.Unauthenticated},
		signHMAC(t, testHMACSecret, claimsOf("alice", noon.Add(1000*time.Hour))): {"", nil, services.Unauthenticated},
	} {
		viewer, expires, err := identity.Viewer(t.Context(), token, "", "")
		if services.CodeOf(err) != want.code || viewer.Key != want.key || !slices.Equal(viewer.Scopes, want.scopes) || !expires.IsZero() {
			t.Errorf("%s: %+v until %v, %v", token, viewer, expires, err)
		}
	}
}

func TestDevice(t *testing.T) {
	identity := newIdentity(t, IdentityConfig{Development: true})
	for device, code := range map[string]services.Code{
		"": "", "phone": "", "a.B_9-": "", strings.Repeat("d", 64): "",
		strings.Repeat("d", 65): services.Invalid, "my phone": services.Invalid, "ü": services.Invalid, "a\x00": services.Invalid,
	} {
		viewer, _, err := identity.Viewer(t.Context(), "dev:alice", "", device)
		if services.CodeOf(err) != code || err == nil && viewer.Device != device {
			t.Errorf("%q: %+v %v", device, viewer, err)
		}
	}
}

func TestBearer(t *testing.T) {
	for value, want := range map[string]struct {
		token string
		code  services.Code
	}{
		"": {"", ""}, "Bearer abc": {"abc", ""}, "bearer abc": {"abc", ""}, "BEARER  abc ": {"abc", ""},
		"Bearer": {"", services.Unauthenticated}, "Bearer ": {"", services.Unauthenticated},
		"Basic abc": {"", services.Unauthenticated}, "abc": {"", services.Unauthenticated},
	} {
		header := http.Header{}
		if value != "" {
			header.Set("Authorization", value)
		}
		if token, err := bearerToken(header); token != want.token || services.CodeOf(err) != want.code {
			t.Errorf("%q: %q %v", value, token, err)
		}
	}
}

func TestIdentityConfigFaultsNameTheField(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(ed25519Key()))})
	for _, test := range []struct {
		name string
		cfg  IdentityConfig
		says string
	}{
		{"Nothing", IdentityConfig{}, "exactly one of Development, HMACSecret, PublicKeyFile and JWKS must be set, got 0: none"},
		{"Two", IdentityConfig{Development: true, TokenSettings: TokenSettings{HMACSecret: testHMACSecret}}, "got 2: Development, HMACSecret"},
		{"ShortSecret", IdentityConfig{TokenSettings: TokenSettings{HMACSecret: "short"}}, "HMACSecret: at least 32 bytes are needed, got 5"},
		{"NoFile", IdentityConfig{TokenSettings: TokenSettings{PublicKeyFile: "/nowhere/key.pem"}}, "PublicKeyFile"},
		{"NoPEM", IdentityConfig{TokenSettings: TokenSettings{PublicKeyFile: file("hello")}}, "not a PEM file"},
		{"DamagedPEM", IdentityConfig{TokenSettings: TokenSettings{PublicKeyFile: file("-----BEGIN PUBLIC KEY-----\naGVsbG8=\n-----END PUBLIC KEY-----\n")}}, "PublicKeyFile"},
		{"PrivateKey", IdentityConfig{TokenSettings: TokenSettings{PublicKeyFile: file(string(private))}}, "a public key is needed"},
		{"SmallRSA", IdentityConfig{TokenSettings: TokenSettings{PublicKeyFile: writePublicKeyPEM(t, tooSmallRSAKey.Public())}}, "2048 bits is needed, got 1024"},
		{"NoJWKS", IdentityConfig{TokenSettings: TokenSettings{JWKS: "/nowhere/jwks.json"}}, "JWKS"},
		{"EmptyJWKS", IdentityConfig{TokenSettings: TokenSettings{JWKS: file(`{"keys":[]}`)}}, "no RSA key"},
		{"JWKSNoJSON", IdentityConfig{TokenSettings: TokenSettings{JWKS: file(`hello`)}}, "not a JSON Web Key Set"},
	} {
		t.Run(test.name, func(t *testing.T) {
			identity, err := NewIdentity(t.Context(), test.cfg)
			if err == nil || identity != nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want an error that says %q", err, test.says)
			}
			if err != nil && test.cfg.HMACSecret != "" && strings.Contains(err.Error(), test.cfg.HMACSecret+"\"") {
				t.Errorf("%v shows the secret", err)
			}
		})
	}
}

func TestPublicKeyForms(t *testing.T) {
	pkcs1 := pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(&rsaKey().PublicKey)})
	template := &x509.Certificate{SerialNumber: rsaKey().D}
	template.SerialNumber.SetInt64(1)
	certificate := must(x509.CreateCertificate(rand.Reader, template, template, ed25519Key().Public(), ed25519Key()))
	for name, text := range map[string][]byte{
		algRSA:   pkcs1,
		algEdDSA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
	} {
		if key, err := parsePublicKey(text); err != nil || key.alg != name {
			t.Errorf("%s: %v %v", name, key.alg, err)
		}
	}
}
