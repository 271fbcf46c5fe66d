package transport

import (
	"fmt"
	"strings"
)

// frontCases are requests, and whether the front answers them by a HotAnswerFunc, without the executor.
var frontCases = []struct {
	name string
	hot  bool   // a HotAnswerFunc answers it
	text string // of the request
}{
	{"Plain", true, rawRequest(queryBody("{ who }"))},
	{"Alias", true, rawRequest(queryBody("{ me: who }"))},
	{"EmptyVariables", true, rawRequest(`{"query":"{ who }","variables":{},"operationName":null}`)},
	{"OperationName", true, rawRequest(`{"query":"query A { who } query B { hello }","operationName":"B"}`)},
	{"KeepAlive", true, rawRequest(queryBody("{ who }"), "Connection: keep-alive")},
	{"Device", true, rawRequest(queryBody("{ who }"), "Tidings-Device: phone-1")},
	{"ResponseType", true, rawRequest(queryBody("{ who }"), "Accept: application/graphql-response+json")},
	{"AnyType", true, rawRequest(queryBody("{ who }"), "Accept: */*", "Accept-Encoding: gzip, br", "User-Agent: a browser (x; y)")},
	{"GoodOrigin", true, rawRequest(queryBody("{ who }"), "Origin: https://app.example")},
	{"OwnOrigin", true, rawRequest(queryBody("{ who }"), "Origin: http://127.0.0.1")},
	{"RequestID", true, rawRequest(queryBody("{ who }"), "X-Request-Id: abc-1")},
	{"StrangeRequestID", true, rawRequest(queryBody("{ who }"), "X-Request-Id: <b>")},
	{"Case", true, rawRequest(queryBody("{ who }"), "-Authorization", "authorization: bearer dev:bob:admin", "-Content-Type", "CONTENT-TYPE: application/json;charset=UTF-8")},
	{"Forwarded", true, rawRequest(queryBody("{ who }"), "X-Forwarded-For: 10.1.2.3")},

	{"NotHot", false, rawRequest(queryBody("{ fails }"))},
	{"Panics", false, rawRequest(queryBody("{ panics }"))},
	{"Mutation", false, rawRequest(queryBody(`mutation { set(text: "a") }`))},
	{"Subscription", false, rawRequest(queryBody("subscription { ticks }"))},
	{"Variables", true, rawRequest(echoRequestBody("String!", `{"t":"x"}`))},
	{"UselessVariables", true, rawRequest(`{"query":"{ who }","variables":{"t":["x"]}}`)},
	{"ADefault", true, rawRequest(echoRequestBody(`String! = \"d\"`, `{}`))},
	{"NoDefault", true, rawRequest(echoRequestBody(`String = \"d\"`, `{"t":"x","u":null}`))},
	{"ALongText", true, rawRequest(echoRequestBody("String!", `{"t":"`+strings.Repeat("long ", 50)+`"}`))},
	{"TheVariableTwice", true, rawRequest(echoRequestBody("String!", `{"t":"x","t":"y"}`))},
	{"ANumber", false, rawRequest(echoRequestBody("String!", `{"t":5}`))},
	{"AList", false, rawRequest(echoRequestBody("String!", `{"t":["x"]}`))},
	{"ANull", false, rawRequest(echoRequestBody("String!", `{"t":null}`))},
	{"ANullInPlaceOfADefault", false, rawRequest(echoRequestBody(`String = \"d\"`, `{"t":null}`))},
	{"NoVariable", false, rawRequest(echoRequestBody("String!", `{}`))},
	{"VariablesThatAreNone", false, rawRequest(echoRequestBody("String!", `[]`))},
	{"AnotherType", false, rawRequest(echoRequestBody("Int!", `{"t":5}`))},
	{"Extensions", false, rawRequest(`{"query":"{ who }","extensions":{"a":1}}`)},
	{"UnknownField", false, rawRequest(queryBody("{ nobody }"))},
	{"Syntax", false, rawRequest(queryBody("{ who "))},
	{"NotJSON", false, rawRequest("{")},
	{"NotUTF8", false, rawRequest("{\"query\":\"{ who }\xff\"}")},
	{"HalfASurrogate", false, rawRequest(`{"query":"{ who }","operationName":"\ud800"}`)},
	{"NoOperation", false, rawRequest(`{"query":"query A { who } query B { hello }"}`)},
	{"EmptyBody", false, rawRequest("")},
	{"NoToken", false, rawRequest(queryBody("{ hello }"), "-Authorization")},
	{"WrongToken", false, rawRequest(queryBody("{ hello }"), "Authorization: Bearer x")},
	{"NoBearer", false, rawRequest(queryBody("{ hello }"), "Authorization: Basic eDp5")},
	{"ForeignOrigin", false, rawRequest(queryBody("{ who }"), "Origin: https://evil.example")},
	{"ForeignSite", false, rawRequest(queryBody("{ who }"), "Sec-Fetch-Site: cross-site")},
	{"WrongType", false, rawRequest(queryBody("{ who }"), "Content-Type: text/plain")},
	{"NoType", false, rawRequest(queryBody("{ who }"), "-Content-Type")},
	{"NotAcceptable", false, rawRequest(queryBody("{ who }"), "Accept: text/html")},
	{"Events", false, rawRequest(queryBody("{ who }"), "Accept: text/event-stream")},
	{"BadDevice", false, rawRequest(queryBody("{ who }"), "Tidings-Device: a b")},
	{"ActAs", false, rawRequest(queryBody("{ who }"), "Tidings-Act-As: bob")},

	{"Get", false, rawRequest("", "GET /graphql?query={who} HTTP/1.1", "-Content-Length")},
	{"OtherPath", false, rawRequest(queryBody("{ who }"), "POST /other HTTP/1.1")},
	{"PathWithAQuery", false, rawRequest(queryBody("{ who }"), "POST /graphql?a=b HTTP/1.1")},
	{"AbsolutePath", false, rawRequest(queryBody("{ who }"), "POST http://127.0.0.1/graphql HTTP/1.1")},
	{"HTTP10", false, rawRequest(queryBody("{ who }"), "POST /graphql HTTP/1.0")},
	{"LowerMethod", false, rawRequest(queryBody("{ who }"), "post /graphql HTTP/1.1")},
	{"Options", false, rawRequest("", "OPTIONS /graphql HTTP/1.1")},
	{"Close", false, rawRequest(queryBody("{ who }"), "Connection: close")},
	{"Chunked", false, rawRequest("", "-Content-Length", "Transfer-Encoding: chunked") + "f\r\n" + queryBody("{ who }") + "\r\n0\r\n\r\n"},
	{"ChunkedAndLength", false, rawRequest(queryBody("{ who }"), "Transfer-Encoding: chunked") + "\r\n"}, // the server reads up to a line end, for a chunk's size
	{"ChunkedWithASpace", false, rawRequest(queryBody("{ who }"), "Transfer-Encoding : chunked")},
	{"TwoLengths", false, rawRequest(queryBody("{ who }"), "Content-Length: 19\nContent-Length: 19")},
	{"TwoDifferentLengths", false, rawRequest(queryBody("{ who }"), "Content-Length: 19\nContent-Length: 5")},
	{"LengthWithASign", false, rawRequest(queryBody("{ who }"), "Content-Length: +19")},
	{"LengthList", false, rawRequest(queryBody("{ who }"), "Content-Length: 19, 19")},
	{"NegativeLength", false, rawRequest(queryBody("{ who }"), "Content-Length: -1")},
	{"HugeLength", false, rawRequest(queryBody("{ who }"), "Content-Length: 99999999999999999999")},
	{"TooLong", false, rawRequest(queryBody("{ who }" + strings.Repeat(" ", 70<<10)))},
	{"NoHost", false, rawRequest(queryBody("{ who }"), "-Host")},
	{"TwoHosts", false, rawRequest(queryBody("{ who }"), "Host: 127.0.0.1\nHost: localhost")},
	{"StrangeHost", false, rawRequest(queryBody("{ who }"), "Host: a<b")},
	{"TwoTokens", false, rawRequest(queryBody("{ who }"), "Authorization: Bearer dev:alice\nAuthorization: Bearer dev:bob")},
	{"Folded", false, rawRequest(queryBody("{ who }"), "X-A: b\n c: d")},
	{"NoColon", false, rawRequest(queryBody("{ who }"), "X-A: b\nnonsense")},
	{"EmptyName", false, rawRequest(queryBody("{ who }"), "X-A: b\n: c")},
	{"ControlCharacter", false, rawRequest(queryBody("{ who }"), "X-A: b\x01")},
	{"BareLineFeed", false, strings.Replace(rawRequest(queryBody("{ who }")), "\r\nHost", "\nHost", 1)},
	{"Expect", false, rawRequest(queryBody("{ who }"), "Expect: 100-later")},
	{"Upgrade", false, rawRequest(queryBody("{ who }"), "Connection: Upgrade", "Upgrade: websocket")},
	{"ManyHeaders", false, rawRequest(queryBody("{ who }"), strings.Repeat("X-A: b\n", 1)+manyHeaders(40))},
	{"LongAccept", false, rawRequest(queryBody("{ who }"), "Accept: application/json, a/"+strings.Repeat("a", maxMediaHeaderBytes))},
	{"ManyAccepts", false, rawRequest(queryBody("{ who }"), "Accept: application/json\n"+strings.TrimSuffix(strings.Repeat("Accept: a/a\n", 600), "\n"))},
	{"LongContentType", false, rawRequest(queryBody("{ who }"), "Content-Type: application/json; a="+strings.Repeat("a", maxMediaHeaderBytes))},
	{"LongHeader", false, rawRequest(queryBody("{ who }"), "X-A: "+strings.Repeat("b", 10<<10))},
	{"Garbage", false, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 nothing\r\n\r\n"},
}

// echoRequestBody is the body of a query that echoes a variable of a type.
func echoRequestBody(kind, variables string) string {
	return `{"query":"query($t: ` + kind + `) { echo(text: $t) }","variables":` + variables + `}`
}

// manyHeaders returns count lines of different headers.
func manyHeaders(count int) string {
	var lines []string
	for i := range count {
		lines = append(lines, fmt.Sprintf("X-B%d: c", i))
	}
	return strings.Join(lines, "\n")
}
