package transport

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tidings/services"
)

const (
	// jwksTimeout is the longest time for a read of the keys. If a read took longer, requests with a new key would reach their own
	// timeouts.
	jwksTimeout  = 3 * time.Second
	maxJWKSBytes = 1 << 20 // the most bytes of a set of keys, which usually has a few kilobytes
)

// jwks is a set of keys with IDs, read from a configured place: a file or a URL. While the place cannot be read, the keys that were
// read last stay in use: an issuer that is down for an hour must not sign all users out.
//
// github.com/MicahParks/keyfunc (3.6.2) does less: after a rotation it refuses all but the first of the requests that arrive together
// with the new ID, an issuer that fails looks like an unknown key, an answer may have any size, and one malformed key of an unused kind
// discards the whole set.
type jwks struct {
	fileOrURL string // a path or an address
	// A file is reloaded in the same way as a URL.
	client *http.Client // nil reads a file
	clock  services.Clock
	log    *slog.Logger

	// The map is replaced and never changed, so that verification takes no lock. Identity.stillValid compares the pointers.
	keys atomic.Pointer[map[string]verificationKey]

	mu                   sync.Mutex // held during a read, so that many unknown IDs cause one read
	lastUnknownKeyIDRead time.Time  // the time of the last read because of an unknown ID
	// lastErr is the error of the last read; nil after a good one. Within minUnknownKeyIDReadInterval, refresh returns it instead
	// of reading again.
	lastErr error
	// refusedKeys names the keys of the last good set that are not used, and why.
	refusedKeys string
}

// newJWKS reads the keys for the first time. An error prevents the start of the node: without keys it would refuse every token.
func newJWKS(ctx context.Context, cfg IdentityConfig) (*jwks, error) {
	set := &jwks{fileOrURL: cfg.JWKS, clock: cfg.Clock, log: cfg.Log}
	if strings.HasPrefix(cfg.JWKS, "http://") || strings.HasPrefix(cfg.JWKS, "https://") {
		set.client = &http.Client{Timeout: jwksTimeout, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // redirects are not followed: the operator has chosen this address
		}}
	}
	if err := set.read(ctx); err != nil {
		return nil, fmt.Errorf("identity: JWKS: %w", err) // without the address, which may have a password
	}
	go set.run(ctx, cfg.JWKSInterval)
	return set, nil
}

// run reloads the keys at every interval until ctx ends. Without it, a key that the issuer has revoked would stay in use.
func (s *jwks) run(ctx context.Context, interval time.Duration) {
	_ = services.Every(ctx, interval, func(ctx context.Context) {
		s.mu.Lock()
		err := s.read(ctx)
		s.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			s.log.Warn("the keys for tokens cannot be reloaded; the present ones stay in use", "error", err)
		}
	})
}

// algorithms returns no algorithm of the HMAC family: with one, anybody could sign tokens with the public key as the secret.
func (s *jwks) algorithms() []string { return []string{algRSA, algEdDSA} }

// key finds a key by its ID. An unknown ID causes a reload, at most once in 10 s, because issuers publish a new key and use it at
// once. A token without an ID is accepted if there is only one key. UNAVAILABLE means that the issuer could not be asked, so the
// client tries again and does not sign its user out.
func (s *jwks) key(ctx context.Context, kid string) (crypto.PublicKey, string, error) {
	// For a known key this is all: it takes no lock and asks no issuer.
	key, ok := s.find(kid)
	// Only an unknown ID is a reason to ask the issuer. A token without an ID would usually be refused after the read too.
	if !ok && kid != "" {
		if err := s.refresh(ctx, kid); err != nil {
			return nil, "", services.Wrapf(services.Unavailable, err, "token: the keys cannot be read, try again later")
		}
		key, ok = s.find(kid)
	}
	if !ok {
		return nil, "", services.Errorf(services.Unauthenticated, "token: kid names an unknown key")
	}
	return key.value, key.alg, nil
}

// find looks a key up in the set of the last read. An empty ID finds the key of a set with one key, and nothing in a larger set,
// even if a key there has no ID.
func (s *jwks) find(kid string) (verificationKey, bool) {
	keys := *s.keys.Load()
	if kid == "" && len(keys) == 1 {
		for _, only := range keys {
			return only, true
		}
	}
	key, ok := keys[kid]
	return key, ok && kid != ""
}

// refresh reloads the set because of an unknown ID, unless that was done less than 10 s ago: then it returns the result of the
// last read.
func (s *jwks) refresh(ctx context.Context, kid string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.find(kid); ok {
		return nil // another request has just reloaded the set
	}
	now := s.clock.Now()
	if !s.lastUnknownKeyIDRead.IsZero() && now.Sub(s.lastUnknownKeyIDRead) < minUnknownKeyIDReadInterval {
		return s.lastErr // while the issuer cannot be read, the token may still be good
	}
	// The time is set before the read, so that 10 s pass after a failed read too.
	s.lastUnknownKeyIDRead = now
	return s.read(ctx)
}

// read replaces the keys by the present content of the file or URL, and remembers the error. mu is held, except at the start.
func (s *jwks) read(ctx context.Context) error {
	keys, err := s.fetchKeys(ctx)
	if err == nil {
		s.keys.Store(&keys)
	}
	s.lastErr = err
	return err
}

// fetchKeys reads the file or URL, and returns the keys in it by their IDs.
func (s *jwks) fetchKeys(ctx context.Context) (map[string]verificationKey, error) {
	text, err := s.fetch(ctx)
	if err != nil {
		return nil, err
	}
	keys, refused, err := parseJWKS(text)
	if err != nil {
		return nil, err
	}
	// A set is read every few minutes: only a change is worth a line.
	if said := fmt.Sprint(refused); said != s.refusedKeys {
		s.refusedKeys = said
		if len(refused) > 0 {
			s.log.Warn("some keys for tokens cannot be used", "error", errors.Join(refused...))
		}
	}
	return keys, nil
}

// withoutAddress leaves the address of a failed request out: it may have a password, and the error is logged.
func withoutAddress(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	return err
}

// fetch reads the bytes of the file or URL, at most maxJWKSBytes.
func (s *jwks) fetch(ctx context.Context) ([]byte, error) {
	if s.client == nil {
		file, err := os.Open(s.fileOrURL)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return readAtMost(file, maxJWKSBytes)
	}
	// A caller that gives up must not make the read fail for others that wait for it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), jwksTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.fileOrURL, nil)
	if err != nil {
		return nil, withoutAddress(err)
	}
	request.Close = true // reads are minutes apart: the connection is not worth keeping
	response, err := s.client.Do(request)
	if err != nil {
		return nil, withoutAddress(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d instead of 200", response.StatusCode)
	}
	return readAtMost(response.Body, maxJWKSBytes)
}

// readAtMost reads everything, or fails if that is more than limit bytes.
func readAtMost(from io.Reader, limit int64) ([]byte, error) {
	// One byte more than allowed is read, to distinguish a text of exactly limit bytes from a longer one.
	text, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("more than %d bytes", limit)
	}
	return text, err
}

// jsonWebKey is one key in the form of RFC 7517, with the fields that the supported algorithms need. A private key's own fields
// are never read.
type jsonWebKey struct {
	Kty string `json:"kty"` // the kind of the key, such as RSA
	Kid string `json:"kid"` // the ID
	Use string `json:"use"` // sig for signatures; "" if the issuer does not say
	Alg string `json:"alg"` // the algorithm; "" if the issuer does not say
	Crv string `json:"crv"` // the curve, such as Ed25519
	N   string `json:"n"`   // the modulus of an RSA key
	E   string `json:"e"`   // the public exponent of an RSA key
	X   string `json:"x"`   // the public key itself, of Ed25519
}

// parseJWKS reads a set. Keys of other kinds and for other uses are skipped. Keys of a supported kind that cannot be used are
// skipped too, with an error for each in refused: they may be there for other services, and the good keys must stay up to date. A
// set without a usable key is an error, which names the first cause.
func parseJWKS(text []byte) (keys map[string]verificationKey, refused []error, err error) {
	var set struct {
		Keys []jsonWebKey `json:"keys"`
	}
	// The parser's own error may repeat a part of the text.
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, nil, errors.New("not a JSON Web Key Set")
	}
	keys = make(map[string]verificationKey, len(set.Keys))
	for i, one := range set.Keys {
		key, err := one.verificationKey()
		if err != nil {
			refused = append(refused, fmt.Errorf("keys[%d]: %w", i, err))
			continue
		}
		if key.value == nil {
			continue
		}
		// One of the two keys would be ignored, depending on their order.
		if _, twice := keys[one.Kid]; twice {
			return nil, nil, fmt.Errorf("keys[%d]: kid %s appears twice", i, services.Quote(one.Kid))
		}
		keys[one.Kid] = key
	}
	// A set without a usable key would refuse every token, so the last good one stays.
	switch {
	case len(keys) > 0:
		return keys, refused, nil
	case len(refused) > 0:
		return nil, refused, refused[0]
	default:
		return nil, nil, errors.New("no RSA key for RS256 and no Ed25519 key for EdDSA")
	}
}

// verificationKey returns the key with its algorithm. Its value is nil if this server cannot use the key: it is for encryption and
// signs nothing, is of another kind, such as EC, or signs by another algorithm, such as RS512. A key that states no use or no algorithm
// is used.
func (k jsonWebKey) verificationKey() (verificationKey, error) {
	if k.Use == "enc" || k.Alg != "" && k.Alg != algRSA && k.Alg != algEdDSA {
		return verificationKey{}, nil
	}
	public, err := k.publicKey()
	if err != nil || public == nil {
		return verificationKey{}, err
	}
	key, err := verificationKeyOf(public)
	if err != nil || k.Alg != "" && k.Alg != key.alg {
		return verificationKey{}, err
	}
	return key, nil
}

// publicKey returns the key itself; nil for an unsupported kind. The bounds of e equal the bounds in crypto/rsa. Otherwise crypto/rsa
// would refuse each token later, with an error that does not name the cause.
func (k jsonWebKey) publicKey() (crypto.PublicKey, error) {
	switch {
	case k.Kty == "RSA":
		n, err := base64.RawURLEncoding.DecodeString(k.N)
		if err != nil {
			return nil, errors.New("n is not base64url")
		}
		e, err := base64.RawURLEncoding.DecodeString(k.E)
		if err != nil || len(e) == 0 || len(e) > 4 {
			return nil, errors.New("e is not a base64url number of up to 4 bytes")
		}
		exponent := new(big.Int).SetBytes(e).Int64()
		if exponent < 3 || exponent%2 == 0 || exponent > 1<<31-1 {
			return nil, errors.New("e is not an odd number from 3 to 2147483647")
		}
		return &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(exponent)}, nil
	case k.Kty == "OKP" && k.Crv == "Ed25519":
		x, err := base64.RawURLEncoding.DecodeString(k.X)
		if err != nil || len(x) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("x is not %d bytes in base64url", ed25519.PublicKeySize)
		}
		return ed25519.PublicKey(x), nil
	default:
		return nil, nil
	}
}
