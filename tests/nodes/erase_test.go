package nodes

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	"tidings/services/redis/redistest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

const (
	leaverKey        = "leaver-qzx7" // the key of the user who is erased
	leaverTextMarker = "zqxv-secret" // a word in each text of the user who is erased
	leaverID         = 31234567      // the user ID of the user who is erased, a number that is easy to find in rows
)

// randomActors are users of a node who send random mutations of most kinds. The last of them is the leaver, the user that the tests
// erase.
type randomActors struct {
	node                                          *world.Node
	rng                                           *rand.Rand
	userKeys                                      []string // the leaver's key is the last
	postIDs, showIDs, conversationIDs, messageIDs []string // the IDs of what the mutations made
	textCount                                     int      // how many texts newText made, and the number in the newest one
}

// newRandomActors creates count users and the leaver, who has the user ID leaverID.
func newRandomActors(n *world.Node, seed uint64, count int) *randomActors {
	l := &randomActors{node: n, rng: rand.New(rand.NewPCG(seed, 7)), userKeys: []string{"ann", "bob", "cyd", "dan", "eve"}[:count]}
	n.CreateUsers(l.userKeys...)
	err := n.DB.Write(n.TB.Context(), func(tx *sql.Tx) error {
		_, err := sqltest.QueryLines(n.TB.Context(), tx, fmt.Sprintf(`UPDATE counters SET value = %d WHERE name = 'users'`, leaverID-1))
		return err
	})
	if err != nil {
		n.TB.Fatal(err)
	}
	n.CreateUsers(leaverKey)
	l.userKeys = append(l.userKeys, leaverKey)
	for _, person := range l.userKeys {
		n.Badges(person)
	}
	return l
}

// pickRandom draws one of some texts; "" if there is none.
func (l *randomActors) pickRandom(of []string) string {
	if len(of) == 0 {
		return ""
	}
	return of[l.rng.IntN(len(of))]
}

// newText makes a new text for a user to publish or send. The leaver's texts contain leaverTextMarker.
func (l *randomActors) newText(person string) string {
	l.textCount++
	if person == leaverKey {
		return fmt.Sprintf("%s %d", leaverTextMarker, l.textCount)
	}
	return fmt.Sprintf("text %d", l.textCount)
}

var createdIDPattern = regexp.MustCompile(`"id":"((post|show|message|conversation):[^"]+)"`) // an ID of an object in the answer of a mutation

// schemaErrorPattern matches the error messages for an operation that does not fit the schema, which is a fault of the test.
var schemaErrorPattern = regexp.MustCompile(`Cannot query|Unknown|Expected|required|not defined|must have a selection`)

// askAndRecordIDs sends a mutation as a user. The mutation may be refused. It records the IDs of the objects that the mutation made.
func (l *randomActors) askAndRecordIDs(as, query string) {
	token := as
	if strings.Contains(query, "ref:") || strings.Contains(query, "data:") {
		token += ":ingest,viewer"
	}
	answer := l.node.Ask(token, query, nil)
	code := answer.ErrorCode()
	if !slices.Contains([]string{"", "CONFLICT", "NOT_FOUND", "FORBIDDEN", "INVALID"}, code) {
		l.node.TB.Fatalf("%s as %s: %s", query, as, answer.Errors[0].Message)
	}
	if code != "" && schemaErrorPattern.MatchString(answer.Errors[0].Message) {
		l.node.TB.Fatalf("%s: %s", query, answer.Errors[0].Message)
	}
	for _, found := range createdIDPattern.FindAllStringSubmatch(string(answer.Data), -1) {
		list := map[string]*[]string{"post": &l.postIDs, "show": &l.showIDs, "message": &l.messageIDs, "conversation": &l.conversationIDs}[found[2]]
		if !slices.Contains(*list, found[1]) {
			*list = append(*list, found[1])
		}
	}
}

// userMutations return the mutations that a user a sends at random. Some concern another user b.
var userMutations = []func(l *randomActors, a, b string) string{
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`follow(input:{userId:"user:%s"}){__typename}`, b)
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`follow(input:{userId:"user:%s"}){__typename}`, b)
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`unfollow(input:{userId:"user:%s"}){__typename}`, b)
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`mute(input:{userId:"user:%s"}){__typename}`, b)
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`mute(input:{userId:"user:%s",until:%q}){__typename}`, b, l.node.Clock.Now().Add(9*time.Hour).Format(time.RFC3339))
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`hideFrom(input:{userId:"user:%s"}){__typename}`, b)
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`block(input:{userId:"user:%s"}){__typename}`, b)
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`unblock(input:{userId:"user:%s"}){__typename}`, b)
	},
	func(l *randomActors, a, b string) string {
		text := l.newText(a)
		return fmt.Sprintf(`publishPost(input:{body:%q,ref:%q,url:"https://example.com/%s",data:{v:%q},idempotencyKey:"k%d"}){post{id}}`, text, text, strings.ReplaceAll(text, " ", "/"), text, l.textCount)
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`publishPost(input:{body:%q}){post{id}}`, l.newText(a))
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`publishPost(input:{body:%q,parentId:%q,mentions:["user:%s"]}){post{id}}`, l.newText(a), l.pickRandom(l.postIDs), b)
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`publishPost(input:{body:%q,parentId:%q}){post{id}}`, l.newText(a), l.pickRandom(l.postIDs))
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`editPost(input:{postId:%q,body:%q}){post{id}}`, l.pickRandom(l.postIDs), l.newText(a))
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`deletePost(input:{postId:%q}){__typename}`, l.pickRandom(l.postIDs))
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`likePost(input:{postId:%q,idempotencyKey:"l%d"}){post{id}}`, l.pickRandom(l.postIDs), l.rng.IntN(1e9))
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`likePost(input:{postId:%q}){post{id}}`, l.pickRandom(l.postIDs))
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`unlikePost(input:{postId:%q}){post{id}}`, l.pickRandom(l.postIDs))
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`scheduleShow(input:{title:%q,plannedAt:%q,ref:%q}){show{id}}`, l.newText(a), l.node.Clock.Now().Add(time.Hour).Format(time.RFC3339), l.newText(a))
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`startShow(input:{showId:%q}){show{id}}`, l.pickRandom(l.showIDs))
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`endShow(input:{showId:%q,replayUrl:"https://example.com/%s"}){show{id}}`, l.pickRandom(l.showIDs), a)
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`remindMe(input:{showId:%q}){show{id}}`, l.pickRandom(l.showIDs))
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`createConversation(input:{kind:DIRECT,memberIds:["user:%s"]}){conversation{id}}`, b)
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`createConversation(input:{kind:GROUP,title:%q,memberIds:["user:%s","user:ann"],ref:%q}){conversation{id}}`, l.newText(a), b, l.newText(a))
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`sendMessage(input:{conversationId:%q,body:%q,mentionIds:["user:%s"],data:{v:%q}}){message{id}}`, l.pickRandom(l.conversationIDs), l.newText(a), b, l.newText(a))
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`sendMessage(input:{conversationId:%q,body:%q}){message{id}}`, l.pickRandom(l.conversationIDs), l.newText(a))
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`recallMessage(input:{messageId:%q}){__typename}`, l.pickRandom(l.messageIDs))
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`quitConversation(input:{conversationId:%q}){__typename}`, l.pickRandom(l.conversationIDs))
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`muteConversation(input:{conversationId:%q}){__typename}`, l.pickRandom(l.conversationIDs))
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`enterConversation(input:{conversationId:%q}){__typename}`, l.pickRandom(l.conversationIDs))
	},
	func(l *randomActors, a, b string) string {
		return `markNotificationsRead(input:{categories:[LIKE,COMMENT,MENTION]}){__typename}`
	},
	func(l *randomActors, a, b string) string { return `markAllRead(input:{}){__typename}` },
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`setProfile(input:{name:%q,avatarUrl:"https://example.com/%s.png"}){__typename}`, l.newText(a), a)
	},
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`touchView(input:{code:"v-%s",key:"1"}){__typename}`, a)
	},
	func(l *randomActors, a, b string) string { return `clearDot(input:{name:"shop"}){__typename}` },
	func(l *randomActors, a, b string) string {
		return fmt.Sprintf(`setDisplayPolicy(input:{sources:[{source:VIEWS,inTotal:%v}]}){__typename}`, l.textCount%2 == 0)
	},
	func(l *randomActors, a, b string) string {
		return `setGroupPolicy(input:{policy:WHO_I_FOLLOW}){__typename}`
	},
}

// blockMutationIndex is the index in userMutations of the mutation that blocks a user.
const blockMutationIndex = 6

// hostMutations are mutations of the host application that concern a user; %[1]s stands for the user's key.
var hostMutations = []string{
	`sendSiteMessage(input:{title:"hello",content:"from us",to:["user:%[1]s","user:ann"]}){__typename}`,
	`setSegments(input:{userId:"user:%[1]s",segments:["beta"]}){__typename}`,
	`raiseDot(input:{name:"shop"}){name}`,
}

// runMutation sends one mutation of the user a, or one of the host application that concerns a. i is an index in the list of
// userMutations followed by hostMutations.
func (l *randomActors) runMutation(i int, a string) {
	b := l.pickRandom(slices.DeleteFunc(slices.Clone(l.userKeys), func(person string) bool { return person == a }))
	if i < len(userMutations) {
		l.askAndRecordIDs(a, "mutation{"+userMutations[i](l, a, b)+"}")
		return
	}
	l.askAndRecordIDs("host:ingest", "mutation{"+strings.ReplaceAll(hostMutations[i-len(userMutations)], "%[1]s", a)+"}")
}

// runRandomMutations sends random mutations of all users. The last of userKeys, who is the leaver until the erasure, sends more than the
// others.
func (l *randomActors) runRandomMutations(count int) {
	for range count {
		person := l.pickRandom(l.userKeys)
		if l.rng.IntN(3) == 0 {
			person = l.userKeys[len(l.userKeys)-1]
		}
		i := l.rng.IntN(len(userMutations) + len(hostMutations))
		if i == blockMutationIndex && l.rng.IntN(4) > 0 {
			continue // a block ends follows and conversations, so it must be rare
		}
		l.runMutation(i, person)
	}
}

// erasureAnswer is an erasure, as the API shows it to an operator. It has the fields that erasureFields selects, except the times.
type erasureAnswer struct {
	Name, State string     // the name of the erasure and not of the user; PENDING or DONE
	Removed     []struct { // how many objects of each kind were removed
		Kind  string
		Count int
	}
}

// erasureFields selects an erasure with its fields, in a query or a mutation.
const erasureFields = `erasure{name state beganAt doneAt removed{kind count}}`

// eraseLeaver begins the erasure of the leaver, as an operator. Jobs do the rest.
func eraseLeaver(n *world.Node) erasureAnswer {
	var data struct {
		EraseUser struct{ Erasure erasureAnswer }
	}
	n.MustAsk("boss:admin", fmt.Sprintf(`mutation{eraseUser(input:{userId:"user:%s"}){%s}}`, leaverKey, erasureFields), nil, &data)
	return data.EraseUser.Erasure
}

// findLeaverData returns each row of a table and each key of Redis that contains the leaver's key, ID or texts. server is nil if Redis is
// not to be searched.
func findLeaverData(n *world.Node, server *redistest.Server) (found []string) {
	n.TB.Helper()
	names := []string{leaverKey, leaverTextMarker, fmt.Sprint(leaverID)}
	look := func(where, text string) {
		for _, name := range names {
			if strings.Contains(text, name) {
				found = append(found, fmt.Sprintf("%s: %s", where, text))
				return
			}
		}
	}
	for _, table := range listTables(n) {
		rows, err := sqltest.QueryLines(n.TB.Context(), n.DB, "SELECT * FROM "+table)
		if err != nil {
			n.TB.Fatal(err)
		}
		for _, row := range rows {
			if table == "counters" {
				continue // the table holds the last IDs that were given
			}
			look(table, decodePrintedBytes(row))
		}
	}
	if server != nil {
		forEachRedisKey(n, server, look)
	}
	return found
}

var printedBytesPattern = regexp.MustCompile(`\[(\d{1,3}( \d{1,3})*)\]`) // a column of bytes, as Go prints it

// decodePrintedBytes replaces columns of bytes, which are printed as numbers, by text.
func decodePrintedBytes(row string) string {
	return printedBytesPattern.ReplaceAllStringFunc(row, func(list string) string {
		var bytes []byte
		for number := range strings.FieldsSeq(strings.Trim(list, "[]")) {
			var one int
			_, _ = fmt.Sscan(number, &one)
			bytes = append(bytes, byte(one))
		}
		return string(bytes)
	})
}

// forEachRedisKey calls look with the text of every key in Redis and its value; where is always "redis".
func forEachRedisKey(n *world.Node, server *redistest.Server, look func(where, text string)) {
	keys, _ := server.Do("KEYS", "*").([]any)
	if len(keys) == 0 {
		n.TB.Fatal("Redis is empty")
	}
	for _, key := range keys {
		read := map[string][]any{
			"string": {"GET", key}, "hash": {"HGETALL", key}, "zset": {"ZRANGE", key, "0", "-1"}, "set": {"SMEMBERS", key}, "list": {"LRANGE", key, "0", "-1"},
		}[fmt.Sprint(server.Do("TYPE", key))]
		look("redis", fmt.Sprint(key, " ", server.Do(read...)))
	}
}

// waitFreshTotal returns the total of a person's badges once it is not STALE. On a busy machine Redis may miss its deadline: then the
// total comes from SQL and is STALE for a moment, but its value must be right. So it is an error if the value changes meanwhile.
func (l *randomActors) waitFreshTotal(person string) (total world.Count) {
	l.node.TB.Helper()
	first := true
	world.Eventually(l.node.TB, world.RedisLossRecoveryTimeout, person+"'s total is not STALE", func() bool {
		var data struct {
			Viewer struct{ Badges struct{ Total world.Count } }
		}
		l.node.MustAsk(person, `{viewer{badges{total{value precision}}}}`, nil, &data)
		now := data.Viewer.Badges.Total
		if !first && now.Value != total.Value {
			l.node.TB.Errorf("%s had %+v, and then %+v", person, total, now)
		}
		total, first = now, false
		return total.Precision != "STALE"
	})
	return total
}

// wantCorrectCounts checks the data of all users but the leaver: their badges equal a fresh count from the facts, the like counts of
// posts equal the likes, and no feed lists a post without an ID.
func (l *randomActors) wantCorrectCounts() {
	l.node.TB.Helper()
	wrong, err := sqltest.QueryLines(l.node.TB.Context(), l.node.DB, `SELECT c.post, sum(c.likes) FROM post_counts c GROUP BY c.post HAVING sum(c.likes) <> (SELECT count(*) FROM likes k WHERE k.post = c.post)`)
	if err != nil || len(wrong) > 0 {
		l.node.TB.Errorf("likes of posts: %q, %v", wrong, err)
	}
	for _, person := range l.userKeys {
		if person == leaverKey {
			continue
		}
		var data struct {
			R struct {
				Differed []string
				Badges   json.RawMessage
			}
		}
		before := l.waitFreshTotal(person)
		l.node.MustAsk("boss:admin", fmt.Sprintf(`mutation{r:recountBadges(input:{userId:"user:%s"}){differed badges{%s}}}`, person, world.BadgeFields), nil, &data)
		if len(data.R.Differed) > 0 {
			l.node.TB.Errorf("%s differs: %q", person, data.R.Differed)
		}
		if after := l.waitFreshTotal(person); after != before {
			l.node.TB.Errorf("%s had %+v, and %+v after a recount", person, before, after)
		}
		if feed := l.node.ReadWholeFeed(person, 20); slices.Contains(feed, "") {
			l.node.TB.Errorf("the feed of %s is %q", person, feed)
		}
	}
}
