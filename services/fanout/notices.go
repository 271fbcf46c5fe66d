package fanout

import (
	"context"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/jobs"
	"tidings/services/mirror"
	"tidings/services/rdb"
	"tidings/services/sql"
	"tidings/services/store"
)

// The kinds of jobs of announcements and dots.
const (
	jobStart   = "announcement.start" // key: announcement id. It gets its position in the list when it starts
	jobNotices = "notices"            // key: user. Their position, segments or dots changed
)

func (f *Fanout) noticeKinds() []jobs.Kind {
	return []jobs.Kind{
		{Name: jobStart, Class: jobs.Short, Each: jobs.OfPost(f.runStart), Changes: jobs.CountsOf(jobs.Everyone, services.SourceAnnouncements)},
		{Name: jobNotices, Class: jobs.Short, Each: jobs.OfUser(f.ProjectNotices), Changes: jobs.CountsOf(jobs.FirstUser, services.SourceAnnouncements)},
	}
}

// StartJob gives an announcement its position in the list when it starts.
func StartJob(announcement services.Announcement) jobs.NewJob {
	job := jobs.Keyed(jobStart, announcement.ID.String())
	job.NotBefore = announcement.StartsAt
	return job
}

// NoticesJob projects a user's position in the announcements, their segments and their dots into their document.
func NoticesJob(user services.UserID) jobs.NewJob {
	return jobs.UserKeyed(jobNotices, user)
}

// NoticeChanged ends a transaction that changed something that all users share, by an entry in the log that the nodes
// follow. The transaction took a stamp of the notice clock before anything else; key names what changed.
func NoticeChanged(ctx context.Context, tx *store.Tx, key string) error {
	_, err := changelog.AppendLog(ctx, tx.Tx, mirror.LogNotice, key, nil)
	return err
}

func (f *Fanout) runStart(ctx context.Context, _ jobs.Job, id services.PostID) error {
	started := false
	err := f.store.Write(ctx, func(tx *store.Tx) (err error) {
		started, err = start(ctx, tx, id)
		return err
	})
	if err != nil || !started {
		return err
	}
	return f.announcements.Refresh(ctx)
}

// start gives an announcement its position if its start time has come and it has none. It is safe to repeat, and allows for
// any change since the job was left.
func start(ctx context.Context, tx *store.Tx, id services.PostID) (started bool, err error) {
	found, err := tx.Announcements(ctx, []services.PostID{id})
	if err != nil {
		return false, err
	}
	switch a, known := found[id]; {
	case !known || !waits(a, tx.Now):
		return false, nil
	case a.StartsAt.After(tx.Now): // postponed, or the clock of another node is ahead of this one's
		return false, jobs.Enqueue(ctx, tx.Tx, StartJob(a))
	}
	// The notice clock comes first: every change of an announcement takes the two locks in this order.
	stamp, err := tx.NextNotice(ctx)
	if err != nil {
		return false, err
	}
	a, err := tx.AnnouncementForUpdate(ctx, id)
	if err != nil {
		return false, err
	}
	if !waits(a, tx.Now) || a.StartsAt.After(tx.Now) {
		return false, nil // changed between the two reads; that change has left its own job
	}
	a.Position = stamp
	if err := tx.UpdateAnnouncement(ctx, a); err != nil {
		return false, err
	}
	if err := tx.TrimAnnouncements(ctx, services.MaxAnnouncements); err != nil {
		return false, err
	}
	return true, NoticeChanged(ctx, tx, a.GlobalID())
}

// waits says whether an announcement has yet to get its position.
func waits(a services.Announcement, now time.Time) bool {
	return a.Position == 0 && !a.Withdrawn && !a.OverAt(now)
}

// enter is the arrival of announcements and dots: a new user gets their position.
func (f *Fanout) enter(ctx context.Context, tx *sql.Tx, user services.UserID) error {
	return store.In(tx).EnterNotices(ctx, user, tx.Moment(f.ActiveSince))
}

// Enter gives a new user their position in the announcements and dots, in the transaction of their first action.
func (f *Fanout) Enter(ctx context.Context, tx *store.Tx, user services.UserID) error {
	return f.enter(ctx, tx.Tx, user)
}

// dormantStep is how many users' positions one turn of the janitor checks.
const dormantStep = 20_000

// dormantPositions deletes the positions of dormant users, some of them in each turn.
type dormantPositions struct {
	fanout *Fanout
	walked services.UserID // how far the walk along the positions has come
}

func (d *dormantPositions) forget(ctx context.Context) (dropped int, err error) {
	walked, dropped, err := d.fanout.store.DropDormantNotices(ctx, d.fanout.ActiveSince(), d.walked, dormantStep)
	if err == nil {
		d.walked = walked
	}
	return dropped, err
}

// EnterNotices is a user's position in the announcements and dots, from SQL. A new user starts at the present end, and
// counts as seen from then on.
func (f *Fanout) EnterNotices(ctx context.Context, user services.UserID) (store.UserNotices, error) {
	known, err := f.store.UserNotices(ctx, user)
	if err != nil || !known.IsNew(f.ActiveSince()) {
		return known, err
	}
	if err := f.Arrive(ctx, user); err != nil {
		return known, err
	}
	return f.store.UserNotices(ctx, user)
}

// ProjectNotices projects a user's position in the announcements, their segments and their dots into their document.
func (f *Fanout) ProjectNotices(ctx context.Context, user services.UserID) error {
	return f.Project(ctx, user, f.noticeRegisters)
}

func (f *Fanout) noticeRegisters(ctx context.Context, user services.UserID) (registers []rdb.Register, err error) {
	known, err := f.store.UserNotices(ctx, user)
	if err != nil {
		return nil, fmt.Errorf("notices of user %d: %w", user, err)
	}
	if known.Version > 0 {
		registers = append(registers, rdb.NoticeRegister(known.NoticeState))
	}
	if known.Segments.Version > 0 {
		registers = append(registers, rdb.SegmentRegister(known.Segments))
	}
	for dot, seen := range known.Dots {
		registers = append(registers, rdb.DotRegister(dot, seen))
	}
	return registers, nil
}

// Dormant says whether a document belongs to a user who was away for so long that they count as new: it is rebuilt before it
// is shown. Redis expires such documents by itself, but by its own clock.
func (f *Fanout) Dormant(document rdb.Document) bool {
	const day = 24 * time.Hour
	lastSeen := time.Unix(0, 0).Add(time.Duration(document.Day+1) * day) // at the latest
	return document.Ready && lastSeen.Before(f.ActiveSince())
}
