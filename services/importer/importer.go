// Package importer is the engine of imports: it takes the files of an application's data into the database. It knows no kind of data.
// Each feature has a Kind for its own, with the form of the lines and the steps that parse and insert them; services/node lists
// the kinds, and the command line makes a command, its help and its call of each.
//
// An import guarantees that each good line takes effect once, also when it breaks off and runs again: the position in the file is
// saved in the transaction of the lines before it. Bad lines stop nothing. They are put into a file beside the one that was read,
// each with its number and the reason, and that file can be imported itself once it is mended.
//
// The path of a line: importFile.nextLine reads it, and Lines.AddLine parses it and adds it to the batch, or puts it aside. When the
// batch is full, Lines.Commit flushes the bad lines and then writes the batch with the position in one transaction. Run has this
// loop, and the parts that all imports share. An import whose IDs or refs may be taken by a server that runs at the same time plans a
// batch before it writes it, and plans it again if they were (PlannedBatch). A replay (OpenReplay) has no batches: its events happen one
// by one, at their times, and the position counts events.
//
// A server may erase users meanwhile. A batch has to hold the users that it names (people.EnsureLocked), so that an erasure begins
// before the batch or after it. If it began before, the batch ends the import with CONFLICT, because the erasure would not find all
// rows that are added while it goes on. After the erasure the key is free, and its lines make a new user.
//
// On failure: an error of the database ends the import with the position of the last commit, and the same command continues
// there. Kind.Run then also queues the jobs that the rows of the finished batches need, such as the rebuild of feeds that Redis holds.
package importer

import (
	"context"
	"io"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// DB is the part of the database that an import uses.
type DB interface {
	sql.Reader
	// Write runs the function in one transaction, as sql.DB does.
	Write(ctx context.Context, fn func(tx *sql.Tx) error) error
}

// Options selects what is imported and where the progress is written. BothDirections and KeyPrefix are part of what identifies an
// import: with other values the same file starts anew. BothDirections and ReplayFactor are of one kind each, which the tags of
// their flags in services/command name; the other kinds ignore them.
type Options struct {
	File           string // a path, or "-" for Input
	BothDirections bool   // each row is two follows, one in each direction
	ReplayFactor   int    // if not 0: the shows are replayed from now on, this many times as fast as they happened
	KeyPrefix      string // is put before every key
	Quiet          bool   // no progress

	Input         io.Reader      // what "-" reads
	Out           io.Writer      // where progress and bad lines are written; nil is nowhere
	OutIsTerminal bool           // Out is a terminal: progress is a bar that redraws itself
	Clock         services.Clock // measures the progress; nil is the machine's clock
	BatchSize     int            // about how many rows, follows or recipients of messages one transaction has; 0 means 20,000
	// Sleep waits, in a replay; nil waits by the machine's clock. It returns the error of ctx if ctx ends first.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Form is the form of the file of an import, and its lines.
type Form struct {
	Name            string // the kind of the import, such as "posts"; stored with the progress, so that it never changes
	ExpectedLine    string // the expected form of a line
	CountedUnit     string // what progress counts, such as "follows"
	MaxBytesPerLine int    // a longer line is a bad line
	// NamesRecipients says that a row is one item for many recipients, who are the work: reports and progress count them, and no rows
	// that existed already.
	NamesRecipients bool
}

// withDefaults sets the options that were omitted.
func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = services.SystemClock{}
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.Sleep == nil {
		o.Sleep = services.Sleep
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
	// maxBatchTextBytes bounds the texts of a batch, in bytes. 20,000 rows of the longest texts would be gigabytes.
	maxBatchTextBytes = 8 << 20
	// badLinesUntilStop is the number of bad lines, without a good one, after which an import stops: it is probably the wrong file.
	badLinesUntilStop = 1_000
)
