// Package importer takes files of an application's data into the database: follows from CSV; site messages, posts and shows from
// JSON Lines.
//
// An import guarantees that each good line takes effect once, also when it breaks off and runs again: the position in the file is
// saved in the transaction of the lines before it. Bad lines stop nothing. They are put into a file beside the one that was read,
// each with its number and the reason, and that file can be imported itself once it is mended. No jobs are queued for follows and
// posts: feeds are built from the facts when their readers come.
//
// The path of a line: importFile.nextLine reads it, addLine parses it and adds it to the batch, or puts it aside. When the batch is
// full, commit flushes the bad lines and then writes the batch with the position in one transaction. fileRun has this loop, and the
// parts that all imports share; each kind of file is a lineImport. Posts and shows plan a batch before they write it, because their
// IDs and refs may be taken by a server that runs at the same time: then the batch is planned again (commitPlan). A replay of shows
// has no batches: its events happen one by one, at their times.
//
// A server may erase users meanwhile. A batch holds the users that it names, so that an erasure begins before the batch or after
// it. If it began before, the batch ends the import with CONFLICT, because the erasure would not find all rows that are added
// while it goes on. After the erasure the key is free, and its lines make a new user.
//
// On failure: an error of the database ends the import with the position of the last commit, and the same command continues
// there. The caller queues the jobs that the import itself does not queue, such as the rebuild of feeds that Redis still holds.
package importer

import (
	"context"
	"io"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// Store is the part of the database that an import uses.
type Store interface {
	sql.Reader
	// Write runs the function in one transaction, as sql.DB does.
	Write(ctx context.Context, fn func(tx *sql.Tx) error) error
}

// Options selects what is imported and where the progress is written. BothDirections and KeyPrefix are part of what identifies an
// import: with other values the same file starts anew.
type Options struct {
	File           string // a path, or "-" for Input
	BothDirections bool   // each row is two follows, one in each direction
	KeyPrefix      string // is put before every key
	Quiet          bool   // no progress

	Input         io.Reader      // what "-" reads
	Out           io.Writer      // where progress and bad lines are written; nil is nowhere
	OutIsTerminal bool           // Out is a terminal: progress is a bar that redraws itself
	Clock         services.Clock // measures the progress; nil is the machine's clock
	BatchSize     int            // about how many rows, follows or recipients of messages one transaction has; 0 means 20,000

	form  fileForm                                         // of the file; the zero form is the form of follows
	sleep func(ctx context.Context, d time.Duration) error // waits, in a replay; nil waits by the machine's clock
}

// fileForm is the form of the lines of an import. It is comparable: the zero form in Options stands for follows.
type fileForm struct {
	name            string // the kind of the import, such as "posts"
	expectedLine    string // the expected form of a line
	countedUnit     string // what progress counts, such as "follows"
	maxBytesPerLine int    // a longer line is a bad line
}

// formOrDefault is the form of the file. newRun sets it; tests that leave it out mean follows.
func (o Options) formOrDefault() fileForm {
	if o.form == (fileForm{}) {
		return followForm
	}
	return o.form
}

// withDefaults sets the options that were omitted.
func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = services.SystemClock{}
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.sleep == nil {
		o.sleep = sleep
	}
	if o.BatchSize <= 0 {
		o.BatchSize = defaultBatchSize
	}
	return o
}

const (
	// defaultBatchSize is large, because each commit waits for the disk. It is bounded, because a whole batch is in memory, and
	// because a batch that is lost to a crash is read again.
	defaultBatchSize = 20_000
	// maxTableKeys bounds the memory for the keys that were met: beyond it they are forgotten and asked for again.
	maxTableKeys = 1_000_000
	// badLinesUntilStop is the number of bad lines, without a good one, after which an import stops: it is probably the wrong file.
	badLinesUntilStop = 1_000
)
