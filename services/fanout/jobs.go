package fanout

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/mirror"
	"tidings/services/rdb"
	"tidings/services/store"
)

// errFinished says that a job took itself out of the queue, in the transaction of its effect.
var errFinished = errors.New("finished in its own transaction")

// span is a chunk of an author's followers: numbers above After, up to To, or with Online those of them who are online
// now; or, with Shards, those among the online users of so many shards.
type span struct {
	Post   services.PostID     `json:"post"`
	Author services.UserNumber `json:"author"`
	After  services.UserNumber `json:"after,omitempty"`
	To     services.UserNumber `json:"to,omitempty"`
	Shard  int                 `json:"shard,omitempty"` // the first
	Shards int                 `json:"shards,omitempty"`
	Online bool                `json:"online,omitempty"`

	OnlineFirst bool `json:"-"` // all of them, those who are online before the others: of a fan-out's only chunk
}

// FanOutJob carries a new post to all followers.
func FanOutJob(post services.PostID) store.NewJob { return keyed(jobFanOut, post.String()) }

// RemoveJob takes a deleted post out of all followers' feeds.
func RemoveJob(post services.PostID) store.NewJob { return keyed(jobRemove, post.String()) }

// CopyJob brings an edited post into its copy.
func CopyJob(post services.PostID) store.NewJob { return keyed(jobCopy, post.String()) }

// FollowJob brings a reader's feed in line with whether he follows the author.
func FollowJob(reader, author services.UserNumber) store.NewJob {
	return keyed(jobFollow, pairKey(reader, author))
}

// SeenJob brings the mark of a user's feed into his document.
func SeenJob(user services.UserNumber) store.NewJob {
	return keyed(jobSeen, mirror.UserNumberText(user))
}

// CountsJob brings a user's notification counts into his document.
func CountsJob(user services.UserNumber) store.NewJob {
	return keyed(jobCounts, mirror.UserNumberText(user))
}

// ProfileJob brings a user's profile into its copy.
func ProfileJob(user services.UserNumber) store.NewJob {
	return keyed(jobProfile, mirror.UserNumberText(user))
}

// NotifyJob lets a cause count, or no longer count, for its recipient, whichever the facts say when it runs. Many that are
// committed together are one job for each recipient.
func NotifyJob(cause store.Cause) (store.NewJob, error) {
	payload, err := json.Marshal(cause)
	if err != nil {
		return store.NewJob{}, fmt.Errorf("notify job: %w", err)
	}
	return store.NewJob{Kind: jobNotify, Group: mirror.UserNumberText(cause.Recipient), Payload: payload}, nil
}

// NotifyJobs are the jobs of several causes.
func NotifyJobs(causes ...store.Cause) ([]store.NewJob, error) {
	jobs := make([]store.NewJob, len(causes))
	for i, cause := range causes {
		var err error
		if jobs[i], err = NotifyJob(cause); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

func keyed(kind, key string) store.NewJob { return store.NewJob{Kind: kind, Key: key} }

// CarrySeen brings the durable mark of a user's feed into his document.
func (f *Fanout) CarrySeen(ctx context.Context, user services.UserNumber) error {
	seen, err := f.store.Position(ctx, user, store.HomePage, "")
	if err != nil {
		return err
	}
	result, err := f.redis.MarkFeedSeen(ctx, user, seen)
	if err != nil {
		return err
	}
	f.hint(ctx, []services.UserNumber{user}, []rdb.Result{result})
	return nil
}

// CarryCopy brings a post into its copy in Redis.
func (f *Fanout) CarryCopy(ctx context.Context, id services.PostID) error {
	posts, err := f.store.Posts(ctx, []services.PostID{id})
	if err != nil {
		return err
	}
	return f.redis.PutCopies(ctx, []services.Post{posts[id]}, nil)
}

// CarryProfile brings a user's profile into its copy in Redis.
func (f *Fanout) CarryProfile(ctx context.Context, user services.UserNumber) error {
	users, err := f.store.Users(ctx, []services.UserNumber{user})
	if err != nil {
		return err
	}
	return f.redis.PutCopies(ctx, nil, []services.User{users[user]})
}

// CarryStates brings notification counts into their recipients' documents.
func (f *Fanout) CarryStates(ctx context.Context, states []store.NotificationState) error {
	var registers gather
	for _, state := range states {
		registers.add(state.Recipient, rdb.CategoryRegisters(CountsOf(state))...)
	}
	return f.put(ctx, registers.all)
}

func (f *Fanout) carryCounts(ctx context.Context, user services.UserNumber) error {
	return f.carry(ctx, user, f.notificationRegisters)
}

// causesAtOnce bounds what one transaction applies, but for a single job: it has what was committed together.
const causesAtOnce = 1000

// notifyEach applies the causes together, about a thousand at once; when one of the jobs is at fault, each by itself, so that
// it fails alone.
func (f *Fanout) notifyEach(ctx context.Context, jobs []store.Job) (outcomes []error) {
	outcomes = make([]error, len(jobs))
	causes := make([][]store.Cause, len(jobs))
	var batch []int
	size := 0
	apply := func() {
		f.notifyTogether(ctx, jobs, causes, batch, outcomes)
		batch, size = nil, 0
	}
	for i, job := range jobs {
		if causes[i], outcomes[i] = causesOf(job); outcomes[i] != nil {
			continue
		}
		if size > 0 && size+len(causes[i]) > causesAtOnce {
			apply()
		}
		batch, size = append(batch, i), size+len(causes[i])
	}
	apply()
	return outcomes
}

// causesOf reads the payload of a job: a cause a line.
func causesOf(job store.Job) (causes []store.Cause, err error) {
	for line := range bytes.Lines(job.Payload) {
		var cause store.Cause
		if err := json.Unmarshal(line, &cause); err != nil {
			return nil, fmt.Errorf("payload of %s: %w", job.Kind, err)
		}
		causes = append(causes, cause)
	}
	return causes, nil
}

// notifyTogether applies the causes of the jobs at some places, and says at theirs what became of them.
func (f *Fanout) notifyTogether(ctx context.Context, jobs []store.Job, causes [][]store.Cause, places []int, outcomes []error) {
	try := func(places []int) error {
		var those []store.Job
		var all []store.Cause
		for _, i := range places {
			those, all = append(those, jobs[i]), append(all, causes[i]...)
		}
		return f.notify(ctx, those, all)
	}
	err := try(places)
	for _, i := range places {
		if outcomes[i] = err; err != nil && !services.IsUnavailable(err) && len(places) > 1 {
			outcomes[i] = try([]int{i})
		}
		if outcomes[i] == nil {
			outcomes[i] = errFinished
		}
	}
}

// notify applies causes: one transaction brings the facts into the recipients' rows and leaves a job a recipient that
// carries the counts, so that a crash between SQL and Redis loses nothing; then the counts are carried at once.
func (f *Fanout) notify(ctx context.Context, jobs []store.Job, causes []store.Cause) error {
	if len(jobs) == 0 {
		return nil
	}
	var states []store.NotificationState
	err := f.store.Write(ctx, func(tx *store.Tx) (err error) {
		if states, err = tx.ApplyCauses(ctx, causes); err != nil {
			return err
		}
		finished, err := tx.FinishJobs(ctx, jobs)
		if err == nil && finished < len(jobs) {
			err = services.Errorf(services.Unavailable, "%d of %d notify jobs were taken over by another worker", len(jobs)-finished, len(jobs))
		}
		if err != nil {
			return err
		}
		return tx.Enqueue(ctx, carryLater(states, f.clock.Now())...)
	})
	if err != nil {
		return err
	}
	if err := f.CarryStates(ctx, states); err != nil {
		f.log.Debug("counts not carried at once; their jobs will", "error", err)
	}
	return nil
}

// carryLater are the jobs that repeat what is carried at once.
func carryLater(states []store.NotificationState, now time.Time) []store.NewJob {
	const later = time.Second
	jobs := make([]store.NewJob, 0, len(states))
	for _, state := range states {
		job := CountsJob(state.Recipient)
		job.NotBefore = now.Add(later)
		jobs = append(jobs, job)
	}
	return jobs
}
