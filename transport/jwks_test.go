package transport

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"tidings/services"
)

// base64URL encodes bytes as the values of a JSON Web Key.
func base64URL(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// rsaJWK returns a public key as a JSON Web Key. more has names and values of further fields in turn.
func rsaJWK(kid string, key *rsa.PublicKey, more ...string) map[string]string {
	return setJWKFields(map[string]string{
		"kty": "RSA", "kid": kid, "n": base64URL(key.N.Bytes()), "e": base64URL(big.NewInt(int64(key.E)).Bytes()),
	}, more)
}

// ed25519JWK returns an Ed25519 key as a JSON Web Key. more has names and values of further fields in turn.
func ed25519JWK(kid string, key ed25519.PublicKey, more ...string) map[string]string {
	return setJWKFields(map[string]string{"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": base64URL(key)}, more)
}

// setJWKFields sets fields of a key, given as names and values in turn.
func setJWKFields(key map[string]string, more []string) map[string]string {
	for i := 0; i < len(more); i += 2 {
		key[more[i]] = more[i+1]
	}
	return key
}

// keySetJSON returns the text of a JSON Web Key Set.
func keySetJSON(keys ...map[string]string) string {
	return string(must(json.Marshal(map[string]any{"keys": keys})))
}

func ed25519PublicKey() ed25519.PublicKey { return ed25519Key().Public().(ed25519.PublicKey) }

func TestJWKSFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jwks.json")
	set := keySetJSON(
		rsaJWK("r", &rsaKey().PublicKey, "alg", "RS256", "use", "sig"), ed25519JWK("e", ed25519PublicKey()),
		rsaJWK("for encryption", &rsaKey().PublicKey, "use", "enc"), rsaJWK("rs512", &rsaKey().PublicKey, "alg", "RS512"),
		map[string]string{"kty": "EC", "kid": "ec", "crv": "P-256"},
	)
	if err := os.WriteFile(path, []byte(set), 0o600); err != nil {
		t.Fatal(err)
	}
	identity := newIdentity(t, IdentityConfig{TokenSettings: TokenSettings{JWKS: path}, Clock: &fixedClock{now: noon}})
	claims := claimsOf("alice", noon.Add(time.Hour))
	for _, test := range []struct {
		name  string
		token string
		code  services.Code
		says  string
	}{
		{"RSA", signClaims(t, jwt.SigningMethodRS256, rsaKey(), "r", claims), "", ""},
		{"Ed25519", signClaims(t, jwt.SigningMethodEdDSA, ed25519Key(), "e", claims), "", ""},
		{"NoKidAmongMany", signClaims(t, jwt.SigningMethodRS256, rsaKey(), "", claims), services.Unauthenticated, "kid"},
		{"UnknownKid", signClaims(t, jwt.SigningMethodRS256, rsaKey(), "x", claims), services.Unauthenticated, "kid"},
		{"KeyForEncryption", signClaims(t, jwt.SigningMethodRS256, rsaKey(), "for encryption", claims), services.Unauthenticated, "kid"},
		{"KeyForAnotherAlgorithm", signClaims(t, jwt.SigningMethodRS256, rsaKey(), "rs512", claims), services.Unauthenticated, "kid"},
		{"AlgorithmOfAnotherKey", signClaims(t, jwt.SigningMethodRS256, rsaKey(), "e", claims), services.Unauthenticated, "algorithm"},
		{"SignatureOfAnotherKey", signClaims(t, jwt.SigningMethodEdDSA, must(newEd25519Key()), "e", claims), services.Unauthenticated, "signature"},
		{"HMACWithThePublicKey", signClaims(t, jwt.SigningMethodHS256, []byte(ed25519PublicKey()), "e", claims), services.Unauthenticated, "algorithm"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := identity.Viewer(t.Context(), test.token, "", "")
			if services.CodeOf(err) != test.code || err != nil && !strings.Contains(messageOf(err), test.says) {
				t.Errorf("got %v, want %q that says %q", err, test.code, test.says)
			}
		})
	}
}

// newEd25519Key makes a key that no set has.
func newEd25519Key() (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return key, err
}

func TestJWKSTokenWithoutKidNeedsTheOnlyKey(t *testing.T) {
	keys, _, err := parseJWKS([]byte(keySetJSON(ed25519JWK("e", ed25519PublicKey()))))
	if err != nil {
		t.Fatal(err)
	}
	set := &jwks{}
	set.keys.Store(&keys)
	if _, ok := set.find(""); !ok {
		t.Error("the only key is not found without an id")
	}
	if _, ok := set.find("x"); ok {
		t.Error("the only key is found under another id")
	}
}

func TestJWKSDamagedSets(t *testing.T) {
	for text, says := range map[string]string{
		keySetJSON(): "no RSA key",
		keySetJSON(map[string]string{"kty": "oct", "k": "c2VjcmV0"}):                                 "no RSA key",
		keySetJSON(ed25519JWK("a", ed25519PublicKey()), ed25519JWK("a", ed25519PublicKey())):         "twice",
		keySetJSON(ed25519JWK("a", ed25519PublicKey(), "x", "AAAA")):                                 "32 bytes",
		keySetJSON(ed25519JWK("a", ed25519PublicKey(), "x", "!")):                                    "32 bytes",
		keySetJSON(rsaJWK("a", &rsaKey().PublicKey, "n", "!")):                                       "n is not",
		keySetJSON(rsaJWK("a", &rsaKey().PublicKey, "e", "!")):                                       "e is not",
		keySetJSON(rsaJWK("a", &rsaKey().PublicKey, "e", "")):                                        "e is not",
		keySetJSON(rsaJWK("a", &rsaKey().PublicKey, "e", "Ag")):                                      "odd number",
		keySetJSON(rsaJWK("a", &rsaKey().PublicKey, "e", base64URL([]byte{0xff, 0xff, 0xff, 0xff}))): "odd number",
		keySetJSON(rsaJWK("a", &rsaKey().PublicKey, "e", base64URL([]byte{1, 2, 3, 4, 5}))):          "e is not",
		keySetJSON(rsaJWK("a", &tooSmallRSAKey.PublicKey)):                                           "2048 bits",
		`{"keys":5}`: "not a JSON Web Key Set",
		`[]`:         "not a JSON Web Key Set",
	} {
		if _, _, err := parseJWKS([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.80s: got %v, want an error that says %q", text, err, says)
		}
	}
}

// Keys that cannot be used do not keep the others from being used. An issuer may have them for other services.
func TestJWKSUnusableKeysAreSkipped(t *testing.T) {
	good := ed25519JWK("good", ed25519PublicKey())
	for name, c := range map[string]struct {
		other   map[string]string
		refused int
	}{
		"too small":                       {rsaJWK("a", &tooSmallRSAKey.PublicKey), 1},
		"a damaged modulus":               {rsaJWK("a", &rsaKey().PublicKey, "n", "!"), 1},
		"a long exponent":                 {rsaJWK("a", &rsaKey().PublicKey, "e", base64URL([]byte{1, 2, 3, 4, 5})), 1},
		"too small, for RS512":            {rsaJWK("a", &tooSmallRSAKey.PublicKey, "alg", "RS512"), 0},
		"too small, for encryption":       {rsaJWK("a", &tooSmallRSAKey.PublicKey, "use", "enc"), 0},
		"an Ed25519 key that says RS256":  {ed25519JWK("a", ed25519PublicKey(), "alg", "RS256"), 0},
		"a key of another kind, like oct": {map[string]string{"kty": "oct", "k": "c2VjcmV0"}, 0},
	} {
		for _, set := range []string{keySetJSON(c.other, good), keySetJSON(good, c.other)} {
			keys, refused, err := parseJWKS([]byte(set))
			if err != nil || len(keys) != 1 || keys["good"].alg != algEdDSA || len(refused) != c.refused {
				t.Errorf("%s: keys %v, refused %v, error %v", name, keys, refused, err)
			}
		}
	}
}

// tooSmallRSAKey is a key that is too small to be accepted. Its modulus is an arbitrary number of 1,024 bits.
var tooSmallRSAKey = func() *rsa.PrivateKey {
	modulus := new(big.Int).Lsh(big.NewInt(1), 1023)
	return &rsa.PrivateKey{PublicKey: rsa.PublicKey{N: modulus.Add(modulus, big.NewInt(1)), E: 65537}}
}()

// issuer serves a key set that a test can change.
type issuer struct {
	*httptest.Server
	fetchCount atomic.Int32 // the number of requests for the set
	answerFunc atomic.Value // a func(http.ResponseWriter, *http.Request) that answers the requests
}

// newIssuer starts an issuer with a key set.
func newIssuer(t *testing.T, set string) *issuer {
	t.Helper()
	one := &issuer{}
	one.setKeySet(set)
	one.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one.fetchCount.Add(1)
		one.answerFunc.Load().(func(http.ResponseWriter, *http.Request))(w, r)
	}))
	t.Cleanup(one.Close)
	return one
}

// setKeySet replaces the key set.
func (i *issuer) setKeySet(set string) {
	i.answerFunc.Store(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, set) })
}

// failWithStatus lets the issuer answer with a status and no keys.
func (i *issuer) failWithStatus(status int) {
	i.answerFunc.Store(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
}

func TestJWKSUnknownKidReadsTheSetAgainAtMostOnceInTenSeconds(t *testing.T) {
	issuer := newIssuer(t, keySetJSON(rsaJWK("old", &rsaKey().PublicKey)))
	clock := &fixedClock{now: noon}
	identity := newIdentity(t, IdentityConfig{TokenSettings: TokenSettings{JWKS: issuer.URL}, Clock: clock})
	claims := claimsOf("alice", noon.Add(time.Hour))
	code := func(kid string) services.Code {
		_, _, err := identity.Viewer(t.Context(), signClaims(t, jwt.SigningMethodEdDSA, ed25519Key(), kid, claims), "", "")
		return services.CodeOf(err)
	}
	expect := func(fetches int32, what string) {
		t.Helper()
		if got := issuer.fetchCount.Load(); got != fetches {
			t.Errorf("%s: %d fetches, want %d", what, got, fetches)
		}
	}
	expect(1, "at the start")
	if got := code("new"); got != services.Unauthenticated {
		t.Errorf("before the rotation: %q", got)
	}
	expect(2, "an unknown id")
	issuer.setKeySet(keySetJSON(rsaJWK("old", &rsaKey().PublicKey), ed25519JWK("new", ed25519PublicKey())))
	for i := range 50 {
		clock.advance(100 * time.Millisecond)
		if got := code(fmt.Sprintf("made up %d", i)); got != services.Unauthenticated {
			t.Errorf("a made-up id: %q", got)
		}
	}
	expect(2, "many unknown ids within ten seconds")
	clock.advance(5 * time.Second)
	if got := code("new"); got != "" {
		t.Errorf("after the rotation: %q", got)
	}
	expect(3, "ten seconds later")
	if got := code("new"); got != "" {
		t.Errorf("a known id: %q", got)
	}
	expect(3, "a known id")

	issuer.failWithStatus(http.StatusInternalServerError)
	clock.advance(time.Minute)
	if got := code("newer"); got != services.Unavailable {
		t.Errorf("while the issuer fails: %q", got)
	}
	if got := code("new"); got != "" {
		t.Errorf("a known id while the issuer fails: %q", got)
	}
	fetches := issuer.fetchCount.Load()
	if got := code("newer"); got != services.Unavailable {
		t.Errorf("while the issuer fails, before the next read: %q", got)
	}
	expect(fetches, "before the next read")
	issuer.setKeySet(keySetJSON(ed25519JWK("newer", ed25519PublicKey())))
	clock.advance(minUnknownKeyIDReadInterval)
	if got := code("newer"); got != "" {
		t.Errorf("after the issuer has come back: %q", got)
	}
	if got := code("unknown"); got != services.Unauthenticated {
		t.Errorf("an unknown id after the issuer has come back: %q", got)
	}
}

func TestJWKSStartFails(t *testing.T) {
	elsewhere := newIssuer(t, keySetJSON(ed25519JWK("e", ed25519PublicKey())))
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"status 404": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"status 302": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) },
		"more than 1048576 bytes": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat(" ", maxJWKSBytes+1))
		},
		"not a JSON Web Key Set": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
	} {
		issuer := newIssuer(t, "")
		issuer.answerFunc.Store(answer)
		if _, err := NewIdentity(t.Context(), IdentityConfig{TokenSettings: TokenSettings{JWKS: issuer.URL}}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if n := elsewhere.fetchCount.Load(); n != 0 {
		t.Errorf("a redirect was followed %d times", n)
	}
}

// The address of the keys may have a password, which no error shows.
func TestJWKSErrorsHideTheAddress(t *testing.T) {
	issuer := httptest.NewServer(http.NotFoundHandler())
	host := strings.TrimPrefix(issuer.URL, "http://")
	urls := []string{"http://user:secret@" + host + "/keys", "http://" + host + "/keys?token=secret", "http://user:secret@" + host + "/%zz"}
	for _, when := range []string{"it answers 404", "it is gone"} {
		for _, url := range urls {
			if _, err := NewIdentity(t.Context(), IdentityConfig{TokenSettings: TokenSettings{JWKS: url}}); err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s, %s: %v", when, url, err)
			}
		}
		issuer.Close()
	}
}

func TestJWKSFetchIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := newPipeListener()
		server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })}
		go server.Serve(listener)
		set := &jwks{
			fileOrURL: "http://issuer.test/", clock: services.SystemClock{}, log: discardLog,
			client: &http.Client{Transport: &http.Transport{DialContext: listener.dial}},
		}
		start := time.Now()
		if err := set.read(t.Context()); err == nil {
			t.Error("an issuer that does not answer was read")
		}
		if took := time.Since(start); took != jwksTimeout {
			t.Errorf("took %v, want %v", took, jwksTimeout)
		}
		server.Close()
	})
}

func TestJWKSIsReadAgainInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "jwks.json")
		write := func(text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(keySetJSON(ed25519JWK("one", ed25519PublicKey())))
		set, err := newJWKS(t.Context(), IdentityConfig{TokenSettings: TokenSettings{JWKS: path}, JWKSInterval: time.Minute, Clock: services.SystemClock{}, Log: discardLog})
		if err != nil {
			t.Fatal(err)
		}
		write(keySetJSON(ed25519JWK("two", ed25519PublicKey())))
		passTime(time.Minute + time.Second)
		synctest.Wait()
		if _, ok := set.find("two"); !ok {
			t.Error("the new key is not there after the interval")
		}
		if _, ok := set.find("one"); ok {
			t.Error("the key that was withdrawn is still there")
		}
		write("damaged")
		passTime(time.Minute)
		synctest.Wait()
		if _, ok := set.find("two"); !ok {
			t.Error("a damaged set took the place of the last good one")
		}
	})
}
