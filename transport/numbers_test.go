package transport

import (
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// A document with a number that the executor could not read is refused by validation: the executor would panic.
func TestUnreadableNumbersAreRefused(t *testing.T) {
	const huge = "99999999999999999999"
	schema := newTestSchema()
	schema.schema = gqlparser.MustLoadSchema(&ast.Source{Input: `
		scalar Time scalar URL scalar Version scalar JSON scalar Any
		enum Colour { RED }
		directive @at(any: Any) on FIELD
		input In { at: Time urls: [URL!] json: JSON in: In id: ID }
		type Query { q(since: Time, url: URL, version: Version, json: JSON, any: Any, in: In, n: Int, f: Float, id: ID, s: String, b: Boolean, c: Colour): Int }
		type Subscription { s(since: Version): Int }`})
	documents := newDocumentPreparer(Config{Schema: schema}.withDefaults())
	for text, want := range map[string]string{
		`{ q(since: ` + huge + `) }`:                            "since: a Time is a text in RFC 3339, such as 2026-01-31T09:30:00Z, got " + huge,
		`{ q(since: -1e999) }`:                                  "since: a Time is a text in RFC 3339, such as 2026-01-31T09:30:00Z, got -1e999",
		`subscription { s(since: ` + huge + `) }`:               "since: a Version is a text, got " + huge,
		`{ q(url: ` + huge + `) }`:                              "url: a URL is a text, got " + huge,
		`{ q(version: 1` + strings.Repeat("0", 60) + `)}`:       "version: a Version is a text, got a number of 61 characters",
		`{ q(json: ` + huge + `) }`:                             "json: a JSON is an object, got " + huge,
		`{ q(json: {s3cret: [1, 1e999]}) }`:                     "json: a number within it is too large, got 1e999",
		`{ q(any: ` + huge + `) }`:                              "any: a number within it is too large, got " + huge,
		`{ q(in: {in: {at: ` + huge + `}}) }`:                   "in.in.at: a Time is a text in RFC 3339, such as 2026-01-31T09:30:00Z, got " + huge,
		`{ q(in: {urls: ["a", ` + huge + `]}) }`:                "in.urls: a URL is a text, got " + huge,
		`{ q @at(any: ` + huge + `) }`:                          "any: a number within it is too large, got " + huge,
		`query($t: Time = ` + huge + `) { q(since: $t) }`:       "$t: a Time is a text in RFC 3339, such as 2026-01-31T09:30:00Z, got " + huge,
		`{ ...F } fragment F on Query { q(url: ` + huge + `) }`: "url: a URL is a text, got " + huge,
		// Other rules of validation refuse these, with messages of their own.
		`{ q(n: ` + huge + `) }`: "", `{ q(f: 1e999) }`: "", `{ q(id: ` + huge + `) }`: "", `{ q(s: ` + huge + `) }`: "", `{ q(b: ` + huge + `) }`: "",
		`{ q(c: ` + huge + `) }`: "", `{ q(in: ` + huge + `) }`: "", `{ q(in: {id: ` + huge + `}) }`: "",
	} {
		_, faults := documents.prepare(text)
		if len(faults) == 0 {
			t.Errorf("%s: is not refused", text)
			continue
		}
		messages := map[string]int{}
		for _, fault := range faults {
			messages[fault.Message]++
		}
		if want != "" && messages[want] != 1 {
			t.Errorf("%s: %v, want one %s", text, messages, want)
		}
		if code := withCodes(gqlerror.List{faults[0]})[0].Extensions["code"]; code != "INVALID" || strings.Contains(faults[0].Message, "s3cret") {
			t.Errorf("%s: %v %s", text, code, faults[0].Message)
		}
	}
	for _, text := range []string{`{ q(any: 9223372036854775807) }`, `{ q(json: {a: 1.5e300, b: [1, null, "a"]}, in: {json: {at: 1}}, since: "2026-01-31T09:30:00Z") }`} {
		if _, faults := documents.prepare(text); len(faults) > 0 {
			t.Errorf("%s: %v", text, faults)
		}
	}
}
