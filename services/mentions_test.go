package services

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMentionedKeys(t *testing.T) {
	long := strings.Repeat("k", maxIdentifierCharacters)
	for text, want := range map[string][]string{
		"":                                   nil,
		"@bob":                               {"bob"},
		"hello @bob, @carol. And @bob again": {"bob", "carol"},
		"(@bob) \"@carol\" @dave's":          {"bob", "carol", "dave"},
		"@bob.smith- and @a-b_c.":            {"bob.smith", "a-b_c"},
		"mail alice@example.com or é@bob":    nil,
		"http://example.com/@bob?u=@carol":   nil,
		"@bob@example.com":                   nil,
		"@@bob and @ bob and @. and @":       nil,
		"a_@bob":                             nil,
		"@bobé":                              nil,
		"@" + long + " @" + long + "k":       {long},
		"\n@bob\t@Bob":                       {"bob", "Bob"},
		"日本 @bob。@carol":                     {"bob", "carol"},
		"broken \xff@bob":                    {"bob"},
		"@1 @2":                              {"1", "2"},
	} {
		if got := MentionedKeys(text); !slices.Equal(got, want) {
			t.Errorf("%q names %q, want %q", text, got, want)
		}
	}
}

// For any text every key is valid, listed once, and follows an @ in the text.
func TestMentionedKeysAreKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("@@@ab. -_é/=\n"))).Draw(t, "text")
		keys := MentionedKeys(text)
		for i, key := range keys {
			if CheckUserKey(key) != nil || slices.Contains(keys[:i], key) || !strings.Contains(text, "@"+key) {
				t.Fatalf("%q names %q", text, keys)
			}
		}
		if spaced := MentionedKeys(text + " @zoe "); !slices.Contains(spaced, "zoe") || len(spaced) != len(keys)+1 {
			t.Fatalf("%q and @zoe name %q", text, spaced)
		}
	})
}
