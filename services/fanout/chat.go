package fanout

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/rdb"
	"tidings/services/redis"
	"tidings/services/store"
)

// The kinds of jobs of conversations. A job reads the states when it runs, so the newest job does the work of all before it.
const (
	jobProject = "chat.carry"  // key: conversation. Its last sequence moved: to the members, in conversations counted on write
	jobPass    = "chat.pass"   // key: conversation. All states may have changed, or the way of counting
	jobMember  = "chat.member" // key: conversation/user. The user's own state changed
	jobInside  = "chat.inside" // key: conversation/user. A lease on being inside may have expired
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

func (f *Fanout) chatKinds() []jobs.Kind {
	return []jobs.Kind{
		{Name: jobProject, Class: jobs.Short, Each: ofConversation(f.projectHead), Changes: jobs.CountsOf(f.members, services.SourceConversations)},
		{Name: jobPass, Class: jobs.Bulk, Each: ofConversation(f.pass), Changes: jobs.CountsOf(f.members, services.SourceConversations)},
		{Name: jobMember, Class: jobs.Short, Each: ofMember(f.ProjectMember), Changes: jobs.CountsOf(jobs.SecondUser, services.SourceConversations)},
		{Name: jobInside, Class: jobs.Short, Each: ofMember(f.endLeases), Changes: jobs.CountsOf(jobs.SecondUser, services.SourceConversations)},
	}
}

// members is the UsersOf of jobs of a conversation whose messages are projected to each member. A pass over a larger one may
// change any user's counts.
func (f *Fanout) members(ctx context.Context, job jobs.Job) (users []services.UserID, everyone bool, err error) {
	err = ofConversation(func(ctx context.Context, id services.ConversationID) error {
		page := services.MembersPage{Conversation: id, Size: membersPerPage + 1}
		found, err := f.store.MembersOf(ctx, []services.MembersPage{page})
		users = found[page]
		return err
	})(ctx, job)
	return users, len(users) > membersPerPage, err
}

// throttles remembers when the passes over conversations began, so that the next job waits its turn and merges with the
// other waiting jobs.
type throttles struct {
	mu    sync.Mutex
	began map[services.ConversationID]*throttle
}

type throttle struct {
	at    time.Time
	awake bool // a wake-up for the next due pass is scheduled
}

func (p *throttles) begin(id services.ConversationID, now time.Time) {
	const many = 10_000
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.began == nil || len(p.began) > many { // after this, one pass may run early
		p.began = map[services.ConversationID]*throttle{}
	}
	p.began[id] = &throttle{at: now}
}

// next is when the next pass is due, or the zero time when it is due already. first is true for the first caller, who then
// schedules the wake-up of the workers.
func (p *throttles) next(id services.ConversationID, now time.Time) (due time.Time, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, known := p.began[id]
	if !known || !last.at.Add(projectGap).After(now) {
		return time.Time{}, false
	}
	first, last.awake = !last.awake, true
	return last.at.Add(projectGap), first
}

// ProjectJob projects a conversation's last sequence to its members, at most ten times a second. Jobs that wait together
// become one.
func (f *Fanout) ProjectJob(id services.ConversationID) jobs.NewJob {
	job := jobs.Keyed(jobProject, id.String())
	now := f.clock.Now()
	due, first := f.throttles.next(id, now)
	if first { // otherwise the last of many messages would wait for the workers' next poll of the queue
		time.AfterFunc(due.Sub(now), f.Wake)
	}
	job.NotBefore = due
	return job
}

// PassJob projects every member's state, and ends a change to counting on read.
func PassJob(id services.ConversationID) jobs.NewJob { return jobs.Keyed(jobPass, id.String()) }

// MemberJob projects one member's state.
func MemberJob(id services.ConversationID, user services.UserID) jobs.NewJob {
	return jobs.Keyed(jobMember, memberKey(id, user))
}

// InsideJob ends a lease when it expires.
func InsideJob(id services.ConversationID, user services.UserID, until time.Time) jobs.NewJob {
	job := jobs.Keyed(jobInside, memberKey(id, user))
	job.NotBefore = until
	return job
}

func memberKey(id services.ConversationID, user services.UserID) string {
	return id.String() + "/" + services.UserIDText(user)
}

func ofConversation(do func(ctx context.Context, id services.ConversationID) error) func(context.Context, jobs.Job) error {
	return func(ctx context.Context, job jobs.Job) error {
		id, err := services.ParseConversationID("key of "+job.Kind, services.GlobalID(services.ConversationType, job.Key))
		if err != nil {
			return err
		}
		return do(ctx, id)
	}
}

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

// projectHead projects a conversation that is counted on write. In one that is counted on read, the nodes of its members
// keep the last sequence by themselves.
func (f *Fanout) projectHead(ctx context.Context, id services.ConversationID) error {
	f.throttles.begin(id, f.clock.Now())
	head, found, err := f.head(ctx, id)
	if err != nil || !found || head.Way == services.ReadSide {
		return err
	}
	return f.projectAll(ctx, id)
}

func (f *Fanout) head(ctx context.Context, id services.ConversationID) (head store.Head, found bool, err error) {
	heads, err := f.store.Heads(ctx, []services.ConversationID{id})
	if err != nil || len(heads) == 0 {
		return head, false, err
	}
	return heads[0], true, nil
}

// projectAll projects the state of every active member. Each page is one statement, so the last sequence and the row are of
// one moment.
func (f *Fanout) projectAll(ctx context.Context, id services.ConversationID) error {
	for after := services.UserID(0); ; {
		states, err := f.store.ActiveMemberships(ctx, id, after, f.ActiveSince(), membersPerPage)
		if err != nil || len(states) == 0 {
			return err
		}
		if _, err := f.putMemberships(ctx, states); err != nil {
			return err
		}
		after = states[len(states)-1].User
		if len(states) < membersPerPage {
			return nil
		}
	}
}

// pass projects every state, in either way of counting. Once all members have the flag, writing to them can stop: until then
// each message is still projected to each member, so it does not matter which of them have the flag.
func (f *Fanout) pass(ctx context.Context, id services.ConversationID) error {
	var c services.Conversation
	read := func(tx *store.Tx) (err error) { c, err = tx.LockConversation(ctx, id); return err }
	if err := f.store.Write(ctx, read); err != nil {
		return err
	}
	if err := f.projectAll(ctx, id); err != nil {
		return err
	}
	if c.Way != services.ToReadSide {
		return nil
	}
	return f.store.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.SetWay(ctx, c, services.ReadSide) // unless it changed again meanwhile
		return err
	})
}

// ProjectMember projects one user's own state in a conversation.
func (f *Fanout) ProjectMember(ctx context.Context, id services.ConversationID, user services.UserID) error {
	states, err := f.store.Memberships(ctx, id, []services.UserID{user})
	if err != nil || len(states) == 0 {
		return err
	}
	_, err = f.putMemberships(ctx, states)
	return err
}

// putMemberships writes states into documents and hints the nodes about those that changed.
func (f *Fanout) putMemberships(ctx context.Context, states []services.Membership) (results []redis.Result, err error) {
	return f.putMembershipsOn(ctx, states, f.today())
}

// putMembershipsOn is putMemberships with the states as they are on a given day.
func (f *Fanout) putMembershipsOn(ctx context.Context, states []services.Membership, today int64) (results []redis.Result, err error) {
	if err := f.asCounted(ctx, states, today); err != nil {
		return nil, err
	}
	results, clamped, err := f.redis.PutMemberships(ctx, states)
	if err != nil {
		return nil, err
	}
	f.noteClamped(clamped)
	users := make([]services.UserID, len(states))
	for i, state := range states {
		users[i] = state.User
	}
	f.hint(ctx, users, results)
	return results, nil
}

// asCounted makes of states what documents hold of them on a day.
func (f *Fanout) asCounted(ctx context.Context, states []services.Membership, today int64) error {
	if err := f.AgeMemberships(ctx, states, today); err != nil {
		return err
	}
	for i := range states {
		states[i] = f.Counted(states[i])
	}
	return nil
}

func (f *Fanout) noteClamped(clamped int) {
	if clamped > 0 {
		f.clamped.Add(uint64(clamped))
		f.log.Error("numbers of unread messages were negative and were taken for zero", "documents", clamped)
	}
}

// Counted is a state as it counts: mentions in a muted conversation count unless the settings say otherwise.
func (f *Fanout) Counted(state services.Membership) services.Membership {
	if f.cfg.MuteMentions && state.Muted {
		state.Mentions = 0
	}
	return state
}

// Clamped is the number of unread counts that were found negative. It stays 0 unless there is a bug.
func (f *Fanout) Clamped() uint64 { return f.clamped.Load() }

// membershipParts are the parts of a rebuild that write all of a user's states.
func (f *Fanout) membershipParts(ctx context.Context, user services.UserID) (parts []redis.Step, err error) {
	today, since := f.today(), f.clock.Now().Add(-leftFor)
	for after := services.ConversationID(0); ; {
		states, err := f.store.MembershipsOf(ctx, user, after, since, membersPerPage)
		if err != nil || len(states) == 0 {
			return parts, err
		}
		if err := f.asCounted(ctx, states, today); err != nil {
			return nil, err
		}
		parts = append(parts, rdb.MembershipParts(states)...)
		if len(states) < membersPerPage {
			return parts, nil
		}
		after = states[len(states)-1].Conversation
	}
}

// endLeases ends the expired leases of a user on being inside. Each lease has a job of its own.
func (f *Fanout) endLeases(ctx context.Context, id services.ConversationID, user services.UserID) error {
	return f.store.Write(ctx, func(tx *store.Tx) error {
		if _, err := tx.EndLeases(ctx, id, user); err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx.Tx, MemberJob(id, user))
	})
}
