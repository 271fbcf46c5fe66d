package services

import "time"

// Explanation lists the items behind one count.
type Explanation struct {
	Source Source
	Part   string // the category or type, if the source has several
	Count  Count
	Items  []Item // newest first

	// Ahead is set for alerts only: Items add up to more than Count, which does not have all of them yet.
	Ahead bool
}

// Item is one item behind a count.
type Item struct {
	ID            string    // its global ID
	At            time.Time // when it arrived
	Count         int       // its share of the count: 1, except for a conversation and a view
	ClearedBy     string    // the mutation that removes it from the count
	AtIsUncertain bool      // At may be the time of a part of the item that does not count
}

// Digest summarizes the items that arrived while a user was away.
type Digest struct {
	Since   time.Time // the zero time: this is the user's first visit
	Parts   []DigestPart
	Authors []UserID // the followed authors with the most posts since then, at most three
}

// DigestPart is the number of items from one source that arrived since Digest.Since, seen or not.
type DigestPart struct {
	Source Source
	Part   string // the category or type, if the source has several
	Count  Count
}
