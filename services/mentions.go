package services

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxMentions is how many people one post can mention, by its list and its body together.
const MaxMentions = 50

// MentionedKeys lists the user keys that a text mentions as @key, each once, in their order. An @ within a word, as in an email
// address, or after = or /, as in a link, is no mention; nor is a key that is too long or followed by another @. Points and dashes
// at a key's end belong to the sentence. In texts only keys of letters, digits, '.', '_' and '-' are found (CheckIdentifier), because the
// end of any other key would be a guess. A post's list mentions users with other keys.
func MentionedKeys(text string) (keys []string) {
	listed := map[string]bool{}
	for start := 0; ; {
		at := strings.IndexByte(text[start:], '@')
		if at < 0 {
			return keys
		}
		at += start
		end := at + 1
		for end < len(text) && isIdentifierByte(text[end]) {
			end++
		}
		// The search continues after the key, or after an @ that begins no key.
		start = max(end, at+1)
		key := strings.TrimRight(text[at+1:end], ".-")
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		if at > 0 && precludesMention(before) || end < len(text) && keyContinues(text[end:]) || CheckIdentifier(key) != nil || listed[key] {
			continue
		}
		listed[key] = true
		keys = append(keys, key)
	}
}

// precludesMention reports whether an @ after this character is part of a word or a link.
func precludesMention(before rune) bool {
	return before == '_' || before == '=' || before == '/' || before == '@' || unicode.IsLetter(before) || unicode.IsDigit(before)
}

// keyContinues reports whether the text continues after the end of what looked like a key: as a word of another alphabet, or as an
// address.
func keyContinues(rest string) bool {
	after, _ := utf8.DecodeRuneInString(rest)
	return after == '@' || unicode.IsLetter(after) || unicode.IsDigit(after)
}
