package contract

import (
	"testing"
	"time"
)

// Invalid restrictions between users, and actions that a restriction forbids, are refused with a reason and have no effect.
func TestBadRestrictions(t *testing.T) {
	c := newSmallNode(t, nil)
	const (
		mutMute      = `mutation($v:ID!){mute(input:{userId:$v}){user{id}}}`
		mutMuteUntil = `mutation($v:Time){mute(input:{userId:"user:bob",until:$v}){user{id}}}`
		mutUnmute    = `mutation($v:ID!){unmute(input:{userId:$v}){user{id}}}`
		mutBlock     = `mutation($v:ID!){block(input:{userId:$v}){user{id}}}`
		mutUnblock   = `mutation($v:ID!){unblock(input:{userId:$v}){user{id}}}`
		mutHide      = `mutation($v:ID!){hideFrom(input:{userId:$v}){user{id}}}`
		mutUnhide    = `mutation($v:ID!){unhideFrom(input:{userId:$v}){user{id}}}`
		mutAnswer    = `mutation($v:ID!){publishPost(input:{body:"b",parentId:$v}){post{id}}}`
		mutDirect    = `mutation($v:ID!){createConversation(input:{kind:DIRECT,memberIds:[$v]}){conversation{id}}}`
		queryMutes   = `query($v:String){viewer{mutes(after:$v){edges{cursor}}}}`
		queryMany    = `query($v:Int){viewer{blocks(first:$v){edges{cursor}}}}`
	)
	yesterday := c.Clock.Now().Add(-24 * time.Hour).UTC()
	// bob blocks alice, who followed bob; carol mutes bob and hides from bob.
	c.MustAsk("bob", mutBlock, map[string]any{"v": "user:alice"}, nil)
	c.MustAsk("carol", mutMute, map[string]any{"v": "user:bob"}, nil)
	c.MustAsk("carol", mutHide, map[string]any{"v": "user:bob"}, nil)
	c.SettleJobsAndCaches()
	for name, bad := range map[string]struct {
		as, query string
		value     any
		want      wantedError
	}{
		"following who blocks one":        {"alice", mutFollow, "user:bob", wantedError{"NOT_FOUND", []string{`userId: there is no user "bob"`}}},
		"following a blocked user":        {"bob", mutFollow, "user:alice", wantedError{"FORBIDDEN", []string{"userId", "unblock them"}}},
		"liking a post of who blocks one": {"alice", mutLike, c.bobsPost, wantedError{"NOT_FOUND", []string{"postId: there is no " + c.bobsPost}}},
		"answering it":                    {"alice", mutAnswer, c.bobsPost, wantedError{"NOT_FOUND", []string{"parentId: there is no " + c.bobsPost}}},
		"talking with who blocks one":     {"alice", mutDirect, "user:bob", wantedError{"NOT_FOUND", []string{`memberIds: there is no user "bob"`}}},
		"talking with a blocked user":     {"bob", mutDirect, "user:alice", wantedError{"NOT_FOUND", []string{`memberIds: there is no user "alice"`}}},
		"blocking oneself":                {"alice", mutBlock, "user:alice", wantedError{"INVALID", []string{"userId", "block yourself"}}},
		"muting oneself":                  {"alice", mutMute, "user:alice", wantedError{"INVALID", []string{"userId", "mute yourself"}}},
		"hiding from oneself":             {"alice", mutHide, "user:alice", wantedError{"INVALID", []string{"userId", "hide posts from yourself"}}},
		"muting until yesterday":          {"alice", mutMuteUntil, yesterday.Format(time.RFC3339), wantedError{"INVALID", []string{"until", yesterday.Format("2006-01-02T15:04:05"), "past"}}},
		"muting until some time":          {"alice", mutMuteUntil, "soon", wantedError{"INVALID", []string{"soon", "RFC 3339"}}},
		"muting a post":                   {"alice", mutMute, c.bobsPost, wantedError{"INVALID", []string{"userId"}}},
		"blocking no id":                  {"alice", mutBlock, "bob", wantedError{"INVALID", []string{"userId"}}},
		"a cursor of a feed":              {"bob", queryMutes, c.feedCursor, wantedError{"INVALID", []string{"after", "the mutes"}}},
		"no cursor":                       {"bob", queryMutes, "x", wantedError{"INVALID", []string{"after", "the mutes"}}},
		"a page of none":                  {"bob", queryMany, 0, wantedError{"INVALID", []string{"first", "1 to 100", "0"}}},
		"a page of too many":              {"bob", queryMany, 101, wantedError{"INVALID", []string{"first", "1 to 100", "101"}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.wantNoEffect(t, func(t *testing.T) {
				bad.want.checkAnswer(t, c.Ask(bad.as, bad.query, map[string]any{"v": bad.value}))
			})
		})
	}
}
