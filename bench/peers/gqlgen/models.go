package main

// Viewer is the user that the token names.
type Viewer struct {
	number uint32
}

// PostEdge is a place of the list; its post is read by a resolver of its own.
type PostEdge struct {
	Cursor string
	member string // of the inbox
}

// Post is a post; a resolver of its own reads its author.
type Post struct {
	ID          string
	Kind        PostKind
	Body        string
	PublishedAt string
	author      uint32
}
