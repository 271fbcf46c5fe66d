package nodes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services/redis/redistest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// tablesWithoutUserData are the tables that need not have rows of the leaver before the erasure, with the reason: whose or what rows they
// have.
var tablesWithoutUserData = map[string]string{
	"announcements": "everybody's", "announcement_segments": "everybody's", "audit": "the program's", "cleaner": "the program's", "counters": "the program's",
	"dot_raises": "everybody's", "fanout_thresholds": "the program's", "goose_db_version": "the program's", "imports": "the program's",
	"log_heads": "the program's", "activity_thresholds": "the program's", "stream_head": "the program's", "nodes": "the program's",
	"post_counts": "counts of posts", "segments": "names", "site_messages": "the host's", "sqlite_sequence": "the engine's", "sqlite_stat1": "the engine's", "sqlite_stat4": "the engine's",
	"notification_categories": "everybody's", "view_items": "everybody's", "view_changes": "versions", "webhooks": "the program's", "device_readers": "the program's", "fanouts": "work of large authors",
	"show_history": "made of shows", "conversation_leases": "open sockets",
}

// extraLeaverInserts insert rows of the leaver, or about them, that no mutation of runEveryMutation makes.
var extraLeaverInserts = []string{
	`INSERT INTO webhook_letters (webhook, user_number, base, heard, seq, attempts, first_at, due_at, dead_at, status, error) VALUES ('gone', 31234567, 0, 0, 1, 3, 1, 1, 1, 500, 'no')`,
	`INSERT INTO devices (hash, user_number, endpoint, service, p256dh, auth, vapid, name, silent, registered_at, seen_at, has, heard, want, due_at, attempts, first_at, dead_at, delivered_at, error) VALUES ('h', 31234567, 'https://push.example/1', 'push.example', 'p', 'a', 'v', 'phone', TRUE, 1, 1, 1, 1, 1, 1, 3, 1, 1, 1, 'no')`,
	`INSERT INTO dead_jobs (id, kind, key, payload, tries, error, created_at, died_at) VALUES (900001, 'follow', '31234567/2', '', 5, 'no', 1, 1), (900002, 'actor', '2/31234567', '', 5, 'no', 1, 1)`,
	`INSERT INTO authors (author, followers, counted_at, mode, pinned, pull, unnamed, ver) VALUES (31234567, 1, 1, 0, NULL, FALSE, 0, 1) ON CONFLICT DO NOTHING`,
	`INSERT INTO fanouts (post, author, chunks, began_at) VALUES (1, 31234567, 1, 1)`,
	`INSERT INTO conversation_leases (conversation, user_number, device, until_at) VALUES (1, 31234567, 'phone', 1)`,
	`INSERT INTO past_follows (follower, followee, until_at) VALUES (31234567, 1, 1), (1, 31234567, 1) ON CONFLICT DO NOTHING`,
	`INSERT INTO follow_gaps (follower, followee, since, until_at) VALUES (31234567, 1, 1, 1), (1, 31234567, 1, 1) ON CONFLICT DO NOTHING`,
	`INSERT INTO site_message_gens (user_number, gen) VALUES (31234567, 1) ON CONFLICT DO NOTHING`,
	`INSERT INTO idempotency (scope, key, body_hash, ids, at, code, message) VALUES ('u1', 'named', '', '[]', 4102444800000000, 'NOT_FOUND', 'userId: there is no user "leaver-qzx7"')`,
	`INSERT INTO view_readers (user_number, ver) VALUES (31234567, 1) ON CONFLICT DO NOTHING`,
}

// insertExtraLeaverRows runs extraLeaverInserts, which insert rows of the user who is erased.
func insertExtraLeaverRows(n *world.Node) {
	n.TB.Helper()
	err := n.DB.Write(n.TB.Context(), func(tx *sql.Tx) error {
		for _, text := range extraLeaverInserts {
			if _, err := sqltest.QueryLines(n.TB.Context(), tx, text); err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
		}
		return nil
	})
	if err != nil {
		n.TB.Fatal(err)
	}
}

// tablesWithoutLeaver returns the tables that have nothing of the user who is to be erased, and should have.
func tablesWithoutLeaver(n *world.Node, server *redistest.Server) (tables []string) {
	n.TB.Helper()
	data := findLeaverData(n, server)
	for _, table := range listTables(n) {
		has := slices.ContainsFunc(data, func(found string) bool { return strings.HasPrefix(found, table+": ") })
		if tablesWithoutUserData[table] == "" && !has && table != "erasures" && table != "stream_due" && table != "stream_changes" {
			tables = append(tables, table)
		}
	}
	return tables
}

// insertLeaverRow inserts a row of the user who is erased into a table that names its user in user_number, with some value in each other
// column: so the erasure of a new feature is tested although no mutation above fills its table.
func insertLeaverRow(n *world.Node, table string) {
	n.TB.Helper()
	listed := fmt.Sprintf(`SELECT name, type FROM pragma_table_info('%s')`, table)
	if n.DB.Dialect == sql.Postgres {
		listed = fmt.Sprintf(`SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = '%s'`, table)
	}
	columns, err := sqltest.QueryLines(n.TB.Context(), n.DB, listed)
	if err != nil {
		n.TB.Fatal(err)
	}
	var names, values []string
	for _, column := range columns {
		name, kind, _ := strings.Cut(column, " ")
		value := map[string]string{"BIGINT": "1", "BOOLEAN": "TRUE"}[strings.ToUpper(kind)]
		if name == "user_number" {
			value = fmt.Sprint(leaverID)
		}
		names, values = append(names, name), append(values, cmp.Or(value, "'text'"))
	}
	if !slices.Contains(names, "user_number") {
		return
	}
	err = n.DB.Write(n.TB.Context(), func(tx *sql.Tx) error {
		_, err := sqltest.QueryLines(n.TB.Context(), tx, fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table, strings.Join(names, ", "), strings.Join(values, ", ")))
		return err
	})
	if err != nil {
		n.TB.Fatal(err)
	}
}

// runEveryMutation lets all users send every mutation of userMutations and hostMutations, and some more, so that every table has
// something of the user who is erased.
func runEveryMutation(n *world.Node, seed uint64) *randomActors {
	l := newRandomActors(n, seed, 3)
	for range 3 {
		for i := range len(userMutations) + len(hostMutations) {
			if i != blockMutationIndex {
				l.runMutation(i, leaverKey)
				l.runMutation(i, l.userKeys[l.rng.IntN(3)])
			}
		}
	}
	n.SettleJobsAndCaches()
	for range 12 {
		for _, i := range []int{0, 3, 8, 9, 10, 11, 14, 15, 17, 18, 20, 21, 22, 23, 24} {
			l.runMutation(i, leaverKey)
			l.runMutation(i, l.userKeys[l.rng.IntN(3)])
		}
	}
	l.runMutation(4, leaverKey)
	l.askAndRecordIDs(leaverKey, "mutation{"+userMutations[blockMutationIndex](l, leaverKey, "cyd")+"}")
	var talk struct {
		CreateConversation struct{ Conversation struct{ ID string } }
	}
	n.MustAsk("ann", `mutation{createConversation(input:{kind:GROUP,memberIds:["user:bob","user:`+leaverKey+`"]}){conversation{id}}}`, nil, &talk)
	n.MustAsk("ann", fmt.Sprintf(`mutation{sendMessage(input:{conversationId:%q,body:"you",mentionIds:["user:%s"]}){message{id}}}`, talk.CreateConversation.Conversation.ID, leaverKey), nil, nil)
	n.MustAsk("host:ingest", `mutation{sendSiteMessage(input:{title:"hello",content:"us",to:["user:`+leaverKey+`","user:ann"]}){__typename}}`, nil, nil)
	n.MustAsk("boss:admin", `mutation{defineCategory(input:{name:"orders"}){created}}`, nil, nil)
	n.MustAsk(leaverKey, `mutation{setCategoryPreference(input:{category:"orders",mode:DOT}){__typename}}`, nil, nil)
	for who, whom := range map[string]string{leaverKey: "ann", "ann": leaverKey} {
		n.MustAsk(who, `mutation($u:ID!){follow(input:{userId:$u}){changed} setFollowMode(input:{userId:$u,mode:LIVE_ONLY}){changed}}`, map[string]any{"u": "user:" + whom}, nil)
	}
	n.MustAsk("host:ingest", `mutation{a:notify(input:{category:"orders",title:"hello",to:["user:`+leaverKey+`","user:ann"]}){created}
		b:notify(input:{category:"orders",title:"by `+leaverTextMarker+`",actorId:"user:`+leaverKey+`",ref:"by-the-leaver",to:["user:ann","user:bob"]}){created}
		c:notify(input:{category:"orders",title:"for `+leaverTextMarker+`",body:"`+leaverTextMarker+`",url:"https://example.com/`+leaverTextMarker+`",to:["user:`+leaverKey+`"]}){created}}`, nil, nil)
	n.MustAsk(leaverKey+":admin", `mutation{raiseDot(input:{name:"operators"}){name}}`, nil, nil)
	n.MustAsk("boss:admin", `mutation{setSegments(input:{userId:"user:`+leaverKey+`",segments:["beta"]}){__typename}}`, nil, nil)
	n.RunJobs()
	return l
}

// After an erasure no table and no key of Redis has the erased user's key, ID or texts. Everybody else's counts are right without a
// repair. Someone who comes with the same key later is a new user.
func TestErasureLeavesNothing(t *testing.T) {
	for _, engine := range []struct {
		name string
		url  func(testing.TB) string
	}{{"sqlite", func(tb testing.TB) string { return sqltest.SQLite(tb) }}, {"postgres", func(tb testing.TB) string { return sqltest.Postgres(tb) }}} {
		t.Run(engine.name, func(t *testing.T) {
			server := redistest.NewServer(t)
			n := world.StartNode(t, world.NodeOptions{Database: engine.url(t), Redis: server.URL(), ManualStepping: true, ChangeConfig: withChangeStream(24 * time.Hour)})
			l := runEveryMutation(n, 1)
			insertExtraLeaverRows(n)
			for _, table := range tablesWithoutLeaver(n, server) {
				insertLeaverRow(n, table)
			}
			for _, table := range tablesWithoutLeaver(n, server) {
				t.Errorf("the leaver has nothing in %s: add an act, or a reason to tablesWithoutUserData", table)
			}
			erasure := eraseLeaver(n)
			wantLeaverHiddenAtOnce(n, erasure, l)
			n.SettleJobsAndCaches()
			if shown := readErasure(n, erasure.Name); shown.State != "DONE" || len(shown.Removed) < 12 {
				t.Errorf("%+v", shown)
			}
			for _, found := range findLeaverData(n, server) {
				t.Errorf("left: %s", found)
			}
			l.wantCorrectCounts()
			n.Badges(leaverKey) // the key is free
			if id := n.EnsureUserIDs(leaverKey)[0]; id <= leaverID {
				t.Errorf("who comes back has the number %d", id)
			}
		})
	}
}

// listTables lists the tables of the node's database.
func listTables(n *world.Node) []string {
	listed := `SELECT name FROM sqlite_master WHERE type = 'table'`
	if n.DB.Dialect == sql.Postgres {
		listed = `SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()`
	}
	tables, err := sqltest.QueryLines(n.TB.Context(), n.DB, listed)
	if err != nil || len(tables) < 30 {
		n.TB.Fatalf("%d tables: %v", len(tables), err)
	}
	return tables
}

// readErasure reads the state of an erasure, by its name, as an operator.
func readErasure(n *world.Node, name string) erasureAnswer {
	var data struct {
		Admin struct{ Erasure erasureAnswer }
	}
	n.MustAsk("boss:admin", fmt.Sprintf(`{admin{%s}}`, strings.Replace(erasureFields, "erasure", fmt.Sprintf("erasure(name:%q)", name), 1)), nil, &data)
	return data.Admin.Erasure
}

// wantLeaverHiddenAtOnce checks, before any job of an erasure has run, that nobody can read anything of the leaver and that the leaver's
// key is refused.
func wantLeaverHiddenAtOnce(n *world.Node, erasure erasureAnswer, l *randomActors) {
	n.TB.Helper()
	if again := eraseLeaver(n); again.Name != erasure.Name || erasure.State != "PENDING" || again.State != "PENDING" {
		n.TB.Errorf("the erasure is %+v, then %+v", erasure, again)
	}
	if code := n.Ask(leaverKey, `{viewer{badges{version}}}`, nil).ErrorCode(); code != "CONFLICT" {
		n.TB.Errorf("the leaver is answered %q", code)
	}
	if code := n.Ask("ann", fmt.Sprintf(`mutation{follow(input:{userId:"user:%s"}){__typename}}`, leaverKey), nil).ErrorCode(); code != "NOT_FOUND" && code != "CONFLICT" {
		n.TB.Errorf("a follow of the leaver is answered %q", code)
	}
	for _, post := range append(slices.Clone(l.postIDs), l.showIDs...) {
		answer := n.Ask("ann", fmt.Sprintf(`{node(id:%q){__typename ... on Post{body author{key}} ... on Show{title host{key}}}}`, post), nil)
		if text := string(answer.Data); strings.Contains(text, leaverTextMarker) || strings.Contains(text, leaverKey) || strings.Contains(text, `"key":""`) {
			n.TB.Errorf("%s is read: %s", post, text)
		}
	}
	for _, person := range l.userKeys[:len(l.userKeys)-1] {
		for name, list := range viewerListSelections {
			answer := n.Ask(person, "{viewer{"+list+"}}", nil)
			text := string(answer.Data)
			if len(answer.Errors) > 0 || strings.Contains(text, leaverTextMarker) || strings.Contains(text, leaverKey) || strings.Contains(text, `"key":""`) {
				n.TB.Errorf("%s as %s sees it: %s, %v", name, person, text, answer.Errors)
			}
		}
	}
}

// viewerListSelections select the lists that a user can read, by name. Conversations are left out, because the messages of an erased user
// are recalled later, one by one.
var viewerListSelections = map[string]string{
	"the feed":            `homeFeed(first:40){nodes{body author{key} comments(first:20){nodes{body author{key}}}}}`,
	"the compiled feed":   `homeFeed(first:20){edges{cursor node{id body author{id key name}}} pageInfo{hasNextPage endCursor}}`,
	"the board":           `liveBoard(first:50){nodes{title host{key}}}`,
	"the notifications":   `notifications(first:100){nodes{category title body url actors{key} subject{body} show{title}}}`,
	"the own posts":       `user{posts(first:20){nodes{body comments(first:20){nodes{body author{key}}} likes(first:20){nodes{key}}}}}`,
	"the people followed": `user{followers(first:100){nodes{key}} followees(first:100){nodes{key}}}`,
	"restrictions":        `mutes(first:50){nodes{key}} blocks(first:50){nodes{key}} hides(first:50){nodes{key}}`,
}

// After random histories with an erasure at a random step, the counts of all other users equal a fresh count from the facts, and nothing
// of the erased user is left. Other users also act while the erasure runs.
func TestErasureInRandomHistories(t *testing.T) {
	const histories = 12
	for seed := range uint64(histories) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			server := redistest.NewServer(t)
			n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: server.URL(), ManualStepping: true, ChangeConfig: withChangeStream(24 * time.Hour)})
			l := newRandomActors(n, seed, 4)
			for l.runRandomMutations(20 + l.rng.IntN(60)); l.rng.IntN(2) == 0; l.runRandomMutations(20) {
				n.SettleJobsAndCaches()
			}
			erasure := eraseLeaver(n)
			l.userKeys = l.userKeys[:len(l.userKeys)-1]
			for range l.rng.IntN(6) {
				n.RunWorkerOnce(n.Workers[l.rng.IntN(len(n.Workers))])
				l.runRandomMutations(3)
			}
			n.SettleJobsAndCaches()
			if shown := readErasure(n, erasure.Name); shown.State != "DONE" {
				t.Errorf("%+v", shown)
			}
			for _, found := range findLeaverData(n, server) {
				t.Errorf("left: %s", found)
			}
			l.wantCorrectCounts()
		})
	}
}

// A user can mark their notifications as seen up to the newest position, which the badges have, even if an erased user caused the
// notification at that position.
func TestAPositionOfAnErasedActorClears(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ManualStepping: true})
	like := `mutation($p:ID!){likePost(input:{postId:$p}){post{id}}}`
	n.CreateUsers("ann", "bob", leaverKey)
	n.Badges("ann")
	post := n.Publish("ann", "a post")
	n.MustAsk("bob", like, map[string]any{"p": post}, nil)
	n.SettleJobsAndCaches()
	n.MustAsk(leaverKey, like, map[string]any{"p": n.Publish("ann", "another")}, nil)
	n.SettleJobsAndCaches()
	eraseLeaver(n)
	n.SettleJobsAndCaches()
	badges := n.Badges("ann")
	if badges.Notifications.Newest == nil || badges.Notifications.Total.Value != 1 {
		t.Fatalf("%+v", badges.Notifications)
	}
	var seen struct{ MarkNotificationsSeen struct{ Badges world.Badges } }
	n.MustAsk("ann", `mutation($p:ID!){markNotificationsSeen(input:{upTo:$p}){badges{`+world.BadgeFields+`}}}`, map[string]any{"p": *badges.Notifications.Newest}, &seen)
	if left := seen.MarkNotificationsSeen.Badges.Notifications.Total.Value; left != 0 {
		t.Errorf("%d are left", left)
	}
}
