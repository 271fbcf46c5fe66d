package contract

import (
	"fmt"
	"maps"
	"net/http"
	"strings"

	"tidings/tests/world"
)

// These operations take the value under test as v.
const (
	queryNode         = `query($v:ID!){node(id:$v){id}}`
	queryNodes        = `query($v:[ID!]!){nodes(ids:$v){id}}`
	queryPage         = `query($v:Int){viewer{homeFeed(first:$v){edges{node{id}}}}}`
	mutPolicy         = `mutation($v:SetDisplayPolicyInput!){setDisplayPolicy(input:$v){policy{sources{source}}}}`
	mutCategoriesSeen = `mutation($v:[NotificationCategory!]){markNotificationsSeen(input:{categories:$v}){badges{version}}}`
	mutMuteInput      = `mutation($v:MuteInput!){mute(input:$v){changed}}`
	mutPublishInput   = `mutation($v:PublishPostInput!){publishPost(input:$v){created}}`
)

// Bodies of requests that are good.
const (
	publishRequest = `{"query":"mutation{publishPost(input:{body:\"b\"}){post{id}}}"}`
	ingestRequest  = `{"query":"mutation($e:[IngestEvent!]!){ingest(events:$e){results{id}}}","variables":{"e":[{"as":"user:bob","do":{"publishPost":{"body":"b"}}}]}}`
	adminRequest   = `{"query":"{admin{jobs{waiting}}}"}`
)

// jsonHeader makes the header of a request with JSON and a token. more are names and values of further fields.
func jsonHeader(token string, more ...string) http.Header {
	header := http.Header{"Content-Type": {"application/json"}}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(more); i += 2 {
		header.Set(more[i], more[i+1])
	}
	return header
}

// paddedRequest returns a request of this many bytes that has an effect if it is accepted.
func paddedRequest(bytes int) string {
	const request = `{"query":"mutation{publishPost(input:{body:\"too long\"}){post{id}}}","variables":{"padding":"%s"}}`
	return fmt.Sprintf(request, strings.Repeat("x", bytes-len(request)+len("%s")))
}

// twoOperations returns a request with a document of the operations A and B, which names one of them.
func twoOperations(name string) string {
	return `{"query":"query A{viewer{user{id}}} query B{viewer{user{id}}}","operationName":` + world.QuoteJSON(name) + `}`
}

func badBodies() []badInput {
	alice, ingest := jsonHeader("dev:alice"), jsonHeader("dev:host:ingest")
	publishText := func(escaped string) string { return strings.Replace(publishRequest, `\"b\"`, escaped, 1) }
	ofType := func(contentType string) http.Header { return jsonHeader("dev:alice", "Content-Type", contentType) }
	return []badInput{
		{"no JSON", post{alice, `query{viewer{user{id}}}`, 400}, invalid("body", "not a JSON object")},
		{"half an object", post{alice, publishRequest[:len(publishRequest)-1], 400}, invalid("body", "not a JSON object")},
		{"two objects", post{alice, publishRequest + publishRequest, 400}, invalid("body", "not a JSON object")},
		{"a list", post{alice, `[` + publishRequest + `]`, 400}, invalid("body", "not a JSON object")},
		{"no body", post{alice, ``, 400}, invalid("body", "not a JSON object")},
		{"no query", post{alice, `{}`, 400}, invalid("query")},
		{"variables in a list", post{alice, `{"query":"{viewer{user{id}}}","variables":[]}`, 400}, invalid("variables", "JSON object")},
		{"broken UTF-8", post{alice, publishText("\\\"\xff\\\""), 400}, invalid("body", "not valid UTF-8")},
		{"half an emoji", post{alice, publishText(`\"\ud83d\"`), 400}, invalid("body", `\ud83d is half of a surrogate pair`)},
		{"half an emoji, escaped in the query", post{alice, publishText(`\"\\uDE00\"`), 400}, invalid("query", `\uDE00 is half of a surrogate pair`)},
		{"half an emoji in a variable", post{ingest, strings.Replace(ingestRequest, `"body":"b"`, `"body":"\ud83d\u0041"`, 1), 400}, invalid("body", `\ud83d is half of a surrogate pair`)},
		{"a form", post{ofType("application/x-www-form-urlencoded"), publishRequest, 415}, invalid("Content-Type", "application/json")},
		{"plain text", post{ofType("text/plain"), publishRequest, 415}, invalid("Content-Type")},
		{"another character set", post{ofType("application/json; charset=latin1"), publishRequest, 415}, invalid("Content-Type", "UTF-8")},
		{"64 KB and one", post{alice, paddedRequest(65537), 413}, invalid("body", "65536 bytes")},
		{"10 MB", post{alice, paddedRequest(10 << 20), 413}, invalid("body", "65536 bytes")},
		{"1 MB and one for ingest", post{ingest, paddedRequest(1<<20 + 1), 413}, invalid("body", "1048576 bytes")},
		{"a device of 65", post{jsonHeader("dev:alice", "Tidings-Device", strings.Repeat("d", 65)), publishRequest, 400}, invalid("Tidings-Device", "1 to 64", "65")},
		{"a page of another site", post{jsonHeader("dev:alice", "Origin", "https://evil.example"), publishRequest, 403}, forbidden("Origin")},
	}
}

func badTokens() []badInput {
	publish := func(status int, token string, more ...string) post {
		return post{jsonHeader(token, more...), publishRequest, status}
	}
	return []badInput{
		{"no token", publish(200, ""), unauthenticated("Authorization: Bearer")},
		{"no Bearer", publish(401, "", "Authorization", "dev:alice"), unauthenticated("Authorization", "Bearer TOKEN")},
		{"a token of another kind", publish(401, "eyJhbGciOiJub25lIn0.e30."), unauthenticated("token", "dev:KEY")},
		{"a line break in the key", publish(401, "dev:a%0Ab"), unauthenticated("token", "1 to 128")},
		{"a key of 129", publish(401, "dev:"+strings.Repeat("k", 129)), unauthenticated("token", "1 to 128")},
		{"a key that is not escaped", publish(401, "dev:a|b"), unauthenticated("token", "percent-encoded")},
		{"an unknown scope", publish(401, "dev:alice:root"), unauthenticated("token", "viewer, ingest and admin")},
		{"a token of 9 KB", publish(401, "dev:"+strings.Repeat("k", 9000)), unauthenticated("token", "8192", "9004")},
		{"ingest without its scope", post{jsonHeader("dev:alice"), ingestRequest, 200}, forbidden("scope ingest")},
		{"ingest as an admin", post{jsonHeader("dev:alice:admin"), ingestRequest, 200}, forbidden("scope ingest")},
		{"admin without its scope", post{jsonHeader("dev:alice"), adminRequest, 200}, forbidden("scope admin")},
		{"admin with the scope of ingest", post{jsonHeader("dev:host:ingest"), adminRequest, 200}, forbidden("scope admin")},
		{"acting without the scope", publish(403, "dev:alice", "Tidings-Act-As", "bob"), forbidden("Tidings-Act-As", "scope ingest")},
		{"acting as a key that is not escaped", publish(400, "dev:host:ingest", "Tidings-Act-As", "b ob"), invalid("Tidings-Act-As", `"b%20ob"`)},
		{"acting as a post", publish(400, "dev:host:ingest", "Tidings-Act-As", unknownPost), invalid("Tidings-Act-As", "user:KEY")},
	}
}

func badDocuments() []badInput {
	alice := jsonHeader("dev:alice")
	return []badInput{
		{"an unknown field", ask{"alice", `query($v:ID){viewer{badges{totall{value}} homeFeed(lastId:$v){lastId}}}`, nil}, invalid("totall")},
		{"an unknown argument", ask{"alice", `query($v:ID){viewer{homeFeed(latest:5,lastId:$v){lastId}}}`, nil}, invalid("latest")},
		{"a document that breaks off", ask{"alice", `query($v:ID){viewer{`, nil}, invalid()},
		{"1,001 tokens", ask{"alice", `query($v:ID){viewer{homeFeed(lastId:$v){lastId}` + strings.Repeat(` user{id}`, 300) + `}}`, nil}, invalid("1000")},
		{"two operations without a name", post{alice, strings.Replace(twoOperations(""), `,"operationName":""`, "", 1), 200}, invalid("operationName: the document has 2 operations; name one of them")},
		{"two operations with an empty name", post{alice, twoOperations(""), 200}, invalid("operationName: the document has 2 operations")},
		{"two operations with another name", post{alice, twoOperations("C"), 200}, invalid("operationName: the document has no operation of this name")},
		{"one operation with another name", post{alice, `{"query":"{viewer{user{id}}}","operationName":"C"}`, 200}, invalid("operationName: the document has no operation of this name")},
	}
}

// badCoercions returns values that the specification does not let a server coerce, in variables and in documents. The message names
// the kind that is needed, and the value.
func badCoercions() []badInput {
	const (
		whole   = "whole number from -2147483648 to 2147483647"
		million = "1000000000000000000000000000000" // to the fifth
	)
	of := func(query, value string) ask { return ask{"alice", query, raw(value)} }
	first := func(literal string) ask {
		return ask{"alice", `{viewer{homeFeed(first:` + literal + `){edges{node{id}}}}}`, vars{}}
	}
	return []badInput{
		{"a fraction for an Int", of(queryPage, `1.5`), invalid("$v: ", whole, "got 1.5")},
		{"an exponent for an Int", of(queryPage, `1e1`), invalid("$v: ", whole, "got 1e1")},
		{"a text for an Int", of(queryPage, `"5"`), invalid("$v: ", whole, "got a text")},
		{"a boolean for an Int", of(queryPage, `true`), invalid("$v: ", whole, "got true")},
		{"a list for an Int", of(queryPage, `[5]`), invalid("$v: ", whole, "got a list")},
		{"an object for an Int", of(queryPage, `{}`), invalid("$v: ", whole, "got an object")},
		{"2^31 for an Int", of(queryPage, `2147483648`), invalid("$v: ", whole, "got 2147483648")},
		{"31 digits for an Int", of(queryPage, million), invalid("$v: ", whole, "got "+million)},
		{"43 digits for an Int", of(queryPage, million+"000000000000"), invalid("$v: ", whole, "got a number of 43 characters")},
		{"an Int beyond its limit", of(queryPage, `101`), invalid("first: 1 to 100")},
		{"a text for an Int in an object", of(mutPolicy, `{"quietHours":{"from":"22:00","to":"07:00","offsetMinutes":"60"}}`), invalid("$v.quietHours.offsetMinutes: ", whole, "got a text")},
		{"a number for a String", of(mutPolicy, `{"quietHours":{"from":22,"to":"07:00"}}`), invalid("$v.quietHours.from: ", "a String is a text", "got 22")},
		{"a name of an enum in small letters", of(mutPolicy, `{"sources":[{"source":"HOME_FEED"},{"source":"home_feed"}]}`), invalid("$v.sources[1].source: ", "a BadgeSource is one of its names")},
		{"a number for a name of an enum", of(mutPolicy, `{"sources":{"source":7}}`), invalid("$v.sources.source: ", "a BadgeSource is one of its names", "got 7")},
		{"a number for a Boolean", of(mutPolicy, `{"sources":[{"source":"HOME_FEED","inTotal":1}]}`), invalid("$v.sources[0].inTotal: ", "true or false", "got 1")},
		{"a category in small letters", of(mutCategoriesSeen, `["LIKE","like"]`), invalid("$v[1]: ", "a NotificationCategory is one of its names")},
		{"no categories", of(mutCategoriesSeen, `[]`), invalid("categories: ", "at least one is needed", "leave it out for all")},
		{"a boolean for an ID", of(queryNodes, `["user:a",true]`), invalid("$v[1]: ", "an ID is a text", "got true")},
		{"a text that is no Time", of(mutMuteInput, `{"userId":"user:b","until":"soon"}`), invalid("$v.until: ", "a Time is a text in RFC 3339", `got "soon"`)},
		{"a number for a Time", of(mutMuteInput, `{"userId":"user:b","until":5}`), invalid("$v.until: ", "a Time is a text in RFC 3339", "got 5")},
		{"a list for a Time", of(mutMuteInput, `{"userId":"user:b","until":["2026-01-31T09:30:00Z"]}`), invalid("$v.until: ", "a Time is a text in RFC 3339", "got a list")},
		{"a list for a JSON", of(mutPublishInput, `{"body":"a","data":[{}]}`), invalid("$v.data: ", "a JSON is an object", "got a list")},
		{"a text for a JSON", of(mutPublishInput, `{"body":"a","data":"{}"}`), invalid("$v.data: ", "a JSON is an object", "got a text")},
		{"a text for a Boolean", of(`query($v:Boolean!){viewer{siteMessages(unreadOnly:$v){edges{node{id}}}}}`, `"true"`), invalid("$v: ", "a Boolean is true or false", "got a text")},
		{"a fraction in a document", first(`1.5`), invalid("Int", "1.5")},
		{"a text in a document", first(`"5"`), invalid("Int", `"5"`)},
		{"2^31 in a document", first(`2147483648`), invalid(whole, "2147483648")},
		{"31 digits in a document", first(million), invalid("Int", million)},
	}
}

func badNodes() []badInput {
	return []badInput{
		{"an unknown type", ask{"alice", queryNode, "foo:bar"}, invalid(`"foo:bar"`, "type of user, post")},
		{"a short post", ask{"alice", queryNode, "post:1"}, invalid("id", "13 letters")},
		{"0 nodes", ask{"alice", queryNodes, []string{}}, invalid("ids", "1 to 100", "got 0")},
		{"101 empty IDs", ask{"alice", queryNodes, make([]string, 101)}, invalid("ids", "1 to 100", "got 101")},
		{"101 nodes", ask{"alice", queryNodes, strings.Fields(strings.Repeat("user:bob ", 101))}, invalid("ids")},
	}
}

func badSubscriptions() (rows []badInput) {
	for _, field := range []string{"badgesChanged(since:$v){version}", "notificationsChanged(since:$v){badges{version}}", "conversationsChanged(since:$v){badges{version}}"} {
		for _, since := range []string{"", "x", "0", strings.Repeat("1", 33), "0000000000000001.000000000000000x", unknownPost} {
			rows = append(rows, badInput{field + " of " + since, subscribe{"subscription($v:Version){" + field + "}", since}, invalid("since", "version")})
		}
	}
	for _, name := range []string{"notificationsChanged", "conversationsChanged"} {
		for _, first := range []int{-1, 0, 101} {
			query := "subscription($v:Int){" + name + "(first:$v){badges{version}}}"
			rows = append(rows, badInput{fmt.Sprintf("%s of %d", name, first), subscribe{query, first}, invalid("first", "1 to 100")})
		}
	}
	return rows
}

// textRows returns rows with texts that must not be empty or blank, in mutations and in events, and good requests with a letter between
// blanks.
func (w *inputWorld) textRows() (rows []badInput, good map[string]request) {
	const blank = " \t\n\u00a0\u2003\u3000" // white space alone, including Unicode spaces of other scripts
	good = map[string]request{}
	for _, text := range []struct {
		operation   string         // a mutation, and an event of ingest
		as          string         // a user, or the host application
		field       string         // the text
		otherFields map[string]any // of the input
	}{
		{"publishPost", "bob", "body", nil},
		{"editPost", "bob", "body", map[string]any{"postId": w.bobsPost}},
		{"sendMessage", "bob", "body", map[string]any{"conversationId": w.conversation}},
		{"scheduleShow", "bob", "title", map[string]any{"plannedAt": w.soon}},
		{"rescheduleShow", "bob", "title", map[string]any{"showId": w.retitledShow}},
		{"sendSiteMessage", "host:ingest", "title", map[string]any{"to": []string{"user:bob"}}},
		{"editSiteMessage", "host:ingest", "title", map[string]any{"siteMessageId": w.siteMessage}},
		{"publishAnnouncement", "host:ingest", "title", nil},
		{"editAnnouncement", "host:ingest", "title", map[string]any{"announcementId": w.publication}},
	} {
		kind := strings.ToUpper(text.operation[:1]) + text.operation[1:] + "Input"
		input := func(body string) map[string]any {
			all := map[string]any{text.field: body}
			maps.Copy(all, text.otherFields)
			return all
		}
		mutation := func(body string) ask {
			return ask{text.as, `mutation($v:` + kind + `!){` + text.operation + `(input:$v){__typename}}`, input(body)}
		}
		for body, says := range map[string]string{"": "got 0", blank: "nothing but white space"} {
			sent := event{"do": map[string]any{text.operation: input(body)}}
			if text.as != "host:ingest" {
				sent["as"] = "user:" + text.as
			}
			want := invalid(text.field+": 1 to ", " characters are allowed", says)
			rows = append(rows, badInput{text.operation + " of " + says, mutation(body), want},
				badInput{text.operation + " of " + says + ", as an event", sent, want})
		}
		good[text.operation+" of a letter between blanks"] = mutation(blank + "a" + blank)
	}
	return rows, good
}

// badEventLists returns requests whose list of events is too short or too long, or does not fit the schema. They are refused as a whole.
func badEventLists() []badInput {
	good := ingestEvent("publishPost", "as", "user:bob", "body", "b")
	many := make([]any, 501)
	for i := range many {
		many[i] = good
	}
	of := func(events ...any) ask { return ask{"host:ingest", mutIngest, vars{"e": events}} }
	return []badInput{
		{"no events", of([]any{}...), invalid("events", "1 to 500", "got 0")},
		{"501 events", of(many...), invalid("events", "1 to 500", "got 501")},
		{"a missing field", of(good, ingestEvent("publishPost", "as", "user:bob")), invalid("$e[1]", "body")},
		{"no action", of(good, map[string]any{"as": "user:bob"}), invalid("$e[1]", "do")},
		{"an unknown action", of(ingestEvent("explode", "as", "user:bob")), invalid("$e[0]", "explode")},
		{"an unknown field", of(ingestEvent("publishPost", "as", "user:bob", "body", "b", "extra", 1)), invalid("$e[0]", "extra")},
		{"an unknown category", of(ingestEvent("markNotificationsSeen", "as", "user:bob", "categories", []string{"NOISE"})), invalid("$e[0]", "categories", "NotificationCategory")},
		{"null for an event", of(good, nil), invalid("$e[1]")},
	}
}

// badEvents returns events that are invalid by themselves: their action, their user, their key or their text.
func (w *inputWorld) badEvents() []badInput {
	long := strings.Repeat("k", 65)
	both := ingestEvent("publishPost", "as", "user:bob", "body", "b")
	both["do"].(map[string]any)["follow"] = map[string]any{"userId": "user:carol"}
	return []badInput{
		{"two actions", both, invalid("do: an event needs exactly one action, got 2")},
		{"no action", event{"do": map[string]any{}}, invalid("do: an event needs exactly one action, got 0")},
		{"null for an action", event{"do": map[string]any{"publishPost": nil}}, invalid("do: an event needs exactly one action, got 0")},
		{"two keys", ingestEvent("publishPost", "as", "user:bob", "body", "b", "key", "one", "idempotencyKey", "two"), invalid("key: the event and its publishPost have different idempotency keys")},
		{"a key of 65", ingestEvent("publishPost", "as", "user:bob", "body", "b", "key", long), invalid("1 to 64 characters are allowed, got 65")},
		{"no user", ingestEvent("publishPost", "body", "b"), invalid("as: publishPost needs the ID of the acting user")},
		{"a user for the host application", ingestEvent("raiseDot", "as", "user:bob", "name", "n"), invalid("as: raiseDot is an action of the host application itself")},
		{"a user without a type", ingestEvent("publishPost", "as", "bob", "body", "b"), invalid(`as: "bob" is not the id of a user`)},
		{"a user without a key", ingestEvent("publishPost", "as", "user:", "body", "b"), invalid("as: a user key has 1 to 128 characters, got 0")},
		{"a user of 130", ingestEvent("publishPost", "as", "user:"+long+long, "body", "b"), invalid("as: a user key has 1 to 128 characters, got 130")},
		{"a post for a user", ingestEvent("publishPost", "as", w.bobsPost, "body", "b"), invalid("as: ")},
		{"an empty body", ingestEvent("publishPost", "as", "user:bob", "body", ""), invalid("body: 1 to 5000 characters are allowed, got 0")},
		{"a body of 5,001", ingestEvent("publishPost", "as", "user:bob", "body", strings.Repeat("x", 5001)), invalid("body: 1 to 5000 characters are allowed, got 5001")},
		{"null for a title", ingestEvent("editAnnouncement", "announcementId", "announcement:0000000000001", "title", nil), invalid("title: it cannot be null; leave it out to keep the present value")},
		{"edit another's post", ingestEvent("editPost", "as", "user:alice", "postId", w.bobsPost, "body", "b"), forbidden("postId: " + w.bobsPost + " is not your post")},
		{"edit a deleted post", ingestEvent("editPost", "as", "user:bob", "postId", w.bobsDeletedPost, "body", "b"), notFound("postId: " + w.bobsDeletedPost + " is deleted")},
		{"edit a short ID", ingestEvent("editPost", "as", "user:bob", "postId", "post:x", "body", "b"), invalid(`postId: "post:x"`)},
		{"edit to an empty body", ingestEvent("editPost", "as", "user:bob", "postId", w.bobsPost, "body", ""), invalid("body: 1 to 5000 characters are allowed, got 0")},
		{"delete another's post", ingestEvent("deletePost", "as", "user:alice", "postId", w.bobsPost), forbidden("postId: " + w.bobsPost + " is not your post")},
		{"delete a short ID", ingestEvent("deletePost", "as", "user:bob", "postId", "post:x"), invalid(`postId: "post:x"`)},
		{"like a deleted post", ingestEvent("likePost", "as", "user:alice", "postId", w.bobsDeletedPost), notFound("postId: " + w.bobsDeletedPost + " is deleted")},
		{"like a post that never was", ingestEvent("likePost", "as", "user:carol", "postId", unknownPost), notFound("no post")},
		{"follow oneself", ingestEvent("follow", "as", "user:alice", "userId", "user:alice"), invalid("userId: you cannot follow yourself")},
		{"follow a key without a type", ingestEvent("follow", "as", "user:alice", "userId", "bob"), invalid(`userId: "bob"`)},
		{"a name of 101", ingestEvent("setProfile", "as", "user:alice", "name", strings.Repeat("n", 101)), invalid("name: up to 100 characters are allowed, got 101")},
		{"an avatar over FTP", ingestEvent("setProfile", "as", "user:alice", "avatarUrl", "ftp://x/y"), invalid("avatarUrl: ")},
		{"the feed up to the future", ingestEvent("markHomeFeedSeen", "as", "user:alice", "upTo", lastPost), invalid("upTo: " + lastPost + " is in the future")},
		{"the feed up to a post that never was", ingestEvent("markHomeFeedSeen", "as", "user:alice", "upTo", unknownPost), notFound("upTo: there is no " + unknownPost)},
		{"the feed up to the first of all IDs", ingestEvent("markHomeFeedSeen", "as", "user:alice", "upTo", "post:0000000000000"), notFound("upTo: there is no post:0000000000000")},
		{"the feed up to a user", ingestEvent("markHomeFeedSeen", "as", "user:alice", "upTo", "user:bob"), invalid(`upTo: "user:bob"`)},
		{"the board in no session", ingestEvent("markLiveBoardSeen", "as", "user:bob", "sessionId", "none"), invalid(`sessionId: "none"`)},
		{"the panel up to a post", ingestEvent("markNotificationsSeen", "as", "user:bob", "upTo", w.bobsPost), invalid("upTo: ")},
		{"the panel beyond the newest", ingestEvent("markNotificationsSeen", "as", "user:bob", "upTo", "notificationUpTo:7ZZZZZZZZZZZZ"), invalid("upTo: ")},
	}
}
