package messages

import (
	"context"
	"fmt"
	"slices"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/sql"
)

// The kinds of jobs of site messages. Their names are in the database.
const (
	jobDeliver = "message.deliver" // payload: delivery, key: see deliveryJobKey. A message to a chunk of its recipients
	jobCounts  = "messages"        // key: user. The user's read marks changed in SQL
)

// recipientsPerDelivery is how many recipients a delivery has: few enough that its transaction does not delay others for long,
// since on SQLite all writes share one writer.
const recipientsPerDelivery = 250

// delivery is a chunk of the recipients of a message. It is stored in the queue, so its JSON names must stay.
type delivery struct {
	Message    ID                `json:"message"`
	Users      []services.UserID `json:"users"`
	SentInPast bool              `json:"dated,omitempty"` // it was sent at a past time: it is read for users whose marks cover it
}

// namedUsers are the users that the job names.
func (d delivery) namedUsers() []services.UserID { return d.Users }

// kinds are the kinds of jobs that New registers.
func (s *Service) kinds() []jobs.Kind {
	return []jobs.Kind{
		{Name: jobDeliver, Class: jobs.BulkClass, Each: jobs.PayloadWork(s.deliver),
			ChangedCounts: jobs.CountsOf(deliveryRecipients, services.SourceSiteMessages), NamesUser: jobs.UserInPayload(delivery.namedUsers)},
		{Name: jobCounts, Class: jobs.ShortClass, Each: jobs.UserWork(s.projectCounts),
			ChangedCounts: jobs.CountsOf(jobs.FirstUserOfKey, services.SourceSiteMessages), NamesUser: jobs.UserInKey},
	}
}

// deliveryRecipients are the users of a delivery.
func deliveryRecipients(_ context.Context, job jobs.Job) ([]services.UserID, bool, error) {
	var chunk delivery
	err := jobs.ReadPayload(job, &chunk)
	return chunk.Users, false, err
}

// DeliverJobs give a message to the users. Once these jobs are committed, the message is sent: they write the rows of the
// recipients, a chunk at a time, on any node with a free worker. A message may have any number of these jobs. They have no keys,
// so a mark by the message's ID does not find the message until the jobs have run. Imports use these jobs: nobody marks an
// imported message at once.
func DeliverJobs(message ID, users []services.UserID) ([]jobs.NewJob, error) {
	return deliverJobs(message, users, false)
}

// deliverJobs splits the recipients into chunks. The lists of recipients are in the payloads, so they are fixed when the message
// is committed.
func deliverJobs(message ID, users []services.UserID, dated bool) ([]jobs.NewJob, error) {
	var chunks []delivery
	for chunk := range slices.Chunk(users, recipientsPerDelivery) {
		chunks = append(chunks, delivery{message, chunk, dated})
	}
	return jobs.ChunkJobs(jobDeliver, chunks)
}

// sendJobs are the jobs of a message that was sent by one call, to at most maxRecipients. Their keys let a mark find the
// recipients before the rows exist; the mark then delivers the message to its user itself (deliverEarly).
func sendJobs(message ID, users []services.UserID, dated bool) ([]jobs.NewJob, error) {
	queued, err := deliverJobs(message, users, dated)
	for i := range queued {
		queued[i].Key = deliveryJobKey(message, i)
	}
	return queued, err
}

// maxChunksPerMessage is the most jobs that a message has if it was sent by one call.
const maxChunksPerMessage = (maxRecipients + recipientsPerDelivery - 1) / recipientsPerDelivery

// deliveryJobKey is the key of a message's i-th job. Each job has its own key, because jobs of one key become one.
func deliveryJobKey(message ID, i int) string {
	return fmt.Sprintf("%s.%d", services.SortableID(message), i)
}

// projectCountsJob projects a user's counts into their document. Waiting jobs of one user become one, because each reads the counts
// anew.
func projectCountsJob(user services.UserID) jobs.NewJob { return jobs.UserJob(jobCounts, user) }

// projectCounts projects the counts that SQL has now. They include at least the mark that queued the job.
func (s *Service) projectCounts(ctx context.Context, user services.UserID) error {
	return s.projector.ProjectVersionedFields(ctx, user, s.versionedFields)
}

// deliver writes the rows of a chunk and projects the counts of its users. If the job is repeated after a crash between the two
// steps, it writes no row and projects the counts as they are then.
func (s *Service) deliver(ctx context.Context, job jobs.Job, chunk delivery) error {
	var states []unreadState
	err := s.db.Write(ctx, func(tx *sql.Tx) (err error) {
		states, err = deliver(ctx, tx, chunk.Message, chunk.Users, chunk.SentInPast)
		return err
	})
	if err != nil {
		return err
	}
	// This is outside the transaction, whose locks must not wait for Redis. After an error the whole job runs again.
	return s.project(ctx, states)
}
