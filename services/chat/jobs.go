package chat

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/rdb"
	"tidings/services/redis"
	"tidings/services/sql"
)

// The kinds of jobs of conversations. Their names are in the database. A job reads the states when it runs, so it serves all
// changes before that.
const (
	jobProject       = "chat.carry"  // key: conversation. Its last sequence moved: project it to the members, if it is counted on write
	jobProjectAll    = "chat.pass"   // key: conversation. All states may have changed, or the way of counting
	jobProjectMember = "chat.member" // key: conversation/user. The user's own state changed
	jobEndLeases     = "chat.inside" // key: conversation/user. A lease on being inside may have expired
)

const (
	// membersPerPage is how many states a pass reads in one statement and writes in one round trip.
	membersPerPage = 500
	// minProjectionInterval is the time between the starts of two passes over one conversation: the first starts at once, later
	// ones at most ten times a second.
	minProjectionInterval = 100 * time.Millisecond
	// leftConversationsKeptFor is how long a rebuild still writes conversations that a user has left, so that late updates of them are
	// recognized as stale. No update is in flight for a day.
	leftConversationsKeptFor = 24 * time.Hour
)

// kinds are the jobs that New registers. All of them read the facts when they run, so they may run twice, late, and in any order.
func (s *Service) kinds() []jobs.Kind {
	return []jobs.Kind{
		{Name: jobProject, Class: jobs.ShortClass, Each: conversationJobFunc(s.projectIfCountedOnWrite),
			ChangedCounts: jobs.CountsOf(s.membersOrEveryone, services.SourceConversations), NamesUser: jobs.NoUser},
		{Name: jobProjectAll, Class: jobs.BulkClass, Each: conversationJobFunc(s.projectAllAndSwitchToRead),
			ChangedCounts: jobs.CountsOf(s.membersOrEveryone, services.SourceConversations), NamesUser: jobs.NoUser},
		{Name: jobProjectMember, Class: jobs.ShortClass, Each: memberJobFunc(s.projectMember),
			ChangedCounts: jobs.CountsOf(jobs.SecondUserOfKey, services.SourceConversations), NamesUser: jobs.SecondUserInKey},
		{Name: jobEndLeases, Class: jobs.ShortClass, Each: memberJobFunc(s.endExpiredLeases),
			ChangedCounts: jobs.CountsOf(jobs.SecondUserOfKey, services.SourceConversations), NamesUser: jobs.SecondUserInKey},
	}
}

// membersOrEveryone lists the users whose counts a job of a conversation may change: its members, or everyone if there are more than
// membersPerPage of them.
func (s *Service) membersOrEveryone(ctx context.Context, job jobs.Job) (users []services.UserID, everyone bool, err error) {
	err = conversationJobFunc(func(ctx context.Context, id services.ConversationID) error {
		page := MembersPage{Conversation: id, Size: membersPerPage + 1}
		found, err := readMembers(ctx, s.DB, []MembersPage{page})
		users = found[page]
		return err
	})(ctx, job)
	// One member more than a page was requested. A larger conversation counts as everyone, since listing its members would take
	// longer than the job.
	return users, len(users) > membersPerPage, err
}

// projectJob projects a conversation's last sequence to its members, at most ten times a second. Jobs that wait together become
// one. The throttle is this node's: it gives the job a later time if the conversation had its turn just now.
func (s *Service) projectJob(id services.ConversationID) jobs.NewJob {
	return s.projectionThrottle.DelayJob(id, s.Clock.Now(), jobs.KeyedJob(jobProject, id.String()), s.Jobs.Wake)
}

// projectAllAndSwitchJob projects every member's state, and ends a change to counting on read.
func projectAllAndSwitchJob(id services.ConversationID) jobs.NewJob {
	return jobs.KeyedJob(jobProjectAll, id.String())
}

// projectMemberJob projects one member's state.
func projectMemberJob(id services.ConversationID, user services.UserID) jobs.NewJob {
	return jobs.KeyedJob(jobProjectMember, memberJobKey(id, user))
}

// leaseEndJob ends a lease when it expires. Each renewal adds a job; the jobs of earlier renewals find the lease alive and end
// nothing.
func leaseEndJob(id services.ConversationID, user services.UserID, until time.Time) jobs.NewJob {
	job := jobs.KeyedJob(jobEndLeases, memberJobKey(id, user))
	job.NotBefore = until
	return job
}

// memberJobKey is the key of jobs about one member. jobs.SecondUserOfKey reads the user from it too.
func memberJobKey(id services.ConversationID, user services.UserID) string {
	return id.String() + "/" + services.UserIDText(user)
}

// conversationJobFunc makes the function of a job from a function that takes the conversation in the job's key. A key that cannot be
// read fails the job alone: it is tried five times and then waits for an operator.
func conversationJobFunc(do func(ctx context.Context, id services.ConversationID) error) func(context.Context, jobs.Job) error {
	return func(ctx context.Context, job jobs.Job) error {
		id, err := services.ParseConversationID("key of "+job.Kind, services.GlobalID(services.ConversationType, job.Key))
		if err != nil {
			return err
		}
		return do(ctx, id)
	}
}

// memberJobFunc makes the function of a job from a function that takes the conversation and the user in the job's key, which
// memberJobKey made.
func memberJobFunc(do func(ctx context.Context, id services.ConversationID, user services.UserID) error) func(context.Context, jobs.Job) error {
	return func(ctx context.Context, job jobs.Job) error {
		conversation, id, _ := strings.Cut(job.Key, "/")
		user, err := services.ParseUserIDText(id)
		if err != nil {
			return fmt.Errorf("key of %s: %w", job.Kind, err)
		}
		return conversationJobFunc(func(ctx context.Context, id services.ConversationID) error { return do(ctx, id, user) })(
			ctx, jobs.Job{Kind: job.Kind, Key: conversation})
	}
}

// projectIfCountedOnWrite projects a conversation that is counted on write. If a conversation is counted on read, each node reads
// its last sequence from SQL, and there is nothing to project. The turn of the throttle begins before it is read: a message
// that comes after it gets a turn of its own.
func (s *Service) projectIfCountedOnWrite(ctx context.Context, id services.ConversationID) error {
	s.projectionThrottle.BeginPass(id, s.Clock.Now(), minProjectionInterval)
	// No lock is taken: a message that comes now adds a job of its own.
	last, found, err := s.readLastSequence(ctx, id)
	if err != nil || !found || last.Way == OnRead {
		return err
	}
	return s.projectAllMembers(ctx, id)
}

// readLastSequence reads the last sequence of one conversation; found is false if there is none.
func (s *Service) readLastSequence(ctx context.Context, id services.ConversationID) (last LastSequence, found bool, err error) {
	sequences, err := SequencesOf(ctx, s.DB, []services.ConversationID{id})
	if err != nil || len(sequences) == 0 {
		return last, false, err
	}
	return sequences[0], true, nil
}

// projectAllMembers projects the state of every member who is not dormant, and then marks the dormant ones. Each page is one
// statement, so the last sequence and the row are of one moment.
func (s *Service) projectAllMembers(ctx context.Context, id services.ConversationID) error {
	for after := services.UserID(0); ; {
		states, err := activeMembershipsIn(ctx, s.DB, id, after, s.Projector.DormantBefore(), membersPerPage)
		if err != nil {
			return err
		}
		if len(states) > 0 {
			if _, err := s.projectStates(ctx, states); err != nil {
				return err
			}
			after = states[len(states)-1].User
		}
		// This is the last page. Dormant members come after the others, who wait for their counts.
		if len(states) < membersPerPage {
			return s.markDormantMembers(ctx, id)
		}
	}
}

// markDormantMembers records that the badges of the dormant members changed. They have no documents, but the change stream reports
// their new messages too, and the end of a membership that was just removed.
func (s *Service) markDormantMembers(ctx context.Context, id services.ConversationID) error {
	// If nobody reads the change stream, no mark is needed.
	if !s.Projector.MarkingEnabled(ctx) {
		return nil
	}
	since, left := s.Projector.DormantBefore(), s.Clock.Now().Add(-leftConversationsKeptFor)
	for after := services.UserID(0); ; {
		users, err := sql.ReadColumn[services.UserID](ctx, s.DB, dormantMembers, id, after, since, left, membersPerPage)
		if err != nil || len(users) == 0 {
			return err
		}
		if err := s.Projector.Mark(ctx, users); err != nil {
			return err
		}
		after = users[len(users)-1]
		if len(users) < membersPerPage {
			return nil
		}
	}
}

// projectAllAndSwitchToRead projects every state, in either way of counting, and ends a change to counting on read. Once the
// documents of all members have the flag (Membership.CountedOnRead), writing to them can stop: until then each message is still
// projected to each member, so it does not matter which of them have the flag.
func (s *Service) projectAllAndSwitchToRead(ctx context.Context, id services.ConversationID) error {
	// The lock makes the read see the newest transaction. The projection holds no lock, because it may take long.
	var c Conversation
	read := func(tx *sql.Tx) (err error) { c, err = lock(ctx, tx, id); return err }
	if err := s.DB.Write(ctx, read); err != nil {
		return err
	}
	if err := s.projectAllMembers(ctx, id); err != nil {
		return err
	}
	if c.Way != switchingToRead {
		return nil
	}
	return s.DB.Write(ctx, func(tx *sql.Tx) error {
		changed, err := changeCountingWay(ctx, tx, c, OnRead) // unless the way changed again meanwhile
		if err != nil || !changed {
			return err
		}
		// A mention, a recall or a change of members that was committed after its member's page was read has queued
		// projectIfCountedOnWrite alone, which does nothing from now on. One more projection has them all.
		return jobs.Enqueue(ctx, tx, projectAllAndSwitchJob(id))
	})
}

// projectMember projects one user's own state in a conversation: by the user's own command at once, and by its job.
func (s *Service) projectMember(ctx context.Context, id services.ConversationID, user services.UserID) error {
	states, err := membershipsIn(ctx, s.DB, id, []services.UserID{user})
	if err != nil || len(states) == 0 {
		return err
	}
	_, err = s.projectStates(ctx, states)
	return err
}

// projectStates writes states into documents, and sends hints where they changed.
func (s *Service) projectStates(ctx context.Context, states []services.Membership) (results []redis.Result, err error) {
	return s.projectStatesOn(ctx, states, s.today())
}

// projectStatesOn writes states into documents, as they count on a given day, and sends hints where they changed.
func (s *Service) projectStatesOn(ctx context.Context, states []services.Membership, today int64) (results []redis.Result, err error) {
	if err := s.applySettings(ctx, states, today); err != nil {
		return nil, err
	}
	results, clamped, err := s.Redis.PutMemberships(ctx, states)
	if err != nil {
		return nil, err
	}
	// Sums that would have fallen below zero are a bug somewhere: they are logged, and a metric counts them.
	s.Projector.NoteNegativeCounts(clamped)
	return results, s.Projector.HintAndMark(ctx, services.Map(states, func(state services.Membership) services.UserID { return state.User }), results)
}

// applySettings changes states to what documents count on the given day. It applies the expiry and the setting for muted mentions,
// which the rows do not contain: either can change without a write to a row.
func (s *Service) applySettings(ctx context.Context, states []services.Membership, today int64) error {
	if err := s.removeExpired(ctx, states, today); err != nil {
		return err
	}
	for i := range states {
		states[i] = s.applyMuteSetting(states[i])
	}
	return nil
}

// applyMuteSetting returns a state as it counts: mentions in a muted conversation count unless the settings say otherwise.
func (s *Service) applyMuteSetting(state services.Membership) services.Membership {
	if s.MuteMentions && state.Muted {
		state.Mentions = 0
	}
	return state
}

// rebuildSteps are the parts of a rebuild that write all of a user's states. Like all versioned fields, a newer state that is
// written meanwhile is kept.
func (s *Service) rebuildSteps(ctx context.Context, user services.UserID) (parts []redis.SequenceStep, err error) {
	today, since := s.today(), s.Clock.Now().Add(-leftConversationsKeptFor)
	for after := services.ConversationID(0); ; {
		states, err := MembershipsOf(ctx, s.DB, user, after, since, membersPerPage)
		if err != nil || len(states) == 0 {
			return parts, err
		}
		if err := s.applySettings(ctx, states, today); err != nil {
			return nil, err
		}
		parts = append(parts, rdb.MembershipRebuildSteps(states)...)
		if len(states) < membersPerPage {
			return parts, nil
		}
		after = states[len(states)-1].Conversation
	}
}

// endExpiredLeases ends a user's expired leases on being inside a conversation. Each lease has its own job, so endExpiredLeases
// enqueues no job for another lease.
func (s *Service) endExpiredLeases(ctx context.Context, id services.ConversationID, user services.UserID) error {
	return s.DB.Write(ctx, func(tx *sql.Tx) error {
		if _, err := endLeases(ctx, tx, id, user); err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, projectMemberJob(id, user))
	})
}

// today is the day of now, since 1970.
func (s *Service) today() int64 { return services.DayOf(s.Clock.Now()) }
