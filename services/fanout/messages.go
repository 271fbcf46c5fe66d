package fanout

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/rdb"
	"tidings/services/store"
)

// The kinds of jobs of site messages.
const (
	jobDeliver  = "message.deliver" // payload: delivery. A message to a chunk of its recipients
	jobMessages = "messages"        // key: user. The messages that they have read changed in SQL
)

// deliverChunk is how many recipients a delivery has: few enough that its transaction does not delay others for long.
const deliverChunk = 250

// delivery is a chunk of the recipients of a message.
type delivery struct {
	Message services.PostID   `json:"message"`
	Users   []services.UserID `json:"users"`
}

func (f *Fanout) messageKinds() []jobs.Kind {
	return []jobs.Kind{
		{Name: jobDeliver, Class: jobs.Bulk, Each: f.deliver, Changes: jobs.CountsOf(deliveredTo, services.SourceSiteMessages)},
		{Name: jobMessages, Class: jobs.Short, Each: jobs.OfUser(f.projectMessages), Changes: jobs.CountsOf(jobs.FirstUser, services.SourceSiteMessages)},
	}
}

// deliveredTo are the users of a delivery.
func deliveredTo(_ context.Context, job jobs.Job) ([]services.UserID, bool, error) {
	var chunk delivery
	err := jobs.ReadPayload(job, &chunk)
	return chunk.Users, false, err
}

// DeliverJobs give a message to the users. Once these jobs are committed, the message is sent: they write the rows of the
// recipients, a chunk at a time, on any node with a free worker.
func DeliverJobs(message services.PostID, users []services.UserID) ([]jobs.NewJob, error) {
	var chunks []delivery
	for chunk := range slices.Chunk(users, deliverChunk) {
		chunks = append(chunks, delivery{message, chunk})
	}
	return jobs.Chunked(jobDeliver, chunks)
}

// MessagesJob projects a user's counts of site messages into their document.
func MessagesJob(user services.UserID) jobs.NewJob {
	return jobs.UserKeyed(jobMessages, user)
}

// deliver writes the rows of a chunk and projects their counts. If it is repeated after a crash between the two steps, it
// writes no row and projects the counts of that time.
func (f *Fanout) deliver(ctx context.Context, job jobs.Job) error {
	var chunk delivery
	if err := jobs.ReadPayload(job, &chunk); err != nil {
		return err
	}
	var states []store.MessageState
	err := f.store.Write(ctx, func(tx *store.Tx) (err error) {
		states, err = tx.DeliverSiteMessage(ctx, chunk.Message, chunk.Users)
		return err
	})
	if err != nil {
		return err
	}
	return f.ProjectMessageStates(ctx, states)
}

// ProjectMessageStates projects counts of site messages into their users' documents.
func (f *Fanout) ProjectMessageStates(ctx context.Context, states []store.MessageState) error {
	var registers Fields
	for _, state := range states {
		registers.Add(state.User, f.messagesRegister(state))
	}
	return f.Put(ctx, registers.All)
}

func (f *Fanout) projectMessages(ctx context.Context, user services.UserID) error {
	return f.Project(ctx, user, f.messageRegisters)
}

// messageRegisters are a user's counts of site messages according to the facts.
func (f *Fanout) messageRegisters(ctx context.Context, user services.UserID) (registers []rdb.Register, err error) {
	states, err := f.store.MessageStates(ctx, user)
	for _, state := range states {
		registers = append(registers, f.messagesRegister(state))
	}
	return registers, err
}

func (f *Fanout) messagesRegister(state store.MessageState) rdb.Register {
	if f.cfg.Expiry.Expires(services.SourceSiteMessages) {
		return rdb.MessageDaysRegister(MessagesOf(state))
	}
	return rdb.MessagesRegister(MessagesOf(state))
}

// MessagesOf is the part of a type's state that a document shows.
func MessagesOf(state store.MessageState) services.MessageTypeState {
	return services.MessageTypeState{Type: state.Type, Version: state.Version, Unread: state.Unread, Days: state.Days}
}
