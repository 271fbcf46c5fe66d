package services

import (
	"net/url"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

func TestUserKeys(t *testing.T) {
	for _, key := range []string{
		"alice", "a.b_c-d", "4711", "auth0|123", "did:plc:ewvi7nxzyoun6zhxrhs64oiz", "ann@example.org", "Zoë", "李雷", "a b", "50%", "~", "/", "#1",
		"100% \"me\"", "👍🏽", strings.Repeat("k", 128), strings.Repeat("界", 128),
	} {
		if err := CheckUserKey(key); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
	for key, word := range map[string]string{
		"":                       "1 to 128 characters, got 0",
		strings.Repeat("k", 129): "1 to 128 characters, got 129",
		strings.Repeat("界", 129): "got 129",
		" a":                     "begin or end with a space",
		"a ":                     "begin or end with a space",
		" ":                      "begin or end with a space",
		"a\nb":                   "only printable",
		"a\r\nX: y":              "only printable",
		"a\x00b":                 "only printable",
		"a\tb":                   "only printable",
		"a\u007f":                "only printable",
		"a\u0085":                "only printable",
		"a\u00a0b":               "only printable", // a space that looks like another
		"a\u200bb":               "only printable", // invisible, because it has no width
		"\u202eecila":            "only printable", // reverses the direction of writing
		"a\u2028b":               "only printable",
		"\ufeffa":                "only printable",
		"\ue000":                 "only printable",
		"a\ufffd":                "only printable", // the character that replaces broken text
		"a\xff":                  "only printable",
		"\xed\xa0\x80":           "only printable", // half of a surrogate pair
		"zoe\u0308":              "normal form C",
		"\u212b":                 "normal form C", // the unit sign, not the letter
	} {
		if err := CheckUserKey(key); CodeOf(err) != Invalid || !strings.Contains(err.Error(), word) {
			t.Errorf("%q: got %v, want %q", key, err, word)
		}
	}
}

func TestCheckIdentifier(t *testing.T) {
	for _, name := range []string{"a", "Phone-1.b_c", strings.Repeat("n", 64)} {
		if err := CheckIdentifier(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "a b", "a|b", "a:b", "é", "a~", strings.Repeat("n", 65)} {
		if err := CheckIdentifier(name); CodeOf(err) != Invalid {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestUserIDsAreEscaped(t *testing.T) {
	for key, id := range map[string]string{
		"alice":         "user:alice",
		"a.b_c-d~":      "user:a.b_c-d~",
		"auth0|123":     "user:auth0%7C123",
		"auth0%7C123":   "user:auth0%257C123",
		"did:plc:x":     "user:did%3Aplc%3Ax",
		"ann@example":   "user:ann%40example",
		"Zoë":           "user:Zo%C3%AB",
		"a b+c":         "user:a%20b%2Bc",
		"user:alice":    "user:user%3Aalice",
		"\"\\/<>&'()!*": "user:%22%5C%2F%3C%3E%26%27%28%29%21%2A",
	} {
		if got := (User{Key: key}).GlobalID(); got != id {
			t.Errorf("%q: got %s, want %s", key, got, id)
		}
		if back, err := ParseUserID("userId", id); err != nil || back != key {
			t.Errorf("%s: got %q, %v", id, back, err)
		}
	}
	if got := GlobalID(PostType, "38G2TZ0C0N800"); got != "post:38G2TZ0C0N800" {
		t.Error(got)
	}
}

// A key has one form: all other ways of escaping it are INVALID, in IDs of the viewer and the badges too.
func TestOtherEscapesAreInvalid(t *testing.T) {
	for _, text := range []string{"auth0|123", "auth0%7c123", "%61lice", "alice%", "alice%7", "alice%zz", "a+b", "a b", "Zoë", "Zo\xeb", "%2e", "%7E", "alice?", "alice/x", "alice:admin"} {
		for _, kind := range []string{UserType, ViewerType, BadgesType} {
			if _, key, err := SplitGlobalID(kind + ":" + text); CodeOf(err) != Invalid {
				t.Errorf("%s:%s names %q, %v", kind, text, key, err)
			}
		}
		if key, err := ParseUserID("userId", "user:"+text); CodeOf(err) != Invalid || !strings.HasPrefix(err.Error(), "userId: ") {
			t.Errorf("user:%s names %q, %v", text, key, err)
		}
	}
	for _, id := range []string{"user:a%0Ab", "user:%20a", "user:zoe%CC%88", "user:%FF", "user:%ED%A0%80", "user:"} {
		if key, err := ParseUserID("userId", id); CodeOf(err) != Invalid {
			t.Errorf("%s names %q, %v", id, key, err)
		}
	}
}

// For any text, the escaped form parses as that text and as nothing else, in other programs too.
func TestEscapedKeysReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("aZ9%|:/ +~é\u0308\u200b\n")))).Draw(t, "key")
		escaped := escapeKey(key)
		if back, err := UnescapeKey(escaped); err != nil || back != key {
			t.Fatalf("%q is %s, which reads back as %q, %v", key, escaped, back, err)
		}
		if back, err := url.PathUnescape(escaped); err != nil || back != key {
			t.Fatalf("%q is %s, which is the address of %q, %v", key, escaped, back, err)
		}
		if strings.ContainsAny(escaped, ":/,; \"\\\r\n") {
			t.Fatalf("%q is %s", key, escaped)
		}
		if CheckUserKey(key) == nil && norm.NFC.String(key) != key {
			t.Fatalf("%q is a key in another normal form", key)
		}
		other := rapid.StringOf(rapid.SampledFrom([]rune("aA%7cC|4"))).Draw(t, "text")
		if read, err := UnescapeKey(other); err == nil && escapeKey(read) != other {
			t.Fatalf("%q and %q are both %q", other, escapeKey(read), read)
		}
	})
}

// An ID that ParseUserID accepts is the only ID of its key.
func FuzzUserID(f *testing.F) {
	f.Add("user:alice")
	f.Add("user:auth0%7C123")
	f.Add("user:%7c%")
	f.Fuzz(func(t *testing.T, id string) {
		if key, err := ParseUserID("id", id); err == nil && GlobalID(UserType, key) != id {
			t.Errorf("%q names %q, whose ID is %q", id, key, GlobalID(UserType, key))
		}
	})
}
