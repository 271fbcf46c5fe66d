package main

// Viewer is the user that the token names.
type Viewer struct {
	userID uint32
}

// PostEdge is an entry of the list; a separate resolver reads its post.
type PostEdge struct {
	Cursor      string
	inboxMember string // the post as a member of the user's inbox
}

// Post is a post; a separate resolver reads its author.
type Post struct {
	ID          string
	Kind        PostKind
	Body        string
	PublishedAt string
	author      uint32 // the author's user ID
}
