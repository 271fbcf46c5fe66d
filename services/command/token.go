package command

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/node"
	"tidings/transport"
)

// tokenOptions are the options of "tidings token" besides the settings of tokens, which a server has too: a server accepts a
// token that was signed with the same environment.
type tokenOptions struct {
	User       string        `kong:"-"` // the user's key, "" for a token of the host application
	Scopes     []string      `name:"scope" group:"Token:" for:"token" default:"viewer" placeholder:"LIST" words:"viewer ingest admin" help:"what the token permits: viewer, ingest, admin, separated by commas"`
	ValidFor   time.Duration `name:"valid-for" for:"token" default:"1h" placeholder:"DURATION" min:"1s" max:"8760h" help:"the time after which the token expires"`
	PrivateKey string        `for:"token" placeholder:"FILE" help:"the PEM private key, RSA or Ed25519, that signs the token; without it --jwt-secret does"`
}

// runToken does "tidings token": a signed token, alone on one line. now is the time of its claim iat. Apart from the output, only the
// file of the key can fail: everything else was checked with the command line.
func runToken(cfg node.Config, options tokenOptions, now time.Time, out io.Writer) error {
	// The key file goes before the secret if both are there: it was named for this token.
	token, err := transport.UnsignedToken{
		HMACSecret: cfg.Tokens.HMACSecret, PrivateKeyFile: options.PrivateKey, Subject: options.User, Scopes: options.Scopes,
		Audience: cfg.Tokens.Audience, Issuer: cfg.Tokens.Issuer, IssuedAt: now, ValidFor: options.ValidFor,
	}.Sign()
	if err != nil {
		return fmt.Errorf("--private-key: %w", err)
	}
	_, err = fmt.Fprintln(out, token)
	return err
}

// checkToken lists the faults of the options of a token. A token without a user must have the scope ingest, as the server demands.
// The scopes are checked here and not by a tag, because the tag `oneof` is not for lists. The server would refuse the same tokens.
func checkToken(cfg node.Config, options tokenOptions) (faults []error) {
	for _, scope := range options.Scopes {
		if !slices.Contains([]services.Scope{services.ScopeViewer, services.ScopeIngest, services.ScopeAdmin}, services.Scope(scope)) {
			faults = append(faults, fmt.Errorf("--scope: %s is not a scope: viewer, ingest and admin are", services.Quote(scope)))
		}
	}
	if options.User != "" {
		if err := services.CheckUserKey(options.User); err != nil {
			faults = append(faults, err)
		}
	} else if !slices.Contains(options.Scopes, string(services.ScopeIngest)) {
		faults = append(faults, errors.New("the key of the user is missing: only a token with the scope ingest needs none"))
	}
	if options.PrivateKey == "" && cfg.Tokens.HMACSecret == "" {
		faults = append(faults, errors.New("a key is needed: --jwt-secret (TIDINGS_JWT_SECRET) or --private-key; in development mode no token is signed, and dev:alice is alice"))
	}
	return faults
}
