package rdb

import (
	"context"
	"encoding/binary"

	"tidings/services"
)

// pulledSize is how many bytes of a document's F an author takes: his number, and since when he is followed.
const pulledSize = 4 + 8

var pulledMerge = loadScript("pulled_merge")

// AddPulled is one author for one reader: from now on whoever shows the reader's feed merges his posts in.
type AddPulled struct {
	Reader services.UserNumber
	Author services.FollowedAuthor
}

// MergePulled writes authors whose posts are pulled from now on into their readers' documents, one round trip for each
// 500. Results are in the order of adds. A reader of whom anything was removed since the stamp is answered with Retry: his
// edge is to be read again.
func (c *Client) MergePulled(ctx context.Context, stamp Stamp, adds []AddPulled) ([]Result, error) {
	calls := make([]call, len(adds))
	text := stamp.text()
	for i, add := range adds {
		calls[i] = call{keys: inboxKeys(add.Reader), args: []any{text, pulledText(add.Author)}}
	}
	return c.results(ctx, pulledMerge, calls)
}

// pulledText packs authors as F has them.
func pulledText(authors ...services.FollowedAuthor) string {
	text := make([]byte, 0, pulledSize*len(authors))
	for _, author := range authors {
		text = binary.BigEndian.AppendUint32(text, uint32(author.Author))
		text = binary.BigEndian.AppendUint64(text, uint64(author.Since))
	}
	return string(text)
}

// authorBytes is how an author's entry in F begins.
func authorBytes(author services.UserNumber) string {
	return pulledText(services.FollowedAuthor{Author: author})[:4]
}

// unpackPulled reads what pulledText prints.
func (p *parser) unpackPulled(packed string) (authors []services.FollowedAuthor) {
	if len(packed)%pulledSize != 0 {
		p.failed = true
		return nil
	}
	if packed != "" {
		authors = make([]services.FollowedAuthor, 0, len(packed)/pulledSize)
	}
	for ; packed != ""; packed = packed[pulledSize:] {
		bytes := []byte(packed[:pulledSize])
		author := services.FollowedAuthor{
			Author: services.UserNumber(binary.BigEndian.Uint32(bytes)), Since: services.PostID(binary.BigEndian.Uint64(bytes[4:])),
		}
		p.failed = p.failed || author.Since > services.MaxPostID
		authors = append(authors, author)
	}
	return authors
}
