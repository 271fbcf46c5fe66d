package fanout

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"tidings/services"
	"tidings/services/mirror"
	"tidings/services/store"
)

// lane keeps long work from holding up short work: each lane has its own workers.
type lane int

const (
	laneQuick  lane = iota // one user's views
	laneBulk               // chunks of many users
	laneOnline             // chunks of online users, before all other chunks
)

// kind is how jobs of one kind are done: each by itself, or those that were claimed together. An outcome of errFinished
// says that the job took itself out of the queue.
type kind struct {
	lane  lane
	each  func(ctx context.Context, job store.Job) error
	batch func(ctx context.Context, jobs []store.Job) (outcomes []error)
}

// The kinds of jobs.
const (
	jobFanOut = mirror.JobFanOut // key: post id. A new post to all followers

	jobPush    = "post.push"   // a chunk of them; payload: span
	jobOnline  = "post.online" // those of them who are online; payload: span
	jobRemove  = "post.remove" // key: post id. A deleted post from all followers
	jobDrop    = "post.drop"   // a chunk of them; payload: span
	jobCopy    = "post.copy"   // key: post id. An edited post
	jobFollow  = "follow"      // key: reader/author. The edge changed
	jobSeen    = "feed.seen"   // key: user. The mark of his feed moved
	jobRefill  = "refill"      // key: user. His inbox has room for older posts
	jobNotify  = "notify"      // payload: cause. Something happened around a recipient
	jobCounts  = "counts"      // key: user. His notification counts changed in SQL
	jobProfile = "profile"     // key: user. His profile changed
)

// makeKinds is the table of all kinds: each source adds its own.
func (f *Fanout) makeKinds() map[string]kind {
	kinds := map[string]kind{
		jobProfile: {lane: laneQuick, each: ofUser(f.CarryProfile)},
	}
	maps.Copy(kinds, f.feedKinds())
	maps.Copy(kinds, f.authorKinds())
	maps.Copy(kinds, f.notificationKinds())
	maps.Copy(kinds, f.policyKinds())
	maps.Copy(kinds, f.messageKinds())
	maps.Copy(kinds, f.noticeKinds())
	maps.Copy(kinds, f.chatKinds())
	maps.Copy(kinds, f.viewKinds())
	maps.Copy(kinds, f.restrictionKinds())
	maps.Copy(kinds, f.hostKinds())
	maps.Copy(kinds, f.replayKinds())
	maps.Copy(kinds, f.showKinds())
	return kinds
}

func (f *Fanout) feedKinds() map[string]kind {
	return map[string]kind{
		jobFanOut: {lane: laneQuick, each: ofPost(f.spread)},
		jobRemove: {lane: laneQuick, each: ofPost(f.spread)},
		jobPush:   {lane: laneBulk, each: f.runChunk},
		jobOnline: {lane: laneOnline, each: f.runOnline},
		jobDrop:   {lane: laneBulk, each: f.runChunk},
		jobCopy: {lane: laneQuick, each: ofPost(func(ctx context.Context, _ store.Job, post services.PostID) error {
			return f.CarryCopy(ctx, post)
		})},
		jobFollow: {lane: laneQuick, each: ofPair(f.Reconcile)},
		jobSeen:   {lane: laneQuick, each: ofUser(f.CarrySeen)},
		jobRefill: {lane: laneQuick, each: ofUser(f.Refill)},
	}
}

func (f *Fanout) notificationKinds() map[string]kind {
	return map[string]kind{
		jobNotify: {lane: laneQuick, batch: f.notifyEach},
		jobCounts: {lane: laneQuick, each: ofUser(f.carryCounts)},
	}
}

// lanesOf lists the kinds of each lane.
func lanesOf(kinds map[string]kind) map[lane][]string {
	lanes := map[lane][]string{}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		lanes[kinds[name].lane] = append(lanes[kinds[name].lane], name)
	}
	return lanes
}

// ofUser makes a kind's work of what is done for the user of its key.
func ofUser(do func(ctx context.Context, user services.UserNumber) error) func(context.Context, store.Job) error {
	return func(ctx context.Context, job store.Job) error {
		user, err := mirror.ParseUserNumber(job.Key)
		if err != nil {
			return fmt.Errorf("key of %s: %w", job.Kind, err)
		}
		return do(ctx, user)
	}
}

// ofPost makes a kind's work of what is done for the post of its key.
func ofPost(do func(ctx context.Context, job store.Job, post services.PostID) error) func(context.Context, store.Job) error {
	return func(ctx context.Context, job store.Job) error {
		id, err := services.ParsePostID(job.Key)
		if err != nil {
			return fmt.Errorf("key of %s: %w", job.Kind, err)
		}
		return do(ctx, job, id)
	}
}
