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

// EraseStep is the step that ends the fan-outs of the user's posts, in SQL and, by the changelog, in the memory of every node. A chunk that
// still runs then finds no fan-out, so it does not end it a second time.
var EraseStep = erase.Step{Name: "fanouts.author", Run: func(ctx context.Context, tx *sql.Tx, at erase.StepPosition) (erase.StepResult, error) {
	end, last, err := findFanoutPartEnd(ctx, tx, at.ResumeAfter)
	if err != nil {
		return erase.StepResult{}, err
	}
	ended, err := posts.EraseFanouts(ctx, tx, at.User, at.ResumeAfter, end)
	for _, fanout := range ended {
		if err == nil {
			err = nodecache.FanoutChange{InFlightFanout: fanout, Ended: true}.Append(ctx, tx)
		}
	}
	return erase.StepResult{ResumeAfter: end, More: !last}, err
}}

// findFanoutPartEnd finds where the part of the table of fan-outs ends that one run of EraseStep reads.
var findFanoutPartEnd = erase.ScanPartEndFinder("fanouts", "post")

// logEntriesPerRun is how many entries of the changelog one run of EraseLogStep reads.
const logEntriesPerRun = 1000

// EraseLogStep is the step that takes the user out of the changelog's entries about fan-outs. The entries stay, as ends of the posts'
// fan-outs: a node that has not applied them yet learns that the posts are not in flight, whatever the entry was.
var EraseLogStep = erase.Step{Name: "log.fanout", Run: func(ctx context.Context, tx *sql.Tx, at erase.StepPosition) (done erase.StepResult, err error) {
	entries, err := changelog.LogAfter(ctx, tx, nodecache.FanoutChangelogKind, uint64(at.ResumeAfter), logEntriesPerRun)
	for _, entry := range entries {
		done.ResumeAfter = int64(entry.Version)
		// An entry that cannot be parsed stays: nodes cannot read it either, and report it.
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
	done.More = len(entries) == logEntriesPerRun
	return done, err
}}
