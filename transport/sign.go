package transport

import (
	"crypto"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"tidings/services"
)

// UnsignedToken is a token to be signed, and its key. It is for the command `tidings token` and for tests: a server signs nothing.
type UnsignedToken struct {
	HMACSecret     string // for HS256; ignored if PrivateKeyFile is set
	PrivateKeyFile string // PEM: an RSA key for RS256, an Ed25519 key for EdDSA

	Subject          string        // the user's key; "" for a token of the host application
	Scopes           []string      // the claim scope
	Audience, Issuer string        // "" omits the claim
	IssuedAt         time.Time     // the claim iat
	ValidFor         time.Duration // the claim exp is IssuedAt plus this
}

// Sign returns the token in the form that an Identity with the same key accepts. It fails if the key cannot be read. The token
// has no kid, so a set of several keys does not accept it.
func (t UnsignedToken) Sign() (string, error) {
	method, key, err := t.key()
	if err != nil {
		return "", err
	}
	claims := jwt.MapClaims{"exp": t.IssuedAt.Add(t.ValidFor).Unix(), "iat": t.IssuedAt.Unix(), "scope": strings.Join(t.Scopes, " ")}
	// An empty claim differs from an absent one, so it is left out.
	for name, value := range map[string]string{"sub": t.Subject, "aud": t.Audience, "iss": t.Issuer} {
		if value != "" {
			claims[name] = value
		}
	}
	return jwt.NewWithClaims(method, claims).SignedString(key)
}

// key reads the signing key, and chooses the method by the key's type. Its own error replaces the errors of the parsers, which name
// neither the file nor the reason well.
func (t UnsignedToken) key() (jwt.SigningMethod, crypto.PrivateKey, error) {
	if t.PrivateKeyFile == "" {
		return jwt.SigningMethodHS256, []byte(t.HMACSecret), nil
	}
	text, err := os.ReadFile(t.PrivateKeyFile)
	if err != nil {
		return nil, nil, err
	}
	if key, err := jwt.ParseRSAPrivateKeyFromPEM(text); err == nil {
		return jwt.SigningMethodRS256, key, nil
	}
	if key, err := jwt.ParseEdPrivateKeyFromPEM(text); err == nil {
		return jwt.SigningMethodEdDSA, key, nil
	}
	return nil, nil, fmt.Errorf("%s is not the PEM file of an RSA or Ed25519 private key", services.Quote(t.PrivateKeyFile))
}
