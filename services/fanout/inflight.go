package fanout

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"tidings/services"
	"tidings/services/mirror"
	"tidings/services/store"
)

// BehindSince says of sources since when their counts may lack what was acknowledged.
type BehindSince map[services.Source]time.Time

func (l BehindSince) add(more BehindSince) {
	for source, since := range more {
		if had, known := l[source]; !known || since.Before(had) {
			l[source] = since
		}
	}
}

// Behind says which counts of a user's document lack something, or may, because a node died that was about to carry it;
// nil as a rule. It costs one atomic read then.
func (f *Fanout) Behind(user services.UserNumber) BehindSince {
	shown := f.inFlight.shown.Load()
	if shown == nil {
		return nil
	}
	lag := BehindSince{}
	lag.add(shown.everybody)
	lag.add(shown.users[user])
	if len(lag) == 0 {
		return nil
	}
	return lag
}

// SomeBehind says whether Behind names anything of anybody.
func (f *Fanout) SomeBehind() bool { return f.inFlight.shown.Load() != nil }

// inFlight are the jobs that nodes held when they fell silent, until they are done. The heartbeat alone changes it.
type inFlight struct {
	jobs  map[int64]affected
	shown atomic.Pointer[behind]
}

// behind is what Behind reads.
type behind struct {
	everybody BehindSince
	users     map[services.UserNumber]BehindSince
}

// affected is whose counts a job changes, and of which sources.
type affected struct {
	everybody bool
	users     []services.UserNumber
	sources   []services.Source
	since     time.Time
}

// look takes in the jobs that silent nodes hold, or may hold, now, and forgets what has been done.
func (i *inFlight) look(ctx context.Context, f *Fanout, held []store.Job) error {
	if len(held) == 0 && len(i.jobs) == 0 {
		return nil
	}
	next := make(map[int64]affected, len(held))
	if len(i.jobs) > 0 {
		remaining, err := f.store.Remaining(ctx, slices.Collect(maps.Keys(i.jobs)))
		if err != nil {
			return err
		}
		for _, id := range remaining {
			next[id] = i.jobs[id]
		}
	}
	for _, job := range held {
		if _, known := next[job.ID]; known {
			continue
		}
		change, err := f.affectedBy(ctx, job)
		if err != nil {
			return err
		}
		next[job.ID] = change
	}
	if len(held) >= heldAtOnce { // there may be more
		next[0] = affected{everybody: true, sources: services.Sources, since: held[0].CreatedAt}
	}
	i.jobs = next
	i.shown.Store(i.behind())
	return nil
}

// behind sums up; nil for nobody.
func (i *inFlight) behind() *behind {
	b := &behind{everybody: BehindSince{}, users: map[services.UserNumber]BehindSince{}}
	for _, change := range i.jobs {
		lag := BehindSince{}
		for _, source := range change.sources {
			lag[source] = change.since
		}
		if change.everybody {
			b.everybody.add(lag)
			continue
		}
		for _, user := range change.users {
			if b.users[user] == nil {
				b.users[user] = BehindSince{}
			}
			b.users[user].add(lag)
		}
	}
	maps.DeleteFunc(b.users, func(_ services.UserNumber, lag BehindSince) bool { return len(lag) == 0 })
	if len(b.everybody)+len(b.users) == 0 {
		return nil
	}
	return b
}

// whose lists the users whose counts a job changes; everybody where that takes longer to find than the job to be done.
type whose func(ctx context.Context, f *Fanout, job store.Job) (users []services.UserNumber, everybody bool, err error)

// changes are the counts in documents that the jobs of a kind change.
type changes struct {
	sources []services.Source
	whose   whose
}

// changedBy is the table of all kinds. Those that change no count in a document have no sources.
var changedBy = map[string]changes{
	jobFanOut: {feedOnly, everybodys}, jobPush: {feedOnly, everybodys}, jobOnline: {feedOnly, everybodys}, jobRemove: {feedOnly, everybodys}, jobDrop: {feedOnly, everybodys},
	jobFollow: {[]services.Source{services.SourceHomeFeed, services.SourceLiveBoard}, ofFirst}, jobSeen: {feedOnly, ofFirst}, jobRefill: {feedOnly, ofFirst},
	jobName: {feedOnly, everybodys}, jobMuteEnd: {feedOnly, ofFirst},
	jobNotify: {notificationsOnly, ofCauses}, jobCounts: {notificationsOnly, ofFirst}, jobActor: {notificationsOnly, ofFirst}, jobRemind: {notificationsOnly, everybodys},
	jobDeliver: {messagesOnly, ofDelivery}, jobMessages: {messagesOnly, ofFirst},
	jobStart: {announcementsOnly, everybodys}, jobNotices: {announcementsOnly, ofFirst},
	jobCarry: {conversationsOnly, ofMembers}, jobPass: {conversationsOnly, ofMembers}, jobMember: {conversationsOnly, ofSecond}, jobInside: {conversationsOnly, ofSecond},
	jobHost: {liveOnly, everybodys}, jobHostChunk: {liveOnly, everybodys}, jobHosts: {liveOnly, everybodys}, jobLiveSeen: {liveOnly, ofFirst}, jobClose: {liveOnly, everybodys},
	jobPolicy: {services.Sources, ofFirst},
	jobCopy:   {}, jobProfile: {}, jobMode: {}, jobModes: {}, jobEnd: {}, jobReplays: {}, jobReplay: {}, jobViewItem: {},
}

var (
	feedOnly          = []services.Source{services.SourceHomeFeed}
	notificationsOnly = []services.Source{services.SourceNotifications}
	messagesOnly      = []services.Source{services.SourceSiteMessages}
	announcementsOnly = []services.Source{services.SourceAnnouncements}
	conversationsOnly = []services.Source{services.SourceConversations}
	liveOnly          = []services.Source{services.SourceLiveBoard}
)

// affected finds whose counts a job changes. What cannot be read may be anybody's.
func (f *Fanout) affectedBy(ctx context.Context, job store.Job) (affected, error) {
	changed, known := changedBy[job.Kind]
	change := affected{sources: changed.sources, since: job.CreatedAt, everybody: !known}
	if !known {
		change.sources = services.Sources
	}
	if changed.whose == nil {
		return change, nil
	}
	users, everybody, err := changed.whose(ctx, f, job)
	if services.IsUnavailable(err) {
		return affected{}, fmt.Errorf("whose counts a job changes: %w", err)
	}
	change.users, change.everybody = users, everybody || err != nil
	return change, nil
}

func everybodys(context.Context, *Fanout, store.Job) ([]services.UserNumber, bool, error) {
	return nil, true, nil
}

// ofFirst is for keys that are a user, or begin with one.
func ofFirst(_ context.Context, _ *Fanout, job store.Job) ([]services.UserNumber, bool, error) {
	text, _, _ := strings.Cut(job.Key, "/")
	user, err := mirror.ParseUserNumber(text)
	return []services.UserNumber{user}, false, err
}

// ofSecond is for keys that end with a user.
func ofSecond(_ context.Context, _ *Fanout, job store.Job) ([]services.UserNumber, bool, error) {
	_, text, _ := strings.Cut(job.Key, "/")
	user, err := mirror.ParseUserNumber(text)
	return []services.UserNumber{user}, false, err
}

func ofCauses(_ context.Context, _ *Fanout, job store.Job) (users []services.UserNumber, everybody bool, err error) {
	causes, err := causesOf(job)
	for _, cause := range causes {
		users = append(users, cause.Recipient)
	}
	return users, false, err
}

func ofDelivery(_ context.Context, _ *Fanout, job store.Job) ([]services.UserNumber, bool, error) {
	var chunk delivery
	err := json.Unmarshal(job.Payload, &chunk)
	return chunk.Users, false, err
}

// ofMembers are those of a conversation whose messages are carried to each. Of a larger one a pass may be anybody's.
func ofMembers(ctx context.Context, f *Fanout, job store.Job) (users []services.UserNumber, everybody bool, err error) {
	err = ofConversation(func(ctx context.Context, id services.ConversationID) error {
		page := services.MembersPage{Conversation: id, Size: membersPerPage + 1}
		found, err := f.store.MembersOf(ctx, []services.MembersPage{page})
		users = found[page]
		return err
	})(ctx, job)
	return users, len(users) > membersPerPage, err
}
