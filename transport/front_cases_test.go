package transport

import (
	"fmt"
	"strings"
)

// frontCases are requests, and whether the front answers them by Quick, without the executor.
var frontCases = []struct {
	name  string
	quick bool
	text  string
}{
	{"Plain", true, raw(query("{ who }"))},
	{"Alias", true, raw(query("{ me: who }"))},
	{"EmptyVariables", true, raw(`{"query":"{ who }","variables":{},"operationName":null}`)},
	{"OperationName", true, raw(`{"query":"query A { who } query B { hello }","operationName":"B"}`)},
	{"KeepAlive", true, raw(query("{ who }"), "Connection: keep-alive")},
	{"Device", true, raw(query("{ who }"), "Tidings-Device: phone-1")},
	{"ResponseType", true, raw(query("{ who }"), "Accept: application/graphql-response+json")},
	{"AnyType", true, raw(query("{ who }"), "Accept: */*", "Accept-Encoding: gzip, br", "User-Agent: a browser (x; y)")},
	{"GoodOrigin", true, raw(query("{ who }"), "Origin: https://app.example")},
	{"OwnOrigin", true, raw(query("{ who }"), "Origin: http://127.0.0.1")},
	{"RequestID", true, raw(query("{ who }"), "X-Request-Id: abc-1")},
	{"StrangeRequestID", true, raw(query("{ who }"), "X-Request-Id: <b>")},
	{"Case", true, raw(query("{ who }"), "-Authorization", "authorization: bearer dev:bob:admin", "-Content-Type", "CONTENT-TYPE: application/json;charset=UTF-8")},
	{"Forwarded", true, raw(query("{ who }"), "X-Forwarded-For: 10.1.2.3")},

	{"NotQuick", false, raw(query("{ fails }"))},
	{"Panics", false, raw(query("{ panics }"))},
	{"Mutation", false, raw(query(`mutation { set(text: "a") }`))},
	{"Subscription", false, raw(query("subscription { ticks }"))},
	{"Variables", false, raw(`{"query":"query($t: String!) { echo(text: $t) }","variables":{"t":"x"}}`)},
	{"UselessVariables", false, raw(`{"query":"{ who }","variables":{"t":"x"}}`)},
	{"Extensions", false, raw(`{"query":"{ who }","extensions":{"a":1}}`)},
	{"UnknownField", false, raw(query("{ nobody }"))},
	{"Syntax", false, raw(query("{ who "))},
	{"NotJSON", false, raw("{")},
	{"NotUTF8", false, raw("{\"query\":\"{ who }\xff\"}")},
	{"HalfASurrogate", false, raw(`{"query":"{ who }","operationName":"\ud800"}`)},
	{"NoOperation", false, raw(`{"query":"query A { who } query B { hello }"}`)},
	{"EmptyBody", false, raw("")},
	{"NoToken", false, raw(query("{ hello }"), "-Authorization")},
	{"WrongToken", false, raw(query("{ hello }"), "Authorization: Bearer x")},
	{"NoBearer", false, raw(query("{ hello }"), "Authorization: Basic eDp5")},
	{"ForeignOrigin", false, raw(query("{ who }"), "Origin: https://evil.example")},
	{"ForeignSite", false, raw(query("{ who }"), "Sec-Fetch-Site: cross-site")},
	{"WrongType", false, raw(query("{ who }"), "Content-Type: text/plain")},
	{"NoType", false, raw(query("{ who }"), "-Content-Type")},
	{"NotAcceptable", false, raw(query("{ who }"), "Accept: text/html")},
	{"Events", false, raw(query("{ who }"), "Accept: text/event-stream")},
	{"BadDevice", false, raw(query("{ who }"), "Tidings-Device: a b")},
	{"ActAs", false, raw(query("{ who }"), "Tidings-Act-As: bob")},

	{"Get", false, raw("", "GET /graphql?query={who} HTTP/1.1", "-Content-Length")},
	{"OtherPath", false, raw(query("{ who }"), "POST /other HTTP/1.1")},
	{"PathWithAQuery", false, raw(query("{ who }"), "POST /graphql?a=b HTTP/1.1")},
	{"AbsolutePath", false, raw(query("{ who }"), "POST http://127.0.0.1/graphql HTTP/1.1")},
	{"HTTP10", false, raw(query("{ who }"), "POST /graphql HTTP/1.0")},
	{"LowerMethod", false, raw(query("{ who }"), "post /graphql HTTP/1.1")},
	{"Options", false, raw("", "OPTIONS /graphql HTTP/1.1")},
	{"Close", false, raw(query("{ who }"), "Connection: close")},
	{"Chunked", false, raw("", "-Content-Length", "Transfer-Encoding: chunked") + "f\r\n" + query("{ who }") + "\r\n0\r\n\r\n"},
	{"ChunkedAndLength", false, raw(query("{ who }"), "Transfer-Encoding: chunked") + "\r\n"}, // the server reads up to a line end, for a chunk's size
	{"ChunkedWithASpace", false, raw(query("{ who }"), "Transfer-Encoding : chunked")},
	{"TwoLengths", false, raw(query("{ who }"), "Content-Length: 19\nContent-Length: 19")},
	{"TwoDifferentLengths", false, raw(query("{ who }"), "Content-Length: 19\nContent-Length: 5")},
	{"LengthWithASign", false, raw(query("{ who }"), "Content-Length: +19")},
	{"LengthList", false, raw(query("{ who }"), "Content-Length: 19, 19")},
	{"NegativeLength", false, raw(query("{ who }"), "Content-Length: -1")},
	{"HugeLength", false, raw(query("{ who }"), "Content-Length: 99999999999999999999")},
	{"TooLong", false, raw(query("{ who }" + strings.Repeat(" ", 70<<10)))},
	{"NoHost", false, raw(query("{ who }"), "-Host")},
	{"TwoHosts", false, raw(query("{ who }"), "Host: 127.0.0.1\nHost: localhost")},
	{"StrangeHost", false, raw(query("{ who }"), "Host: a<b")},
	{"TwoTokens", false, raw(query("{ who }"), "Authorization: Bearer dev:alice\nAuthorization: Bearer dev:bob")},
	{"Folded", false, raw(query("{ who }"), "X-A: b\n c: d")},
	{"NoColon", false, raw(query("{ who }"), "X-A: b\nnonsense")},
	{"EmptyName", false, raw(query("{ who }"), "X-A: b\n: c")},
	{"ControlCharacter", false, raw(query("{ who }"), "X-A: b\x01")},
	{"BareLineFeed", false, strings.Replace(raw(query("{ who }")), "\r\nHost", "\nHost", 1)},
	{"Expect", false, raw(query("{ who }"), "Expect: 100-later")},
	{"Upgrade", false, raw(query("{ who }"), "Connection: Upgrade", "Upgrade: websocket")},
	{"ManyHeaders", false, raw(query("{ who }"), strings.Repeat("X-A: b\n", 1)+manyHeaders(40))},
	{"LongAccept", false, raw(query("{ who }"), "Accept: application/json, a/"+strings.Repeat("a", maxMediaHeader))},
	{"ManyAccepts", false, raw(query("{ who }"), "Accept: application/json\n"+strings.TrimSuffix(strings.Repeat("Accept: a/a\n", 600), "\n"))},
	{"LongContentType", false, raw(query("{ who }"), "Content-Type: application/json; a="+strings.Repeat("a", maxMediaHeader))},
	{"LongHeader", false, raw(query("{ who }"), "X-A: "+strings.Repeat("b", 10<<10))},
	{"Garbage", false, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 nothing\r\n\r\n"},
}

// manyHeaders returns count lines of different headers.
func manyHeaders(count int) string {
	var lines []string
	for i := range count {
		lines = append(lines, fmt.Sprintf("X-B%d: c", i))
	}
	return strings.Join(lines, "\n")
}
