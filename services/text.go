package services

import (
	"bytes"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"
)

// CheckUnicode reports whether a text with escapes such as \u0041, as in JSON and GraphQL, is valid: UTF-8 in which no escape is
// half a character. Such a half is left when a text is cut in the middle of an emoji, and a decoder silently replaces it with
// U+FFFD.
func CheckUnicode(what string, text []byte) error {
	if !utf8.Valid(text) {
		return Errorf(Invalid, "%s: not valid UTF-8", what)
	}
	for {
		at := bytes.IndexByte(text, '\\')
		if at < 0 {
			return nil
		}
		text = text[at:]
		switch first := surrogateAtStart(text); {
		case first == 0:
			// Any other escape: skip the character after the backslash, because it may be a backslash too.
			text = text[min(2, len(text)):]
		// A high half that is followed by its low half is one character.
		case first < lowSurrogateBegin && surrogateAtStart(text[escapeLength:]) >= lowSurrogateBegin:
			text = text[2*escapeLength:]
		default:
			return Errorf(Invalid, "%s: %s is half of a surrogate pair", what, text[:escapeLength])
		}
	}
}

// maxURLCharacters bounds addresses of pictures and replays.
const maxURLCharacters = 2048

// CheckURL reports whether an input text is an http or https address; "" is none and valid.
func CheckURL(field, text string) error {
	if err := CheckText(field, text, 0, maxURLCharacters); err != nil || text == "" {
		return err
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") {
		return Errorf(Invalid, "%s: %s is not an http or https address", field, Quote(text))
	}
	// url.Parse accepts any number as a port, so the range is checked here.
	if port := parsed.Port(); port != "" {
		if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
			return Errorf(Invalid, "%s: the port of %s is not 1 to 65535", field, Quote(text))
		}
	}
	return nil
}

const (
	escapeLength       = 6      // of \uXXXX
	highSurrogateBegin = 0xd800 // the first high half of a character
	lowSurrogateBegin  = 0xdc00 // the first low half
	lowSurrogateEnd    = 0xdfff // the last low half
)

// surrogateAtStart is the value of an escape such as \ud83d, half of a character, with which a text begins; 0 if it begins with
// anything else.
func surrogateAtStart(text []byte) uint64 {
	if len(text) < escapeLength || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	half, err := strconv.ParseUint(string(text[2:escapeLength]), 16, 16)
	if err != nil || half < highSurrogateBegin || half > lowSurrogateEnd {
		return 0
	}
	return half
}

// ParseTime reads a time as inputs have it, in RFC 3339. It refuses the first millisecond of the year 1: with the precision of
// answers and of SQL it is Go's zero time, which the program takes for no time.
func ParseTime(text string) (t time.Time, ok bool) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.Truncate(time.Millisecond).IsZero() {
		return time.Time{}, false
	}
	return t, true
}
