package store_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"tidings/services/store"
	"tidings/services/store/storetest"
)

var planPrefix = regexp.MustCompile(`^\d+ \d+ \d+ `)

// plan is how SQLite would run a statement.
func (b *bundle) plan(name string) (steps []string) {
	b.t.Helper()
	args := make([]any, 6)
	for _, line := range must(b.Query(b.ctx, "EXPLAIN QUERY PLAN "+store.Statements[name].Text(store.SQLite), args...))(b.t) {
		steps = append(steps, planPrefix.ReplaceAllString(line, ""))
	}
	return steps
}

// fill makes tables of some size, with statistics, as they are after a while.
func (b *bundle) fill(notified bool) {
	b.t.Helper()
	const upTo = "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 20000) "
	b.write(func(tx *store.Tx) error {
		for _, text := range []string{
			upTo + "INSERT INTO users (number, key) SELECT n, CAST(n AS TEXT) FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO follows SELECT n % 500, n % 499 + 500, n, n % 10 > 0 FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO mutes SELECT n % 500, n % 499 + 500, n, 0 FROM s WHERE n % 10 = 0 ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO blocks SELECT n % 500, n % 499 + 500, n FROM s WHERE n % 10 = 0 ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO hides SELECT n % 499 + 500, n % 500, n FROM s WHERE n % 10 = 0 ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO posts (id, author, kind, body, updated_at) SELECT n, n % 500 + 500, 'POST', 'b', n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO authors SELECT n, n, n, n % 3, NULL, n % 9 = 0, 0, 1, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO fanouts SELECT n, n, n, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO likes SELECT n % 5000, n % 499, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO jobs (kind, key, payload, due_at, created_at, node) SELECT 'kind', '', '', n, n, CASE WHEN n % 100 = 0 THEN 'node' ELSE '' END FROM s",
			upTo + "INSERT INTO mentions SELECT n % 5000, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO notification_causes SELECT n % 500, 'LIKE', n % 5000, n, 0, n, n % 20, n, n % 10 > 0 FROM s",
			upTo + "INSERT INTO notification_groups SELECT n % 500, 'LIKE', n % 5000, n % 20, n, n, 1, n % 3 * n, 0, 0, 0, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO notification_state SELECT n, 'LIKE', 1, 1, 1 FROM s WHERE n <= 500",
			upTo + "INSERT INTO site_messages (id, type, title, content, created_at, updated_at) SELECT n, 'general', 't', 'c', n, n FROM s WHERE n <= 500 ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO site_message_recipients (user_number, message, type, read_at) SELECT n % 499, n % 500, 'general', CASE WHEN n % 10 > 0 THEN n END FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO site_message_state SELECT n, 'general', 1 FROM s WHERE n <= 500 ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO view_items SELECT 'topic', CAST(n % 50 AS TEXT), CAST(n AS TEXT), n, n % 10 > 0 FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO user_access_log SELECT n % 500, 'topic', CAST(n % 499 AS TEXT), n, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO conversations SELECT n, 'ROOM', NULL, '', n, 20, n, 20, 'WRITE', 0, 0, 0, 0, 0 FROM s WHERE n <= 1000 ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO group_policies SELECT n, 'WHO_I_FOLLOW' FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO conversation_members SELECT n % 1000 + 1, n % 499, n % 20, 0, 1, 0, 0, FALSE, FALSE, n, 0 FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO conversation_messages SELECT n % 1000 + 1, n / 1000 + 1, n % 499, '', n, 0 FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO conversation_mentions SELECT n % 1000 + 1, n % 499, n / 1000 + 1 FROM s WHERE n % 10 = 0 ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO shows SELECT n, CASE WHEN n % 9 = 0 THEN CAST(n AS TEXT) ELSE '' END, n % 500 + 500, 't', '', '', CASE WHEN n % 10 > 0 THEN 2 ELSE n / 10 % 2 END, n, n, n, NULL, n, n, n, n % 9 = 0, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO show_history SELECT n, n, n, n, n % 500 + 500, 0, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO hosts SELECT n, TRUE, 0, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO reminders SELECT n % 5000, n % 499, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO past_follows SELECT n % 500, n % 499 + 500, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO notification_heads SELECT n, 1, 0, 0, 0 FROM s WHERE n <= 500",
			upTo + "INSERT INTO announcements SELECT n, 't', 'c', 0, n, n, n, n, n, n % 10 = 0 FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO user_notices SELECT n, n, n, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO user_segments SELECT n, n, n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			upTo + "INSERT INTO user_dots SELECT n % 5000, CAST(n % 4 AS TEXT), n FROM s WHERE TRUE ON CONFLICT DO NOTHING",
			"ANALYZE",
		} {
			if !notified && strings.Contains(text, "notification") {
				continue
			}
			if err := tx.Exec(b.ctx, text); err != nil {
				return err
			}
		}
		return nil
	})
}

// walks are steps that read a table, by its name or by the alias that the statements have for it (c is a list given).
var walks = regexp.MustCompile(`^SCAN (users|follows|mutes|blocks|hides|posts|authors|fanouts|likes|notification_\w+|mentions|jobs|log|user_\w+|announcements|site_message\w*|group_policies|conversation\w*|cv|view_items|shows|show_history|hosts|reminders|past_follows|[fupnlshmigo])( |$)`)

// TestNoStatementWalksATable looks at the plans of SQLite. What is scanned may be a list that was given or made, or a
// table of a few rows (log_heads), never one that grows with the users.
func TestNoStatementWalksATable(t *testing.T) {
	b := newBundle(t, storetest.SQLite(t))
	for _, notified := range []bool{false, true} { // the index of the unseen looks cheapest when it is empty
		b.fill(notified)
		for name := range store.Statements {
			plan := b.plan(name)
			if len(plan) == 0 {
				t.Errorf("%s has no plan", name)
			}
			for _, step := range plan {
				if walks.MatchString(step) {
					t.Errorf("%s: %s in %s", name, step, strings.Join(plan, "; "))
				}
			}
		}
	}
}

// TestPlansOnPostgres looks at plans that hold for any parameters. A table that is read in full, or joined after it
// was, would make a badge cost what everybody has written.
func TestPlansOnPostgres(t *testing.T) {
	b := newBundle(t, storetest.Postgres(t))
	b.fill(true)
	const cause, list = `'[[1,"LIKE",2,3,0]]'`, `1, '[["LIKE",0,9],["COMMENT",0,9]]', 9, 21, 21`
	for name, args := range map[string]string{
		"homeFeed": "1, 9, 300", "inboxFeed": "1, 9, 300", "countPushed": "1, 9, 301", "pulledPosts": `'[[1],[2]]', 300, ARRAY[1, 2]`, "pulledBy": "1", "pullAuthors": "0, 100",
		"authorMode": "1", "lowerUnnamed": "1", "authorsAfter": "1, 100", "authorsByNumber": "ARRAY[1, 2]", "countFollowers": "1, 100", "lowerFanout": "1",
		"newestCounting": "1, 9", "countNew": "1, 9, 301", "unreadFeed": "1, 9, 300, 5", "newestOfFeed": "1", "followersOf": "1, 0, 0, 100",
		"edge": "1, 2", "restrictionsBetween": "'[[1,2]]'", "showFollow": "1, 2", "blocksBetween": "1, 2",
		"listMutes": "1, 9, 20", "countBlocks": "1, 9", "lockUsers": "ARRAY[1, 2]", "holdUsers": "ARRAY[1, 2]", "blockersOf": "1, ARRAY[2, 3]", "causesOfActor": "1, 2, '', 0, 0, 10", "isDirect": "1", "hiddenAuthors": "1, ARRAY[2, 3]", "blocksWith": "1, ARRAY[2, 3]", "refusesAdder": "1, ARRAY[2, 3], 4",
		"userNotices": "1", "noticesAfter": "0, 100", "authorPosts": "1, 20", "edgesTo": "ARRAY[1, 2], 3", "firstDue": `'[["kind"]]'`, "finishJobs": "ARRAY[1, 2], 'token'",
		"messageStatesOf": `'[[1,"general"]]'`, "messageStatesOfUser": "1", "unreadMessagesOf": "1, 9, ARRAY['general'], 20",
		"messagesOf": "1, 9, ARRAY['general'], 20", "messagesByID": "1, ARRAY[1, 2]", "countReads": "1", "messageHolders": "1, ARRAY[1, 2]",
		"readMessages": "1, ARRAY[1, 2], 3, 4", "unreadMessages": "1, ARRAY[1, 2], 3", "keepMessagesUnread": "1, ARRAY[1, 2], 3", "messageGen": "1", "readMessageTypes": "1, ARRAY['general'], 9, 3, 4",
		"typesOfMessages": "1, ARRAY[1, 2]", "raiseMessageVersions": `'[[1,"general"]]'`, "messageByKey": "'k'",
		"newestViewItems": `'[[0,"topic","1"]]', 99`, "countViewItems": `'[[0,"topic","1",5]]', 101`, "oneViewItem": "'topic', '1', '2'", "newestViewItem": "'topic', '1'",
		"viewsOf":       "1, ARRAY['topic'], 'a', 'b', 20",
		"membershipsOf": "1, ARRAY[1, 2]", "membershipsOfUser": "1, 0, 0, 500", "recountMember": "1, 2, 3", "newestUntil": "1, 2",
		"membersOf": `'[[0,1,0],[1,2,5]]', 21`, "conversationMessagesByID": `'[[1,1,3],[2,5,5]]'`, "mentionsOf": `'[[1,1,3],[2,5,5]]'`,
		"statesByUser": "1", "statesByInbox": `'[[1,"LIKE"]]'`, "lowerCauses": cause, "restoreCauses": cause, "heldNamed": cause, "heldOfSubject": `'[[1,"LIKE",2]]'`,
		"likes": `'[[1,2,3,0]]'`, "likesOfSubject": `'[[1,2]]'`, "comments": `'[[1,2,3,4]]'`, "commentsOfSubject": `'[[1,2]]'`,
		"mentions": `'[[1,2,3,0]]'`, "mentionsOfSubject": `'[[1,2]]'`, "follows": `'[[1,0,3,0]]'`, "followsOfSubject": `'[[1,0]]'`,
		"moveGroups": `'[[1,"LIKE",2,3,9,1]]'`, "groupsAt": "1, ARRAY[5]", "groupAt": "1, ARRAY[5]", "readGroups": `1, '[["LIKE",2,3,4]]', 9`,
		"readUnread": "1, ARRAY['LIKE'], 9, 1, 9", "readUndone": "1, ARRAY['LIKE'], 9, 1, 9", "unreadGroup": `1, '[["LIKE",2,3,4]]', 9`, "undoRead": "1, 1, 1",
		"usersByKey": "ARRAY['a', 'b']", "usersByNumber": "ARRAY[1, 2]", "postsByID": "ARRAY[1, 2]", "auditRange": "1, 9, 3, 10", "jobUpTo": "5, 9",
		"showForUpdate": "1", "showsByID": "ARRAY[1, 2]", "countUpcoming": "1, 9", "hostReplays": "1, 9", "pulledReplays": `'[[1],[2]]', 300`, "replaysFeed": "1, 9, 9, 300",
		"oneHost": "1", "lowerHostUnnamed": "1", "unpublishedShows": "1", "setHostVersion": "1, 9", "hostVersions": "0, 100", "hostsBy": "1",
		"unfollowedSince": "1, 2, 3", "remindersOf": "1, 2, 1000", "remindsOf": "1, ARRAY[1, 2]", "countReminders": "1, 9, 36",
		"wanted": `'[[1,2,3,0]]'`, "wantedOfSubject": `'[[1,2]]'`,
		"listAll": list, "listUnread": list, "listUnseen": list, "sampleActors": `1, '[[0,"LIKE",2,3]]'`, "countActors": `1, '[[0,"LIKE",2,3]]'`,
	} {
		plan := b.postgresPlan(name, "force_generic_plan", args)
		text := strings.Join(plan, "\n")
		for _, bad := range []string{"Seq Scan", "Bitmap", "Hash Join", "Merge Join", "Full"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s has a %s:\n%s", name, bad, text)
			}
		}
		if name == "likes" && !strings.Contains(text, "(liker = ") {
			t.Errorf("%s reads every like of a post:\n%s", name, text)
		}
		if strings.Count(text, "Index Cond") != strings.Count(text, "Index Scan")+strings.Count(text, "Index Only Scan") {
			t.Errorf("%s walks an index from its beginning:\n%s", name, text)
		}
	}
}

// everybodysPosts is a walk along the index by author that does not begin at an author.
var everybodysPosts = regexp.MustCompile(`using posts_by_author on \w+( \w+)?\n\s*(->|Index Cond: \((id|pull)|Filter)`)

// TestFeedsDoNotNeedStatistics looks at the plans that PostgreSQL makes after an import, before it has counted anything.
// It takes the posts for none and the edges for many, and joins would begin with the posts. Whatever the page's size, a
// range of the index by author is read for each source; the posts of everybody never are.
func TestFeedsDoNotNeedStatistics(t *testing.T) {
	b := newBundle(t, storetest.Postgres(t))
	const upTo = " FROM generate_series(1, 20000) n ON CONFLICT DO NOTHING"
	b.write(func(tx *store.Tx) error {
		for _, text := range []string{
			"ALTER TABLE follows SET (autovacuum_enabled = off)", "ALTER TABLE posts SET (autovacuum_enabled = off)",
			"INSERT INTO users (number, key) SELECT n, CAST(n AS TEXT)" + upTo,
			"INSERT INTO follows SELECT n % 100, n % 1999 + 10, 0, TRUE FROM generate_series(1, 199900) n ON CONFLICT DO NOTHING",
			"INSERT INTO posts (id, author, kind, body, updated_at) SELECT n, n % 1999 + 10, 'POST', 'a text', n" + upTo,
		} {
			if err := tx.Exec(b.ctx, text); err != nil {
				return err
			}
		}
		return nil
	})
	for name, args := range map[string]string{
		"homeFeed": "1, 99999, %d", "inboxFeed": "1, 99999, %d", "unreadFeed": "1, 99999, %d, 5", "countNew": "1, 9, %d", "countPushed": "1, 9, %d",
	} {
		for _, limit := range []int{1, 2, 20, 301} {
			for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
				text := strings.Join(b.postgresPlan(name, mode, fmt.Sprintf(args, limit)), "\n")
				if strings.Contains(text, "posts_pkey") || strings.Contains(text, "Seq Scan on posts") || everybodysPosts.MatchString(text) {
					t.Errorf("%s of %d, %s, reads everybody's posts:\n%s", name, limit, mode, text)
				}
			}
		}
	}
}

// postgresPlan is how PostgreSQL would run a statement, by a plan for any parameters or for those given.
func (b *bundle) postgresPlan(name, mode, args string) (plan []string) {
	b.t.Helper()
	b.write(func(tx *store.Tx) (err error) {
		for _, text := range []string{"SET LOCAL plan_cache_mode = " + mode, "PREPARE it AS " + store.Statements[name].Text(store.Postgres)} {
			if err := tx.Exec(b.ctx, text); err != nil {
				return err
			}
		}
		if plan, err = tx.Query(b.ctx, fmt.Sprintf("EXPLAIN (COSTS OFF) EXECUTE it(%s)", args)); err != nil {
			return err
		}
		return tx.Exec(b.ctx, "DEALLOCATE it")
	})
	return plan
}
