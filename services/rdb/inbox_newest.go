package rdb

import (
	"context"

	"tidings/services"
	"tidings/services/redis"
)

// These are the reads of the newest entries of an inbox.
var (
	inboxFields       = redis.NewFewFields([]string{"st", "e", "F", "T", "d"}) // what parseInboxState needs of the document
	inboxSentinelRead = redis.NewRange(0, 0, false)                            // the first member: the sentinel, which holds the floor
	inboxNewestReads  = newestRanges()                                         // the reads of the newest members: at i that of i members
)

// newestRanges prepares the read of each number of entries that a page can ask for.
func newestRanges() (ranges [services.FeedRetention + 1]*redis.SortedSetRange) {
	for limit := 1; limit < len(ranges); limit++ {
		ranges[limit] = redis.NewRange(0, limit-1, true)
	}
	return ranges
}

// NewestOfInboxes reads the first page of several readers' inboxes in one round trip: for each reader the newest entries, up to
// the reader's limit, which is from 1 to services.FeedRetention. It asks Redis for less than Inbox does: within that limit all
// entries are listed, and none is above the page. An error comes from Redis and is UNAVAILABLE.
func (c *Projections) NewestOfInboxes(ctx context.Context, readers []services.UserID, limits []int) ([]InboxPage, error) {
	if err := c.Client.CheckTrusted(); err != nil {
		return nil, err
	}
	const each = 3 // the number of reads for each reader
	var room [each]redis.KeyRead
	reads := room[:0]
	for i, reader := range readers {
		key := inboxKey(reader)
		reads = append(reads, redis.KeyRead{Key: DocumentKey(reader), Read: inboxFields}, redis.KeyRead{Key: key, Read: inboxSentinelRead}, redis.KeyRead{Key: key, Read: inboxNewestReads[limits[i]]})
	}
	pages := make([]InboxPage, len(readers))
	var fields [5]string
	epoch := ""
	err := c.Client.ReadEach(redis.WithReadGuard(ctx), reads, func(at int, texts []string) {
		if at == 0 { // only now: each connection that answered has reported its server's lineage
			epoch = c.Client.Epoch()
		}
		page := &pages[at/each]
		switch at % each {
		case 0:
			copy(fields[:], texts)
		case 1:
			*page = parseInboxState(fields[:], texts, epoch)
		default:
			page.Entries = entriesOf(texts)
		}
	})
	if err != nil {
		return nil, err
	}
	for i := range pages {
		if !pages[i].Ready {
			pages[i] = InboxPage{}
		}
	}
	return pages, nil
}

// entriesOf parses the members of an inbox, without its sentinel: the member that holds the inbox floor.
func entriesOf(members []string) (entries []services.FeedEntry) {
	for i, member := range members {
		entry, ok := parseEntry(member)
		if !ok {
			continue
		}
		if entries == nil {
			entries = make([]services.FeedEntry, 0, len(members)-i)
		}
		entries = append(entries, entry)
	}
	return entries
}
