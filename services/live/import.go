package live

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/fanout"
	"tidings/services/importer"
	"tidings/services/jobs"
	"tidings/services/nodecache"
	"tidings/services/people"
	"tidings/services/posts"
	"tidings/services/projector"
	"tidings/services/refs"
	"tidings/services/sql"
)

// importForm is the form of a file of shows.
var importForm = importer.Form{
	Name: "shows", CountedUnit: "shows", MaxBytesPerLine: 128 << 10,
	ExpectedLine: `JSON Lines like {"key":"s1","host":"alice","title":"...","plannedAt":"2026-01-31T20:00:00Z","startedAt":"...","endedAt":"..."}`,
}

// Import is the import of shows, and their replay. Both queue the jobs that bring the shows onto boards with the shows themselves.
func Import() importer.Kind {
	return importer.Kind{
		Form: importForm, Objects: "shows", FileFormat: "JSON Lines", Help: importHelp,
		Examples: []string{
			"tidings import shows season.jsonl.gz",
			"tidings import shows season.jsonl.gz --factor 60 --database postgres://tidings@db/tidings",
		},
		Import: func(ctx context.Context, db *sql.DB, ids *services.IDClock, opts importer.Options) (importer.Report, error) {
			if opts.ReplayFactor == 0 {
				return ImportFile(ctx, db, ids, opts)
			}
			// Only facts and jobs are written here: the nodes on the same database project them.
			engine, log := jobs.New(jobs.Config{DB: db}), changelog.New(changelog.Config{Log: nodecache.SQL{DB: db}, Logger: slog.Default()})
			projections := projector.New(projector.Config{Jobs: engine, DB: db, Clock: services.SystemClock{}, IDs: ids})
			fan := fanout.New(fanout.Config{Jobs: engine, Projector: projections, DB: db, Clock: services.SystemClock{}, IDs: ids})
			service := New(Config{DB: db, Jobs: engine, Projector: projections, Fanout: fan, Changelog: log, IDs: ids, Clock: services.SystemClock{}})
			return ReplayFile(ctx, db, service, opts)
		},
	}
}

// importHelp is the part of tidings import --help on shows.
const importHelp = `Shows: a line of FILE is {"key":"s1","host":"alice","title":"...","plannedAt":"2026-01-31T20:00:00Z"}, up to 128 KB; it
may have startedAt, endedAt, cancelled (true), coverUrl and replayUrl. Times are RFC 3339, or milliseconds since 1970.
A show with an end is a replay; one with only a start is live; both times are in the past. A show is imported once, by
its key, and stays with its host: a line that names another host is a bad line. An import sends no reminders. A live or
upcoming show that nobody ends or starts is closed like any other show. Boards show the imported shows while the server
runs. With --factor 60 the shows are replayed instead: an hour of FILE takes a minute, beside nodes that run on the same
PostgreSQL. All times move to the present; each show is scheduled an hour of FILE ahead, and then starts, ends or is
cancelled as if its host did it. Ctrl-C stops the replay, and the next run continues with the next event.
`

// showImport is one import of shows under way.
type showImport struct {
	importer.PlannedBatch[showRow, plannedShow]
	ids   interface{ Next() services.SortableID } // makes the IDs of the shows
	keys  *people.KeyTable                        // the keys of hosts in the file, with their user IDs
	users map[string]services.UserID              // the hosts of the batch, by key
}

// ImportFile imports the shows of a file of JSON Lines, with the times that the file gives them: ended shows are replays, cancelled ones are
// on no board, started ones are live, and the rest are upcoming. The key of a show is its ref. A show is imported once, however often a
// file names it; a key of another host's show makes a bad line. No reminders are sent. A job closes a live or upcoming show of which
// nothing else is reported for a long time (ShowLimits). After a batch every node reloads all shows, unless all hosts of the batch
// are new: shows of new hosts are on boards as soon as their followers' documents name the hosts. A file that was read to its end adds
// nothing when it is imported again. Bad lines are put aside and reported; the error is INVALID for a file that cannot be read or is
// cut off, as by social.ImportFile.
func ImportFile(ctx context.Context, db importer.DB, ids interface{ Next() services.SortableID }, opts importer.Options) (importer.Report, error) {
	run, err := importer.Open(db, opts, importForm)
	if err != nil {
		return importer.Report{}, err
	}
	im := &showImport{ids: ids, keys: people.NewKeyTable(opts.KeyPrefix)}
	im.Run = run
	return run.ImportLines(ctx, im)
}

// AddLine parses one line: a good one enters the batch, a bad one is put aside. Times are compared with the clock of IDs, which
// is never behind the newest ID of this process.
func (im *showImport) AddLine(_ context.Context, line []byte) error {
	return im.AddRow(line, func(line []byte) (showRow, error) {
		row, err := parseShowRow(line, im.keys, im.ids.Next().Time())
		row.lineNumber, row.line = im.LineNumber(), line
		return row, err
	})
}

// Commit plans the batch and writes it together with line, the position in the file; line is 0 at the end of the file.
func (im *showImport) Commit(ctx context.Context, line int64) error {
	err := im.CommitPlan(ctx, line, im.plan, im.write)
	if err == nil {
		im.keys.RememberIDs(im.users)
	}
	return err
}

// plannedShow is a show that does not exist yet, with its ref. Its host is an index in the table of keys.
type plannedShow struct {
	Show
	ref services.Ref
}

// plan makes the shows of the batch that do not exist yet. A row that moves a show to another host is set aside and leaves the batch.
// plan reads outside of the transaction, and runs again if a key was taken meanwhile.
func (im *showImport) plan(ctx context.Context) ([]plannedShow, error) {
	hosts, err := storedHostKeys(ctx, im.DB, im.Rows)
	if err != nil {
		return nil, err
	}
	planned, good := make([]plannedShow, 0, len(im.Rows)), im.Rows[:0]
	for _, row := range im.Rows {
		host, known := hosts[row.Key]
		switch {
		case known && host != im.Opts.KeyPrefix+row.Host:
			im.PutAside(row.lineNumber, row.line, row.otherHostError(host))
			continue
		case !known:
			// The ID has the time of the import, whenever the show took place.
			id := im.ids.Next()
			show := row.toShow(services.ShowID(id), id.Time())
			show.Host = services.UserID(im.keys.IndexOf([]byte(row.Host)))
			planned = append(planned, plannedShow{show, showRef(row.Key)})
			// A later row of the key is a duplicate, or bad if it names another host.
			hosts[row.Key] = im.Opts.KeyPrefix + row.Host
		}
		good = append(good, row)
	}
	im.Rows = good
	return planned, nil
}

// write inserts the planned shows, with their hosts.
func (im *showImport) write(ctx context.Context, tx *sql.Tx, planned []plannedShow) (err error) {
	// Hosts of bad rows are not in the table: they become no users.
	if im.users, err = im.keys.EnsureUsers(ctx, tx, services.Map(planned, func(plan plannedShow) int32 { return int32(plan.Host) })); err != nil {
		return err
	}
	numbered, named := make([]Show, len(planned)), make([]refs.ObjectWithRef, len(planned))
	for i, plan := range planned {
		show := plan.Show
		show.Host = im.keys.ID(int32(show.Host), im.users)
		numbered[i] = show
		named[i] = refs.NewObject(plan.ref, uint64(show.ID), show.Host)
	}
	if err := im.insert(ctx, tx, numbered); err != nil {
		return err
	}
	return refs.ImportAll(ctx, tx, named)
}

// insert writes shows. If the documents of all followers name the host already, its shows are on boards at once. A new host
// is first written into the documents by a job, because a board reads the shows of the hosts that its reader's document has.
func (im *showImport) insert(ctx context.Context, tx *sql.Tx, planned []Show) error {
	if len(planned) == 0 {
		return nil
	}
	// The lock comes before anything that gets a version: versions are then committed in their order, and no reader of the changelog skips
	// one.
	if _, err := changelog.LockLog(ctx, tx, ChangelogKind); err != nil {
		return err
	}
	hosts := services.Map(planned, func(show Show) services.UserID { return show.Host })
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	unnamed, err := insertImportedHosts(ctx, tx, hosts)
	if err != nil {
		return err
	}
	var version uint64
	// One entry of the changelog makes every node load all shows again, however many shows the batch has.
	if len(unnamed) < len(hosts) {
		if version, err = appendReload(ctx, tx); err != nil {
			return err
		}
	}
	if err := im.putOnBoards(ctx, tx, planned, hosts, unnamed, version); err != nil {
		return err
	}
	inserted, err := insertImportedShows(ctx, tx, planned)
	if err == nil && inserted < len(planned) {
		err = importer.ErrTaken
	}
	if err != nil {
		return err
	}
	queued, err := jobsForShows(planned, unnamed)
	if err != nil {
		return err
	}
	return jobs.Enqueue(ctx, tx, queued...)
}

// putOnBoards gives shows the version from which boards have them, unless some followers' documents do not name their hosts yet
// (unnamed): then the job that writes the host into the documents sets the version. It marks the replays of huge authors, which are in no
// follower's list but pulled. A live show counts for the present followers of its host, whenever it started: for them it went live with
// the import.
func (im *showImport) putOnBoards(ctx context.Context, tx *sql.Tx, planned []Show, hosts []services.UserID, unnamed map[services.UserID]bool, version uint64) error {
	authors, err := posts.Authors(ctx, im.DB, hosts)
	if err != nil {
		return err
	}
	goLive := map[services.UserID]bool{}
	for i := range planned {
		show := &planned[i]
		show.Pull = show.Status == ShowReplay && authors[show.Host].Mode == services.AuthorHuge
		if show.Status == ShowLive {
			show.LiveStamp = services.SortableID(show.ID)
		}
		// Version 0 keeps a show off all boards: until the job that writes its host into documents sets the version, and for good if the show
		// is cancelled.
		if unnamed[show.Host] || show.Status == ShowCancelled {
			continue
		}
		show.Version = version
		if show.Status == ShowLive {
			show.LiveVersion = version
			goLive[show.Host] = true
		}
	}
	// The hosts are updated in their order, which is the order of their locks.
	for _, host := range hosts {
		if goLive[host] {
			if err := recordHostLiveVersion(ctx, tx, host, version); err != nil {
				return err
			}
		}
	}
	return nil
}

// jobsForShows are the jobs that write new hosts into documents, close shows without further reports, and put replays into the lists of
// followers. For the lists, one job for each host is enough, because it reads all of the host's replays.
func jobsForShows(planned []Show, unnamed map[services.UserID]bool) ([]jobs.NewJob, error) {
	queued, err := hostsIntoDocumentsJobs(slices.Sorted(maps.Keys(unnamed)))
	if err != nil {
		return nil, err
	}
	over := map[services.UserID]bool{} // hosts with replays to put into lists
	for _, show := range planned {
		switch {
		case show.Status == ShowUpcoming || show.Status == ShowLive:
			queued = append(queued, closeShowJob(show.ID, time.Time{})) // the job computes the time at which the show is closed
		case show.Status == ShowReplay && show.Version > 0 && !show.Pull:
			over[show.Host] = true
		}
	}
	for _, host := range slices.Sorted(maps.Keys(over)) {
		queued = append(queued, fanOutReplaysJob(host))
	}
	return queued, nil
}
