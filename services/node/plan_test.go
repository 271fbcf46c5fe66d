package node_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	_ "tidings/services/node" // it imports the packages of all statements
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// exec runs any SQL within a transaction.
func exec(ctx context.Context, tx *sql.Tx, text string) error {
	_, err := tx.Run(ctx, sql.AdHoc("test", text))
	return err
}

// fillTables fills the tables to some size and makes statistics, as after some time of use. If notified is false, the tables of
// notifications stay empty.
func fillTables(b *peopletest.TestDB, notified bool) {
	b.T.Helper()
	const upTo = "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 20000) "
	b.MustWrite(func(tx *sql.Tx) error {
		for _, text := range []string{
			upTo + "INSERT INTO users (number, key) SELECT n, CAST(n AS TEXT) FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO follows SELECT n % 500, n % 499 + 500, n, n % 10 > 0 FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO follow_modes SELECT n % 500, n % 499 + 500, n, 1 + n % 2 FROM s WHERE n % 7 = 0 ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO mutes SELECT n % 500, n % 499 + 500, n, 0 FROM s WHERE n % 10 = 0 ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO blocks SELECT n % 500, n % 499 + 500, n FROM s WHERE n % 10 = 0 ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO hides SELECT n % 499 + 500, n % 500, n FROM s WHERE n % 10 = 0 ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO posts (id, author, kind, body, updated_at) SELECT n, n % 500 + 500, 'POST', 'b', n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO authors SELECT n, n, n, n % 3, NULL, n % 9 = 0, 0, 1, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO fanouts SELECT n, n, n, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO likes SELECT n % 5000, n % 499, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO posts (id, author, kind, body, updated_at, parent, off_feed) SELECT 20000 + n, n % 500 + 500, 'COMMENT', 'b', n, n % 5000, TRUE FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO post_counts SELECT n % 5000, n % 8, 1, 1 FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO jobs (kind, key, payload, due_at, created_at, node) SELECT 'kind', '', '', n, n, CASE WHEN n % 100 = 0 THEN 'node' ELSE '' END FROM s",
			upTo + "INSERT INTO jobs (kind, key, payload, due_at, created_at, node) SELECT 'message.deliver', CASE WHEN n % 9 = 0 THEN 'm.' || n ELSE '' END, '', n, n, '' FROM s",
			upTo + "INSERT INTO mentions SELECT n % 5000, n, NULL, 0 FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO notification_causes SELECT n % 500, 'LIKE', n % 5000, n, 0, n, n % 20, n, n % 10 > 0 FROM s",
			upTo + "INSERT INTO notification_groups SELECT n % 500, 'LIKE', n % 5000, n % 20, n, n, 1, n % 3 * n, 0, 0, 0, n, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO notification_state SELECT n, 'LIKE', 1, 1, 1, 0, 0 FROM s WHERE n <= 500",
			upTo + "INSERT INTO notification_categories SELECT 'c' || n, n, 7, TRUE, 0, n, n, n / 30 FROM s WHERE n <= 32 AND TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO notification_causes SELECT n % 500, 'c' || n % 32, n, n % 499, n / 10 + 1, 20000 + n, n % 20, n, n % 10 > 0 FROM s",
			upTo + "INSERT INTO notification_state SELECT n % 500, 'c' || n % 32, 1, 1, 1, 0, 0 FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO host_notifications SELECT n, 'c' || n % 32, n, '', n % 499, '', 0, 't', '', n, 10, 0 FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO site_messages (id, type, title, content, created_at, updated_at) SELECT n, 'general', 't', 'c', n, n FROM s WHERE n <= 500 ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO site_message_recipients (user_number, message, type, read_at) SELECT n % 499, n % 500, 'general', CASE WHEN n % 10 > 0 THEN n END FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO site_message_state SELECT n, 'general', 1, 0, '' FROM s WHERE n <= 500 ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO view_items SELECT 'topic', CAST(n % 50 AS TEXT), CAST(n AS TEXT), n, n % 10 > 0 FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO view_changes SELECT 'topic', CAST(n AS TEXT), n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO view_readers SELECT n, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO user_access_log SELECT n % 500, 'topic', CAST(n % 499 AS TEXT), n, n, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO conversations SELECT n, 'ROOM', NULL, '', n, 20, n, 20, 'WRITE', 0, 0, 0, 0, 0 FROM s WHERE n <= 1000 ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO group_policies SELECT n, 'WHO_I_FOLLOW' FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO display_policies SELECT n, 1, 0, 0, 0, 0, 0 FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO category_preferences SELECT n, 1, '' FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO conversation_members SELECT n % 1000 + 1, n % 499, n % 20, 0, 1, 0, 0, FALSE, FALSE, n, 0, FALSE FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO conversation_messages SELECT n % 1000 + 1, n / 1000 + 1, n % 499, '', n, 0 FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO conversation_mentions SELECT n % 1000 + 1, n % 499, n / 1000 + 1 FROM s WHERE n % 10 = 0 ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO shows SELECT n, CASE WHEN n % 9 = 0 THEN CAST(n AS TEXT) ELSE '' END, n % 500 + 500, 't', '', '', CASE WHEN n % 10 > 0 THEN 2 ELSE n / 10 % 2 END, n, n, n, NULL, n, n, n, n % 9 = 0, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO show_history SELECT n, n, n, n, n % 500 + 500, 0, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO hosts SELECT n, TRUE, 0, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO reminders SELECT n % 5000, n % 499, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO past_follows SELECT n % 500, n % 499 + 500, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO follow_gaps SELECT n % 500, n % 499 + 500, n, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO notification_heads SELECT n, 1, 0, 0, 0, 0 FROM s WHERE n <= 500",
			upTo + "INSERT INTO announcements SELECT n, 't', 'c', 0, n, n, n, n, n, n % 10 = 0 FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO user_notices SELECT n, n, n, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO user_segments SELECT n, n, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO user_dots SELECT n % 5000, CAST(n % 4 AS TEXT), n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO refs SELECT 'post', n, CASE WHEN n % 2 = 0 THEN CAST(n AS TEXT) ELSE '' END, n % 500, '', '' FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO acts SELECT n, 'a', 'b', CASE WHEN n % 9 = 0 THEN '' ELSE 'user:' || n END, '', 'DONE' FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO stream_due SELECT n, n, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO stream_changes SELECT n, n, n, n, 'x' FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO webhook_letters SELECT 'w' || n % 9, n, n, n, n, n % 5, n, n, n % 2, 0, '' FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO devices SELECT CAST(n AS TEXT), n % 5000, 'e', 's' || n % 9, 'p', 'a', 'v', '', TRUE, n, n, n, n, n, CASE WHEN n % 20 = 0 THEN n ELSE 0 END, n % 50 / 49, 0, 0, n, '' FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			"ANALYZE",
		} {
			if !notified && strings.Contains(text, "notification") {
				continue
			}
			if err := exec(b.Ctx, tx, text); err != nil {
				return err
			}
		}
		return nil
	})
}

// fullScanStep matches the steps of a plan that read a whole table, by the table's name or by its alias in the statements. The
// alias c, which is left out, is a list that was passed as a parameter.
var fullScanStep = regexp.MustCompile(`^SCAN (users|host_notifications|follows|follow_modes|mutes|blocks|hides|posts|authors|fanouts|likes|post_counts|notification_\w+|mentions|jobs|log|user_\w+|announcements|site_message\w*|group_policies|category_preferences|display_policies|conversation\w*|cv|view_\w+|stream_\w+|webhook_letters|devices|refs|acts|shows|show_history|hosts|reminders|past_follows|follow_gaps|[fupnlshmigo])( |$)`)

// fullScanAllowed matches the names of the statements that may read a whole table: at a start, for a metric, in an export, or because
// the table has only rows in progress, or a few rows.
var fullScanAllowed = regexp.MustCompile(`^(export \w+( onward)?|free the jobs of a dead process|count jobs|count jobs by kind|count dead jobs by kind|count devices|whether there is a device|users of the first devices|fan-outs in flight|forget fan-outs|list the categories of the host|count the categories of the host)$`)

// TestNoStatementScansAGrowingTable checks the plans of SQLite. A statement may scan a list that was passed or computed, or a table of
// a few rows (log_heads), never a table that grows with the users.
func TestNoStatementScansAGrowingTable(t *testing.T) {
	b := peopletest.NewTestDB(t, sqltest.SQLite(t))
	for _, notified := range []bool{false, true} { // an empty index of unseen notifications looks like the cheapest one
		fillTables(b, notified)
		for name := range sql.Statements() {
			plan := b.QueryPlan(name)
			if len(plan) == 0 && !strings.HasPrefix(strings.TrimSpace(sql.Statements()[name].Text(sql.SQLite)), "INSERT") {
				t.Errorf("%s has no plan", name)
			}
			for _, step := range plan {
				if fullScanStep.MatchString(step) && !fullScanAllowed.MatchString(name) {
					t.Errorf("%s: %s in %s", name, step, strings.Join(plan, "; "))
				}
			}
		}
	}
}

// TestPlansOnPostgres checks plans for any parameters. If a plan read a whole table, alone or for a join, the cost of a badge
// would grow with everybody's data.
func TestPlansOnPostgres(t *testing.T) {
	b := peopletest.NewTestDB(t, sqltest.Postgres(t))
	fillTables(b, true)
	const cause, list = `'[[1,"LIKE",2,3,0]]'`, `1, '[["LIKE",1,0,9],["COMMENT",2,0,9]]', 9, 21, 21`
	for name, args := range map[string]string{
		"home feed": "1, 9, 300", "home feed of an inbox": "1, 9, 300", "count new posts of an inbox": "1, 9, 301", "pulled posts": `'[[1],[2]]', 300, ARRAY[1, 2]`, "pull authors of a reader": "1", "pull authors": "0, 100",
		"an author's mode": "1", "end a chunk of an author": "1", "authors with a row": "1, 100", "authors by ID": "ARRAY[1, 2]", "count followers": "1, 100", "end a chunk of a fan-out": "1",
		"newest counting post of an inbox": "1, 9", "count new posts": `'[[0,1,9],[1,2,9]]', 301`, "new posts of a home feed": "1, 9, 300, 5", "newest post of a home feed": "1", "newest post of a home feed until a time": "1, 9", "the newest of posts in a millisecond": "5, 9", "followers": "1, 0, 0, 100",
		"category preferences": "1", "category preferences of users": "ARRAY[1, 2]", "display policies": "ARRAY[1, 2]", "a display policy": "1", "positions of users in a view": "ARRAY[1, 2], 'home_page'", "a user's position in a view": "1, 'home_page'", "count new posts of a reader": "1, 9, 301", "hosts of readers": "ARRAY[1, 2]", "new items in the views of users": "ARRAY[1, 2], 101", "a follow": "1, 2", "mode of a follow": "1, 2", "follows in a mode": "1, 9, 20", "set the mode of a follow": "1, 2, 9, 1", "end the mode of a follow": "1, 2", "restrictions between users": "'[[1,2]]'", "show a follow": "1, 2", "blocks between two users": "1, 2",
		"list mutes": "1, 9, 20", "the newest of mutes of a user in a millisecond": "5, 9, 1", "the newest of blocks of a user in a millisecond": "5, 9, 1", "the newest of hides of a user in a millisecond": "5, 9, 1", "count blocks": "1, 9", "lock users": "ARRAY[1, 2]", "hold users": "ARRAY[1, 2]", "blockers of a user": "1, ARRAY[2, 3]", "causes of an actor": "1, 2, '', 0, 0, 10", "whether a conversation is direct": "1", "authors hidden from a viewer": "1, ARRAY[2, 3]", "whether an author hides from a viewer": "1, 2", "blocks between a user and others": "1, ARRAY[2, 3]", "users that another cannot add": "1, ARRAY[2, 3], 4",
		"recipients of a notification of the host": "7, 0, 250", "users with a category of the host": "'c1', 50", "host notifications of a category": "'c1', 250", "host notifications of an actor": "1, 200",
		"texts of host notifications": "ARRAY[1, 2]", "notifications of the host that stand": `'[[1,"c1",2,3,4]]'`, "a notification of the host": "7", "lock what notifies": "7",
		"list acts": "9, 20", "take a name out of acts": "'user:7'", "drop acts": "9, 100", "end an act": "7, 'DONE', ''",
		"the object of a ref": "'post', '7'", "the objects of refs": "'post', ARRAY['7', '8']", "labels of the type post": "ARRAY[1, 2]", "export postLabel": "1, 100", "export postLabel onward": "1, 7, 100", "export notification onward": "1, 7, 100", "export follow onward": "1, 7, 100", "export message onward": "1, 7, 2, 100", "announcement states of users": "ARRAY[1, 2]", "a user's announcement state": "1", "audit the announcement state of a user": "1", "audit a display policy": "1", "audit the category preferences of a user": "1", "audit the notification states of a user": "1", "audit the versions of a user's site messages": "1", "audit a user's unread site messages": "1, 'general', 1001", "users with announcement positions": "0, 100", "an author's posts": "1, 20", "follows of one user": "ARRAY[1, 2], 3", "finish jobs": "ARRAY[1, 2], 'token'",
		"states of site messages": `'[[1,"general"]]', 1000`, "states of users' site messages": "ARRAY[1, 2], 1000", "states of a user's site messages": "1, 1000", "a user's unread site messages": "1, 9, ARRAY['general'], 20",
		"a user's site messages": "1, 9, ARRAY['general'], 20", "a user's site messages by id": "1, ARRAY[1, 2]", "newest site messages of a user": "1, ARRAY['general'], 20", "newest unread site messages of a user": "1, ARRAY['general'], 20", "reports of site messages": "ARRAY[1, 2]", "recipients of a site message": "1, ARRAY[1, 2]",
		"mark site messages read": "1, ARRAY[1, 2], 3, 4", "mark site messages unread": "1, ARRAY[1, 2], 3", "keep site messages unread": "1, ARRAY[1, 2], 3", "generation of site messages": "1", "mark site messages of types read": "1, ARRAY['general'], 9, 3, 4",
		"types of a user's site messages": "1, ARRAY[1, 2]", "types of site messages": "ARRAY[1, 2]", "recipients of site messages that are being delivered": "ARRAY['m.1', 'm.2']",
		"keep that types of site messages were read": `1, '[["general"]]', ARRAY['general'], '@1 '`, "raise versions of site messages": `'[[1,"general"]]'`, "the text of a site message": "1",
		"newest items of views": `'[[0,"topic","1"]]', 99`, "count new items of views": `'[[0,"topic","1",5]]', 101`, "an item of a view": "'topic', '1', '2'", "newest item of a view": "'topic', '1'",
		"newest item of a view until a time": "'topic', '1', 9", "mutes that are over": "1, 9", "the last position of a range": `'[[0,1,2,3]]'`,
		"how far site messages of a type were read": "ARRAY[1, 2], 'general', 3", "mark what was delivered late read": `1, '[[1,2],[3,4]]'`,
		"views of a user":               "1, ARRAY['topic'], 'a', 'b', 20",
		"memberships in a conversation": "1, ARRAY[1, 2]", "members who are not active": "1, 0, 9, 9, 500", "memberships of a user": "1, 0, 500, 0", "memberships of users": `'[[0,1,0],[1,2,5]]', 0, 500`, "recount a member": "1, 2, 3", "newest message until": "1, 2",
		"members of conversations": `'[[0,1,0],[1,2,5]]', 21`, "messages by id": `'[[1,1,3],[2,5,5]]'`, "mentions of messages": `'[[1,1,3],[2,5,5]]'`,
		"notification states of users": "ARRAY[1, 2]", "notification states of a user": "1", "notification states": `'[[1,"LIKE"]]'`, "lower causes": cause, "restore causes": cause, "causes known": cause, "all causes known of subjects": `'[[1,"LIKE",2]]'`,
		"likes that notify": `'[[1,2,3,0]]'`, "all likes of posts that notify": `'[[1,2]]'`, "comments that notify": `'[[1,2,3,4]]'`, "all comments on posts that notify": `'[[1,2]]'`,
		"mentions that notify": `'[[1,2,3,0]]'`, "mentions in posts that notify": `'[[1,2]]'`, "follows that notify": `'[[1,0,3,0]]'`, "all follows that notify": `'[[1,0]]'`,
		"change notification groups": `'[[1,"LIKE",2,3,9,1]]'`, "notifications by position": "1, ARRAY[5]", "how far mentions are read": `'[[0,1,5,2]]'`, "notifications with their positions": "1, ARRAY[5]", "read notifications": `1, '[["LIKE",2,3,4]]', 9`,
		"read all unread notifications": "1, ARRAY['LIKE'], 9, 1, 9", "read all undone notifications": "1, ARRAY['LIKE'], 9, 1, 9", "mark a notification unread": `1, '[["LIKE",2,3,4]]', 9`, "undo that all was read": "1, 1, 1",
		"users by key": "ARRAY['a', 'b']", "users by ID": "ARRAY[1, 2]", "posts by id": "ARRAY[1, 2]", "answers to posts": `'[[0,1,99999],[1,2,99999]]', 21, 3`, "likes of posts": `'[[0,1,99999,0],[1,2,99999,0]]', 21, 3`, "posts that a viewer may see": `'[[1],[2]]', 3`,
		"relations of a user": "1, ARRAY[2, 3], 9", "followers of users": `'[[0,501,99999],[1,502,99999]]', 21, 3`, "followees of users": `'[[0,1,99999],[1,2,99999]]', 21, 3`,
		"posts of users": `'[[0,501,99999],[1,502,99999]]', 21, 3`, "shows of users": `'[[0,501,99999],[1,502,99999]]', 21, 3`,
		"engagement of posts": `'[[1],[2]]', 3`, "recount posts": `'[[1],[2]]'`, "counts of posts below a position": "9, 20", "active users of a range": "1, 9, 3, 10", "a job of before": "5, 9, 9",
		"lock a show to change it": "1", "shows by id": "ARRAY[1, 2]", "count upcoming shows": "1, 9", "replays of a host": "1, 9", "pulled replays": `'[[1],[2]]', 300`, "replays of followed hosts": "1, 9, 9, 300, 9, ARRAY[1, 2]",
		"a host": "1", "end a chunk of a host": "1", "shows that no board has yet": "1", "set a host's version": "1, 9", "versions of hosts": "0, 100", "hosts of a reader": "1",
		"whether a follow has ended lately": "1, 2, 3, 4", "gaps of a user's follows": "1, 9", "note late follows": `'[[1,2,3]]', 4`, "note a follow that is shown again": "1, 2, 3, 4", "reminders of a show": "1, 2, 1000", "reminders of a user": "1, ARRAY[1, 2]", "count reminders": "1, 9, 36",
		"reminders that notify": `'[[1,2,3,0]]'`, "reminders of shows that notify": `'[[1,2]]'`,
		"due users of the change stream": "9, 500", "postpone users of the change stream": "ARRAY[1, 2], 9", "settle users of the change stream": `'[[1,2],[3,4]]'`, "delay users of the change stream": `'[[1,2,3],[3,4,5]]'`,
		"due letters": "'w1', 9, 9, 100", "letters that failed": "'w1', 9, 1", "letters of users": "'w1', ARRAY[1, 2]", "drop letters": "'w1', ARRAY[1, 2]", "try letters again at once": "'w1', 9",
		"dead letters": "'w1', 0, 100", "replay a dead letter": "'w1', 9, 2", "replay dead letters": "'w1', 9", "forget a user's letters": "2", "remove the letters of a webhook": "'w1'",
		"hold a user's devices": "1", "lock a device": "'h'", "touch a device": "'h', 1", "drop a user's oldest devices": "1, 20", "drop a device of a user": "'h', 1", "devices of a user": "1",
		"devices that want a version": "'[[1,2],[3,4]]', 9", "due devices": "9, ARRAY['s1'], 500", "due devices of push services": "9, ARRAY['s1'], 500", "forget a user's devices": "1",
		"record what became of messages": `'[["h",1,2,3,4,5,6,7,8,9,""]]', 9`, "remove devices that their push service does not know": `'[["h",1]]'`,
		"changes of users": "ARRAY[1, 2]", "shown hashes of changes": "ARRAY[1, 2]", "changes after a position": "9, 100", "count due users of the change stream": "9",
		"list notifications": list, "list unread notifications": list, "list unseen notifications": list, "sample the actors of notifications": `1, '[[0,"LIKE",2,3,0]]'`, "count the actors of notifications": `1, '[[0,"LIKE",2,3]]'`,
	} {
		plan := postgresPlan(b, name, "force_generic_plan", args)
		text := strings.Join(plan, "\n")
		for _, bad := range []string{"Seq Scan", "Bitmap", "Hash Join", "Merge Join", "Full"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s has a %s:\n%s", name, bad, text)
			}
		}
		if name == "likes that notify" && !strings.Contains(text, "(liker = ") {
			t.Errorf("%s reads every like of a post:\n%s", name, text)
		}
		if strings.Count(text, "Index Cond") != strings.Count(text, "Index Scan")+strings.Count(text, "Index Only Scan") {
			t.Errorf("%s walks an index from its beginning:\n%s", name, text)
		}
	}
}

// fullAuthorIndexScan matches a walk along the index by author that does not begin at an author.
var fullAuthorIndexScan = regexp.MustCompile(`using posts_by_author on \w+( \w+)?\n\s*(->|Index Cond: \((id|pull)|Filter)`)

// TestFeedsDoNotNeedStatistics checks the plans that PostgreSQL makes right after an import, before it has statistics. It then assumes
// no posts and many edges, so joins would begin with the posts. For any page size the plans must read a range of the index by author
// for each source, and never everybody's posts.
func TestFeedsDoNotNeedStatistics(t *testing.T) {
	b := peopletest.NewTestDB(t, sqltest.Postgres(t))
	const upTo = " FROM generate_series(1, 20000) n ON CONFLICT DO NOTHING"
	b.MustWrite(func(tx *sql.Tx) error {
		for _, text := range []string{
			"ALTER TABLE follows SET (autovacuum_enabled = off)", "ALTER TABLE posts SET (autovacuum_enabled = off)",
			"INSERT INTO users (number, key) SELECT n, CAST(n AS TEXT)" + upTo,
			"INSERT INTO follows SELECT n % 100, n % 1999 + 10, 0, TRUE FROM generate_series(1, 199900) n ON CONFLICT DO NOTHING",
			"INSERT INTO posts (id, author, kind, body, updated_at) SELECT n, n % 1999 + 10, 'POST', 'a text', n" + upTo,
		} {
			if err := exec(b.Ctx, tx, text); err != nil {
				return err
			}
		}
		return nil
	})
	for name, args := range map[string]string{
		"home feed": "1, 99999, %d", "home feed of an inbox": "1, 99999, %d", "new posts of a home feed": "1, 99999, %d, 5", "count new posts": "'[[0,1,9],[1,2,9]]', %d", "count new posts of a reader": "1, 9, %d", "count new posts of an inbox": "1, 9, %d",
	} {
		for _, limit := range []int{1, 2, 20, 301} {
			for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
				text := strings.Join(postgresPlan(b, name, mode, fmt.Sprintf(args, limit)), "\n")
				if strings.Contains(text, "posts_pkey") || strings.Contains(text, "Seq Scan on posts") || fullAuthorIndexScan.MatchString(text) {
					t.Errorf("%s of %d, %s, reads everybody's posts:\n%s", name, limit, mode, text)
				}
			}
		}
	}
}

// postgresPlan is PostgreSQL's plan of a statement. mode is a plan_cache_mode: with force_generic_plan the plan is for any parameters,
// with force_custom_plan for those in args.
func postgresPlan(b *peopletest.TestDB, name, mode, args string) (plan []string) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) (err error) {
		for _, text := range []string{"SET LOCAL plan_cache_mode = " + mode, "PREPARE it AS " + sql.Statements()[name].Text(sql.Postgres)} {
			if err := exec(b.Ctx, tx, text); err != nil {
				return err
			}
		}
		if plan, err = sqltest.QueryLines(b.Ctx, tx, fmt.Sprintf("EXPLAIN (COSTS OFF) EXECUTE it(%s)", args)); err != nil {
			return err
		}
		return exec(b.Ctx, tx, "DEALLOCATE it")
	})
	return plan
}
