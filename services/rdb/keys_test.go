package rdb

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/redis"
)

// This family of keys stands for those that features register.
var _ = redis.RegisterKeys(redis.KeyFamily{Prefix: "v:", MarkerMember: "!r", MayBeOurs: func(rest string) bool {
	code, id, found := strings.Cut(rest, "/")
	return found && code != "" && id != ""
}})

func TestKeyNames(t *testing.T) {
	for got, want := range map[string]string{
		DocumentKey(0):              "{u0}:b",
		DocumentKey(17):             "{u17}:b",
		inboxKey(17):                "{u17}:i",
		onlineKey(17):               "{u17}:on",
		profileKey(17):              "{u17}:p",
		DocumentKey(4_294_967_295):  "{u4294967295}:b",
		postKey(1):                  "p:0000000000001",
		spendingKey(17, "ab"):       "rl:17:ab",
		postKey(services.MaxPostID): "p:7ZZZZZZZZZZZZ",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestKeysOfAUserShareASlotAndNoTwoUsersAKey(t *testing.T) {
	of := func(user services.UserID) []string {
		return []string{DocumentKey(user), inboxKey(user), onlineKey(user), conversationsKey(user), profileKey(user)}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := services.UserID(rapid.Uint32().Draw(t, "a")), services.UserID(rapid.Uint32().Draw(t, "b"))
		seen := map[string]bool{}
		for _, key := range of(a) {
			tag, _, _ := strings.Cut(key, "}")
			if first, _, _ := strings.Cut(DocumentKey(a), "}"); tag != first || seen[key] {
				t.Fatalf("the keys of %d: %q", a, of(a))
			}
			seen[key] = true
		}
		for _, key := range of(b) {
			if seen[key] != (a == b) {
				t.Fatalf("%d and %d share %q", a, b, key)
			}
		}
		if keys := inboxScriptKeys(a); keys[0] != DocumentKey(a) || keys[1] != inboxKey(a) || keys[2] != onlineKey(a) {
			t.Fatalf("the scripts' keys are %q", keys)
		}
	})
}

func TestParseKeyRecognizesOurKeys(t *testing.T) {
	post := services.PostID(services.SortableIDAt(time.Date(2026, 1, 30, 9, 30, 0, 0, time.UTC)))
	for name, part := range map[string]string{
		DocumentKey(7): documentKeyPart, inboxKey(7): inboxKeyPart, conversationsKey(7): "c", onlineKey(7): leaseKeyPart, profileKey(7): copyKeyPart,
		postKey(post): copyKeyPart, "v:town/a/b": familyKeyPart, "{u4294967295}:zz": "zz",
	} {
		key, ours := parseKey(name)
		if !ours || key.keyPart != part || key.name != name {
			t.Errorf("%s is %+v, %v", name, key, ours)
		}
		if owner := map[bool]services.UserID{true: 7}[name == DocumentKey(7)]; owner > 0 && key.user != owner {
			t.Errorf("%s is of user %d", name, key.user)
		}
	}
	for _, name := range []string{
		"", "u7:b", "{u7}", "{u7}:", "{u7}b", "{u0}:b", "{u07}:b", "{u+7}:b", "{u4294967296}:b", "{u7}:cart", "{u7}:B", "{u7}:b:b", "{u7}:on2", "x{u7}:b",
		"p:", "p:1", "p:ABC", "p:IIIIIIIIIIIII", "P:" + post.String(), "p:" + post.String() + "0", "v:", "v:/", "v:a", "v:/a", "v:a/", "node:here", "session:1",
	} {
		if key, ours := parseKey(name); ours {
			t.Errorf("%q is taken for ours: %+v", name, key)
		}
	}
}
