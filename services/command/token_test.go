package command

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/transport"
)

// testSecret signs the tokens of these tests.
const testSecret = "a secret of more than thirty-two bytes"

// callToken runs "tidings token".
func callToken(t *testing.T, args ...string) (exit int, printed string) {
	t.Helper()
	var out bytes.Buffer
	exit = Run(t.Context(), append([]string{"token"}, args...), environmentOf([]string{"TIDINGS_JWT_SECRET=" + testSecret}), &out, &out)
	return exit, strings.TrimSpace(out.String())
}

// A server accepts the tokens that are signed with its key, whatever its algorithm, with the claims that were given.
func TestAServerAcceptsSignedTokens(t *testing.T) {
	t.Chdir(t.TempDir())
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	writeKeyFiles(t, "ed", edwards, edwards.Public())
	rivest, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	writeKeyFiles(t, "rsa", rivest, rivest.Public())
	for name, cfg := range map[string]transport.TokenSettings{
		"":        {HMACSecret: testSecret},
		"ed.key":  {PublicKeyFile: "ed.pub"},
		"rsa.key": {PublicKeyFile: "rsa.pub"},
	} {
		cfg.Audience, cfg.Issuer = "tidings", "tests"
		identity, err := transport.NewIdentity(t.Context(), transport.IdentityConfig{TokenSettings: cfg})
		if err != nil {
			t.Fatal(err)
		}
		args := []string{"alice", "--jwt-audience", "tidings", "--jwt-issuer", "tests", "--scope", "viewer,admin", "--valid-for", "5m"}
		if name != "" {
			args = append(args, "--private-key", name)
		}
		exit, token := callToken(t, args...)
		if exit != 0 {
			t.Fatalf("%q: exit code %d: %s", name, exit, token)
		}
		viewer, expires, err := identity.Viewer(t.Context(), token, "", "")
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if viewer.Key != "alice" || !slices.Equal(viewer.Scopes, []services.Scope{services.ScopeViewer, services.ScopeAdmin}) {
			t.Errorf("%q: the viewer is %+v", name, viewer)
		}
		if left := time.Until(expires); left < 4*time.Minute || left > 6*time.Minute {
			t.Errorf("%q: the token expires in %s", name, left)
		}
	}
}

// writeKeyFiles writes a pair of keys as the PEM files name.key and name.pub.
func writeKeyFiles(t *testing.T, name string, private, public any) {
	t.Helper()
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	open, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{name + ".key": {Type: "PRIVATE KEY", Bytes: secret}, name + ".pub": {Type: "PUBLIC KEY", Bytes: open}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A token of the host application needs no user.
func TestATokenOfTheHost(t *testing.T) {
	identity, err := transport.NewIdentity(t.Context(), transport.IdentityConfig{TokenSettings: transport.TokenSettings{HMACSecret: testSecret}})
	if err != nil {
		t.Fatal(err)
	}
	exit, token := callToken(t, "--scope", "ingest")
	viewer, _, err := identity.Viewer(t.Context(), token, "bob", "")
	if exit != 0 || err != nil || viewer.Key != "bob" {
		t.Errorf("exit code %d: acting as bob it is %+v, %v", exit, viewer, err)
	}
}

func TestTokenRefusesWhatNoServerAccepts(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("no.key", []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]struct {
		exit int
		text string
	}{
		"":                             {2, "the key of the user is missing"},
		"alice --scope root":           {2, `"root" is not a scope`},
		"al\u200bice":                  {2, "only printable"},
		"alice --valid-for 0s":         {2, "1s to 8760h"},
		"alice --jwt-secret short":     {2, "at least 32 bytes"},
		"alice --listen :80":           {2, "--listen is not a flag of tidings token"},
		"alice --private-key no.key":   {1, "not the PEM file of an RSA or Ed25519 private key"},
		"alice --private-key none.key": {1, "none.key"},
	} {
		if exit, printed := callToken(t, strings.Fields(args)...); exit != want.exit || !strings.Contains(printed, want.text) {
			t.Errorf("token %s: exit code %d, want %d with %q:\n%s", args, exit, want.exit, want.text, printed)
		}
	}
	var out bytes.Buffer
	if exit := Run(t.Context(), []string{"token", "alice"}, environmentOf(nil), &out, &out); exit != 2 || !strings.Contains(out.String(), "a key is needed") {
		t.Errorf("without a key: exit code %d, %s", exit, &out)
	}
}
