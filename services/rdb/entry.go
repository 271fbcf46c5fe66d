package rdb

import (
	"math"

	"tidings/services"
)

// A member of an inbox is 19 printable bytes: the post's ID (13 letters, so that members sort by it), the author's ID (5
// letters, base 85) and a flag. 300 of them take under 8 KB, because every score is the same 0.
const (
	idLength          = services.SortableIDLetters       // letters of a post's ID
	authorLetterCount = 5                                // letters of an author's ID
	entryLength       = idLength + authorLetterCount + 1 // letters of an entry: the two IDs and the flag

	// The flag is last, so that the two possible entries of one post, which differ only in it, are neighbours: a script finds
	// one from the other.
	flagCounts     = '+'
	flagNotCounted = '-' // listed, but not counted: the reader's own posts, and posts merged in from before the follow
	// 85 is the least base in which 5 letters hold 32 bits.
	authorLettersBase = 85
	firstAuthorLetter = '!' // '!' to 'u'
)

// AuthorLetters prints an author as entries of lists contain them: 5 digits of base 85, the most significant first, for
// 32 bits.
func AuthorLetters(author services.UserID) string {
	var letters [authorLetterCount]byte
	for i := authorLetterCount - 1; i >= 0; i-- {
		letters[i] = firstAuthorLetter + byte(author%authorLettersBase)
		author /= authorLettersBase
	}
	return string(letters[:])
}

// entryText prints an entry as a member of the inbox.
func entryText(entry services.FeedEntry) string {
	flag := byte(flagNotCounted)
	if entry.CountsAsNew {
		flag = flagCounts
	}
	return entryWithoutFlag(entry.Post, entry.Author) + string(flag)
}

// entryWithoutFlag prints the entry without its flag. A deletion removes the entry with either flag.
func entryWithoutFlag(post services.PostID, author services.UserID) string {
	return post.String() + AuthorLetters(author)
}

// parseEntry reads a member of an inbox; ok is false for the sentinel, the member with the floor, and for anything else that is not
// an entry.
func parseEntry(member string) (entry services.FeedEntry, ok bool) {
	if len(member) != entryLength {
		return entry, false
	}
	id, err := services.ParseSortableID(member[:idLength])
	if err != nil {
		return entry, false
	}
	author, ok := ParseAuthor(member[idLength : idLength+authorLetterCount])
	flag := member[entryLength-1]
	if !ok || flag != flagCounts && flag != flagNotCounted {
		return entry, false
	}
	return services.FeedEntry{Post: services.PostID(id), Author: author, CountsAsNew: flag == flagCounts}, true
}

// ParseAuthor reads what AuthorLetters prints.
func ParseAuthor(letters string) (services.UserID, bool) {
	if len(letters) != authorLetterCount {
		return 0, false
	}
	var author uint64
	for _, letter := range []byte(letters) {
		if letter < firstAuthorLetter || letter >= firstAuthorLetter+authorLettersBase {
			return 0, false
		}
		author = author*authorLettersBase + uint64(letter-firstAuthorLetter)
	}
	return services.UserID(author), author <= math.MaxUint32
}
