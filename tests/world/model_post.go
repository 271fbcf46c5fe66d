package world

import "sync/atomic"

// worldPost is a post as the model knows it.
type worldPost struct {
	ID, author string
	Deleted    bool
}

// Worlds counts the worlds of a test binary, so that the people of each have names of their own.
var Worlds atomic.Int64
