package contract

import (
	"strings"
	"time"

	"tidings/tests/world"
)

// These operations take the value under test as v. Some take a time as p.
const (
	mutFollow            = `mutation($v:ID!){follow(input:{userId:$v}){user{id}}}`
	mutMute              = `mutation($v:ID!){mute(input:{userId:$v}){user{id}}}`
	mutMuteUntil         = `mutation($v:Time){mute(input:{userId:"user:bob",until:$v}){user{id}}}`
	mutBlock             = `mutation($v:ID!){block(input:{userId:$v}){user{id}}}`
	mutHide              = `mutation($v:ID!){hideFrom(input:{userId:$v}){user{id}}}`
	mutDirect            = `mutation($v:ID!){createConversation(input:{kind:DIRECT,memberIds:[$v]}){conversation{id}}}`
	mutPublish           = `mutation($v:String!){publishPost(input:{body:$v}){post{id}}}`
	mutPublishWithKey    = `mutation($v:String){publishPost(input:{body:"b",idempotencyKey:$v}){post{id}}}`
	mutDelete            = `mutation($v:ID!){deletePost(input:{postId:$v}){postId}}`
	mutLike              = `mutation($v:ID!){likePost(input:{postId:$v}){post{id}}}`
	mutUnlike            = `mutation($v:ID!){unlikePost(input:{postId:$v}){post{id}}}`
	mutHomeFeedSeen      = `mutation($v:ID){markHomeFeedSeen(input:{upTo:$v}){badges{version}}}`
	mutNotificationsSeen = `mutation($v:ID){markNotificationsSeen(input:{upTo:$v}){badges{version}}}` // the panel: the list of notifications
	mutBoardSeen         = `mutation($v:String){markLiveBoardSeen(input:{sessionId:$v}){badges{version}}}`
	mutProfileName       = `mutation($v:String){setProfile(input:{name:$v}){user{id}}}`
	mutProfileAvatar     = `mutation($v:URL){setProfile(input:{avatarUrl:$v}){user{id}}}`
	queryFirst           = `query($v:Int){viewer{homeFeed(first:$v){lastId}}}`
	queryAfter           = `query($v:String){viewer{homeFeed(after:$v){lastId}}}`
	queryBefore          = `query($v:String){viewer{homeFeed(last:5,before:$v){lastId}}}` // the page above a cursor
	queryLast            = `query($v:Int){viewer{homeFeed(last:$v,before:"x"){lastId}}}`
	queryLastID          = `query($v:ID){viewer{homeFeed(lastId:$v){lastId}}}`
	queryMutes           = `query($v:String){viewer{mutes(after:$v){edges{cursor}}}}`
	queryBlocks          = `query($v:Int){viewer{blocks(first:$v){edges{cursor}}}}`

	mutSchedule      = `mutation($v:Time!){scheduleShow(input:{title:"t",plannedAt:$v}){show{id}}}`
	mutScheduleTitle = `mutation($v:String!,$p:Time!){scheduleShow(input:{title:$v,plannedAt:$p}){show{id}}}`
	mutReschedule    = `mutation($v:ID!,$p:Time!){rescheduleShow(input:{showId:$v,plannedAt:$p}){show{id}}}` // moves a show
	mutStart         = `mutation($v:ID!){startShow(input:{showId:$v}){show{id}}}`
	mutStartAt       = `mutation($v:ID!,$p:Time!){startShow(input:{showId:$v,at:$p}){show{id}}}`
	mutEnd           = `mutation($v:ID!){endShow(input:{showId:$v}){show{id}}}`
	mutCancel        = `mutation($v:ID!){cancelShow(input:{showId:$v}){show{id}}}`
	mutSetReplay     = `mutation($v:ID!){setReplay(input:{showId:$v,replayUrl:"https://example.com/r"}){show{id}}}`
	mutRemind        = `mutation($v:ID!){remindMe(input:{showId:$v}){show{id}}}`
)

// IDs of users and posts that nobody has.
const (
	unknownPost = "post:0000000000001"
	unknownShow = "show:0000000000001"
	lastPost    = "post:7ZZZZZZZZZZZZ" // the last of all IDs
)

func (w *inputWorld) badUsers() []badInput {
	return []badInput{
		{"no key", ask{"alice", mutFollow, "user:"}, invalid("userId", "1 to 128", "got 0")},
		{"a key of 129", ask{"alice", mutFollow, "user:" + strings.Repeat("k", 129)}, invalid("userId", "1 to 128", "got 129")},
		{"a blank", ask{"alice", mutFollow, "user:a b"}, invalid("userId", `"a b"`, `"a%20b"`)},
		{"an accent", ask{"alice", `mutation($v:ID!){unfollow(input:{userId:$v}){user{id}}}`, "user:zoë"}, invalid("userId", `"zo%C3%AB"`)},
		{"a colon in the key", ask{"alice", mutFollow, "user:did:plc:a"}, invalid("userId", `"did%3Aplc%3Aa"`)},
		{"an escape in small letters", ask{"alice", mutFollow, "user:auth0%7c123"}, invalid("userId", `"auth0%7C123"`)},
		{"a needless escape", ask{"alice", mutFollow, "user:%62ob"}, invalid("userId", `"bob"`)},
		{"half an escape", ask{"alice", mutFollow, "user:bob%"}, invalid("userId", "hexadecimal")},
		{"a line break", ask{"alice", mutFollow, "user:bob%0A"}, invalid("userId", "printable")},
		{"another normal form", ask{"alice", mutFollow, "user:zoe%CC%88"}, invalid("userId", "normal form C")},
		{"broken UTF-8", ask{"alice", mutFollow, "user:zo%EB"}, invalid("userId", "printable")},
		{"a key without a type", ask{"alice", mutFollow, "bob"}, invalid("userId", `"bob"`, "user:KEY")},
		{"an unknown type", ask{"alice", mutFollow, "foo:bar"}, invalid("userId", `"foo:bar"`, "user:KEY")},
		{"a post", ask{"alice", mutFollow, w.bobsPost}, invalid("userId", "user:KEY")},
		{"a number", ask{"alice", mutFollow, 5}, invalid("userId", `"5"`, "user:KEY")},
		{"a boolean", ask{"alice", mutFollow, true}, invalid("$v", "an ID is a text", "true")},
		{"a list", ask{"alice", mutFollow, []string{"user:bob"}}, invalid("$v")},
		{"null", ask{"alice", mutFollow, nil}, invalid("$v", "null")},
		{"a key of 9,000", ask{"alice", mutFollow, "user:" + strings.Repeat("x", 9000)}, invalid("userId", "got 9000")},
		{"oneself", ask{"alice", mutFollow, "user:alice"}, invalid("userId", "yourself")},
		{"a name of 101", ask{"alice", mutProfileName, strings.Repeat("n", 101)}, invalid("name", "up to 100", "got 101")},
		{"NUL in a name", ask{"alice", mutProfileName, "\x00"}, invalid("name", "NUL")},
		{"a script as avatar", ask{"alice", mutProfileAvatar, "javascript:alert(1)"}, invalid("avatarUrl", "http or https")},
		{"an avatar of 2,049", ask{"alice", mutProfileAvatar, "https://a/" + strings.Repeat("a", 2039)}, invalid("avatarUrl", "up to 2048", "got 2049")},
	}
}

func (w *inputWorld) badRestrictions() []badInput {
	yesterday := w.Clock.Now().Add(-24 * time.Hour).UTC().Format(time.RFC3339)
	return []badInput{
		{"follow a user who blocks the viewer", ask{"alice", mutFollow, "user:erin"}, notFound(`userId: there is no user "erin"`)},
		{"follow a blocked user", ask{"erin", mutFollow, "user:alice"}, forbidden("userId", "unblock them")},
		{"like a post of a user who blocks the viewer", ask{"alice", mutLike, w.erinsPost}, notFound("postId: there is no " + w.erinsPost)},
		{"answer a post of a user who blocks the viewer", ask{"alice", `mutation($v:ID!){publishPost(input:{body:"b",parentId:$v}){post{id}}}`, w.erinsPost}, notFound("parentId: there is no " + w.erinsPost)},
		{"talk with a user who blocks the viewer", ask{"alice", mutDirect, "user:erin"}, notFound(`memberIds: there is no user "erin"`)},
		{"talk with a blocked user", ask{"erin", mutDirect, "user:alice"}, notFound(`memberIds: there is no user "alice"`)},
		{"block oneself", ask{"alice", mutBlock, "user:alice"}, invalid("userId", "block yourself")},
		{"mute oneself", ask{"alice", mutMute, "user:alice"}, invalid("userId", "mute yourself")},
		{"hide from oneself", ask{"alice", mutHide, "user:alice"}, invalid("userId", "hide posts from yourself")},
		{"mute until yesterday", ask{"alice", mutMuteUntil, yesterday}, invalid("until", strings.TrimSuffix(yesterday, "Z"), "past")},
		{"mute until no time", ask{"alice", mutMuteUntil, "soon"}, invalid("soon", "RFC 3339")},
		{"mute a post", ask{"alice", mutMute, w.bobsPost}, invalid("userId")},
		{"block a key without a type", ask{"alice", mutBlock, "bob"}, invalid("userId")},
		{"mutes after a cursor of the feed", ask{"bob", queryMutes, w.feedCursor}, invalid("after", "the mutes")},
		{"mutes after no cursor", ask{"bob", queryMutes, "x"}, invalid("after", "the mutes")},
		{"0 blocks", ask{"bob", queryBlocks, 0}, invalid("first", "1 to 100", "0")},
		{"101 blocks", ask{"bob", queryBlocks, 101}, invalid("first", "1 to 100", "101")},
	}
}

func (w *inputWorld) badPosts() []badInput {
	return []badInput{
		{"a short ID", ask{"alice", mutDelete, "post:xyz"}, invalid("postId", `"post:xyz"`, "13 letters")},
		{"an ID in small letters", ask{"alice", mutLike, "post:0abcdefghjkmn"}, invalid("postId", "13 letters")},
		{"an ID that is too great", ask{"alice", mutLike, "post:8000000000000"}, invalid("postId", "13 letters")},
		{"a user", ask{"alice", mutLike, "user:bob"}, invalid("postId", `"user:bob"`, "post:")},
		{"an unknown type", ask{"alice", mutUnlike, "foo:bar"}, invalid("postId", "post:")},
		{"delete another's post", ask{"alice", mutDelete, w.bobsPost}, forbidden("postId", w.bobsPost, "not your post")},
		{"delete another's deleted post", ask{"alice", mutDelete, w.bobsDeletedPost}, forbidden("postId")},
		{"delete a post that never was", ask{"alice", mutDelete, unknownPost}, notFound("no post", "0000000000001")},
		{"like a post that never was", ask{"alice", mutLike, unknownPost}, notFound("no post", "0000000000001")},
		{"like a deleted post", ask{"alice", mutLike, w.bobsDeletedPost}, notFound("postId", w.bobsDeletedPost, "deleted")},
		{"unlike a deleted post", ask{"alice", mutUnlike, w.bobsDeletedPost}, notFound("postId", w.bobsDeletedPost, "deleted")},
		{"an empty body", ask{"alice", mutPublish, ""}, invalid("body", "1 to 5000", "got 0")},
		{"a body of 5,001", ask{"alice", mutPublish, strings.Repeat("é", 5001)}, invalid("body", "1 to 5000", "got 5001")},
		{"a body of white space", ask{"alice", mutPublish, " \n\t"}, invalid("body", "white space")},
		{"NUL in a body", ask{"alice", mutPublish, "a\x00b"}, invalid("body", "NUL")},
		{"an object as body", ask{"alice", mutPublish, map[string]any{"text": "b"}}, invalid("$v")},
		{"an empty idempotency key", ask{"alice", mutPublishWithKey, ""}, invalid("idempotencyKey", "1 to 64", "got 0")},
		{"an idempotency key of 65", ask{"alice", mutPublishWithKey, strings.Repeat("k", 65)}, invalid("idempotencyKey", "1 to 64", "got 65")},
		{"NUL in an idempotency key", ask{"alice", mutPublishWithKey, "\x00"}, invalid("idempotencyKey", "NUL")},
	}
}

func (w *inputWorld) badFeedPages() []badInput {
	both := func(query string) ask { // a page of bob's feed with two arguments that exclude each other
		query = strings.NewReplacer("CURSOR", world.QuoteJSON(w.feedCursor), "POST", world.QuoteJSON(w.bobsPost)).Replace(query)
		return ask{"bob", query, vars(nil)}
	}
	return []badInput{
		{"0 posts", ask{"alice", queryFirst, 0}, invalid("first", "1 to 100", "got 0")},
		{"101 posts", ask{"alice", queryFirst, 101}, invalid("first", "1 to 100", "got 101")},
		{"-1 posts", ask{"alice", queryFirst, -1}, invalid("first", "1 to 100", "got -1")},
		{"more posts than a number holds", ask{"alice", queryFirst, 1e15}, invalid("$v", "2147483647", "1000000000000000")},
		{"a text for a number", ask{"alice", queryFirst, "five"}, invalid("$v")},
		{"after no cursor", ask{"alice", queryAfter, "?"}, invalid("after", `"?"`, "cursor")},
		{"after a part of a cursor", ask{"alice", queryAfter, w.feedCursor[:len(w.feedCursor)-2]}, invalid("after", "cursor")},
		{"after an empty cursor", ask{"alice", queryAfter, ""}, invalid("after", "cursor")},
		{"after another user's cursor", ask{"alice", queryAfter, w.feedCursor}, invalid("after", "another user")},
		{"before another user's cursor", ask{"alice", queryBefore, w.feedCursor}, invalid("before", "another user")},
		{"before no cursor", ask{"alice", queryBefore, "?"}, invalid("before", `"?"`, "cursor")},
		{"last without before", ask{"alice", queryBefore, nil}, invalid("last", "before")},
		{"the last 0 posts", ask{"alice", queryLast, 0}, invalid("last", "1 to 100", "got 0")},
		{"the last 101 posts", ask{"alice", queryLast, 101}, invalid("last", "1 to 100", "got 101")},
		{"before without last", ask{"alice", queryLast, nil}, invalid("before", "last")},
		{"lastId of a post that never was", ask{"alice", queryLastID, "post:0000000000007"}, notFound("lastId", "post:0000000000007")},
		{"lastId of the last of all IDs", ask{"alice", queryLastID, lastPost}, notFound("lastId", lastPost)},
		{"lastId of a user", ask{"alice", queryLastID, "user:bob"}, invalid("lastId", "post:")},
		{"after with lastId", both(`{viewer{homeFeed(after:CURSOR,lastId:POST){lastId}}}`), invalid("after", "lastId", "only one")},
		{"first with last", both(`{v:viewer{homeFeed(first:3,last:5,before:CURSOR){lastId}}}`), invalid("last", "cannot be given together with first")},
		{"first with last, not compiled", both(`{v:viewer{homeFeed(first:3,last:5,before:CURSOR){lastId}} viewer{homeFeed(first:3){lastId}}}`),
			invalid("last", "cannot be given together with first")},
		{"before with after", both(`{viewer{homeFeed(last:5,before:CURSOR,after:CURSOR){lastId}}}`), invalid("before", "cannot be given together with after")},
	}
}

func (w *inputWorld) badMarks() []badInput {
	return []badInput{
		{"the feed up to a user", ask{"alice", mutHomeFeedSeen, "user:bob"}, invalid("upTo", "post:")},
		{"the feed up to a post that never was", ask{"alice", mutHomeFeedSeen, unknownPost}, notFound("upTo", unknownPost)},
		{"the feed up to the future", ask{"alice", mutHomeFeedSeen, w.future}, invalid("upTo", w.future, "in the future")},
		{"the panel up to a post", ask{"alice", mutNotificationsSeen, w.bobsPost}, invalid("upTo", "of a notification")},
		{"the panel beyond the newest", ask{"alice", mutNotificationsSeen, "notificationUpTo:" + strings.TrimPrefix(w.future, "post:")}, invalid("upTo", "beyond the newest")},
		{"the board in no session", ask{"carol", mutBoardSeen, "no session"}, invalid("sessionId")},
		{"the board in a session of the future", ask{"carol", mutBoardSeen, w.futureSession}, invalid("sessionId")},
		{"the board in a session of a version to come", ask{"carol", mutBoardSeen, w.futureVersion}, invalid("sessionId")},
		{"the board in another user's session", ask{"bob", mutBoardSeen, w.session}, invalid("sessionId", "another user")},
	}
}

func (w *inputWorld) badShows() []badInput {
	with := func(value, moment string) vars { return vars{"v": value, "p": moment} }
	return []badInput{
		{"plan in the past", ask{"bob", mutSchedule, w.past}, invalid("plannedAt", "in the past")},
		{"plan beyond a year", ask{"bob", mutSchedule, w.late}, invalid("plannedAt", "366 days")},
		{"plan at no time", ask{"bob", mutSchedule, "soon"}, invalid("soon", "RFC 3339")},
		{"an empty title", ask{"bob", mutScheduleTitle, with("", w.soon)}, invalid("title", "1 to 255")},
		{"NUL in a title", ask{"bob", mutScheduleTitle, with("a\x00", w.soon)}, invalid("title", "NUL")},
		{"a cover that is no address", ask{"bob", `mutation($v:URL!,$p:Time!){scheduleShow(input:{title:"t",coverUrl:$v,plannedAt:$p}){show{id}}}`, with("cover", w.soon)}, invalid("coverUrl", "cover", "http")},
		{"put off into the past", ask{"bob", mutReschedule, with(w.upcoming, w.past)}, invalid("plannedAt", "in the past")},
		{"put off a live show", ask{"bob", mutReschedule, with(w.live, w.later)}, conflict("plannedAt", w.live, "LIVE")},
		{"put off a show that ended", ask{"bob", mutReschedule, with(w.ended, w.later)}, conflict("plannedAt", w.ended, "already reported")},
		{"retitle a cancelled show", ask{"bob", `mutation($v:ID!){rescheduleShow(input:{showId:$v,title:"u"}){show{id}}}`, w.cancelled}, conflict("showId", w.cancelled, "cancelled")},
		{"change nothing", ask{"bob", `mutation($v:ID!){rescheduleShow(input:{showId:$v}){show{id}}}`, w.upcoming}, invalid("plannedAt", "title", "coverUrl")},
		{"start a cancelled show", ask{"bob", mutStart, w.cancelled}, conflict("showId", w.cancelled, "cancelled")},
		{"start before it was planned", ask{"bob", mutStartAt, with(w.upcoming, w.past)}, invalid("at", w.upcoming, "before", "scheduled")},
		{"start in the future", ask{"bob", mutStartAt, with(w.upcoming, w.soon)}, invalid("at", "future")},
		{"end a cancelled show", ask{"bob", mutEnd, w.cancelled}, conflict("showId", w.cancelled, "cancelled")},
		{"end in the future", ask{"bob", `mutation($v:ID!,$p:Time!){endShow(input:{showId:$v,at:$p}){show{id}}}`, with(w.live, w.soon)}, invalid("at", "future")},
		{"cancel a live show", ask{"bob", mutCancel, w.live}, conflict("showId", w.live, "LIVE")},
		{"cancel a replay", ask{"bob", mutCancel, w.over}, conflict("showId", w.over, "REPLAY")},
		{"cancel a show that ended", ask{"bob", mutCancel, w.ended}, conflict("showId", w.ended, "already reported")},
		{"a replay of a cancelled show", ask{"bob", mutSetReplay, w.cancelled}, conflict("showId", w.cancelled, "cancelled")},
		{"a replay that is no address", ask{"bob", `mutation($v:ID!){setReplay(input:{showId:$v,replayUrl:"//example.com/r"}){show{id}}}`, w.over}, invalid("replayUrl", "//example.com/r")},
		{"start another's show", ask{"alice", mutStart, w.upcoming}, forbidden("showId", w.upcoming, "not your show")},
		{"end another's show", ask{"alice", mutEnd, w.live}, forbidden("showId", w.live, "not your show")},
		{"cancel another's show", ask{"alice", mutCancel, w.upcoming}, forbidden("showId", w.upcoming, "not your show")},
		{"a replay of another's show", ask{"alice", mutSetReplay, w.over}, forbidden("showId", w.over, "not your show")},
		{"start a show that never was", ask{"bob", mutStart, unknownShow}, notFound("showId", unknownShow)},
		{"start a post", ask{"bob", mutStart, w.bobsPost}, invalid("showId", w.bobsPost, "a show")},
		{"a reminder of a live show", ask{"alice", mutRemind, w.live}, conflict("showId", w.live, "LIVE")},
		{"a reminder of a cancelled show", ask{"alice", mutRemind, w.cancelled}, conflict("showId", w.cancelled, "CANCELLED")},
		{"a reminder of one's own show", ask{"bob", mutRemind, w.upcoming}, invalid("showId", w.upcoming, "your own")},
		{"a reminder of a show of a user who blocks the viewer", ask{"alice", mutRemind, w.erinsShow}, notFound("showId: there is no " + w.erinsShow)},
		{"a reminder of a show that never was", ask{"alice", mutRemind, unknownShow}, notFound("showId", unknownShow)},
		{"a reminder of a user", ask{"alice", mutRemind, "user:bob"}, invalid("showId", "user:bob", "a show")},
	}
}

func (w *inputWorld) badBoardPages() []badInput {
	page := func(as string, from world.BoardPageStart) ask {
		return ask{as, world.BoardQuery, vars(from.Variables(5))}
	}
	after := func(as, cursor string) ask { return page(as, world.BoardPageStart{After: cursor}) }
	in := func(as, session string) ask { return page(as, world.BoardPageStart{Session: session}) }
	last := func(show string) ask { return page("carol", world.BoardPageStart{Session: w.session, Last: show}) }
	return []badInput{
		{"no session", in("carol", "no session"), invalid("sessionId", "no session")},
		{"a cursor as a session", in("carol", w.cursor), invalid("sessionId")},
		{"half a session", in("carol", w.session[:20]), invalid("sessionId")},
		{"a session of 50,000", in("carol", strings.Repeat("A", 50_000)), invalid("sessionId")},
		{"another user's session", in("bob", w.session), invalid("sessionId", "another user")},
		{"a session of the future", in("carol", w.futureSession), invalid("sessionId", "future")},
		{"a session of a version to come", in("carol", w.futureVersion), invalid("sessionId")},
		{"after no cursor", after("carol", "no cursor"), invalid("after", "no cursor")},
		{"after a session", after("carol", w.session), invalid("after")},
		{"after another user's cursor", after("bob", w.cursor), invalid("after", "another user")},
		{"after with a session", page("carol", world.BoardPageStart{After: w.cursor, Session: w.session}), invalid("after", "sessionId")},
		{"after with lastId", page("carol", world.BoardPageStart{After: w.cursor, Last: w.shown}), invalid("after", "lastId")},
		{"lastId without a session", page("carol", world.BoardPageStart{Last: w.shown}), invalid("lastId", "sessionId")},
		{"lastId of a user", last("user:host"), invalid("lastId", "user:host", "show")},
		{"a short lastId", last("show:1"), invalid("lastId", "show:1")},
		{"lastId of a show that never was", last(unknownShow), invalid("lastId", "never in the session")},
		{"lastId of a host who is not followed", last(w.strangers), invalid("lastId", w.strangers, "never in the session")},
		{"lastId of a show that was cancelled before", last(w.hostCancelled), invalid("lastId", w.hostCancelled)},
		{"lastId of a show that was planned later", last(w.hostLater), invalid("lastId", w.hostLater)},
		{"lastId of one's own show", last(w.carols), invalid("lastId", w.carols)},
		{"0 shows", ask{"carol", world.BoardQuery, vars{"first": 0}}, invalid("first: 1 to 100", "got 0")},
		{"101 shows", ask{"carol", world.BoardQuery, vars{"first": 101}}, invalid("first: 1 to 100", "got 101")},
		{"-1 shows", ask{"carol", world.BoardQuery, vars{"first": -1}}, invalid("first: 1 to 100", "got -1")},
	}
}
