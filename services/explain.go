package services

import "time"

// Explanation says which items make one number.
type Explanation struct {
	Source Source
	Part   string // the category or type, where the source has several
	Count  Count
	Items  []Item // newest first
}

// Item is one thing behind a number.
type Item struct {
	ID        string // its global id
	At        time.Time
	Count     int    // how much of the number it is: 1, but for a conversation
	ClearedBy string // the mutation that takes it out of the number
}

// Digest is what came while a user was away.
type Digest struct {
	Since   time.Time // the zero time: he was never here before
	Parts   []DigestPart
	Authors []UserID // of those he follows, who posted most meanwhile, at most three
}

// DigestPart is what one source brought meanwhile, seen or not.
type DigestPart struct {
	Source Source
	Part   string // the category or type, where the source has several
	Count  Count
}
