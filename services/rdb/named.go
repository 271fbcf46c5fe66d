package rdb

import (
	"context"
	"encoding/binary"

	"tidings/services"
	"tidings/services/redis"
)

// AuthorsField is a field of a document that names followed authors whose posts or shows the nodes have in memory.
type AuthorsField string

// The fields that name authors.
const (
	PulledAuthorsField AuthorsField = "F" // authors whose posts are pulled
	HostsField         AuthorsField = "L" // authors who have shows
)

// The constants are the format of a field that names authors. lib_named.lua has the same format.
const (
	// packedAuthorSize is the size of one author in a field: the author's ID, and since when they are followed.
	packedAuthorSize = 4 + 8
	// countsNothingBit is set in the start of the follow (since when the author is followed) if the host's shows do not count. No ID has
	// this bit.
	countsNothingBit = 1 << 63
)

// mergeAuthorsScript is the script of MergeAuthors.
var mergeAuthorsScript = loadScript("named_merge")

// AuthorAddition is one author for one reader: from now on a read of the reader's feed or board merges in the author's posts or
// shows.
type AuthorAddition struct {
	Reader services.UserID
	Author services.FollowedAuthor // to be named in the reader's document
}

// MergeAuthors adds authors to readers' documents, at most 500 in a round trip. Results are in the order of adds. If anything was
// removed from a reader's projection since the stamp, the result is Retry: read the follow again.
func (c *Projections) MergeAuthors(ctx context.Context, field AuthorsField, stamp redis.ClockStamp, adds []AuthorAddition) ([]redis.Result, error) {
	calls := make([]redis.ScriptCall, len(adds))
	text := stamp.String()
	for i, add := range adds {
		calls[i] = redis.ScriptCall{Keys: inboxScriptKeys(add.Reader), Args: []any{text, string(field), packAuthors(add.Author)}}
	}
	return c.Client.ChangeForResults(ctx, mergeAuthorsScript, calls)
}

// packAuthors packs authors in the format of an AuthorsField: packedAuthorSize bytes each.
func packAuthors(authors ...services.FollowedAuthor) string {
	text := make([]byte, 0, packedAuthorSize*len(authors))
	for _, author := range authors {
		text = binary.BigEndian.AppendUint32(text, uint32(author.Author))
		since := uint64(author.ItemsCountAfter)
		if author.CountsNothing {
			since |= countsNothingBit
		}
		text = binary.BigEndian.AppendUint64(text, since)
	}
	return string(text)
}

// packedAuthorID is the beginning of an author's entry in a field that names authors.
func packedAuthorID(author services.UserID) string {
	return packAuthors(services.FollowedAuthor{Author: author})[:4]
}

// unpackAuthors reads what packAuthors prints for a field. Only hosts may have countsNothingBit: in another field it means that the
// field is broken.
func (p *documentParser) unpackAuthors(field AuthorsField, packed string) (authors []services.FollowedAuthor) {
	if len(packed)%packedAuthorSize != 0 {
		p.failed = true
		return nil
	}
	if packed != "" {
		authors = make([]services.FollowedAuthor, 0, len(packed)/packedAuthorSize)
	}
	for ; packed != ""; packed = packed[packedAuthorSize:] {
		bytes := []byte(packed[:packedAuthorSize])
		since := binary.BigEndian.Uint64(bytes[4:])
		p.failed = p.failed || since&countsNothingBit != 0 && field != HostsField
		authors = append(authors, services.FollowedAuthor{
			Author: services.UserID(binary.BigEndian.Uint32(bytes)), ItemsCountAfter: services.SortableID(since &^ countsNothingBit), CountsNothing: since&countsNothingBit != 0,
		})
	}
	return authors
}
