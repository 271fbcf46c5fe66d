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
	actAsHeader  = "Tidings-Act-As"
	deviceHeader = "Tidings-Device"

	leeway       = 30 * time.Second // how far the clocks of the issuer and ours may be apart
	maxToken     = 8 << 10          // bytes; a longer one is not looked at
	minSecret    = 32               // bytes, as HS256 demands
	maxDevice    = 64               // characters
	minRSABits   = 2048
	jwksInterval = 5 * time.Minute
	jwksAtMost   = 10 * time.Second // between two fetches for the sake of unknown key ids
)

// IdentityConfig says how tokens are checked. Exactly one of Development, HMACSecret, PublicKeyFile and JWKS
// is set, and the algorithm follows from it alone: whatever the token says of itself is compared, never used.
type IdentityConfig struct {
	Development   bool   // take dev:KEY as a token; refused together with a key
	HMACSecret    string // HS256; at least 32 bytes
	PublicKeyFile string // PEM: an RSA key (2,048 bits or more) for RS256, an Ed25519 key for EdDSA
	JWKS          string // a file, or an http or https URL, with RSA and Ed25519 keys

	Audience string // aud must hold it; "" checks none
	Issuer   string // iss must be it; "" checks none

	JWKSInterval time.Duration // how often the keys are read again; default 5 min

	Clock services.Clock // default the machine's
	Log   *slog.Logger   // default slog.Default()
}

// Identity tells from a token who asks. It is safe for concurrent use.
type Identity struct {
	development bool
	keys        keySource
	parser      *jwt.Parser
}

// keySource finds the key that a token must have been signed with.
type keySource interface {
	// key answers the key for a key id and the one algorithm that it may be used with.
	key(ctx context.Context, kid string) (key crypto.PublicKey, alg string, err error)
	// algorithms lists all that it may ever answer.
	algorithms() []string
}

// NewIdentity reads the keys. It fails when no way of checking tokens is configured, when more than one is,
// or when a key cannot be read; the error names the field. With JWKS it starts a goroutine that reads the
// keys again from time to time and ends with ctx.
func NewIdentity(ctx context.Context, cfg IdentityConfig) (*Identity, error) {
	cfg.Clock = cmp.Or[services.Clock](cfg.Clock, services.SystemClock{})
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	cfg.JWKSInterval = cmp.Or(cfg.JWKSInterval, jwksInterval)
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
	identity := &Identity{development: cfg.Development}
	var err error
	switch {
	case cfg.Development:
		return identity, nil
	case cfg.HMACSecret != "":
		identity.keys, err = newSecret(cfg.HMACSecret)
	case cfg.PublicKeyFile != "":
		identity.keys, err = readPublicKey(cfg.PublicKeyFile)
	default:
		identity.keys, err = newJWKS(ctx, cfg)
	}
	if err != nil {
		return nil, err
	}
	options := []jwt.ParserOption{
		jwt.WithValidMethods(identity.keys.algorithms()), jwt.WithExpirationRequired(),
		jwt.WithLeeway(leeway), jwt.WithTimeFunc(cfg.Clock.Now),
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

// Viewer is who the token names, acting as actAs where that is not "", on the device of that name. expires is
// when the token stops being accepted (with the leeway); zero is never. Codes: UNAUTHENTICATED when the token
// is not good, FORBIDDEN when it is and does not allow what is asked, INVALID when actAs or device are not
// well formed, UNAVAILABLE when the keys cannot be read. The message never holds any of the token.
func (i *Identity) Viewer(ctx context.Context, token, actAs, device string) (viewer services.Viewer, expires time.Time, err error) {
	if len(token) > maxToken {
		return viewer, expires, services.Errorf(services.Unauthenticated, "token: up to %d bytes are allowed, got %d", maxToken, len(token))
	}
	if err := checkDevice(device); err != nil {
		return viewer, expires, err
	}
	switch isDev := strings.HasPrefix(token, devPrefix); {
	case i.development:
		viewer, err = devViewer(token)
	case isDev:
		err = services.Errorf(services.Unauthenticated, "token: development tokens are refused, because a key is configured")
	default:
		viewer, expires, err = i.verify(ctx, token)
	}
	if err == nil {
		viewer, err = actingAs(viewer, actAs)
	}
	if err != nil {
		return services.Viewer{}, time.Time{}, err
	}
	viewer.Device = device
	return viewer, expires, nil
}

// verify checks a JWT and reads its claims.
func (i *Identity) verify(ctx context.Context, token string) (services.Viewer, time.Time, error) {
	var claims tokenClaims
	_, err := i.parser.ParseWithClaims(token, &claims, func(unverified *jwt.Token) (any, error) {
		if _, critical := unverified.Header["crit"]; critical {
			return nil, errCritical
		}
		kid, _ := unverified.Header["kid"].(string)
		key, alg, err := i.keys.key(ctx, kid)
		if err != nil {
			return nil, err
		}
		if unverified.Method.Alg() != alg {
			return nil, errAlgorithm
		}
		return key, nil
	})
	if err != nil {
		return services.Viewer{}, time.Time{}, tokenError(err)
	}
	viewer, err := claims.viewer()
	return viewer, claims.ExpiresAt.Add(leeway), err
}

// errAlgorithm is a token whose algorithm is not that of the key it names.
var errAlgorithm = services.Errorf(services.Unauthenticated, "token: its algorithm is not that of its key")

// errCritical is a token that must not be accepted by whoever does not know what its header names: we know no extension.
var errCritical = services.Errorf(services.Unauthenticated, "token: its header needs extensions (crit) that this server does not support")

// tokenError says for a person what is wrong with a token. The library's own text is left out: parts of it
// come from the token.
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
			if reason.is == jwt.ErrTokenExpired {
				refused.Reason = services.ReasonExpired
			}
			return refused
		}
	}
	return services.Wrapf(services.Unauthenticated, err, "token: cannot be verified")
}

// actingAs makes the host application act for one of its users.
func actingAs(viewer services.Viewer, actAs string) (services.Viewer, error) {
	if actAs == "" {
		return viewer, nil
	}
	if !viewer.Has(services.ScopeIngest) {
		return viewer, services.Errorf(services.Forbidden, "%s: needs a token with the scope ingest", actAsHeader)
	}
	if err := services.CheckUserKey(actAs); err != nil {
		return viewer, fmt.Errorf("%s: %w", actAsHeader, err)
	}
	viewer.Key = actAs
	if !viewer.Has(services.ScopeViewer) {
		viewer.Scopes = append(viewer.Scopes, services.ScopeViewer)
	}
	return viewer, nil
}

// checkDevice says whether a client's name for its device is acceptable.
func checkDevice(device string) error {
	if len(device) > maxDevice {
		return services.Errorf(services.Invalid, "%s: 1 to %d characters are allowed, got %d", deviceHeader, maxDevice, len(device))
	}
	// The letters of a device are those of a user key.
	if device != "" && services.CheckUserKey(device) != nil {
		return services.Errorf(services.Invalid, "%s: only letters, digits, '.', '_' and '-' are allowed", deviceHeader)
	}
	return nil
}

// bearer takes the token out of an Authorization header. "" is no header, and no token.
func bearer(header http.Header) (string, error) {
	value := header.Get("Authorization")
	if value == "" {
		return "", nil
	}
	scheme, token, found := strings.Cut(value, " ")
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
