// Package rdb holds the projections, Redis' view of the facts, over the engine services/redis: one file and its scripts
// (lua/*.lua) for each.
//
// It guarantees that every view of Redis is written by a script that may be repeated, and that a read of several keys is
// one round trip. What it keeps can be rebuilt from the facts in SQL: an answer from here is a view, never a fact.
package rdb

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"tidings/services"
	"tidings/services/redis"
)

// Projections read and write Redis' view of the facts through the engine services/redis. They are safe for concurrent use.
type Projections struct {
	*redis.Client
	layout atomic.Pointer[layout]
	// changing is held while layout is changed: each change keeps what the others set.
	changing sync.Mutex
}

// Shape is the part of documents that the configuration decides. The zero value is the default. All nodes need the same
// Shape.
type Shape struct {
	// MessageTypes are the types of site messages that documents count; none means "general".
	MessageTypes []string
	// Expiry selects the sources whose documents keep the age of unread items. Documents of a node with other settings count as
	// missing: all nodes need the same settings.
	Expiry services.SourceExpiry
}

// Open opens the Redis of the options, as the engine does, with its errors. It sets the options' Form from the shape.
func Open(ctx context.Context, options redis.Options, shape Shape) (*Projections, error) {
	options.Form = formOf(shape.Expiry)
	client, err := redis.Open(ctx, options)
	if err != nil {
		return nil, err
	}
	p := &Projections{Client: client}
	client.EmptyBy(p.empty)
	types := shape.MessageTypes
	if len(types) == 0 {
		types = []string{services.DefaultMessageType}
	}
	p.layout.Store(newLayout(types, nil, nil, shape.Expiry))
	return p, nil
}

// formOf names what the documents of nodes with these settings have in common; "" without any.
func formOf(expiry services.SourceExpiry) (form string) {
	for _, source := range services.Sources {
		if expiry.Expires(source) {
			form += fmt.Sprintf(" %s=%d", source, expiry[source])
		}
	}
	return form
}
