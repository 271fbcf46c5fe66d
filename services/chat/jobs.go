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
	jobProject    = "chat.carry"  // key: conversation. Its last sequence moved: project it to the members, if it is counted on write
	jobProjectAll = "chat.pass"   // key: conversation. All states may have changed, or the way of counting
	jobMember     = "chat.member" // key: conversation/user. The user's own state changed
	jobInside     = "chat.inside" // key: conversation/user. A lease on being inside may have expired
)

const (
	// membersPerPage is how many states a pass reads in one statement and writes in one round trip.
	membersPerPage = 500
	// projectGap is the time between the starts of two passes over one conversation: the first starts at once, later ones at
	// most ten times a second.
	projectGap = 100 * time.Millisecond
	// leftFor is how long a rebuild still writes conversations that a user has left, so that late updates of them are
	// recognized as stale. No update is in flight for a day.
	leftFor = 24 * time.Hour
)

// kinds are the jobs that New registers. All of them read the facts when they run, so they may run twice, late, and in any order.
func (s *Service) kinds() []jobs.Kind {
	return []jobs.Kind{
		{Name: jobProject, Class: jobs.Short, Each: ofConversation(s.projectHead), Changes: jobs.CountsOf(s.usersOf, services.SourceConversations)},
		{Name: jobProjectAll, Class: jobs.Bulk, Each: ofConversation(s.projectAllAndSwitch), Changes: jobs.CountsOf(s.usersOf, services.SourceConversations)},
		{Name: jobMember, Class: jobs.Short, Each: ofMember(s.projectMember), Changes: jobs.CountsOf(jobs.SecondUser, services.SourceConversations)},
		{Name: jobInside, Class: jobs.Short, Each: ofMember(s.endExpired), Changes: jobs.CountsOf(jobs.SecondUser, services.SourceConversations)},
	}
}

// usersOf is the UsersOf of jobs of a conversation: its members, or everyone if there are more than membersPerPage of them.
func (s *Service) usersOf(ctx context.Context, job jobs.Job) (users []services.UserID, everyone bool, err error) {
	err = ofConversation(func(ctx context.Context, id services.ConversationID) error {
		page := MembersPage{Conversation: id, Size: membersPerPage + 1}
		found, err := readMembers(ctx, s.Store, []MembersPage{page})
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
	return s.throttle.Delay(id, s.Clock.Now(), jobs.KeyedJob(jobProject, id.String()), s.Jobs.Wake)
}

// projectAllJob projects every member's state, and ends a change to counting on read.
func projectAllJob(id services.ConversationID) jobs.NewJob {
	return jobs.KeyedJob(jobProjectAll, id.String())
}

// memberJob projects one member's state.
func memberJob(id services.ConversationID, user services.UserID) jobs.NewJob {
	return jobs.KeyedJob(jobMember, memberKey(id, user))
}

// insideJob ends a lease when it expires. Each renewal adds a job; the jobs of earlier renewals find the lease alive and end
// nothing.
func insideJob(id services.ConversationID, user services.UserID, until time.Time) jobs.NewJob {
	job := jobs.KeyedJob(jobInside, memberKey(id, user))
	job.NotBefore = until
	return job
}

// memberKey is the key of jobs about one member. jobs.SecondUser reads the user from it too.
func memberKey(id services.ConversationID, user services.UserID) string {
	return id.String() + "/" + services.UserIDText(user)
}

// ofConversation makes the function of a job from a function that takes the conversation in the job's key. A key that cannot be
// read fails the job alone: it is tried five times and then waits for an operator.
func ofConversation(do func(ctx context.Context, id services.ConversationID) error) func(context.Context, jobs.Job) error {
	return func(ctx context.Context, job jobs.Job) error {
		id, err := services.ParseConversationID("key of "+job.Kind, services.GlobalID(services.ConversationType, job.Key))
		if err != nil {
			return err
		}
		return do(ctx, id)
	}
}

// ofMember is ofConversation for keys that memberKey made.
func ofMember(do func(ctx context.Context, id services.ConversationID, user services.UserID) error) func(context.Context, jobs.Job) error {
	return func(ctx context.Context, job jobs.Job) error {
		conversation, number, _ := strings.Cut(job.Key, "/")
		user, err := services.ParseUserIDText(number)
		if err != nil {
			return fmt.Errorf("key of %s: %w", job.Kind, err)
		}
		return ofConversation(func(ctx context.Context, id services.ConversationID) error { return do(ctx, id, user) })(
			ctx, jobs.Job{Kind: job.Kind, Key: conversation})
	}
}

// projectHead projects a conversation that is counted on write. If a conversation is counted on read, each node reads its last
// sequence from SQL, and there is nothing to project. The turn of the throttle begins before the head is read: a message that comes
// after it gets a turn of its own.
func (s *Service) projectHead(ctx context.Context, id services.ConversationID) error {
	s.throttle.Begin(id, s.Clock.Now(), projectGap)
	// No lock is taken: a message that comes now adds a job of its own.
	head, found, err := s.readHead(ctx, id)
	if err != nil || !found || head.Way == OnRead {
		return err
	}
	return s.projectAll(ctx, id)
}

// readHead reads the end of one conversation; found is false if there is none.
func (s *Service) readHead(ctx context.Context, id services.ConversationID) (head Head, found bool, err error) {
	heads, err := Heads(ctx, s.Store, []services.ConversationID{id})
	if err != nil || len(heads) == 0 {
		return head, false, err
	}
	return heads[0], true, nil
}

// projectAll projects the state of every member who is not dormant, and then marks the dormant ones. Each page is one statement, so
// the last sequence and the row are of one moment.
func (s *Service) projectAll(ctx context.Context, id services.ConversationID) error {
	for after := services.UserID(0); ; {
		states, err := activeMembershipsIn(ctx, s.Store, id, after, s.Projector.ActiveSince(), membersPerPage)
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
			return s.markDormant(ctx, id)
		}
	}
}

// markDormant records that the badges of the dormant members changed. They have no documents, but the change stream reports messages to
// their closed applications, and also the end of a membership that was just removed.
func (s *Service) markDormant(ctx context.Context, id services.ConversationID) error {
	// If nobody reads the change stream, no mark is needed.
	if !s.Projector.Marking(ctx) {
		return nil
	}
	since, left := s.Projector.ActiveSince(), s.Clock.Now().Add(-leftFor)
	for after := services.UserID(0); ; {
		users, err := sql.ReadColumn[services.UserID](ctx, s.Store, dormantMembers, id, after, since, left, membersPerPage)
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

// projectAllAndSwitch projects every state, in either way of counting, and ends a change to counting on read. Once the
// documents of all members have the flag (Membership.ReadSide), writing to them can stop: until then each message is still projected
// to each member, so it does not matter which of them have the flag.
func (s *Service) projectAllAndSwitch(ctx context.Context, id services.ConversationID) error {
	// The lock makes the read see the newest transaction. The projection holds no lock, because it may take long.
	var c Conversation
	read := func(tx *sql.Tx) (err error) { c, err = lock(ctx, tx, id); return err }
	if err := s.Store.Write(ctx, read); err != nil {
		return err
	}
	if err := s.projectAll(ctx, id); err != nil {
		return err
	}
	if c.Way != SwitchingToRead {
		return nil
	}
	return s.Store.Write(ctx, func(tx *sql.Tx) error {
		changed, err := changeWay(ctx, tx, c, OnRead) // unless the way changed again meanwhile
		if err != nil || !changed {
			return err
		}
		// A mention, a recall or a change of members that was committed after its member's page was read has queued projectHead
		// alone, which does nothing from now on. One more projection has them all.
		return jobs.Enqueue(ctx, tx, projectAllJob(id))
	})
}

// projectMember projects one user's own state in a conversation: by the user's own command at once, and by its job.
func (s *Service) projectMember(ctx context.Context, id services.ConversationID, user services.UserID) error {
	states, err := membershipsIn(ctx, s.Store, id, []services.UserID{user})
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

// projectStatesOn is projectStates with the counts of a given day.
func (s *Service) projectStatesOn(ctx context.Context, states []services.Membership, today int64) (results []redis.Result, err error) {
	if err := s.applySettings(ctx, states, today); err != nil {
		return nil, err
	}
	results, clamped, err := s.Redis.PutMemberships(ctx, states)
	if err != nil {
		return nil, err
	}
	// Sums that would have fallen below zero are a bug somewhere: they are logged, and a metric counts them.
	s.Projector.NoteClamped(clamped)
	users := make([]services.UserID, len(states))
	for i, state := range states {
		users[i] = state.User
	}
	return results, s.Projector.HintAndMark(ctx, users, results)
}

// applySettings changes states to what documents count on the given day. It applies the expiry and the setting for muted mentions,
// which the rows do not contain: either can change without a write to a row.
func (s *Service) applySettings(ctx context.Context, states []services.Membership, today int64) error {
	if err := s.age(ctx, states, today); err != nil {
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
func (s *Service) rebuildSteps(ctx context.Context, user services.UserID) (parts []redis.Step, err error) {
	today, since := s.today(), s.Clock.Now().Add(-leftFor)
	for after := services.ConversationID(0); ; {
		states, err := MembershipsOf(ctx, s.Store, user, after, since, membersPerPage)
		if err != nil || len(states) == 0 {
			return parts, err
		}
		if err := s.applySettings(ctx, states, today); err != nil {
			return nil, err
		}
		parts = append(parts, rdb.MembershipParts(states)...)
		if len(states) < membersPerPage {
			return parts, nil
		}
		after = states[len(states)-1].Conversation
	}
}

// endExpired ends a user's expired leases on being inside a conversation. Each lease has its own job, so endExpired enqueues no
// job for another lease.
func (s *Service) endExpired(ctx context.Context, id services.ConversationID, user services.UserID) error {
	return s.Store.Write(ctx, func(tx *sql.Tx) error {
		if _, err := endLeases(ctx, tx, id, user); err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, memberJob(id, user))
	})
}

// today is the day of now, since 1970.
func (s *Service) today() int64 { return services.DayOf(s.Clock.Now()) }
