package transport

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// The algorithms that are accepted, one for each kind of key. The other algorithms of the library, above all "none", are refused.
const (
	algHMAC  = "HS256"
	algRSA   = "RS256"
	algEdDSA = "EdDSA"
)

// verificationKey is a key with its algorithm. As a keySource it is the key for every token, whatever ID the token's header has. A
// jwks has several.
type verificationKey struct {
	// value is a byte slice for HMAC, and otherwise the public key in the type that the library expects.
	value crypto.PublicKey
	alg   string // algHMAC, algRSA or algEdDSA
}

// key returns the only key. The ID in the token is ignored, because there is no other key that it could mean.
func (k verificationKey) key(context.Context, string) (crypto.PublicKey, string, error) {
	return k.value, k.alg, nil
}

// algorithms returns the key's own algorithm.
func (k verificationKey) algorithms() []string { return []string{k.alg} }

// newHMACKey makes the key of a shared secret. An attacker could guess a secret shorter than the hash offline, from a single
// token.
func newHMACKey(secret string) (keySource, error) {
	if len(secret) < minSecretBytes {
		return nil, fmt.Errorf("identity: HMACSecret: at least %d bytes are needed, got %d", minSecretBytes, len(secret))
	}
	return verificationKey{value: []byte(secret), alg: algHMAC}, nil
}

// parsePublicKey reads the first key of a PEM text: PKIX ("PUBLIC KEY"), PKCS #1 ("RSA PUBLIC KEY") or a certificate, whose dates
// are not checked, because it only carries the key. The error for a private key names its type: a private key does not belong on
// this machine.
func parsePublicKey(text []byte) (verificationKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return verificationKey{}, errors.New("not a PEM file")
	}
	var key any
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		// The certificate only carries the key: its signature is not checked, because the operator has chosen the file.
		var certificate *x509.Certificate
		if certificate, err = x509.ParseCertificate(block.Bytes); err == nil {
			key = certificate.PublicKey
		}
	default:
		return verificationKey{}, fmt.Errorf("a public key is needed, got %q", block.Type)
	}
	if err != nil {
		return verificationKey{}, err
	}
	return verificationKeyOf(key)
}

// verificationKeyOf pairs a key with the one algorithm that it may be used with. The type of the key determines the algorithm, and
// never a token.
func verificationKeyOf(key any) (verificationKey, error) {
	switch key := key.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSABits {
			return verificationKey{}, fmt.Errorf("an RSA key of at least %d bits is needed, got %d", minRSABits, bits)
		}
		return verificationKey{value: key, alg: algRSA}, nil
	case ed25519.PublicKey:
		return verificationKey{value: key, alg: algEdDSA}, nil
	default:
		return verificationKey{}, fmt.Errorf("an RSA or Ed25519 key is needed, got %T", key)
	}
}
