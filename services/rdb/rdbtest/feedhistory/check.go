package feedhistory

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/redis"
)

// feedSnapshot is Redis' content of one user's feed.
type feedSnapshot struct {
	exists                                   bool                      // Redis has a document and an inbox
	readyField, versionField, feedCountField string                    // the fields st, n and fc of the document
	seen                                     services.PostID           // the seen position
	entries                                  []services.FeedEntry      // oldest first
	firstMember                              string                    // of the inbox: the sentinel, unless it was lost
	newestTrimmedField                       string                    // the field ft of the document
	unreadableMember                         string                    // a member that is not an entry
	pulledAuthors                            []services.FollowedAuthor // named in the document
	hosts                                    []services.FollowedAuthor // named in the document
}

// readSnapshots reads several users' feeds in one round trip, without the methods under test: a fault that their parsers share with
// the scripts would hide itself.
func readSnapshots(w *World) (map[services.UserID]feedSnapshot, error) {
	commands, err := w.Client.Client.Pipeline(w.Ctx, func(p redis.Pipeliner) {
		for _, user := range w.Users {
			p.HMGet(w.Ctx, rdb.DocumentKey(user), "st", "n", "fc", "T", "ft", "F", "L")
			p.ZRange(w.Ctx, inboxKey(user), 0, -1)
		}
	})
	if err != nil {
		return nil, err
	}
	all := map[services.UserID]feedSnapshot{}
	for i, user := range w.Users {
		all[user] = parseSnapshot(commands[2*i].(*redis.SliceCmd).Val(), commands[2*i+1].(*redis.StringSliceCmd).Val())
	}
	return all, nil
}

// parseSnapshot parses the answers to the two commands of readSnapshots.
func parseSnapshot(fields []any, members []string) (s feedSnapshot) {
	if fields[0] == nil || len(members) == 0 {
		return s
	}
	s.exists = true
	var T string
	for i, into := range []*string{&s.readyField, &s.versionField, &s.feedCountField, &T, &s.newestTrimmedField} {
		*into, _ = fields[i].(string)
	}
	seen, _ := services.ParseSortableID(T)
	s.seen = services.PostID(seen)
	packed, _ := fields[5].(string)
	s.pulledAuthors = SortByAuthor(unpackAuthors(packed))
	packed, _ = fields[6].(string)
	s.hosts = SortByAuthor(unpackAuthors(packed))
	s.firstMember = members[0]
	for _, member := range members[1:] {
		entry, ok := parseEntry(member)
		if !ok {
			s.unreadableMember = member
		}
		s.entries = append(s.entries, entry)
	}
	return s
}

// findFault reports a flaw that shows in one projection alone, such as a post twice or out of order, or a count that differs from the
// list.
func (s feedSnapshot) findFault() error {
	if !s.exists {
		return nil
	}
	if s.unreadableMember != "" || s.firstMember[0] != '!' {
		return fmt.Errorf("the inbox begins with %q and has the member %q", s.firstMember, s.unreadableMember)
	}
	count := 0
	for i, entry := range s.entries {
		if i > 0 && entry.Post <= s.entries[i-1].Post {
			return fmt.Errorf("post %d stands after %d: twice, or out of order", entry.Post, s.entries[i-1].Post)
		}
		if entry.Post.String() <= s.firstMember[1:] {
			return fmt.Errorf("post %s lies below the floor %s", entry.Post, s.firstMember)
		}
		if entry.CountsAsNew && entry.Post > s.seen {
			count++
		}
	}
	// The count is capped, and "+" says that more may count: beyond the cap, or among the trimmed entries.
	want := strconv.Itoa(min(count, services.FeedRetention))
	if count > services.FeedRetention || s.newestTrimmedField > s.seen.String() {
		want += "+"
	}
	// While the projection is being built (st is 0), fc is still the count of an earlier list.
	if s.readyField == "1" && s.feedCountField != want {
		return fmt.Errorf("fc is %s and the list has %s", s.feedCountField, want)
	}
	return nil
}

// CheckFeedsAndBoards checks every projection after a step: alone, and against its state before the step.
func (w *World) CheckFeedsAndBoards() error {
	all, err := readSnapshots(w)
	if err != nil {
		return err
	}
	for user, now := range all {
		if err := now.findFault(); err != nil {
			return fmt.Errorf("user %d: %w", user, err)
		}
		before, had := w.lastSnapshots[user]
		// The next reader rebuilds a projection that is not whole. The state shown last stays in w.lastSnapshots, and the rebuilt state
		// is compared with it.
		if !now.exists || now.readyField != "1" {
			continue // no reader sees this state
		}
		w.lastSnapshots[user] = now
		if !had {
			continue
		}
		if now.seen < before.seen {
			return fmt.Errorf("user %d: seen up to %d after %d: the mark moved back", user, now.seen, before.seen)
		}
		// A client takes a state only if its version is newer: a change under the same version would never reach it.
		changed := now.feedCountField != before.feedCountField || now.seen != before.seen || !slices.Equal(now.entries, before.entries) ||
			!slices.Equal(now.pulledAuthors, before.pulledAuthors) || !slices.Equal(now.hosts, before.hosts)
		if order := strings.Compare(now.versionField, before.versionField); order < 0 || order == 0 && changed {
			return fmt.Errorf("user %d: version %s after %s, changed: %v", user, now.versionField, before.versionField, changed)
		}
	}
	if w.Boards == nil {
		return nil
	}
	return w.Boards.CheckBoards()
}

// compareWithFacts rebuilds projections that readers would find missing, and compares the projections with the facts. The caller has
// let all work end.
func (w *World) compareWithFacts() error {
	for _, user := range w.Users {
		// The history may have ended with a lost projection, which its next reader would rebuild.
		ready, err := w.isFeedReady(user)
		if err == nil && !ready {
			err = w.rebuild(func() {}, user, false)
		}
		if err != nil {
			return err
		}
		documents, err := w.Client.Documents(w.Ctx, []services.UserID{user})
		if err != nil {
			return err
		}
		// From here on the methods under test read the state, with their own parsers, as readers do.
		page, err := w.Client.Inbox(w.Ctx, user, services.MaxPostID, services.FeedRetention)
		if err != nil {
			return err
		}
		want := w.homeFeedFromFacts(user)
		if !page.Ready || page.OlderPostsCut || !slices.Equal(page.Entries, want) {
			return fmt.Errorf("user %d: the inbox is %+v, the facts say %+v", user, page, want)
		}
		count := 0
		for _, entry := range want {
			if entry.CountsAsNew && entry.Post > w.seenUpTo[user] {
				count++
			}
		}
		d := documents[0]
		if !d.Ready || d.FeedCount != count || d.FeedCountAtLeast || d.FeedSeenUpTo != w.seenUpTo[user] {
			return fmt.Errorf("user %d: the document is %+v, the facts say %d above %d", user, d, count, w.seenUpTo[user])
		}
		if pulled := w.pulledAuthorsOf(user); !slices.Equal(SortByAuthor(d.PulledAuthors), pulled) || !slices.Equal(SortByAuthor(page.PulledAuthors), pulled) {
			return fmt.Errorf("user %d: pulled are %v, the facts say %v", user, d.PulledAuthors, pulled)
		}
		if w.Boards == nil {
			continue
		}
		if err := w.Boards.CompareBoard(user); err != nil {
			return err
		}
	}
	return w.CheckFeedsAndBoards()
}

// inboxKey is the key of a home feed.
func inboxKey(user services.UserID) string { return redis.UserKey(user, ":i") }

// unpackAuthors reads a list of authors as documents have it: the author in 4 bytes, and since when they are followed in 8.
func unpackAuthors(packed string) (authors []services.FollowedAuthor) {
	for ; len(packed) >= 12; packed = packed[12:] {
		bytes := []byte(packed[:12])
		authors = append(authors, services.FollowedAuthor{
			Author: services.UserID(binary.BigEndian.Uint32(bytes)), ItemsCountAfter: services.SortableID(binary.BigEndian.Uint64(bytes[4:])),
		})
	}
	return authors
}

// parseEntry reads a member of an inbox: the post, the author and whether it counts.
func parseEntry(member string) (entry services.FeedEntry, ok bool) {
	if len(member) != services.SortableIDLetters+6 {
		return entry, false
	}
	post, author, flag := member[:services.SortableIDLetters], member[services.SortableIDLetters:len(member)-1], member[len(member)-1]
	id, err := services.ParseSortableID(post)
	entry.Post, entry.CountsAsNew = services.PostID(id), flag == '+'
	entry.Author, ok = rdb.ParseAuthor(author)
	return entry, ok && err == nil && (flag == '+' || flag == '-')
}

// SortByAuthor sorts a copy of a list by author.
func SortByAuthor(list []services.FollowedAuthor) []services.FollowedAuthor {
	return slices.SortedFunc(slices.Values(list), func(a, b services.FollowedAuthor) int { return cmp.Compare(a.Author, b.Author) })
}
