package contract

import (
	"testing"

	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// Values are coerced only as the specification allows, in documents and in variables, and the message names the needed kind
// and the sent value.
func TestValuesAreCoercedStrictly(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ManualStepping: true})
	const (
		whole    = "whole number from -2147483648 to 2147483647"
		page     = `query($v:Int){viewer{homeFeed(first:$v){edges{node{id}}}}}`
		policy   = `mutation($v:SetDisplayPolicyInput!){setDisplayPolicy(input:$v){policy{sources{source}}}}`
		seen     = `mutation($v:[NotificationCategory!]){markNotificationsSeen(input:{categories:$v}){badges{version}}}`
		nodes    = `query($v:[ID!]!){nodes(ids:$v){id}}`
		mute     = `mutation($v:MuteInput!){mute(input:$v){changed}}`
		post     = `mutation($v:PublishPostInput!){publishPost(input:$v){created}}`
		messages = `query($v:Boolean!){viewer{siteMessages(unreadOnly:$v){edges{node{id}}}}}`
	)
	for _, c := range []struct {
		query, value string // the value as JSON; "" for a document without variables
		says         []string
	}{
		{page, `1.5`, []string{"$v: ", whole, "got 1.5"}},
		{page, `1e1`, []string{"$v: ", whole, "got 1e1"}},
		{page, `"5"`, []string{"$v: ", whole, "got a text"}},
		{page, `true`, []string{"$v: ", whole, "got true"}},
		{page, `[5]`, []string{"$v: ", whole, "got a list"}},
		{page, `{}`, []string{"$v: ", whole, "got an object"}},
		{page, `2147483648`, []string{"$v: ", whole, "got 2147483648"}},
		{page, `1000000000000000000000000000000`, []string{"$v: ", whole, "got 1000000000000000000000000000000"}},
		{page, `1000000000000000000000000000000000000000000`, []string{"$v: ", whole, "got a number of 43 characters"}},
		{page, `101`, []string{"first: 1 to 100"}},
		{policy, `{"quietHours":{"from":"22:00","to":"07:00","offsetMinutes":"60"}}`, []string{"$v.quietHours.offsetMinutes: ", whole, "got a text"}},
		{policy, `{"quietHours":{"from":22,"to":"07:00"}}`, []string{"$v.quietHours.from: ", "a String is a text", "got 22"}},
		{policy, `{"sources":[{"source":"HOME_FEED"},{"source":"home_feed"}]}`, []string{"$v.sources[1].source: ", "a BadgeSource is one of its names"}},
		{policy, `{"sources":{"source":7}}`, []string{"$v.sources.source: ", "a BadgeSource is one of its names", "got 7"}},
		{policy, `{"sources":[{"source":"HOME_FEED","inTotal":1}]}`, []string{"$v.sources[0].inTotal: ", "true or false", "got 1"}},
		{seen, `["LIKE","like"]`, []string{"$v[1]: ", "a NotificationCategory is one of its names"}},
		{seen, `[]`, []string{"categories: ", "at least one is needed", "leave it out for all"}},
		{nodes, `["user:a",true]`, []string{"$v[1]: ", "an ID is a text", "got true"}},
		{mute, `{"userId":"user:b","until":"soon"}`, []string{"$v.until: ", "a Time is a text in RFC 3339", `got "soon"`}},
		{mute, `{"userId":"user:b","until":5}`, []string{"$v.until: ", "a Time is a text in RFC 3339", "got 5"}},
		{mute, `{"userId":"user:b","until":["2026-01-31T09:30:00Z"]}`, []string{"$v.until: ", "a Time is a text in RFC 3339", "got a list"}},
		{post, `{"body":"a","data":[{}]}`, []string{"$v.data: ", "a JSON is an object", "got a list"}},
		{post, `{"body":"a","data":"{}"}`, []string{"$v.data: ", "a JSON is an object", "got a text"}},
		{messages, `"true"`, []string{"$v: ", "a Boolean is true or false", "got a text"}},
		{`{viewer{homeFeed(first:1.5){edges{node{id}}}}}`, "", []string{"Int", "1.5"}},
		{`{viewer{homeFeed(first:"5"){edges{node{id}}}}}`, "", []string{"Int", `"5"`}},
		{`{viewer{homeFeed(first:2147483648){edges{node{id}}}}}`, "", []string{whole, "2147483648"}},
		{`{viewer{homeFeed(first:1000000000000000000000000000000){edges{node{id}}}}}`, "", []string{"Int", "1000000000000000000000000000000"}},
	} {
		t.Run(c.query+c.value, func(t *testing.T) {
			variables := "{}"
			if c.value != "" {
				variables = `{"v":` + c.value + `}`
			}
			got := n.PostGraphQL("Bearer dev:alice", []byte(`{"query":`+world.QuoteJSON(c.query)+`,"variables":`+variables+`}`))
			wantedError{"INVALID", c.says}.checkAnswer(t, got)
		})
	}
	for _, good := range []struct{ query, value string }{
		{page, `5`}, {page, `null`}, {seen, `"LIKE"`}, {seen, `null`}, {nodes, `["user:a"]`},
		{policy, `{"quietHours":{"from":"22:00","to":"07:00","offsetMinutes":-60}}`},
	} {
		got := n.PostGraphQL("Bearer dev:alice", []byte(`{"query":`+world.QuoteJSON(good.query)+`,"variables":{"v":`+good.value+`}}`))
		if len(got.Errors) > 0 {
			t.Errorf("%s with %s: %+v", good.query, good.value, got.Errors)
		}
	}
}

// A document of several operations runs if the request names one, and otherwise gets an error that says so.
func TestTheOperationNameSelects(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: redistest.Redis(t), ManualStepping: true})
	const two = `query A{viewer{user{id}}} query B{viewer{user{id}}}`
	for _, c := range []struct{ body, says string }{
		{`{"query":` + world.QuoteJSON(two) + `}`, "operationName: the document has 2 operations; name one of them"},
		{`{"query":` + world.QuoteJSON(two) + `,"operationName":""}`, "operationName: the document has 2 operations"},
		{`{"query":` + world.QuoteJSON(two) + `,"operationName":"C"}`, "operationName: the document has no operation of this name"},
		{`{"query":"{viewer{user{id}}}","operationName":"C"}`, "operationName: the document has no operation of this name"},
	} {
		wantedError{"INVALID", []string{c.says}}.checkAnswer(t, n.PostGraphQL("Bearer dev:alice", []byte(c.body)))
	}
	if got := n.PostGraphQL("Bearer dev:alice", []byte(`{"query":`+world.QuoteJSON(two)+`,"operationName":"B"}`)); len(got.Errors) > 0 {
		t.Errorf("B: %+v", got.Errors)
	}
}
