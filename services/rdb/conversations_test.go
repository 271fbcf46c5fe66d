package rdb

import (
	"testing"

	"tidings/services"
	"tidings/services/redis"
	"tidings/services/redis/clienttest"
	"tidings/services/redis/redistest"
)

// putStates writes states of members, none of which may make a count negative.
func (v feedTest) putStates(states ...services.Membership) []redis.Result {
	v.Helper()
	results, clamped, err := v.projections.PutMemberships(v.Context(), states)
	v.must(err)
	if clamped > 0 {
		v.Errorf("%d negative counts", clamped)
	}
	return results
}

// A user's states are written in calls of at most membershipsPerCall, and are read back as one sum.
func TestManyStatesAreWrittenInBatches(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		if results := v.putStates(services.Membership{Conversation: 1, User: reader, NewestMessageNumber: 2}); results[0].Status != redis.Missing {
			v.Errorf("without a document: %+v", results)
		}
		v.buildFromFacts(FeedFacts{})
		var states []services.Membership
		for i := range 250 {
			states = append(states, services.Membership{Conversation: services.ConversationID(i + 1), User: reader, NewestMessageNumber: int64(i), Version: 1, CountedOnRead: i%2 == 0})
		}
		results := v.putStates(append(states, services.Membership{Conversation: 1, User: otherUser, NewestMessageNumber: 1})...)
		if len(results) != 251 || results[0].Status != redis.Applied || results[249].Version <= results[0].Version || results[250].Status != redis.Missing {
			v.Errorf("%d results: %+v ... %+v", len(results), results[0], results[249:])
		}
		sums := v.readDocument().Conversations
		if sums.Unread != 125*125 || len(sums.CountedOnRead) != 125 {
			v.Errorf("%d unread, %d positions", sums.Unread, len(sums.CountedOnRead))
		}
		if again := v.putStates(states...); again[0].Status != redis.Unchanged || v.readDocument().Conversations.Unread != sums.Unread {
			v.Errorf("again: %+v", again[0])
		}
	})
}

// A negative count, which only another program can have written, is shown as zero and reported.
func TestANegativeCountIsReportedAndShownAsZero(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		for what, state := range map[string]services.Membership{
			"read further than there are messages": {NewestMessageNumber: 2, ReadUpTo: 5},
			"fewer mentions than none":             {NewestMessageNumber: 5, ReadUpTo: 5, Mentions: -1},
			"a last number before the first":       {NewestMessageNumber: -4},
		} {
			v.deleteKeys(inboxKey(reader), DocumentKey(reader), conversationsKey(reader))
			v.buildFromFacts(FeedFacts{})
			state.Conversation, state.User, state.Version = 1, reader, 1
			_, clamped, err := v.projections.PutMemberships(v.Context(), []services.Membership{state})
			v.must(err)
			if sums := v.readDocument().Conversations; clamped != 1 || sums.Unread != 0 || sums.Mentions != 0 {
				v.Errorf("%s: %d were reported, %+v are shown", what, clamped, sums)
			}
			state.NewestMessageNumber, state.ReadUpTo, state.Mentions, state.Version = 9, 5, 2, 2
			if result := v.putStates(state); result[0].Status != redis.Applied || v.readDocument().Conversations.Unread < 4 {
				v.Errorf("%s, and then all is well: %+v, %+v", what, result, v.readDocument().Conversations)
			}
		}
	})
}

// After random changes, losses and rebuilds, the counts of conversations in each document equal the facts.
func TestTheSumsEqualTheFactsAfterEveryHistory(t *testing.T) {
	test := func(t *testing.T, url string, full int) {
		client := openProjections(t, redis.Options{URL: url, ReadTimeout: longReadTimeout})
		for i := range clienttest.HistoryNumbers(t, full, conversationBugs()) {
			if err := newConversationsWorld(t.Context(), client, uint64(i)).runAndCompare(40); err != nil {
				t.Fatalf("history %d: %v", i, err)
			}
		}
	}
	t.Run("redis", func(t *testing.T) { test(t, redistest.Redis(t), 200) })
	t.Run("embedded", func(t *testing.T) { test(t, "embedded", 40) })
	t.Run("cluster", func(t *testing.T) { test(t, redistest.Cluster(t), 10) })
}

// conversationBugs are the injected bugs that the histories of conversationsWorld must find, each by itself.
func conversationBugs() map[string]clienttest.Bug[*conversationsWorld] {
	put := conversationsPut
	return map[string]clienttest.Bug[*conversationsWorld]{
		"the older row wins":         {Scripts: clienttest.ReplaceInScript(put, "return a.version > b.version end", "return true end")},
		"a last number that falls":   {Scripts: clienttest.ReplaceInScript(put, "math.max(old.last, new.last)", "new.last")},
		"the older way wins":         {Scripts: clienttest.ReplaceInScript(put, "new.way > old.way", "true")},
		"a sum that adds":            {Scripts: clienttest.ReplaceInScript(put, "sum + unread1 - unread0", "sum + unread1")},
		"mentions that add":          {Scripts: clienttest.ReplaceInScript(put, "mentioned + mentions1 - mentions0", "mentioned + mentions1")},
		"states lost unseen":         {Scripts: clienttest.ReplaceInScript(put, " or tonumber(kept) ~= redis.call('HLEN', KEYS[2])", ""), Known: 11},
		"old states taken for good":  {Scripts: clienttest.ReplaceInScript(rebuildBegin, "redis.call('DEL', KEYS[3]) --", "--")},
		"sums of states that went":   {Scripts: clienttest.ReplaceInScript(rebuildBegin, "'Cu', '0', ", "")},
		"positions that stay":        {Scripts: clienttest.ReplaceInScript(put, "position and name .. big(position) or ''", "name .. big(position or 0)")},
		"muted and counted":          {Scripts: clienttest.ReplaceInScript(put, "if flagged(f, 'm')", "if false")},
		"inside and counted":         {Scripts: clienttest.ReplaceInScript(put, " or flagged(f, 'i')", "")},
		"left and counted":           {Scripts: clienttest.ReplaceInScript(put, "flagged(f, 'l') or ", "")},
		"no correction":              {Scripts: clienttest.ReplaceInScript(put, "f.last - f.base + f.k,", "f.last - f.base,")},
		"read and then marked":       {Work: func(w *conversationsWorld) { w.readsFactsEarly = true }},
		"what was left forgotten":    {Work: func(w *conversationsWorld) { w.omitsLeftConversations = true }, Known: 65},
		"a position that ignores k":  {Scripts: clienttest.ReplaceInScript(put, "f.base - f.k", "f.base"), Known: 17},
		"a second entry of one name": {Scripts: clienttest.ReplaceInScript(put, "until not at or at % 8 == 1", "until true").AndReplaceInScript(put, "if not at then", "if true then")},
	}
}

func TestTheHistoriesOfConversationsFindEveryInjectedBug(t *testing.T) {
	client := openProjections(t, redis.Options{URL: redistest.Redis(t), ReadTimeout: longReadTimeout})
	clienttest.FindBugs(t, client.Client, conversationBugs(), 500, func(number int, bug clienttest.Bug[*conversationsWorld]) error {
		w := newConversationsWorld(t.Context(), client, uint64(number))
		bug.Inject(w)
		return w.runAndCompare(40)
	})
}
