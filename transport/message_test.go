package transport

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"tidings/services"
)

func TestParseMessage(t *testing.T) {
	for text, want := range map[string]message{
		`{"type":"connection_init"}`:                              {kind: "connection_init"},
		`{"type":"connection_init","payload":null}`:               {kind: "connection_init"},
		` {"payload":{"a":1.50},"type":"connection_init"} `:       {kind: "connection_init", initPayload: map[string]any{"a": json.Number("1.50")}},
		`{"type":"ping"}`:                                         {kind: "ping"},
		`{"type":"ping","payload":{"a": 1}}`:                      {kind: "ping", pingPayload: []byte(`{"a": 1}`)},
		`{"type":"pong","payload":{}}`:                            {kind: "pong", pingPayload: []byte(`{}`)},
		`{"type":"complete","id":"7"}`:                            {kind: "complete", id: "7"},
		`{"type":"subscribe","id":"7","payload":{"query":"{a}"}}`: {kind: "subscribe", id: "7", params: &requestParams{RawParams: graphql.RawParams{Query: "{a}"}}},
		`{"type":"subscribe","id":"7","payload":{"query":"{a}","operationName":"A","variables":{"n":12345678901234567890},"extensions":{"e":[]}}}`: {
			kind: "subscribe", id: "7", params: &requestParams{RawParams: graphql.RawParams{
				Query: "{a}", OperationName: "A",
				Variables: map[string]any{"n": json.Number("12345678901234567890")}, Extensions: map[string]any{"e": []any{}},
			}},
		},
	} {
		got, err := parseMessage([]byte(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %+v %v\nwant %+v", text, got, err, want)
		}
	}
}

// A message or a query with invalid UTF-8 or half of a surrogate pair is refused, because the decoder would silently replace
// these parts.
func TestInvalidTextIsRefused(t *testing.T) {
	for text, says := range map[string]string{
		"{\"type\":\"subscribe\",\"id\":\"7\",\"payload\":{\"query\":\"{a(b:\xff)}\"}}":      "message: not valid UTF-8",
		`{"type":"subscribe","id":"7","payload":{"query":"{a}","variables":{"b":"\ud83d"}}}`: `message: \ud83d is half of a surrogate pair`,
		`{"type":"subscribe","id":"7","payload":{"query":"{a(b:\"\\ud83d\")}"}}`:             `query: \ud83d is half of a surrogate pair`,
	} {
		if got, err := parseMessage([]byte(text)); services.CodeOf(err) != services.Invalid || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %+v, %v, want %q", text, got, err, says)
		}
	}
	for _, query := range []string{`{a(b:\"\\ud83d\\ude00\")}`, `{a(b:\"\"\"C:\\ud83d\"\"\")}`} {
		if _, err := parseMessage([]byte(`{"type":"subscribe","id":"7","payload":{"query":"` + query + `"}}`)); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
}

// A parsed message has copies of the texts: the socket reuses the buffer that the message was read into.
func TestParseMessageKeepsNothingOfTheBuffer(t *testing.T) {
	text := []byte(`{"type":"ping","payload":{"a":"before"}}`)
	got, err := parseMessage(text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range text {
		text[i] = 'x'
	}
	if string(got.pingPayload) != `{"a":"before"}` || got.kind != "ping" {
		t.Errorf("got %+v", got)
	}
}

// credentials reads the token and the device from the payload of connection_init.
func TestCredentials(t *testing.T) {
	for text, want := range map[string]struct{ token, device string }{
		`{}`:                           {},
		`{"authorization":"Bearer t"}`: {token: "t"},
		`{"authorization":"BEARER t"}`: {token: "t"},
		`{"authorization":"t"}`:        {token: "t"},
		`{"authorization":"Bearer "}`:  {token: "Bearer "},
		`{"Authorization":"t"}`:        {token: "t"},
		`{"authorization":null,"Authorization":"t","device":"d"}`: {"t", "d"},
	} {
		object, err := parseObject([]byte(text), "payload")
		if err != nil {
			t.Fatal(err)
		}
		token, device, err := credentials(object)
		if err != nil || token != want.token || device != want.device {
			t.Errorf("%s: %q %q %v", text, token, device, err)
		}
	}
}

func TestMessagesOfTheServerAreJSON(t *testing.T) {
	for _, id := range []string{"1", `"`, `\`, "\n", "ü", "\u2028", "<a>"} {
		for kind, text := range map[string][]byte{
			"next":     appendNext(nil, id, &graphql.Response{Data: []byte(`{"a":1}`)}),
			"error":    appendError(nil, id, gqlerror.List{{Message: "no"}}),
			"complete": appendComplete(nil, id),
		} {
			var got struct {
				Type, ID string
				Payload  any
			}
			if err := json.Unmarshal(text, &got); err != nil || got.Type != kind || got.ID != id || (got.Payload == nil) != (kind == "complete") {
				t.Errorf("%q: %s: %+v %v", id, text, got, err)
			}
		}
	}
}

// truncateCloseReason cuts the reason of a close frame between two characters, never within one.
func TestShortenCutsBetweenCharacters(t *testing.T) {
	for _, reason := range []string{"short", strings.Repeat("a", 200), "a" + strings.Repeat("ü", 100), strings.Repeat("語", 100)} {
		got := truncateCloseReason(reason)
		if len(got) > maxCloseReasonBytes || !utf8.ValidString(got) || !strings.HasPrefix(reason, got) || len(reason)-len(got) > 0 && len(got) < maxCloseReasonBytes-3 {
			t.Errorf("%q: %q", reason, got)
		}
	}
}

// FuzzParseMessage looks for a message on which parseMessage panics, that it accepts although the message is invalid, or that it
// refuses without the code INVALID and a readable reason.
func FuzzParseMessage(f *testing.F) {
	for _, text := range []string{
		`{"type":"connection_init"}`, `{"type":"connection_init","payload":{"authorization":"Bearer x","device":"d"}}`,
		`{"type":"ping","payload":{"a":[1,2,{"b":null}]}}`, `{"type":"pong"}`, `{"type":"complete","id":"1"}`,
		`{"type":"subscribe","id":"1","payload":{"query":"subscription { a }","variables":{"x":1e999},"operationName":null}}`,
		`{"type":"subscribe","id":1}`, `{"type":null}`, `[]`, `null`, ``, `{`, "\xff", `{"type":"next","id":"1","payload":{}}`,
		`{"TYPE":"ping","Id":"x"}`, `{"type":"ping","type":"subscribe"}`, `{"type":"ping"}{}`, strings.Repeat("[", 20000),
		`{"type":"subscribe","id":"\u0000","payload":{"query":"\ud800"}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := parseMessage(text)
		if err != nil {
			if services.CodeOf(err) != services.Invalid {
				t.Errorf("code %q", services.CodeOf(err))
			}
			if reason := truncateCloseReason(messageOf(err)); !utf8.ValidString(reason) || reason == "" {
				t.Errorf("reason %q", reason)
			}
			return
		}
		if !utf8.Valid(text) || !json.Valid(text) {
			t.Fatalf("taken, and no JSON: %q", text)
		}
		switch got.kind {
		case messageInit:
			if _, _, err := credentials(got.initPayload); err != nil && services.CodeOf(err) != services.Invalid {
				t.Errorf("credentials: %v", err)
			}
		case messagePing, messagePong:
			if got.pingPayload != nil && !json.Valid(got.pingPayload) {
				t.Errorf("payload %q", got.pingPayload)
			}
		case messageSubscribe:
			if got.params == nil || got.params.Query == "" {
				t.Error("subscribe without a query")
			}
			fallthrough
		case messageComplete:
			if got.id == "" || len(got.id) > maxOperationIDBytes {
				t.Errorf("id %q", got.id)
			}
			if answer := appendComplete(nil, got.id); !json.Valid(answer) {
				t.Errorf("answer %q", answer)
			}
		default:
			t.Errorf("kind %q", got.kind)
		}
	})
}
