package transport

import (
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"tidings/services"
)

const (
	actAsHeader  = "Tidings-Act-As" // names the user that the host application acts for
	deviceHeader = "Tidings-Device" // has the client's name of its device

	// tokenLeeway applies to exp and nbf: it is the tolerated difference between the issuer's clock and this one, and every token
	// lives longer by it. Machines with synchronized clocks differ by less.
	tokenLeeway         = 30 * time.Second
	maxTokenBytes       = 8 << 10 // bytes; a longer one is refused unread
	minSecretBytes      = 32      // bytes, as HS256 demands
	maxDeviceNameLength = 64      // characters
	minRSABits          = 2048    // bits of an RSA key
	// defaultJWKSInterval is the default of IdentityConfig.JWKSInterval: a revoked key is accepted until the next good read. A
	// token with an unknown key ID leads to a read too, but such reads are at least minUnknownKeyIDReadInterval apart. So while a
	// client sends unknown IDs all the time, a new key may be unknown for that long.
	defaultJWKSInterval         = 5 * time.Minute
	minUnknownKeyIDReadInterval = 10 * time.Second // between two reads because of unknown key IDs
)

// IdentityConfig configures the check of tokens. Exactly one of Development, HMACSecret, PublicKeyFile and JWKS is set, and it
// alone determines the algorithm: the token's header is compared with it, and never trusted.
type IdentityConfig struct {
	Development bool // accept tokens dev:KEY; refused together with a key
	TokenSettings

	JWKSInterval time.Duration // how often the keys are read again; default 5 min

	Clock services.Clock // default the machine's
	Log   *slog.Logger   // default slog.Default()
}

// Identity finds the viewer of a token. It is safe for concurrent use. It asks no database: the resolvers check whether the user
// exists or was erased.
type Identity struct {
	development bool // development mode: tokens are read and not verified
	// keys and parser are nil in development mode, which verifies nothing.
	keys   keySource
	parser *jwt.Parser
	clock  services.Clock
}

// keySource finds the key that a token must have been signed with. The kid comes from a header that is not verified yet, so it
// only chooses among keys that are all trusted.
type keySource interface {
	// key returns the key with an ID, and the one algorithm that it may be used with.
	key(ctx context.Context, kid string) (key crypto.PublicKey, alg string, err error)
	// algorithms lists all algorithms that key may return.
	algorithms() []string
}

// NewIdentity reads the keys. It fails if no key or more than one is configured, or if a key cannot be read; the error names
// the field. With JWKS it starts a goroutine that reloads the keys at an interval and ends with ctx.
func NewIdentity(ctx context.Context, cfg IdentityConfig) (*Identity, error) {
	cfg.Clock = cmp.Or[services.Clock](cfg.Clock, services.SystemClock{})
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	cfg.JWKSInterval = cmp.Or(cfg.JWKSInterval, defaultJWKSInterval)
	// Exactly one source of keys is allowed: with two, the sender of a token could choose which source checks it.
	var given []string
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"Development", cfg.Development}, {"HMACSecret", cfg.HMACSecret != ""},
		{"PublicKeyFile", cfg.PublicKeyFile != ""}, {"JWKS", cfg.JWKS != ""},
	} {
		if field.set {
			given = append(given, field.name)
		}
	}
	if len(given) != 1 {
		return nil, fmt.Errorf("identity: exactly one of Development, HMACSecret, PublicKeyFile and JWKS must be set, got %d: %s",
			len(given), cmp.Or(strings.Join(given, ", "), "none"))
	}
	identity := &Identity{development: cfg.Development, clock: cfg.Clock}
	var err error
	switch {
	case cfg.Development:
		return identity, nil
	case cfg.HMACSecret != "":
		identity.keys, err = newHMACKey(cfg.HMACSecret)
	case cfg.PublicKeyFile != "":
		identity.keys, err = readPublicKey(cfg.PublicKeyFile)
	default:
		identity.keys, err = newJWKS(ctx, cfg)
	}
	if err != nil {
		return nil, err
	}
	// The library compares the algorithm with this list before it asks for the key. verify then compares it with the key's algorithm.
	options := []jwt.ParserOption{
		jwt.WithValidMethods(identity.keys.algorithms()), jwt.WithExpirationRequired(),
		jwt.WithLeeway(tokenLeeway), jwt.WithTimeFunc(cfg.Clock.Now),
	}
	if cfg.Audience != "" {
		options = append(options, jwt.WithAudience(cfg.Audience))
	}
	if cfg.Issuer != "" {
		options = append(options, jwt.WithIssuer(cfg.Issuer))
	}
	identity.parser = jwt.NewParser(options...)
	return identity, nil
}

// Viewer returns the user of the token, or the user actAs if that is not "", on the named device. expires is the time from which
// the token is refused, leeway included; zero means never. The errors are UNAUTHENTICATED for a bad token, FORBIDDEN for a good
// token that does not permit the request, INVALID for a malformed actAs or device, and UNAVAILABLE if the keys cannot be read. The
// message never contains any part of the token.
func (i *Identity) Viewer(ctx context.Context, token, actAs, device string) (viewer services.Viewer, expires time.Time, err error) {
	// This check comes before anything is decoded, because decoding a long token of a stranger would cost time.
	if len(token) > maxTokenBytes {
		return viewer, expires, services.Errorf(services.Unauthenticated, "token: up to %d bytes are allowed, got %d", maxTokenBytes, len(token))
	}
	if err := checkDeviceName(device); err != nil {
		return viewer, expires, err
	}
	// In production a token of development mode gets a message of its own, because people often forget to replace it.
	switch isDev := strings.HasPrefix(token, devTokenPrefix); {
	case i.development:
		viewer, err = devViewer(token)
	case isDev:
		err = services.Errorf(services.Unauthenticated, "token: development tokens are refused, because a key is configured")
	default:
		viewer, expires, err = i.verify(ctx, token)
	}
	if err == nil {
		viewer, err = viewerActingAs(viewer, actAs)
	}
	if err != nil {
		// No data of a refused token is returned.
		return services.Viewer{}, time.Time{}, err
	}
	viewer.Device = device
	return viewer, expires, nil
}

// tokenKeysVersion returns a value that identifies the present keys, for comparison. Every reload makes a new map, even of equal
// keys, so remembered tokens are checked again after each reload. The value is nil for keys that never change.
func (i *Identity) tokenKeysVersion() any {
	if set, ok := i.keys.(*jwks); ok {
		return set.keys.Load()
	}
	return nil
}

// stillValid reports whether a token that was good is still good: the keys are the same, and the token has not expired. The rest of
// the request's head needs no check: the front remembers checked heads by their bytes, so this head is one of them, byte for byte.
func (i *Identity) stillValid(one *frontCaller) bool {
	return one.tokenKeysVersion == i.tokenKeysVersion() && (one.tokenExpires.IsZero() || i.clock.Now().Before(one.tokenExpires))
}

// verify checks a JWT and reads its claims. The time is the first at which the token is refused: the claim exp plus tokenLeeway. So a
// socket lives as long as a new request with the same token would be accepted.
func (i *Identity) verify(ctx context.Context, token string) (services.Viewer, time.Time, error) {
	var claims tokenClaims
	// This function runs before the signature is checked: it may read the header, but must not trust it.
	_, err := i.parser.ParseWithClaims(token, &claims, func(unverified *jwt.Token) (any, error) {
		if _, critical := unverified.Header["crit"]; critical {
			return nil, errCritical
		}
		// kid is "" if the header has none, or one that is no text: the method key decides what an absent ID means.
		kid, _ := unverified.Header["kid"].(string)
		key, alg, err := i.keys.key(ctx, kid)
		if err != nil {
			return nil, err
		}
		// Otherwise a key of one algorithm could verify a token of another.
		if unverified.Method.Alg() != alg {
			return nil, errAlgorithm
		}
		return key, nil
	})
	if err != nil {
		return services.Viewer{}, time.Time{}, tokenError(err)
	}
	viewer, err := claims.viewer()
	return viewer, claims.ExpiresAt.Add(tokenLeeway), err
}

// errAlgorithm refuses a token whose algorithm differs from its key's algorithm.
var errAlgorithm = services.Errorf(services.Unauthenticated, "token: its algorithm is not that of its key")

// errCritical refuses a token with the header crit: a server that does not support the listed extensions must refuse the token,
// and this server supports none.
var errCritical = services.Errorf(services.Unauthenticated, "token: its header needs extensions (crit) that this server does not support")

// tokenError describes the fault of a token for people. The library's message is omitted, because parts of it come from the
// token. The order matters: the library reports several faults at once, and the first that is listed here is named.
func tokenError(err error) error {
	if known, ok := errors.AsType[*services.Error](err); ok {
		return known
	}
	for _, reason := range []struct {
		is   error
		text string
	}{
		{jwt.ErrTokenMalformed, "is not a JSON Web Token"},
		{jwt.ErrTokenSignatureInvalid, "the signature or the algorithm is wrong"},
		{jwt.ErrTokenExpired, "has expired"},
		{jwt.ErrTokenNotValidYet, "is not valid yet"},
		{jwt.ErrTokenRequiredClaimMissing, "a claim is missing: exp is always required, and aud and iss where they are checked"},
		{jwt.ErrTokenInvalidAudience, "is meant for another audience"},
		{jwt.ErrTokenInvalidIssuer, "comes from another issuer"},
	} {
		if errors.Is(err, reason.is) {
			refused := &services.Error{Code: services.Unauthenticated, Message: "token: " + reason.text, Cause: err}
			// Clients renew their token for this reason, and sign out for the others.
			if reason.is == jwt.ErrTokenExpired {
				refused.Reason = services.ReasonExpired
			}
			return refused
		}
	}
	return services.Wrapf(services.Unauthenticated, err, "token: cannot be verified")
}

// viewerActingAs lets the host application act for one of its users. The token needs the scope ingest, which only the application's
// own tokens have. The viewer then has the rights of that user in addition to the rights of the token.
func viewerActingAs(viewer services.Viewer, actAs string) (services.Viewer, error) {
	if actAs == "" {
		return viewer, nil
	}
	if !viewer.Has(services.ScopeIngest) {
		return viewer, services.Errorf(services.Forbidden, "%s: needs a token with the scope ingest", actAsHeader)
	}
	key, err := actAsKey(actAs)
	if err != nil {
		return viewer, fmt.Errorf("%s: %w", actAsHeader, err)
	}
	// Subject stays the holder of the token.
	viewer.Key = key
	if !viewer.Has(services.ScopeViewer) {
		viewer.Scopes = append(viewer.Scopes, services.ScopeViewer)
	}
	return viewer, nil
}

// actAsKey returns the key of the user in the header. The header has the key, escaped as in IDs, or the user's ID. No escaped key
// has a colon, so a text with a colon is an ID.
func actAsKey(actAs string) (string, error) {
	if strings.IndexByte(actAs, ':') < 0 {
		actAs = services.UserType + ":" + actAs
	}
	kind, key, err := services.SplitGlobalID(actAs)
	if err == nil && kind != services.UserType {
		err = services.Errorf(services.Invalid, "%s is not the id of a user: expected user:KEY", services.Quote(actAs))
	}
	if err == nil {
		err = services.CheckUserKey(key)
	}
	return key, err
}

// checkDeviceName checks a client's name for its device. The name becomes part of keys in Redis, so its characters and its length
// are limited.
func checkDeviceName(device string) error {
	if len(device) > maxDeviceNameLength {
		return services.Errorf(services.Invalid, "%s: 1 to %d characters are allowed, got %d", deviceHeader, maxDeviceNameLength, len(device))
	}
	if device != "" && services.CheckIdentifier(device) != nil {
		return services.Errorf(services.Invalid, "%s: only letters, digits, '.', '_' and '-' are allowed", deviceHeader)
	}
	return nil
}

// bearerToken returns the token of an Authorization header; "" without a header. Another scheme is an error and not an absent token: a
// client that sends one expects to be identified.
func bearerToken(header http.Header) (string, error) {
	value := header.Get("Authorization")
	if value == "" {
		return "", nil
	}
	scheme, token, found := strings.Cut(value, " ")
	// By the rules of HTTP, the case of a scheme's name does not matter.
	if token = strings.TrimSpace(token); !found || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", services.Errorf(services.Unauthenticated, "Authorization: expected Bearer TOKEN")
	}
	return token, nil
}

// readPublicKey reads a PEM file with one RSA or Ed25519 key.
func readPublicKey(path string) (keySource, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("identity: PublicKeyFile: %w", err)
	}
	key, err := parsePublicKey(pem)
	if err != nil {
		return nil, fmt.Errorf("identity: PublicKeyFile %s: %w", path, err)
	}
	return key, nil
}
