package services

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	// MaxKeyCharacters bounds the host application's own names of its users and objects.
	MaxKeyCharacters = 128

	maxIdentifierCharacters = 64 // characters of a name for machines: see CheckIdentifier
)

// CheckUserKey reports whether the host's key for a user is valid: 1 to 128 printable characters in Unicode's normal form C, with
// no space at either end. Keys are compared byte by byte, so two ways of writing one text would be two users.
func CheckUserKey(key string) error { return checkKey("user key", key) }

// checkKey checks a key of the host application; kind names it in the error.
func checkKey(kind, key string) error {
	if n := utf8.RuneCountInString(key); n == 0 || n > MaxKeyCharacters {
		return Errorf(Invalid, "a %s has 1 to %d characters, got %d", kind, MaxKeyCharacters, n)
	}
	ascii := true
	for _, r := range key {
		// Decoders put U+FFFD in place of broken text: keys that differ only in the broken part would become one user.
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return Errorf(Invalid, "%s %s: only printable characters are allowed", kind, Quote(key))
		}
		ascii = ascii && r < utf8.RuneSelf
	}
	// Other white space is not printable, and refused above.
	if key[0] == ' ' || key[len(key)-1] == ' ' {
		return Errorf(Invalid, "%s %s: it must not begin or end with a space", kind, Quote(key))
	}
	// Nearly all keys are ASCII, which is always in normal form.
	if !ascii && !norm.NFC.IsNormalString(key) {
		return Errorf(Invalid, "%s %s: it must be in Unicode's normal form C", kind, Quote(key))
	}
	return nil
}

// CheckIdentifier reports whether a name for machines is valid, such as that of a node or of a device: 1 to 64 of letters, digits,
// '.', '_', '-'.
func CheckIdentifier(name string) error {
	if len(name) == 0 || len(name) > maxIdentifierCharacters {
		return Errorf(Invalid, "1 to %d characters are allowed, got %d", maxIdentifierCharacters, len(name))
	}
	for i := range len(name) {
		if !isIdentifierByte(name[i]) {
			return Errorf(Invalid, "%s: only letters, digits, '.', '_' and '-' are allowed", Quote(name))
		}
	}
	return nil
}

// isIdentifierByte reports whether a byte may be in a name for machines.
func isIdentifierByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

// escapeKey formats a key for IDs, headers and development tokens: percent-encoded, except for the unreserved characters of RFC 3986
// (letters, digits, '-', '.', '_', '~'). No two keys have the same form.
func escapeKey(key string) string {
	for i := range len(key) {
		if !isUnreserved(key[i]) {
			return string(AppendEscapedKey(make([]byte, 0, len(key)+8), key))
		}
	}
	return key
}

// AppendEscapedKey appends the output of escapeKey.
func AppendEscapedKey(to []byte, key string) []byte {
	const hex = "0123456789ABCDEF"
	start := 0
	for i := range len(key) {
		if c := key[i]; !isUnreserved(c) {
			to = append(append(to, key[start:i]...), '%', hex[c>>4], hex[c&15])
			start = i + 1
		}
	}
	return append(to, key[start:]...)
}

// UnescapeKey parses the output of escapeKey; the key itself is not checked. Other ways of writing a key are INVALID, so that an
// object never has two IDs.
func UnescapeKey(text string) (string, error) {
	key, ok := unescape(text)
	if ok && escapeKey(key) == text {
		return key, nil
	}
	if ok {
		return "", Errorf(Invalid, "the key in %s must be percent-encoded as %s", Quote(text), Quote(escapeKey(key)))
	}
	return "", Errorf(Invalid, "the key in %s must be percent-encoded: %% begins two hexadecimal digits", Quote(text))
}

// unescape decodes percent-encoding.
func unescape(text string) (string, bool) {
	if strings.IndexByte(text, '%') < 0 {
		return text, true
	}
	key := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			key = append(key, text[i])
			continue
		}
		if i+2 >= len(text) {
			return "", false
		}
		high, low := hexValue(text[i+1]), hexValue(text[i+2])
		if high < 0 || low < 0 {
			return "", false
		}
		key = append(key, byte(high<<4|low))
		i += 2
	}
	return string(key), true
}

// hexValue is the value of a hexadecimal digit, -1 for any other byte.
func hexValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}

// isUnreserved reports whether a byte stands for itself in an escaped key: RFC 3986, section 2.3.
func isUnreserved(c byte) bool { return isIdentifierByte(c) || c == '~' }
