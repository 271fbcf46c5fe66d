package views

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/rdb"
)

// The kinds of jobs of the badges' counts. Their names are in the database. A job counts when it runs, so the newest job does the
// work of all before it.
const (
	jobReaders = "view.readers" // key: the JSON of [code, id]. A view's items changed: project the counts of its readers
	jobChunk   = "view.chunk"   // payload: readersChunk. Project the counts of a part of a view's readers
	jobCounts  = "views"        // key: a user, who touched a view. Project the user's count
)

const (
	// readersPerPage is how many readers' counts are read by one statement and written in one round trip.
	readersPerPage = 500
	// minReadersPassGap is the least time between the starts of two passes, which recount for all readers of a view.
	minReadersPassGap = 100 * time.Millisecond
	// maxReadersPerSecond bounds how many readers of one view are recounted in a second. A pass over many readers makes the next
	// pass wait, so that items that come one by one do not cause a pass each.
	maxReadersPerSecond = 5000
)

// readersChunk is the readers of a view with IDs above After, up to To. It is stored in the queue, so the names of its fields must
// stay.
type readersChunk struct {
	Code  string          `json:"code"`
	ID    string          `json:"id"`
	After services.UserID `json:"after"`
	To    services.UserID `json:"to"`
}

func (c readersChunk) view() View { return View{Code: c.Code, ID: c.ID} }

// countKinds are the kinds of jobs that change counts in documents.
func (s *Service) countKinds() []jobs.Kind {
	return []jobs.Kind{
		{Name: jobReaders, Class: jobs.ShortClass, Each: s.runReadersJob,
			ChangedCounts: jobs.CountsOf(s.usersOfReadersJob, services.SourceViews), NamesUser: jobs.NoUser},
		{Name: jobChunk, Class: jobs.BulkClass, Each: s.runChunkJob, ChangedCounts: jobs.CountsOf(s.usersOfChunk, services.SourceViews), NamesUser: jobs.NoUser},
		{Name: jobCounts, Class: jobs.ShortClass, Each: jobs.UserWork(s.projectCounts),
			ChangedCounts: jobs.CountsOf(jobs.FirstUserOfKey, services.SourceViews), NamesUser: jobs.UserInKey},
	}
}

// readersJob makes the job that projects the counts of the readers of a view. Jobs that wait together become one.
func (s *Service) readersJob(view View) jobs.NewJob {
	return s.throttle.DelayJob(view, s.clock.Now(), newReadersJob(view), s.jobs.Wake)
}

// newReadersJob makes the job that projects the counts of the readers of a view, without a delay by the throttle.
func newReadersJob(view View) jobs.NewJob {
	key, _ := json.Marshal([2]string{view.Code, view.ID}) // strings always have a JSON form
	return jobs.KeyedJob(jobReaders, string(key))
}

// viewOf returns the view of a job of the kind jobReaders.
func viewOf(job jobs.Job) (View, error) {
	var parts [2]string
	if err := json.Unmarshal([]byte(job.Key), &parts); err != nil {
		return View{}, fmt.Errorf("key of %s: %w", job.Kind, err)
	}
	return View{Code: parts[0], ID: parts[1]}, nil
}

// countsJob makes the job that projects the count of one user.
func countsJob(user services.UserID) jobs.NewJob { return jobs.UserJob(jobCounts, user) }

// runReadersJob recounts for the readers of a view: at once if they are less than a page, otherwise by a job for each page. The job
// waits until the gap of an earlier pass is over: another node, which does not know of that pass, may have queued it.
func (s *Service) runReadersJob(ctx context.Context, job jobs.Job) error {
	view, err := viewOf(job)
	if err != nil {
		return err
	}
	now := s.clock.Now()
	if due := s.throttle.NextPassAt(view, now); !due.IsZero() {
		return s.jobs.Replace(ctx, job, []jobs.NewJob{s.throttle.DelayJob(view, now, newReadersJob(view), s.jobs.Wake)})
	}
	// The pass begins before the readers are read, so that an item that comes from here on gets its own pass.
	s.throttle.BeginPass(view, now, minReadersPassGap)
	since := s.projector.DormantBefore()
	first, err := readReaders(ctx, s.db, view, 0, since, readersPerPage)
	if err != nil {
		return err
	}
	if len(first) < readersPerPage {
		return s.project(ctx, first)
	}
	chunks, err := s.chunksOf(ctx, view, first, since)
	if err != nil {
		return err
	}
	// The next pass waits as long as this one may take at maxReadersPerSecond.
	s.throttle.BeginPass(view, now, time.Duration(len(chunks))*readersPerPage*time.Second/maxReadersPerSecond)
	made, err := jobs.ChunkJobs(jobChunk, chunks)
	if err != nil {
		return err
	}
	return s.jobs.Replace(ctx, job, made)
}

// chunksOf splits the readers of a view into chunks of a page; first is the first page. The last chunk has no upper end unless it is
// a full page.
func (s *Service) chunksOf(ctx context.Context, view View, first []services.UserID, since time.Time) (chunks []readersChunk, err error) {
	for page, after := first, services.UserID(0); ; {
		part := readersChunk{Code: view.Code, ID: view.ID, After: after, To: ^services.UserID(0)}
		if len(page) < readersPerPage {
			return append(chunks, part), nil
		}
		part.To = page[len(page)-1]
		chunks, after = append(chunks, part), part.To
		if page, err = readReaders(ctx, s.db, view, after, since, readersPerPage); err != nil || len(page) == 0 {
			return chunks, err
		}
	}
}

// runChunkJob recounts for one chunk of readers, as SQL has them when it runs. Users who touched the view since the chunk was made
// have their count already.
func (s *Service) runChunkJob(ctx context.Context, job jobs.Job) error {
	users, _, err := s.usersOfChunk(ctx, job)
	if err != nil {
		return err
	}
	for page := range slices.Chunk(users, readersPerPage) {
		if err := s.project(ctx, page); err != nil {
			return err
		}
	}
	return nil
}

// usersOfChunk lists the readers in a chunk at this moment. They are more than a page if readers came since the chunk was made.
func (s *Service) usersOfChunk(ctx context.Context, job jobs.Job) (users []services.UserID, everyone bool, err error) {
	var part readersChunk
	if err := jobs.ReadPayload(job, &part); err != nil {
		return nil, false, err
	}
	for after := part.After; ; {
		// Read page by page, from the index of readers by view: only the readers of the chunk are in memory, not all of the
		// view's.
		page, err := readReaders(ctx, s.db, part.view(), after, s.projector.DormantBefore(), readersPerPage)
		if err != nil {
			return nil, false, err
		}
		for _, user := range page {
			if user > part.To {
				return users, false, nil
			}
			users = append(users, user)
		}
		if len(page) < readersPerPage {
			return users, false, nil
		}
		after = page[len(page)-1]
	}
}

// usersOfReadersJob lists the users whose counts a job of the kind jobReaders changes: the readers of the view. everyone is true if
// they are more than a page.
func (s *Service) usersOfReadersJob(ctx context.Context, job jobs.Job) (users []services.UserID, everyone bool, err error) {
	view, err := viewOf(job)
	if err != nil {
		return nil, false, err
	}
	// One more than a page is read. More readers are not listed, because that would take as long as the job itself.
	users, err = readReaders(ctx, s.db, view, 0, s.projector.DormantBefore(), readersPerPage+1)
	return users, len(users) > readersPerPage, err
}

// project counts the new items of users again and writes the counts into their documents: one statement and one round trip for a
// page.
func (s *Service) project(ctx context.Context, users []services.UserID) error {
	if len(users) == 0 {
		return nil
	}
	states, err := readCounts(ctx, s.db, users)
	if err != nil {
		return err
	}
	fields := make([]rdb.VersionedFields, 0, len(states))
	for _, user := range users {
		if state, touched := states[user]; touched {
			fields = append(fields, rdb.VersionedFields{User: user, Fields: []rdb.VersionedField{rdb.ViewsVersionedField(state)}})
		}
	}
	return s.projector.PutVersionedFields(ctx, fields)
}

// projectCounts counts again for a user who touched a view, and writes the count into the document. It is called before the touch is
// answered, and again by the touch's job.
func (s *Service) projectCounts(ctx context.Context, user services.UserID) error {
	return s.project(ctx, []services.UserID{user})
}

// versionedFields returns a user's count, from the facts, as a versioned field of the document.
func (s *Service) versionedFields(ctx context.Context, user services.UserID) ([]rdb.VersionedField, error) {
	states, err := readCounts(ctx, s.db, []services.UserID{user})
	if state, touched := states[user]; touched && err == nil {
		return []rdb.VersionedField{rdb.ViewsVersionedField(state)}, nil
	}
	return nil, err
}

// audit returns the same versioned field as versionedFields, for the audit to compare. It counts the items themselves (auditCounts), by other
// statements than versionedFields, so that a wrong statement shows as a difference.
func (s *Service) audit(ctx context.Context, user services.UserID) ([]rdb.VersionedField, error) {
	state, found, err := auditCounts(ctx, s.db, user)
	if err != nil || !found {
		return nil, err
	}
	return []rdb.VersionedField{rdb.ViewsVersionedField(state)}, nil
}
