package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// ErrFinished is the outcome of a job that removed itself from the queue, in the transaction of its effect.
var ErrFinished = errors.New("finished in its own transaction")

// KeyedJob is a job of a kind with a key, due now. Waiting jobs with the same kind and key become one.
func KeyedJob(kind, key string) NewJob { return NewJob{Kind: kind, Key: key} }

// ChunkJobs are jobs of a kind, one for each chunk, with the chunk as JSON in its payload.
func ChunkJobs[C any](kind string, chunks []C) ([]NewJob, error) {
	made := make([]NewJob, len(chunks))
	for i, chunk := range chunks {
		payload, err := json.Marshal(chunk)
		if err != nil {
			return nil, fmt.Errorf("chunk %+v of %s: %w", chunk, kind, err)
		}
		made[i] = NewJob{Kind: kind, Payload: payload}
	}
	return made, nil
}

// ReadPayload reads the payload of a job that ChunkJobs made.
func ReadPayload(job Job, into any) error {
	if err := json.Unmarshal(job.Payload, into); err != nil {
		return fmt.Errorf("payload of %s: %w", job.Kind, err)
	}
	return nil
}

// Finish removes jobs from the queue in the transaction of their effect. UNAVAILABLE means that another worker has taken one
// over: the transaction must not commit then.
func Finish(ctx context.Context, tx *sql.Tx, done ...Job) error {
	finished, err := finishInTx(ctx, tx, done)
	if err == nil && finished < len(done) {
		err = services.Errorf(services.Unavailable, "%d of %d jobs of kind %s were taken over by another worker", len(done)-finished, len(done), done[0].Kind)
	}
	return err
}

// FinishWith removes a job from the queue and applies its effect in one transaction. It returns ErrFinished on success.
func (e *Engine) FinishWith(ctx context.Context, job Job, effect func(tx *sql.Tx) error) error {
	err := e.db.Write(ctx, func(tx *sql.Tx) error {
		// Finish fails if the lease was lost. Nothing of the effect is committed then: another worker has the job.
		if err := Finish(ctx, tx, job); err != nil {
			return err
		}
		return effect(tx)
	})
	if err != nil {
		return err
	}
	e.Wake()
	return ErrFinished
}

// Replace replaces a job by others. It returns ErrFinished on success.
func (e *Engine) Replace(ctx context.Context, job Job, with []NewJob) error {
	return e.FinishWith(ctx, job, func(tx *sql.Tx) error { return Enqueue(ctx, tx, with...) })
}

// JobCounts returns how many jobs wait, how many are dead, and since when the oldest waiting job has waited: see the function JobCounts.
func (e *Engine) JobCounts(ctx context.Context) (waiting, dead int, oldest time.Time, err error) {
	return JobCounts(ctx, e.db)
}
