package rdb

import (
	"testing"

	"tidings/services"
	"tidings/services/redis"
	"tidings/services/redis/clienttest"
	"tidings/services/redis/redistest"
)

// putStates writes states of members, none of which may make a count negative.
func (v view) putStates(states ...services.Membership) []redis.Result {
	v.Helper()
	results, clamped, err := v.c.PutMemberships(v.Context(), states)
	v.must(err)
	if clamped > 0 {
		v.Errorf("%d negative counts", clamped)
	}
	return results
}

// A user's states are written in calls of at most statesPerCall, and are read back as one sum.
func TestManyStatesAreWrittenInBatches(t *testing.T) {
	eachView(t, func(v view) {
		if results := v.putStates(services.Membership{Conversation: 1, User: reader, Head: 2}); results[0].Status != redis.Missing {
			v.Errorf("without a document: %+v", results)
		}
		v.build(FeedFacts{})
		var states []services.Membership
		for i := range 250 {
			states = append(states, services.Membership{Conversation: services.ConversationID(i + 1), User: reader, Head: int64(i), Version: 1, ReadSide: i%2 == 0})
		}
		results := v.putStates(append(states, services.Membership{Conversation: 1, User: other, Head: 1})...)
		if len(results) != 251 || results[0].Status != redis.Applied || results[249].N <= results[0].N || results[250].Status != redis.Missing {
			v.Errorf("%d results: %+v ... %+v", len(results), results[0], results[249:])
		}
		sums := v.document().Conversations
		if sums.Unread != 125*125 || len(sums.ReadSide) != 125 {
			v.Errorf("%d unread, %d places", sums.Unread, len(sums.ReadSide))
		}
		if again := v.putStates(states...); again[0].Status != redis.Same || v.document().Conversations.Unread != sums.Unread {
			v.Errorf("again: %+v", again[0])
		}
	})
}

// A negative count, which only another program can have written, is shown as zero and reported.
func TestANegativeCountIsReportedAndShownAsZero(t *testing.T) {
	eachView(t, func(v view) {
		for what, state := range map[string]services.Membership{
			"read further than there are messages": {Head: 2, Base: 5},
			"fewer mentions than none":             {Head: 5, Base: 5, Mentions: -1},
			"a head before the first":              {Head: -4},
		} {
			v.deleteKeys(inboxKey(reader), DocumentKey(reader), conversationsKey(reader))
			v.build(FeedFacts{})
			state.Conversation, state.User, state.Version = 1, reader, 1
			_, clamped, err := v.c.PutMemberships(v.Context(), []services.Membership{state})
			v.must(err)
			if sums := v.document().Conversations; clamped != 1 || sums.Unread != 0 || sums.Mentions != 0 {
				v.Errorf("%s: %d were reported, %+v are shown", what, clamped, sums)
			}
			state.Head, state.Base, state.Mentions, state.Version = 9, 5, 2, 2
			if result := v.putStates(state); result[0].Status != redis.Applied || v.document().Conversations.Unread < 4 {
				v.Errorf("%s, and then all is well: %+v, %+v", what, result, v.document().Conversations)
			}
		}
	})
}

func TestTheSumsEqualTheFactsAfterEveryHistory(t *testing.T) {
	test := func(t *testing.T, url string, full int) {
		client := connect(t, redis.Options{URL: url, ReadTimeout: patience})
		for i := range clienttest.HistoryNumbers(t, full, talkBugs()) {
			if err := newTalks(t.Context(), client, uint64(i)).run(40); err != nil {
				t.Fatalf("history %d: %v", i, err)
			}
		}
	}
	t.Run("redis", func(t *testing.T) { test(t, redistest.Redis(t), 200) })
	t.Run("embedded", func(t *testing.T) { test(t, "embedded", 40) })
	t.Run("cluster", func(t *testing.T) { test(t, redistest.Cluster(t), 10) })
}

// talkBugs are the injected bugs that these histories must find, each by itself.
func talkBugs() map[string]clienttest.Bug[*talks] {
	put := conversationsPut
	return map[string]clienttest.Bug[*talks]{
		"the older row wins":         {Scripts: clienttest.Replace(put, "return a.version > b.version end", "return true end")},
		"a head that falls":          {Scripts: clienttest.Replace(put, "math.max(old.head, new.head)", "new.head")},
		"the older way wins":         {Scripts: clienttest.Replace(put, "new.way > old.way", "true")},
		"a sum that adds":            {Scripts: clienttest.Replace(put, "sum + unread1 - unread0", "sum + unread1")},
		"mentions that add":          {Scripts: clienttest.Replace(put, "mentioned + mentions1 - mentions0", "mentioned + mentions1")},
		"states lost unseen":         {Scripts: clienttest.Replace(put, " or tonumber(kept) ~= redis.call('HLEN', KEYS[2])", ""), Known: 11},
		"old states taken for good":  {Scripts: clienttest.Replace(rebuildBegin, "redis.call('DEL', KEYS[3]) --", "--")},
		"sums of states that went":   {Scripts: clienttest.Replace(rebuildBegin, "'Cu', '0', ", "")},
		"places that stay":           {Scripts: clienttest.Replace(put, "place and name .. big(place) or ''", "name .. big(place or 0)")},
		"muted and counted":          {Scripts: clienttest.Replace(put, "if flagged(f, 'm')", "if false")},
		"inside and counted":         {Scripts: clienttest.Replace(put, " or flagged(f, 'i')", "")},
		"left and counted":           {Scripts: clienttest.Replace(put, "flagged(f, 'l') or ", "")},
		"no correction":              {Scripts: clienttest.Replace(put, "f.head - f.base + f.k,", "f.head - f.base,")},
		"read and then marked":       {Work: func(w *talks) { w.readsFirst = true }},
		"what was left forgotten":    {Work: func(w *talks) { w.forgetsLeft = true }, Known: 65},
		"a place that ignores k":     {Scripts: clienttest.Replace(put, "f.base - f.k", "f.base"), Known: 17},
		"a second entry of one name": {Scripts: clienttest.Replace(put, "until not at or at % 8 == 1", "until true").And(put, "if not at then", "if true then")},
	}
}

func TestTheHistoriesOfConversationsFindEveryInjectedBug(t *testing.T) {
	client := connect(t, redis.Options{URL: redistest.Redis(t), ReadTimeout: patience})
	clienttest.FindBugs(t, client.Client, talkBugs(), 500, func(number int, bug clienttest.Bug[*talks]) error {
		w := newTalks(t.Context(), client, uint64(number))
		bug.Inject(w)
		return w.run(40)
	})
}
