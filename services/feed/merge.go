package feed

import (
	"container/heap"
	"slices"

	"tidings/services"
	"tidings/services/nodecache"
	"tidings/services/rdb"
)

// rawPage is a part of a reader's feed, merged from the inbox and the posts of pulled authors, before deleted posts are left out.
type rawPage struct {
	Entries       []services.FeedEntry // newest first
	OlderPostsCut bool                 // older posts exist that the feed does not list: it ends at its 300th entry
	InboxBuilding bool                 // the page comes from the facts, because the inbox is still being built
	FromFacts     bool                 // the page comes from the facts
	SeenUpTo      services.PostID      // the seen position; not read if FromFacts is set
	NewestTrimmed services.PostID      // the inbox floor; not read if FromFacts is set
}

// mergePage returns the newest limit entries below a position, merged from the inbox and from the posts of pulled authors. A feed has 300
// entries in all, so it ends after the 300th entry, counted from the top. The inbox and each author's posts have a floor, the newest post
// that was dropped there. Nothing at or below the newest floor is listed, because posts may be missing there. The inbox comes with limit
// entries, or with all that it has.
func mergePage(inbox rdb.InboxPage, pulled []nodecache.PulledPosts, before services.PostID, limit int) rawPage {
	page := rawPage{OlderPostsCut: inbox.OlderPostsCut, SeenUpTo: inbox.SeenUpTo, NewestTrimmed: inbox.NewestTrimmed}
	// room is how many of the feed's 300 entries can be below the position.
	floor, room := inbox.NewestTrimmed, services.FeedRetention-inbox.EntriesAbove
	// A heap of the authors finds the newest pulled post in the logarithm of their number: a reader may follow many of
	// them.
	heads := make(authorHeap, 0, len(pulled))
	for _, author := range pulled {
		below, _ := slices.BinarySearch(author.Posts, before)
		room -= len(author.Posts) - below
		floor = max(floor, author.NextOlder)
		if below > 0 {
			heads = append(heads, authorPosts{author, below - 1})
		}
	}
	page.OlderPostsCut = page.OlderPostsCut || floor > 0
	heap.Init(&heads)
	// From here on two lists are merged, both newest first.
	rest := inbox.Entries
	page.Entries = make([]services.FeedEntry, 0, limit)
	for len(rest) > 0 || len(heads) > 0 {
		var next services.FeedEntry
		if len(heads) == 0 || len(rest) > 0 && rest[0].Post >= heads[0].post() {
			next, rest = rest[0], rest[1:]
		} else {
			next = heads[0].entry()
			heads.dropTopPost()
		}
		if next.Post <= floor {
			break
		}
		// A post that is in the inbox and among the pulled posts is listed once.
		if last := len(page.Entries) - 1; last >= 0 && page.Entries[last].Post == next.Post {
			continue
		}
		if len(page.Entries) >= room {
			page.OlderPostsCut = true
			break
		}
		if len(page.Entries) == limit {
			break
		}
		page.Entries = append(page.Entries, next)
	}
	return page
}

// authorPosts is the part of a pulled author's posts that mergePage has not taken yet.
type authorPosts struct {
	nodecache.PulledPosts
	newestIndex int // the index of the newest post of that part; the older posts are before it
}

// post is the author's newest post that is not taken yet.
func (s authorPosts) post() services.PostID { return s.Posts[s.newestIndex] }

// entry is the author's newest post that is not taken yet, as an entry of the feed. The entry counts if it is newer than the follow.
func (s authorPosts) entry() services.FeedEntry {
	return services.FeedEntry{Post: s.post(), Author: s.Author, CountsAsNew: s.post() > services.PostID(s.ItemsCountAfter)}
}

// authorHeap is a heap of the authors who have posts that are not taken yet, the author of the newest such post on top. container/heap
// calls its methods.
type authorHeap []authorPosts

// dropTopPost removes the newest post of the author on top. An author whose posts are all taken leaves the heap.
func (s *authorHeap) dropTopPost() {
	if top := &(*s)[0]; top.newestIndex > 0 {
		top.newestIndex--
		heap.Fix(s, 0)
	} else {
		heap.Pop(s)
	}
}

// Len, Less, Swap, Push and Pop are heap.Interface.
func (s authorHeap) Len() int           { return len(s) }
func (s authorHeap) Less(i, j int) bool { return s[i].post() > s[j].post() }
func (s authorHeap) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }

// Push adds an author at the end. heap.Interface requires it, but nothing calls it: all authors are there before heap.Init.
func (s *authorHeap) Push(one any) { *s = append(*s, one.(authorPosts)) }

// Pop removes the last author, where heap.Pop has moved the top.
func (s *authorHeap) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}
