// Package rdb holds the projections, what Redis holds of the facts, over the engine services/redis: one file and its scripts
// (lua/*.lua) for each.
//
// It guarantees that every user's projection is written by scripts that may be repeated, and that a read of several keys is one round
// trip. All its data can be rebuilt from the facts in SQL: an answer from here is a projection, never a fact.
//
// A user's projection is a few keys with one hash tag: the document (badges), the inbox (home feed), the states in conversations, and
// the lists of features. A key that is missing, broken or of another epoch never reads as an empty one: the document then says that it
// is not ready, and its reader rebuilds it. The path of one change through a projection:
//
//  1. The caller takes a stamp of Redis' clock (redis.Client.Now, TakeUserStamp), and only then reads the facts.
//  2. One script for each user checks the stamp, changes the keys and raises the document's version n, all at once.
//  3. The result says whether it changed anything, whether a refill is due, and on which nodes the user is online.
//  4. The caller sends these nodes a hint. They read the document (Documents) and push it.
//
// Versioned fields (VersionedField) need no stamp: the newer version wins, whenever it comes.
package rdb

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"tidings/services"
	"tidings/services/redis"
)

// Projections read and write what Redis holds of the facts, through the engine services/redis. They are safe for concurrent use.
type Projections struct {
	Client   *redis.Client // the engine
	Presence Presence      // the users with open subscriptions
	// layout has the fields that documents have now. Readers load it once for each call, so that they parse an answer by the
	// layout by which they asked.
	layout atomic.Pointer[documentLayout]
	// layoutMu is held while layout is changed, so that each change keeps the settings of the others.
	layoutMu sync.Mutex
	memory   *documentMemory // the documents that were read last, kept on this node
}

// DocumentShape is the part of documents that the configuration decides. The zero value is the default. All nodes need the same
// DocumentShape.
type DocumentShape struct {
	// MessageTypes are the types of site messages that documents count; none means "general".
	MessageTypes []string
	// Expiry selects the sources whose unread items leave the counts by age: documents keep the ages of these items. Documents of a
	// node with other settings count as missing, so all nodes need the same settings.
	Expiry services.SourceExpiry
}

// Open opens the Redis of the options, as the engine does, with its errors. It sets the options' DataFormat from the shape.
func Open(ctx context.Context, options redis.Options, shape DocumentShape) (*Projections, error) {
	options.DataFormat = dataFormatOf(shape.Expiry)
	client, err := redis.Open(ctx, options)
	if err != nil {
		return nil, err
	}
	p := &Projections{Client: client, Presence: Presence{client}, memory: newDocumentMemory()}
	// Only this package knows which keys have to be emptied together with a key of the wrong type.
	client.SetEmptyKeysFunc(p.repairWrongType)
	types := shape.MessageTypes
	if len(types) == 0 {
		types = []string{services.DefaultMessageType}
	}
	// Dots and categories come later, with SetDots and SetCategories. Until then their fields are not read.
	p.layout.Store(newLayout(types, nil, nil, shape.Expiry))
	return p, nil
}

// Close closes the engine.
func (c *Projections) Close() error { return c.Client.Close() }

// dataFormatOf names the format that these settings give to documents; "" if nothing expires. It is a part of the epoch: after a
// change of the settings all documents are rebuilt, because they lack the fields that the new settings need.
func dataFormatOf(expiry services.SourceExpiry) (form string) {
	for _, source := range services.Sources {
		if expiry.Expires(source) {
			form += fmt.Sprintf(" %s=%d", source, expiry[source])
		}
	}
	return form
}
