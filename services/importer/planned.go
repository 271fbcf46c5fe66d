package importer

import (
	"bytes"
	"context"
	"errors"

	"tidings/services"
	"tidings/services/sql"
)

// PlannedBatch is the batch of an import whose IDs or refs a running server can take: it is planned before it is written. R is a row,
// and P the plan for a new item. An import embeds it.
type PlannedBatch[R, P any] struct {
	*Run
	Rows         []R // the good rows since the last commit
	bytesOfLines int // of the lines of Rows
}

// BatchFull reports whether the batch must be written.
func (b *PlannedBatch[R, P]) BatchFull() bool { return b.Full(len(b.Rows), b.bytesOfLines) }

// AddRow parses one line: a good one enters the batch, a bad one is put aside. The row may keep the line.
func (b *PlannedBatch[R, P]) AddRow(line []byte, parse func(line []byte) (R, error)) error {
	if IsBlank(line) {
		return nil
	}
	// The source reuses its buffer for the next line.
	row, err := parse(bytes.Clone(line))
	if err != nil {
		return b.RefuseLine(line, err)
	}
	b.Rows = append(b.Rows, row)
	b.bytesOfLines += len(line)
	b.FoundGoodLine()
	return nil
}

// planTries is how often a batch is planned at most. A plan fails only if another client publishes in the same milliseconds,
// or takes the same keys, between plan and commit: for a file of the past that hardly happens once.
const planTries = 10

// ErrTaken means that another object has taken an ID or a ref of the batch since it was planned. The transaction is rolled back
// and the batch planned again; callers see the error when that happened planTries times.
var ErrTaken = services.Errorf(services.Conflict, "others kept taking its milliseconds or keys: import the file again")

// CommitPlan plans the batch and writes its new items with the position in the file, or nothing. line is the position, 0 at the end
// of the file. plan may take bad rows out of the batch. write returns ErrTaken if the plan is no longer valid.
func (b *PlannedBatch[R, P]) CommitPlan(ctx context.Context, line int64, plan func(context.Context) ([]P, error), write func(context.Context, *sql.Tx, []P) error) error {
	var planned []P
	var err error
	for range planTries {
		// Each plan reads anew what exists, including IDs and keys that another client has taken since the plan before.
		if planned, err = plan(ctx); err != nil {
			break
		}
		if err = b.FlushBadLines(); err != nil {
			break
		}
		err = b.DB.Write(ctx, func(tx *sql.Tx) error {
			if err := write(ctx, tx, planned); err != nil {
				return err
			}
			// Store it also at the end, when line is 0: a repeated import would otherwise insert items without a key again.
			return b.SavePosition(ctx, tx, max(line, b.Report.LastLine))
		})
		if !errors.Is(err, ErrTaken) {
			break
		}
	}
	if err != nil {
		return b.WithPosition(err)
	}
	rows := len(b.Rows)
	b.Committed(Report{GoodRows: int64(rows), NewItems: int64(len(planned)), SkippedRows: int64(rows - len(planned))})
	b.Rows, b.bytesOfLines = b.Rows[:0], 0
	return nil
}
