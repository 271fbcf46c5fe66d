package fanout

import (
	"context"
	"encoding/json"

	"tidings/services/changelog"
	"tidings/services/erase"
	"tidings/services/nodecache"
	"tidings/services/posts"
	"tidings/services/sql"
)

// EraseStep is the step that ends the fan-outs of the user's posts, in SQL and in the memory of every node: the chunks that still run find
// no fan-out, and do not end it.
var EraseStep = erase.Step{Name: "fanouts.author", Run: func(ctx context.Context, tx *sql.Tx, at erase.Position) (erase.Result, error) {
	end, last, err := boundOfFanouts(ctx, tx, at.After)
	if err != nil {
		return erase.Result{}, err
	}
	ended, err := posts.EraseFanouts(ctx, tx, at.User, at.After, end)
	for _, fanout := range ended {
		if err == nil {
			err = nodecache.FanoutChange{InFlightFanout: fanout, Ended: true}.Append(ctx, tx)
		}
	}
	return erase.Result{After: end, More: !last}, err
}}

var boundOfFanouts = erase.PartEndFinder("fanouts", "post")

// entriesAtOnce is how many entries of the log one run of EraseLogStep reads.
const entriesAtOnce = 1000

// EraseLogStep is the step that takes the author out of the log of fan-outs. The entries stay, as ends of the posts' fan-outs: a node that
// has not applied them yet learns that the posts are not in flight, whatever the entry was.
var EraseLogStep = erase.Step{Name: "log.fanout", Run: func(ctx context.Context, tx *sql.Tx, at erase.Position) (done erase.Result, err error) {
	entries, err := changelog.LogAfter(ctx, tx, nodecache.LogFanout, uint64(at.After), entriesAtOnce)
	for _, entry := range entries {
		done.After = int64(entry.Version)
		// Nodes cannot read such an entry either, and say so.
		change, unread := nodecache.ParseFanoutChange(entry)
		if err != nil || unread != nil || change.Author != at.User {
			continue
		}
		change.Author, change.Ended = 0, true
		var payload []byte
		if payload, err = json.Marshal(change); err == nil {
			err = changelog.Rewrite(ctx, tx, entry, payload)
		}
	}
	done.More = len(entries) == entriesAtOnce
	return done, err
}}
