package node

import (
	"testing"

	"tidings/transport"
)

// Clients may ask for the schema always or never, as --introspection says. By default they may in development mode alone.
func TestIntrospectionFollowsItsSettingAndTheMode(t *testing.T) {
	production := transport.TokenSettings{HMACSecret: "a secret of at least 32 characters"}
	for _, c := range []struct {
		config Config
		want   bool
	}{
		{Config{Introspection: "development"}, true},
		{Config{Introspection: "never"}, false},
		{Config{Introspection: "development", Tokens: production}, false},
		{Config{Introspection: "always", Tokens: production}, true},
		{Config{Introspection: "development", Tokens: transport.TokenSettings{JWKS: "k.json"}}, false},
	} {
		if got := c.config.allowIntrospection(); got != c.want {
			t.Errorf("%+v: %t, want %t", c.config, got, c.want)
		}
	}
}
