package fanout

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/redis"
	"tidings/services/store"
)

// AuditPart compares one part of a user's view with the facts. It answers the facts, in a form that prints the same for
// equal facts, and the names of the differences.
type AuditPart func(ctx context.Context, user services.UserID, shown rdb.Snapshot) (facts any, differs []string, err error)

// namedPart is a registered part.
type namedPart struct {
	name string
	look AuditPart
}

// RegisterAuditPart adds a part to what audits compare. Parts are registered before the first audit. It panics when the name
// is taken.
func (f *Fanout) RegisterAuditPart(name string, part AuditPart) {
	for _, other := range f.auditParts {
		if other.name == name {
			panic(fmt.Sprintf("fanout: the audit of %q is registered twice", name))
		}
	}
	f.auditParts = append(f.auditParts, namedPart{name, part})
}

// compare compares a user's view, which was read before a stamp, with the facts as they are now.
func (f *Fanout) compare(ctx context.Context, user services.UserID, shown rdb.Snapshot, stamp redis.Stamp) (look, error) {
	seen := look{snapshot: shown}
	if shown.Wholeness == rdb.WrongType {
		seen.differs = []string{"a key that cannot be read"}
		return seen, nil
	}
	seen.differs = f.auditStamps(shown, stamp)
	for _, part := range f.auditParts {
		facts, differs, err := part.look(ctx, user, shown)
		if err != nil {
			return seen, fmt.Errorf("audit of %s: %w", part.name, err)
		}
		seen.facts, seen.differs = append(seen.facts, facts), append(seen.differs, differs...)
	}
	return seen, nil
}

// auditStamps looks for stamps from the future. One of a removal would refuse every post; one of a visit would let the user
// become dormant while they are here.
func (f *Fanout) auditStamps(shown rdb.Snapshot, stamp redis.Stamp) (differs []string) {
	const slack = time.Minute // between the clocks of nodes and masters
	if shown.Removed.After(time.UnixMicro(int64(stamp)).Add(slack)) {
		differs = append(differs, "stamp of the last removal")
	}
	if shown.Document.Day > f.today()+1 {
		differs = append(differs, "day of the last visit")
	}
	return differs
}

// feedFactsOf is the home feed according to the facts.
type feedFactsOf struct {
	seen     services.PostID
	entries  []services.FeedEntry
	count    int
	unlisted services.PostID           // the newest counting post at or below the inbox's floor
	pulled   []services.FollowedAuthor // by their IDs
}

func (f *Fanout) auditFeed(ctx context.Context, user services.UserID, shown rdb.Snapshot) (any, []string, error) {
	var facts feedFactsOf
	var err error
	if facts.seen, err = f.store.Position(ctx, user, store.HomePage, ""); err != nil {
		return nil, nil, err
	}
	if facts.pulled, err = f.pulledBy(ctx, user); err != nil {
		return nil, nil, err
	}
	if facts.entries, err = f.store.InboxFeed(ctx, user, services.MaxPostID, rebuildEntries+1); err != nil {
		return nil, nil, err
	}
	if shown.Document.FeedAged > f.cfg.Expiry.Mark(services.SourceHomeFeed, f.today()) {
		return facts, []string{"home feed: what is too old"}, nil
	}
	if facts.count, err = f.store.CountPushed(ctx, user, max(facts.seen, shown.Document.FeedAged), services.Retention+1); err != nil {
		return nil, nil, err
	}
	if shown.Floor > 0 {
		if facts.unlisted, err = f.store.NewestCounting(ctx, user, shown.Floor); err != nil {
			return nil, nil, err
		}
	}
	return facts, feedDiffers(facts, shown), nil
}

// feedDiffers compares the list, the count and the fields from which scripts compute them.
func feedDiffers(facts feedFactsOf, shown rdb.Snapshot) (differs []string) {
	document := shown.Document
	if document.Seen != facts.seen {
		differs = append(differs, "home feed: position")
	}
	if !sameAuthors(document.Pulled, facts.pulled) {
		differs = append(differs, "home feed: pulled authors")
	}
	listed := facts.entries
	for len(listed) > 0 && listed[len(listed)-1].Post <= shown.Floor {
		listed = listed[:len(listed)-1]
	}
	if shown.Strays > 0 || !slices.Equal(listed, shown.Entries) {
		differs = append(differs, "home feed: list")
	}
	counting, uncounted, mark := 0, services.PostID(0), max(document.Seen, document.FeedAged)
	for _, entry := range shown.Entries {
		if !entry.Counts {
			uncounted = max(uncounted, entry.Post)
		} else if entry.Post > mark {
			counting++
		}
	}
	more := counting > services.Retention || shown.Unlisted > mark
	right := document.FeedCount == facts.count || document.FeedMore && document.FeedCount < facts.count
	if document.FeedCount != min(counting, services.Retention) || document.FeedMore != more || !right {
		differs = append(differs, "home feed: count")
	}
	// Both marks may be ahead of the posts that exist now, because the posts that set them may be deleted.
	if shown.Uncounted < uncounted || shown.Unlisted < facts.unlisted || shown.Unlisted > shown.Floor {
		differs = append(differs, "home feed: marks of the list")
	}
	return differs
}

// sameAuthors says whether a document names the authors of the facts, which are ordered by ID.
func sameAuthors(named, facts []services.FollowedAuthor) bool {
	named = slices.Clone(named)
	slices.SortFunc(named, func(a, b services.FollowedAuthor) int { return cmp.Compare(a.Author, b.Author) })
	return slices.Equal(named, facts)
}

func (f *Fanout) auditRegisters(ctx context.Context, user services.UserID, shown rdb.Snapshot) (any, []string, error) {
	facts, err := f.registerFacts(ctx, user)
	if err != nil {
		return nil, nil, err
	}
	want := map[string]string{}
	for _, register := range facts {
		want[register.Field] = register.Value
	}
	var differs []string
	for _, field := range f.redis.RegisterFields() {
		if !sameRegister(field, cmp.Or(want[field], rdb.Unborn), cmp.Or(shown.Fields[field], rdb.Unborn)) {
			differs = append(differs, "register "+field)
		}
	}
	// A dot that was clicked away before the user returned from dormancy has no effect, whether or not the document has it.
	_, from, _ := strings.Cut(want[rdb.NoticeField], ";")
	_, from, _ = strings.Cut(from, ";")
	for _, field := range slices.Sorted(maps.Keys(shown.Fields)) {
		if strings.HasPrefix(field, rdb.DotPrefix) && want[field] == "" && number(afterVersion(shown.Fields[field])) <= number(from) {
			want[field] = shown.Fields[field]
		}
		if strings.HasPrefix(field, rdb.DotPrefix) && want[field] != shown.Fields[field] {
			differs = append(differs, "register "+field)
		}
	}
	for field := range want {
		if _, has := shown.Fields[field]; strings.HasPrefix(field, rdb.DotPrefix) && !has {
			differs = append(differs, "register "+field)
		}
	}
	slices.Sort(differs)
	return facts, slices.Compact(differs), nil
}

func afterVersion(value string) string {
	_, rest, _ := strings.Cut(value, ";")
	return rest
}

// number is the number in a text. A text that is no number counts as the greatest number, so that no comparison takes it for
// right.
func number(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil && text != "" {
		return ^uint64(0)
	}
	return n
}

// sameRegister says whether two values mean the same. Counts by day carry the day on which they were counted, and age by
// themselves as days pass.
func sameRegister(field, want, got string) bool {
	if want == got {
		return true
	}
	a, errA := rdb.ParseCounts(want)
	b, errB := rdb.ParseCounts(got)
	if !strings.HasPrefix(field, rdb.CountsPrefix) || errA != nil || errB != nil {
		return false
	}
	today := max(a.Day, b.Day)
	return aged(a, today) == aged(b, today)
}

// aged is counts as they are on a later day.
func aged(counts services.CategoryCounts, today int64) services.CategoryCounts {
	passed := today - counts.Day
	moved := counts
	moved.Day, moved.Days = today, [len(counts.Days)]int{}
	for i, count := range counts.Days {
		if place := int64(i) + passed; place < int64(len(moved.Days)) {
			moved.Days[place] = count
		} else {
			moved.Older += count
		}
	}
	return moved
}

// conversationFact is a user's own state in a conversation according to the facts. Where messages expire from the number, it
// also has the unread messages that had not expired as of the day of the state that is shown.
type conversationFact struct {
	services.Membership
	waiting store.Waiting
}

func (f *Fanout) auditConversations(ctx context.Context, user services.UserID, shown rdb.Snapshot) (any, []string, error) {
	var facts []conversationFact
	for after := services.ConversationID(0); ; {
		page, err := f.store.MembershipsOf(ctx, user, after, f.clock.Now().Add(-leftFor), membersPerPage)
		if err != nil {
			return nil, nil, err
		}
		for i := range page {
			page[i] = f.Counted(page[i])
		}
		waiting, err := f.waitingAsOf(ctx, page, shown.Conversations)
		if err != nil {
			return nil, nil, err
		}
		for i, state := range page {
			facts = append(facts, conversationFact{state, waiting[i]})
		}
		if len(page) < membersPerPage {
			return facts, f.conversationsDiffer(facts, shown), nil
		}
		after = page[len(page)-1].Conversation
	}
}

// waitingAsOf counts unread messages in conversations one by one, as of the days of the states that are shown. It does not
// use the positions that expiry has moved, because these are what the audit checks.
func (f *Fanout) waitingAsOf(ctx context.Context, facts []services.Membership, shown map[services.ConversationID]services.Membership) ([]store.Waiting, error) {
	if !f.cfg.Expiry.Expires(services.SourceConversations) {
		return make([]store.Waiting, len(facts)), nil
	}
	since := make([]time.Time, len(facts))
	for i, fact := range facts {
		since[i] = f.cfg.Expiry.Since(services.SourceConversations, shown[fact.Conversation].AgedOn)
	}
	waiting, err := f.store.CountWaiting(ctx, facts, since)
	for i, fact := range facts {
		switch {
		case fact.Left || fact.Inside:
			waiting[i] = store.Waiting{}
		case f.cfg.MuteMentions && fact.Muted:
			waiting[i].Mentions = 0
		}
	}
	return waiting, err
}

// sameState says whether a state agrees with the facts.
func (f *Fanout) sameState(state services.Membership, fact conversationFact) bool {
	if !f.cfg.Expiry.Expires(services.SourceConversations) {
		return counted(state) == counted(fact.Membership)
	}
	shown := state
	shown.Head = fact.Head // it lags where it is not projected: in muted conversations and those counted on read
	state.Base, state.K, state.Mentions = fact.Base, fact.K, fact.Mentions
	if counted(state) != counted(fact.Membership) || fact.Left || fact.Inside || state.AgedOn > f.today() {
		return state.AgedOn <= f.today() && counted(state) == counted(fact.Membership)
	}
	waits := fact.waiting.Unread > 0
	if fact.Muted {
		waits = fact.waiting.Mentions > 0
	}
	leaves := f.cfg.Expiry.LeavesOn(services.SourceConversations, services.DayOf(fact.waiting.Oldest))
	return shown.Unread() == fact.waiting.Unread && shown.UnreadMentions() == fact.waiting.Mentions &&
		(!waits || shown.LeavesOn > shown.AgedOn && shown.LeavesOn <= leaves)
}

// conversationsDiffer compares the states with the facts, and the sums with the states.
func (f *Fanout) conversationsDiffer(facts []conversationFact, shown rdb.Snapshot) (differs []string) {
	left := maps.Clone(shown.Conversations)
	for _, fact := range facts {
		state, known := shown.Conversations[fact.Conversation]
		delete(left, fact.Conversation)
		if !known && !fact.Left || known && !f.sameState(state, fact) {
			differs = append(differs, "conversations: states")
			break
		}
	}
	for _, state := range left {
		if !state.Left { // the facts do not list conversations that the user left long ago
			differs = append(differs, "conversations: states")
			break
		}
	}
	var sums services.ConversationSums
	places := map[services.ConversationID]int64{}
	leaves := shown.Document.Conversations.LeavesOn
	for _, state := range shown.Conversations {
		if state.LeavesOn > 0 && (leaves == 0 || leaves > state.LeavesOn) {
			differs = append(differs, "conversations: the next that leaves")
			leaves = state.LeavesOn
		}
		unread, mentions, place := state.Unread(), state.UnreadMentions(), state.Base-state.K
		switch {
		case state.Left || state.Inside:
		case state.Muted:
			sums.Unread += int(mentions)
		case state.ReadSide:
			places[state.Conversation] = place
		default:
			sums.Unread += int(unread)
		}
		sums.Mentions += int(mentions)
	}
	got := shown.Document.Conversations
	if got.Unread != sums.Unread || got.Mentions != sums.Mentions {
		differs = append(differs, "conversations: sums")
	}
	list := map[services.ConversationID]int64{}
	for _, place := range got.ReadSide {
		list[place.Conversation] = place.Base
	}
	if len(list) != len(got.ReadSide) || !maps.Equal(places, list) {
		differs = append(differs, "conversations: places")
	}
	return slices.Compact(differs)
}

// counted is the part of a state that affects counts. The last sequence is projected only where it counts. The version of
// the way of counting rises once more when all members have it, and that rise is not projected to anyone.
func counted(state services.Membership) string {
	if state.Left || state.Inside || state.Muted || state.ReadSide {
		state.Head = 0
	}
	return fmt.Sprint(state.Head, state.Base, state.K, state.Version, state.Mentions, state.Left, state.Muted, state.Inside, state.ReadSide)
}
