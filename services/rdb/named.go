package rdb

import (
	"context"
	"encoding/binary"

	"tidings/services"
	"tidings/services/redis"
)

// NamedField is a field of a document that names followed authors, because nodes have in memory what they publish.
type NamedField string

// The fields that name authors.
const (
	PulledAuthors NamedField = "F" // whose posts are pulled
	Hosts         NamedField = "L" // who have shows
)

// namedSize is how many bytes of such a field an author takes: his number, and since when he is followed.
const namedSize = 4 + 8

var namedMerge = loadScript("named_merge")

// AddNamed is one author for one reader: from now on whoever shows the reader's feed or board merges in what the author has.
type AddNamed struct {
	Reader services.UserID
	Author services.FollowedAuthor
}

// MergeNamed lets readers' documents name authors from now on, one round trip for each 500. Results are in the order of
// adds. A reader of whom anything was removed since the stamp is answered with Retry: his edge is to be read again.
func (c *Projections) MergeNamed(ctx context.Context, field NamedField, stamp Stamp, adds []AddNamed) ([]Result, error) {
	calls := make([]redis.Call, len(adds))
	text := stamp.text()
	for i, add := range adds {
		calls[i] = redis.Call{Keys: inboxKeys(add.Reader), Args: []any{text, string(field), namedText(add.Author)}}
	}
	return c.results(ctx, namedMerge, calls)
}

// namedText packs authors as a field has them.
func namedText(authors ...services.FollowedAuthor) string {
	text := make([]byte, 0, namedSize*len(authors))
	for _, author := range authors {
		text = binary.BigEndian.AppendUint32(text, uint32(author.Author))
		text = binary.BigEndian.AppendUint64(text, uint64(author.Since))
	}
	return string(text)
}

// authorBytes is how an author's entry in such a field begins.
func authorBytes(author services.UserID) string {
	return namedText(services.FollowedAuthor{Author: author})[:4]
}

// unpackNamed reads what namedText prints.
func (p *parser) unpackNamed(packed string) (authors []services.FollowedAuthor) {
	if len(packed)%namedSize != 0 {
		p.failed = true
		return nil
	}
	if packed != "" {
		authors = make([]services.FollowedAuthor, 0, len(packed)/namedSize)
	}
	for ; packed != ""; packed = packed[namedSize:] {
		bytes := []byte(packed[:namedSize])
		author := services.FollowedAuthor{
			Author: services.UserID(binary.BigEndian.Uint32(bytes)), Since: services.PostID(binary.BigEndian.Uint64(bytes[4:])),
		}
		p.failed = p.failed || author.Since > services.MaxPostID
		authors = append(authors, author)
	}
	return authors
}
