package services

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"pgregory.net/rapid"
)

func TestCheckUnicode(t *testing.T) {
	for text, says := range map[string]string{
		``: "", `plain`: "", `é😀`: "", `\u0041\u00e9\uffff`: "", `\ud83d\ude00`: "", `\uD83D\uDE00 and \uD83D\uDE00`: "",
		`\\ud83d`: "", `\\\\ud83d`: "", `\"\n\\`: "", `\`: "", `\u`: "", `\ud83`: "", `\uzzzz`: "", `ud83d`: "", `\U0000d83d`: "",
		"\xff":     "what: not valid UTF-8",
		"a\xc3":    "what: not valid UTF-8",
		`\ud83d`:   `what: \ud83d is half of a surrogate pair`,
		`a\uD83Db`: `what: \uD83D is half of a surrogate pair`,
		`\ude00`:   `what: \ude00 is half of a surrogate pair`, `\ud83d\ud83d\ude00`: `what: \ud83d is half of`, `\ud83d\ude00\ude00`: `what: \ude00 is half`,
		`\ude00\ud83d`: `\ude00 is half`, `\\\ud83d`: `\ud83d is half`, `\ud83d\\ude00`: `\ud83d is half`, `\ud83d\n`: `\ud83d is half`,
	} {
		err := CheckUnicode("what", []byte(text))
		if says == "" && err != nil || says != "" && (CodeOf(err) != Invalid || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

// A JSON text of any UTF-16 units is refused exactly if the decoder would replace half a character.
func TestHalfASurrogatePairIsRefusedNotReplaced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		units := rapid.SliceOf(rapid.SampledFrom([]uint16{'a', '\\', '"', 0xd83d, 0xde00, 0xd800, 0xdfff, 0xfffd, 0xe9})).Draw(t, "units")
		var escaped strings.Builder
		for _, unit := range units {
			const digits = "0123456789abcdef"
			escaped.WriteString(`\u`)
			for shift := 12; shift >= 0; shift -= 4 {
				escaped.WriteByte(digits[unit>>shift&15])
			}
		}
		whole := true
		for at := 0; at < len(units); at++ {
			switch {
			case !utf16.IsSurrogate(rune(units[at])):
			case at+1 < len(units) && utf16.DecodeRune(rune(units[at]), rune(units[at+1])) != '\ufffd':
				at++
			default:
				whole = false
			}
		}
		text := `"` + escaped.String() + `"`
		var decoded string
		if err := json.Unmarshal([]byte(text), &decoded); err != nil {
			t.Fatal(err)
		}
		if err := CheckUnicode("what", []byte(text)); (err == nil) != whole {
			t.Errorf("%s, that is %q: %v", text, decoded, err)
		}
	})
}

// The first millisecond of the year 1 means no time, however a text writes it: times are stored and shown without what is below.
func TestTheFirstMillisecondOfYear1IsNoTime(t *testing.T) {
	for text, is := range map[string]bool{
		"0001-01-01T00:00:00Z": false, "0001-01-01T00:00:00.0005Z": false, "0001-01-01T00:00:00.0000001Z": false, "0001-01-01T01:00:00.000999+01:00": false,
		"0001-01-01T00:00:00.001Z": true, "0001-01-01T00:00:01Z": true, "1970-01-01T00:00:00Z": true, "2026-01-31T09:30:00.0004+02:00": true,
		"2026-01-31": false, "": false,
	} {
		got, ok := ParseTime(text)
		if ok != is || ok && got.Truncate(time.Millisecond).IsZero() {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
}
