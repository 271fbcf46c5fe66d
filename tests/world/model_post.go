package world

import "sync/atomic"

type worldPost struct {
	Id, author string
	Deleted    bool
}

var Worlds atomic.Int64
