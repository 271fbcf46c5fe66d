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
	"tidings/tests/world"
)

const (
	leaver   = "leaver-qzx7" // the key of the user who is erased
	secret   = "zqxv-secret" // in each of the leaver's texts
	leaverID = 31234567      // the leaver's ID
)

// actingPeople are people who do, at random, most of what the API allows.
type actingPeople struct {
	n                             *world.Node
	rng                           *rand.Rand
	people                        []string
	posts, shows, talks, messages []string // the IDs of what the acts made
	textsMade                     int      // also the number in the newest text
}

// newActingPeople makes people. One of them, the leaver, has an ID that is easy to find in every table.
func newActingPeople(n *world.Node, seed uint64, count int) *actingPeople {
	l := &actingPeople{n: n, rng: rand.New(rand.NewPCG(seed, 7)), people: []string{"ann", "bob", "cyd", "dan", "eve"}[:count]}
	n.CreateUsers(l.people...)
	err := n.Store.Write(n.TB.Context(), func(tx *sql.Tx) error {
		_, err := tx.Lines(n.TB.Context(), fmt.Sprintf(`UPDATE counters SET value = %d WHERE name = 'users'`, leaverID-1))
		return err
	})
	if err != nil {
		n.TB.Fatal(err)
	}
	n.CreateUsers(leaver)
	l.people = append(l.people, leaver)
	for _, person := range l.people {
		n.Badges(person)
	}
	return l
}

// draw draws one of some texts; "" if there is none.
func (l *actingPeople) draw(of []string) string {
	if len(of) == 0 {
		return ""
	}
	return of[l.rng.IntN(len(of))]
}

// text makes a text of a person. The leaver's texts contain secret.
func (l *actingPeople) text(person string) string {
	l.textsMade++
	if person == leaver {
		return fmt.Sprintf("%s %d", secret, l.textsMade)
	}
	return fmt.Sprintf("text %d", l.textsMade)
}

var madeID = regexp.MustCompile(`"id":"((post|show|message|conversation):[^"]+)"`) // the ID of an object that an act made

// malformed matches the errors of an operation that does not fit the schema.
var malformed = regexp.MustCompile(`Cannot query|Unknown|Expected|required|not defined|must have a selection`)

// ask does one act, which may be refused, and notes the IDs of the objects that it made.
func (l *actingPeople) ask(as, query string) {
	token := as
	if strings.Contains(query, "ref:") || strings.Contains(query, "data:") {
		token += ":ingest,viewer"
	}
	answer := l.n.Ask(token, query, nil)
	code := answer.ErrorCode()
	if !slices.Contains([]string{"", "CONFLICT", "NOT_FOUND", "FORBIDDEN", "INVALID"}, code) {
		l.n.TB.Fatalf("%s as %s: %s", query, as, answer.Errors[0].Message)
	}
	if code != "" && malformed.MatchString(answer.Errors[0].Message) {
		l.n.TB.Fatalf("%s: %s", query, answer.Errors[0].Message)
	}
	for _, found := range madeID.FindAllStringSubmatch(string(answer.Data), -1) {
		list := map[string]*[]string{"post": &l.posts, "show": &l.shows, "message": &l.messages, "conversation": &l.talks}[found[2]]
		if !slices.Contains(*list, found[1]) {
			*list = append(*list, found[1])
		}
	}
}

// lifeActs are the acts that a person a does at random. They may concern another person b.
var lifeActs = []func(l *actingPeople, a, b string) string{
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`follow(input:{userId:"user:%s"}){__typename}`, b)
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`follow(input:{userId:"user:%s"}){__typename}`, b)
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`unfollow(input:{userId:"user:%s"}){__typename}`, b)
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`mute(input:{userId:"user:%s"}){__typename}`, b)
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`mute(input:{userId:"user:%s",until:%q}){__typename}`, b, l.n.Clock.Now().Add(9*time.Hour).Format(time.RFC3339))
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`hideFrom(input:{userId:"user:%s"}){__typename}`, b)
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`block(input:{userId:"user:%s"}){__typename}`, b)
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`unblock(input:{userId:"user:%s"}){__typename}`, b)
	},
	func(l *actingPeople, a, b string) string {
		text := l.text(a)
		return fmt.Sprintf(`publishPost(input:{body:%q,ref:%q,url:"https://example.com/%s",data:{v:%q},idempotencyKey:"k%d"}){post{id}}`, text, text, strings.ReplaceAll(text, " ", "/"), text, l.textsMade)
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`publishPost(input:{body:%q}){post{id}}`, l.text(a))
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`publishPost(input:{body:%q,parentId:%q,mentions:["user:%s"]}){post{id}}`, l.text(a), l.draw(l.posts), b)
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`publishPost(input:{body:%q,parentId:%q}){post{id}}`, l.text(a), l.draw(l.posts))
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`editPost(input:{postId:%q,body:%q}){post{id}}`, l.draw(l.posts), l.text(a))
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`deletePost(input:{postId:%q}){__typename}`, l.draw(l.posts))
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`likePost(input:{postId:%q,idempotencyKey:"l%d"}){post{id}}`, l.draw(l.posts), l.rng.IntN(1e9))
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`likePost(input:{postId:%q}){post{id}}`, l.draw(l.posts))
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`unlikePost(input:{postId:%q}){post{id}}`, l.draw(l.posts))
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`scheduleShow(input:{title:%q,plannedAt:%q,ref:%q}){show{id}}`, l.text(a), l.n.Clock.Now().Add(time.Hour).Format(time.RFC3339), l.text(a))
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`startShow(input:{showId:%q}){show{id}}`, l.draw(l.shows))
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`endShow(input:{showId:%q,replayUrl:"https://example.com/%s"}){show{id}}`, l.draw(l.shows), a)
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`remindMe(input:{showId:%q}){show{id}}`, l.draw(l.shows))
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`createConversation(input:{kind:DIRECT,memberIds:["user:%s"]}){conversation{id}}`, b)
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`createConversation(input:{kind:GROUP,title:%q,memberIds:["user:%s","user:ann"],ref:%q}){conversation{id}}`, l.text(a), b, l.text(a))
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`sendMessage(input:{conversationId:%q,body:%q,mentionIds:["user:%s"],data:{v:%q}}){message{id}}`, l.draw(l.talks), l.text(a), b, l.text(a))
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`sendMessage(input:{conversationId:%q,body:%q}){message{id}}`, l.draw(l.talks), l.text(a))
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`recallMessage(input:{messageId:%q}){__typename}`, l.draw(l.messages))
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`quitConversation(input:{conversationId:%q}){__typename}`, l.draw(l.talks))
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`muteConversation(input:{conversationId:%q}){__typename}`, l.draw(l.talks))
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`enterConversation(input:{conversationId:%q}){__typename}`, l.draw(l.talks))
	},
	func(l *actingPeople, a, b string) string {
		return `markNotificationsRead(input:{categories:[LIKE,COMMENT,MENTION]}){__typename}`
	},
	func(l *actingPeople, a, b string) string { return `markAllRead(input:{}){__typename}` },
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`setProfile(input:{name:%q,avatarUrl:"https://example.com/%s.png"}){__typename}`, l.text(a), a)
	},
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`touchView(input:{code:"v-%s",key:"1"}){__typename}`, a)
	},
	func(l *actingPeople, a, b string) string { return `clearDot(input:{name:"shop"}){__typename}` },
	func(l *actingPeople, a, b string) string {
		return fmt.Sprintf(`setDisplayPolicy(input:{sources:[{source:VIEWS,inTotal:%v}]}){__typename}`, l.textsMade%2 == 0)
	},
	func(l *actingPeople, a, b string) string {
		return `setGroupPolicy(input:{policy:WHO_I_FOLLOW}){__typename}`
	},
}

// blockAct is the index in lifeActs of the act that blocks a person.
const blockAct = 6

// hostActs are the acts of the host application that concern a person.
var hostActs = []string{
	`sendSiteMessage(input:{title:"hello",content:"from us",to:["user:%[1]s","user:ann"]}){__typename}`,
	`setSegments(input:{userId:"user:%[1]s",segments:["beta"]}){__typename}`,
	`raiseDot(input:{name:"shop"}){name}`,
}

// act does one act of a person. i is an index in the list of lifeActs followed by hostActs.
func (l *actingPeople) act(i int, a string) {
	b := l.draw(slices.DeleteFunc(slices.Clone(l.people), func(person string) bool { return person == a }))
	if i < len(lifeActs) {
		l.ask(a, "mutation{"+lifeActs[i](l, a, b)+"}")
		return
	}
	l.ask("host:ingest", "mutation{"+strings.ReplaceAll(hostActs[i-len(lifeActs)], "%[1]s", a)+"}")
}

// actAtRandom does random acts of everybody, about half of them by the last person, who is the leaver until the erasure.
func (l *actingPeople) actAtRandom(count int) {
	for range count {
		person := l.draw(l.people)
		if l.rng.IntN(3) == 0 {
			person = l.people[len(l.people)-1]
		}
		i := l.rng.IntN(len(lifeActs) + len(hostActs))
		if i == blockAct && l.rng.IntN(4) > 0 {
			continue // a block ends follows and conversations, so it must be rare
		}
		l.act(i, person)
	}
}

type erasureAnswer struct {
	Name, State string
	Removed     []struct {
		Kind  string
		Count int
	}
}

const erasureFields = `erasure{name state beganAt doneAt removed{kind count}}`

// eraseLeaver begins the erasure of the leaver.
func eraseLeaver(n *world.Node) erasureAnswer {
	var data struct {
		EraseUser struct{ Erasure erasureAnswer }
	}
	n.Must("boss:admin", fmt.Sprintf(`mutation{eraseUser(input:{userId:"user:%s"}){%s}}`, leaver, erasureFields), nil, &data)
	return data.EraseUser.Erasure
}

// findRemains returns everything of the leaver that is found in the tables and in Redis, with the content of each row.
func findRemains(n *world.Node, server *redistest.Server) (found []string) {
	n.TB.Helper()
	names := []string{leaver, secret, fmt.Sprint(leaverID)}
	look := func(where, text string) {
		for _, name := range names {
			if strings.Contains(text, name) {
				found = append(found, fmt.Sprintf("%s: %s", where, text))
				return
			}
		}
	}
	for _, table := range tablesOf(n) {
		rows, err := n.Store.Lines(n.TB.Context(), "SELECT * FROM "+table)
		if err != nil {
			n.TB.Fatal(err)
		}
		for _, row := range rows {
			if table == "counters" {
				continue // the table holds the last IDs that were given
			}
			look(table, bytesAsText(row))
		}
	}
	if server != nil {
		lookInRedis(n, server, look)
	}
	return found
}

var byteList = regexp.MustCompile(`\[(\d{1,3}( \d{1,3})*)\]`) // a column of bytes, as Go prints it

// bytesAsText replaces columns of bytes, which are printed as numbers, by text.
func bytesAsText(row string) string {
	return byteList.ReplaceAllStringFunc(row, func(list string) string {
		var bytes []byte
		for number := range strings.FieldsSeq(strings.Trim(list, "[]")) {
			var one int
			_, _ = fmt.Sscan(number, &one)
			bytes = append(bytes, byte(one))
		}
		return string(bytes)
	})
}

// lookInRedis calls look with every key and its value.
func lookInRedis(n *world.Node, server *redistest.Server, look func(where, text string)) {
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

// total returns the total that a person sees. On a busy machine Redis may miss its deadline: then the total comes from SQL, and is STALE
// for a moment, but its value must be right all the same. So the value must stay the same until the total is not STALE.
func (l *actingPeople) total(person string) (total world.Count) {
	l.n.TB.Helper()
	first := true
	world.Eventually(l.n.TB, world.ConvergenceTimeout, person+"'s total is not STALE", func() bool {
		var data struct {
			Viewer struct{ Badges struct{ Total world.Count } }
		}
		l.n.Must(person, `{viewer{badges{total{value precision}}}}`, nil, &data)
		now := data.Viewer.Badges.Total
		if !first && now.Value != total.Value {
			l.n.TB.Errorf("%s had %+v, and then %+v", person, total, now)
		}
		total, first = now, false
		return total.Precision != "STALE"
	})
	return total
}

// wantAgreement fails unless three things hold: everybody's badges equal a fresh count, as in an audit; the like counts of posts equal the
// likes; and no feed lists a post without an ID.
func (l *actingPeople) wantAgreement() {
	l.n.TB.Helper()
	wrong, err := l.n.Store.Lines(l.n.TB.Context(), `SELECT c.post, sum(c.likes) FROM post_counts c GROUP BY c.post HAVING sum(c.likes) <> (SELECT count(*) FROM likes k WHERE k.post = c.post)`)
	if err != nil || len(wrong) > 0 {
		l.n.TB.Errorf("likes of posts: %q, %v", wrong, err)
	}
	for _, person := range l.people {
		if person == leaver {
			continue
		}
		var data struct {
			R struct {
				Differed []string
				Badges   json.RawMessage
			}
		}
		before := l.total(person)
		l.n.Must("boss:admin", fmt.Sprintf(`mutation{r:recountBadges(input:{userId:"user:%s"}){differed badges{%s}}}`, person, world.BadgeFields), nil, &data)
		if len(data.R.Differed) > 0 {
			l.n.TB.Errorf("%s differs: %q", person, data.R.Differed)
		}
		if after := l.total(person); after != before {
			l.n.TB.Errorf("%s had %+v, and %+v after a recount", person, before, after)
		}
		if feed := l.n.ReadWholeFeed(person, 20); slices.Contains(feed, "") {
			l.n.TB.Errorf("the feed of %s is %q", person, feed)
		}
	}
}
