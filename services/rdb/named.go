package rdb

import (
	"context"
	"encoding/binary"

	"tidings/services"
	"tidings/services/redis"
)

// NamedField is a field of a document that names followed authors whose posts or shows the nodes have in memory.
type NamedField string

// The fields that name authors.
const (
	PulledAuthors NamedField = "F" // authors whose posts are pulled
	Hosts         NamedField = "L" // authors who have shows
)

// The constants are the format of a field that names authors. lib_named.lua has the same format.
const (
	// namedAuthorSize is the size of one author in a field: the author's ID, and since when they are followed.
	namedAuthorSize = 4 + 8
	// quietBit is set in the time of a host whose shows do not count. No ID has this bit.
	quietBit = 1 << 63
)

// namedMerge is the script of MergeNamed.
var namedMerge = loadScript("named_merge")

// NamedAdd is one author for one reader: from now on a read of the reader's feed or board merges in the author's posts or
// shows.
type NamedAdd struct {
	Reader services.UserID
	Author services.FollowedAuthor
}

// MergeNamed adds authors to readers' documents, at most 500 in a round trip. Results are in the order of adds. If anything was removed
// from a reader's view since the stamp, the result is Retry: read the follow again.
func (c *Projections) MergeNamed(ctx context.Context, field NamedField, stamp redis.Stamp, adds []NamedAdd) ([]redis.Result, error) {
	calls := make([]redis.Call, len(adds))
	text := stamp.String()
	for i, add := range adds {
		calls[i] = redis.Call{Keys: inboxKeys(add.Reader), Args: []any{text, string(field), packNamed(add.Author)}}
	}
	return c.ChangeForResults(ctx, namedMerge, calls)
}

// packNamed packs authors in a field's format.
func packNamed(authors ...services.FollowedAuthor) string {
	text := make([]byte, 0, namedAuthorSize*len(authors))
	for _, author := range authors {
		text = binary.BigEndian.AppendUint32(text, uint32(author.Author))
		since := uint64(author.Since)
		if author.Quiet {
			since |= quietBit
		}
		text = binary.BigEndian.AppendUint64(text, since)
	}
	return string(text)
}

// authorBytes is the beginning of an author's entry in a field that names authors.
func authorBytes(author services.UserID) string {
	return packNamed(services.FollowedAuthor{Author: author})[:4]
}

// unpackNamed reads what packNamed prints for a field. Only hosts may be quiet: the bit in another field means that it
// is broken.
func (p *parser) unpackNamed(field NamedField, packed string) (authors []services.FollowedAuthor) {
	if len(packed)%namedAuthorSize != 0 {
		p.failed = true
		return nil
	}
	if packed != "" {
		authors = make([]services.FollowedAuthor, 0, len(packed)/namedAuthorSize)
	}
	for ; packed != ""; packed = packed[namedAuthorSize:] {
		bytes := []byte(packed[:namedAuthorSize])
		since := binary.BigEndian.Uint64(bytes[4:])
		p.failed = p.failed || since&quietBit != 0 && field != Hosts
		authors = append(authors, services.FollowedAuthor{
			Author: services.UserID(binary.BigEndian.Uint32(bytes)), Since: services.PostID(since &^ quietBit), Quiet: since&quietBit != 0,
		})
	}
	return authors
}
