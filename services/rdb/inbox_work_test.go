package rdb

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidings/services"
	"tidings/services/redis"
)

// The work of a world: the steps of services/fanout, with a pause wherever another process could run in between.

// spread updates the author's own feed and then cuts the current followers into chunks.
func (w *world) spread(pause func(), id services.PostID, remove bool) error {
	author := w.posts[id].Author
	var err error
	if remove {
		_, err = w.client.DeleteFromInboxes(w.ctx, []services.UserID{author}, id, author)
	} else {
		err = w.addAgain(pause, author, id)
	}
	if err != nil {
		return err
	}
	pause()
	followers := w.followers(author, 0)
	for len(followers) > 0 {
		size := min(worldChunk, len(followers))
		after, to := followers[0]-1, followers[size-1]
		w.enqueue(fmt.Sprintf("chunk %d of %d, remove %v", to, id, remove), func(pause func()) error {
			return w.chunk(pause, id, remove, after, to)
		})
		followers = followers[size:]
	}
	return nil
}

// chunk updates the followers with IDs above after, up to to, as they are when it runs.
func (w *world) chunk(pause func(), id services.PostID, remove bool, after, to services.UserID) error {
	stamp, err := w.client.Now(w.ctx)
	if err != nil {
		return err
	}
	pause()
	post := *w.posts[id]
	if post.Deleted && !remove {
		return nil
	}
	pause()
	var adds []Add
	var readers []services.UserID
	for _, reader := range w.followers(post.Author, after) {
		if reader <= to {
			counts := id > w.edges[edge{reader, post.Author}]
			adds = append(adds, Add{reader, services.FeedEntry{Post: id, Author: post.Author, Counts: counts}})
			readers = append(readers, reader)
		}
	}
	pause()
	if remove {
		_, err := w.client.DeleteFromInboxes(w.ctx, readers, id, post.Author)
		return err
	}
	results, err := w.client.AddToInboxes(w.ctx, stamp, adds)
	if err != nil {
		return err
	}
	for i, result := range results {
		if result.Status == redis.Retry {
			if err := w.addAgain(pause, readers[i], id); err != nil {
				return err
			}
		}
	}
	return nil
}

// addAgain rereads one post and one edge for one reader.
func (w *world) addAgain(pause func(), reader services.UserID, id services.PostID) error {
	for range worldRound {
		stamp, err := w.client.StampOf(w.ctx, reader)
		if err != nil || stamp == 0 {
			return err
		}
		pause()
		post := *w.posts[id]
		if post.Deleted {
			return nil
		}
		pause()
		entry := services.FeedEntry{Post: id, Author: post.Author}
		if reader != post.Author {
			since, follows := w.edges[edge{reader, post.Author}]
			if !follows {
				return nil
			}
			entry.Counts = id > since
		}
		pause()
		result, err := w.client.MergeIntoInbox(w.ctx, Merge{Reader: reader, Stamp: stamp, Entries: []services.FeedEntry{entry}})
		if err != nil || result.Status != redis.Retry {
			return err
		}
	}
	return fmt.Errorf("post %d for reader %d: refused %d times", id, reader, worldRound)
}

// reconcile makes a reader's posts of an author agree with the current edge.
func (w *world) reconcile(pause func(), reader, author services.UserID) error {
	for range worldRound {
		stamp, err := w.client.StampOf(w.ctx, reader)
		if err != nil || stamp == 0 {
			return err
		}
		pause()
		since, follows := w.edges[edge{reader, author}]
		if !follows {
			pause()
			if _, err := w.client.DropFromInbox(w.ctx, reader, author); err != nil {
				return err
			}
			pause()
			if _, again := w.edges[edge{reader, author}]; again && w.rereads {
				continue
			}
			return nil
		}
		pause()
		var pulled []services.FollowedAuthor
		if w.pulls[author] {
			pulled = []services.FollowedAuthor{{Author: author, Since: since}}
		}
		hosts, refused, err := w.mergeHost(pause, reader, author, since, stamp)
		if err != nil {
			return err
		}
		if refused {
			continue
		}
		posts := w.ids(func(post *services.Post) bool { return post.Author == author && !post.Deleted })
		entries := make([]services.FeedEntry, min(len(posts), w.depth))
		for i := range entries {
			entries[i] = services.FeedEntry{Post: posts[i], Author: author, Counts: posts[i] > since}
		}
		pause()
		result, err := w.client.MergeIntoInbox(w.ctx, Merge{Reader: reader, Stamp: stamp, Fence: true, Pulled: pulled, Hosts: hosts, Entries: entries})
		if err != nil {
			return err
		}
		if result.Status != redis.Retry {
			pause()
			return w.sweep(pause, reader, author, posts)
		}
	}
	return fmt.Errorf("reader %d and author %d: refused %d times", reader, author, worldRound)
}

// sweep removes from the reader's inbox the posts that the author deleted while the reader did not follow: those removals went
// only to the followers of that time. It runs after the fence, so that no older read brings a post back.
func (w *world) sweep(pause func(), reader, author services.UserID, alive []services.PostID) error {
	if !w.sweeps {
		return nil
	}
	posts, err := w.client.AuthorInInbox(w.ctx, reader, author)
	if err != nil {
		return err
	}
	pause()
	for _, id := range posts {
		if slices.Contains(alive, id) || !w.posts[id].Deleted {
			continue
		}
		if _, err := w.client.DeleteFromInboxes(w.ctx, []services.UserID{reader}, id, author); err != nil {
			return err
		}
	}
	return nil
}

// rebuild marks, reads and merges, in this order.
func (w *world) rebuild(pause func(), user services.UserID, refill bool) error {
	for range worldRound {
		stamps, err := w.client.BeginRebuild(w.ctx, []services.UserID{user}, refill)
		if err != nil {
			return err
		}
		pause()
		facts := FeedFacts{Reader: user, Stamp: stamps[0], Day: 20_000, Lifetime: time.Hour, Seen: w.seen[user]}
		pause()
		facts.Entries = w.homeFeed(user)
		facts.Pulled, facts.Hosts = w.pulledBy(user), w.hostsBy(user)
		pause()
		result, err := w.client.EndRebuild(w.ctx, facts)
		if err != nil || result.Status == redis.Applied {
			return err
		}
	}
	return fmt.Errorf("rebuild of %d: refused %d times", user, worldRound)
}

func (w *world) projectSeen(pause func(), user services.UserID) error {
	seen := w.seen[user]
	pause()
	_, err := w.client.MarkFeedSeen(w.ctx, user, seen)
	return err
}

func (w *world) followers(author, after services.UserID) []services.UserID {
	var followers []services.UserID
	for edge := range w.edges {
		if edge.author == author && edge.reader > after {
			followers = append(followers, edge.reader)
		}
	}
	slices.Sort(followers)
	return followers
}

// A snapshot is Redis' content of one user's feed. Without a document or without an inbox, whole is false.
type snapshot struct {
	whole      bool
	st, n, fc  string
	seen       services.PostID
	entries    []services.FeedEntry // oldest first
	floor      string
	ft         string
	unreadable string // a member that is not an entry
	pulled     []services.FollowedAuthor
	hosts      []services.FollowedAuthor
}

// snapshots reads several users' feeds in one round trip, without the methods under test.
func snapshots(w *world) (map[services.UserID]snapshot, error) {
	commands, err := w.client.Pipeline(w.ctx, func(p redis.Pipeliner) {
		for _, user := range w.users {
			p.HMGet(w.ctx, DocumentKey(user), "st", "n", "fc", "T", "ft", "F", "L")
			p.ZRange(w.ctx, inboxKey(user), 0, -1)
		}
	})
	if err != nil {
		return nil, err
	}
	all := map[services.UserID]snapshot{}
	for i, user := range w.users {
		all[user] = newSnapshot(commands[2*i].(*redis.SliceCmd).Val(), commands[2*i+1].(*redis.StringSliceCmd).Val())
	}
	return all, nil
}

func newSnapshot(fields []any, members []string) (s snapshot) {
	if fields[0] == nil || len(members) == 0 {
		return s
	}
	s.whole = true
	var T string
	for i, into := range []*string{&s.st, &s.n, &s.fc, &T, &s.ft} {
		*into, _ = fields[i].(string)
	}
	s.seen, _ = services.ParsePostID(T)
	packed, _ := fields[5].(string)
	s.pulled = sortPulled((&parser{}).unpackNamed(packed))
	packed, _ = fields[6].(string)
	s.hosts = sortPulled((&parser{}).unpackNamed(packed))
	s.floor = members[0]
	for _, member := range members[1:] {
		entry, ok := parseEntry(member)
		if !ok {
			s.unreadable = member
		}
		s.entries = append(s.entries, entry)
	}
	return s
}

// fault reports a flaw of one view by itself: an order that is not total, a post twice, a count that differs from the list.
func (s snapshot) fault() error {
	if !s.whole {
		return nil
	}
	if s.unreadable != "" || s.floor[0] != sentinel {
		return fmt.Errorf("the inbox begins with %q and has the member %q", s.floor, s.unreadable)
	}
	count := 0
	for i, entry := range s.entries {
		if i > 0 && entry.Post <= s.entries[i-1].Post {
			return fmt.Errorf("post %d stands after %d: twice, or out of order", entry.Post, s.entries[i-1].Post)
		}
		if entry.Post.String() <= s.floor[1:] {
			return fmt.Errorf("post %s lies below the floor %s", entry.Post, s.floor)
		}
		if entry.Counts && entry.Post > s.seen {
			count++
		}
	}
	want := strconv.Itoa(min(count, services.Retention))
	if count > services.Retention || s.ft > s.seen.String() {
		want += "+"
	}
	// While the view is being built, and until the next write, the count is still that of the earlier list.
	if s.st == "1" && s.fc != want {
		return fmt.Errorf("fc is %s and the list has %s", s.fc, want)
	}
	return nil
}

// check checks every view after a step: by itself, and against its state before.
func (w *world) check() error {
	all, err := snapshots(w)
	if err != nil {
		return err
	}
	for user, now := range all {
		if err := now.fault(); err != nil {
			return fmt.Errorf("user %d: %w", user, err)
		}
		before, had := w.shown[user]
		if !now.whole || now.st != "1" {
			continue // no reader sees this state
		}
		w.shown[user] = now
		if !had {
			continue
		}
		if now.seen < before.seen {
			return fmt.Errorf("user %d: seen up to %d after %d: the mark moved back", user, now.seen, before.seen)
		}
		changed := now.fc != before.fc || now.seen != before.seen || !slices.Equal(now.entries, before.entries) ||
			!slices.Equal(now.pulled, before.pulled) || !slices.Equal(now.hosts, before.hosts)
		if order := strings.Compare(now.n, before.n); order < 0 || order == 0 && changed {
			return fmt.Errorf("user %d: version %s after %s, changed: %v", user, now.n, before.n, changed)
		}
	}
	return w.checkBoards()
}

// compare finishes all work, rebuilds what readers find missing, and compares the views with the facts.
func (w *world) compare() error {
	for _, user := range w.users {
		ready, err := w.ready(user)
		if err == nil && !ready {
			err = w.rebuild(func() {}, user, false)
		}
		if err != nil {
			return err
		}
		documents, err := w.client.Documents(w.ctx, []services.UserID{user})
		if err != nil {
			return err
		}
		page, err := w.client.Inbox(w.ctx, user, services.MaxPostID, services.Retention)
		if err != nil {
			return err
		}
		want := w.homeFeed(user)
		if !page.Ready || page.Cut || !slices.Equal(page.Entries, want) {
			return fmt.Errorf("user %d: the inbox is %+v, the facts say %+v", user, page, want)
		}
		count := 0
		for _, entry := range want {
			if entry.Counts && entry.Post > w.seen[user] {
				count++
			}
		}
		d := documents[0]
		if !d.Ready || d.FeedCount != count || d.FeedMore || d.Seen != w.seen[user] {
			return fmt.Errorf("user %d: the document is %+v, the facts say %d above %d", user, d, count, w.seen[user])
		}
		if pulled := w.pulledBy(user); !slices.Equal(sortPulled(d.Pulled), pulled) || !slices.Equal(sortPulled(page.Pulled), pulled) {
			return fmt.Errorf("user %d: pulled are %v, the facts say %v", user, d.Pulled, pulled)
		}
		if err := w.compareBoard(user); err != nil {
			return err
		}
	}
	return w.check()
}
