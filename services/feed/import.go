package feed

import (
	"context"
	"slices"
	"strings"
	"time"

	"tidings/services"
	"tidings/services/importer"
	"tidings/services/people"
	"tidings/services/posts"
	"tidings/services/projector"
	"tidings/services/refs"
	"tidings/services/sql"
)

// importForm is the form of a file of posts.
var importForm = importer.Form{
	Name: "posts", ExpectedLine: `JSON Lines like {"key":"p1","author":"alice","at":"2026-01-31T09:30:00Z","body":"..."}`, CountedUnit: "posts", MaxBytesPerLine: 128 << 10,
}

// Import is the import of posts, which enter home feeds by the settings of feeds. activeFor is the setting of how long users count as
// active.
func Import(settings Settings, activeFor time.Duration) importer.Kind {
	return importer.Kind{
		Form: importForm, Objects: "posts", FileFormat: "JSON Lines", Help: importHelp,
		Examples: []string{"tidings import posts archive.jsonl.gz --prefix u"},
		Import: func(ctx context.Context, db *sql.DB, ids *services.IDClock, opts importer.Options) (importer.Report, error) {
			return ImportFile(ctx, db, ids, settings.kinds(), opts)
		},
		// Posts change feeds that exist already.
		AfterImport: func(ctx context.Context, db *sql.DB) error {
			return projector.QueueRefillsAfterImport(ctx, db, activeFor)
		},
	}
}

// importHelp is the part of tidings import --help on posts.
const importHelp = `Posts: a line of FILE is {"key":"p2","author":"alice","at":"2026-01-31T09:30:00Z","body":"...","parent":"p1"}, up to
128 KB. at is the time of the post and its position in feeds (RFC 3339, to the millisecond; not in the future); of two
posts in one millisecond the later line is the newer post. key and parent are optional. A post with a key is imported
once, whichever file names it: the key is the post's ref (1 to 128 printable characters), by which ingest and the API
know it as post:ref:KEY. Keys of shows and messages are their refs likewise. A post without a key is imported again from another file. Importing the same file again
adds nothing. parent is the key of an earlier post, or the ID of any post (post:...): an answer to a post is a comment,
an answer to that a reply. --feed-kinds sets the kinds that enter home feeds. Imported posts, mentions and answers
notify nobody. The feeds of active users are rebuilt while the server runs.
`

// postRow is one line: a post and, if the line has a key, the post's ref. It keeps the text of the line, because planning
// may find that the row is bad, long after it was read.
type postRow struct {
	Key    string `json:"key"`    // the ref of the post; "" for none
	Author string `json:"author"` // the key of the author
	At     string `json:"at"`     // when the post was published, in the format of RFC 3339
	Body   string `json:"body"`
	Parent string `json:"parent"` // the ID or the key of the post that it answers; "" for none

	firstIDOfMilli services.SortableID // the least ID of the post's millisecond
	parentID       services.PostID     // the parent, if the line names it by its ID; else 0
	lineNumber     int64               // of the line
	line           []byte              // its text
}

// postImport is one import of posts under way.
type postImport struct {
	importer.PlannedBatch[postRow, plannedPost]
	ids          interface{ Next() services.SortableID } // gives the present time, as IDs
	kindsInFeeds []services.PostKind                     // the kinds of posts that enter home feeds
	keys         *people.KeyTable                        // the keys of the authors
	users        map[string]services.UserID              // the authors of the batch, by key
}

// ImportFile imports the posts of a file of JSON Lines. A post has the time that the file gives it, to the millisecond; of two posts
// of one millisecond the later line is the newer post, whatever the database had before. A post with a key is imported once,
// however often a file names it: the key is its ref, also outside of imports. Later lines can answer it: an answer to a post is a
// comment, an answer to a comment or a reply is a reply. Nobody is notified and no jobs are queued, because these posts are the
// past. A file that was read to its end adds nothing when it is imported again. kinds are the kinds that enter home feeds. Bad
// lines are put aside and reported; the error is INVALID for a file that cannot be read or is cut off, as by social.ImportFile.
func ImportFile(ctx context.Context, db importer.DB, ids interface{ Next() services.SortableID }, kinds []services.PostKind, opts importer.Options) (importer.Report, error) {
	run, err := importer.Open(db, opts, importForm)
	if err != nil {
		return importer.Report{}, err
	}
	im := &postImport{ids: ids, kindsInFeeds: kinds, keys: people.NewKeyTable(opts.KeyPrefix)}
	im.Run = run
	return run.ImportLines(ctx, im)
}

// AddLine parses one line: a good one enters the batch, a bad one is put aside. It looks nothing up: plan does that for the whole
// batch.
func (im *postImport) AddLine(_ context.Context, line []byte) error { return im.AddRow(line, im.row) }

// row parses a line, without looking anything up.
func (im *postImport) row(line []byte) (row postRow, err error) {
	row.lineNumber, row.line = im.LineNumber(), line
	if err := importForm.ReadObject(line, &row, "key, author, at, body and parent"); err != nil {
		return row, err
	}
	// A key that looks like an ID could not be named as a parent, because the name would be taken for the ID.
	if row.Key != "" {
		if err := refs.CheckKey("key", row.Key); err != nil {
			return row, err
		}
		if isPostID(row.Key) {
			return row, services.Errorf(services.Invalid, "key: %s has the form of an ID of Tidings: choose another", services.Quote(row.Key))
		}
	}
	if err := im.keys.CheckKey([]byte(row.Author)); err != nil {
		return row, services.Errorf(services.Invalid, "author: %s", err)
	}
	if err := services.CheckBody(row.Body); err != nil {
		return row, err
	}
	if isPostID(row.Parent) {
		// An ID names any post of the database, a key a post of a file or of ingest. Planning the batch finds out whether the
		// post exists.
		if row.parentID, err = services.ParsePostGlobalID("parent", row.Parent); err != nil {
			return row, err
		}
	} else if row.Parent != "" {
		if err := refs.CheckKey("parent", row.Parent); err != nil {
			return row, err
		}
		if row.Parent == row.Key {
			return row, services.Errorf(services.Invalid, "parent: %s answers itself", services.Quote(row.Key))
		}
	}
	moment, err := time.Parse(time.RFC3339, row.At)
	if err != nil {
		return row, services.Errorf(services.Invalid, "at is %s: a time like 2026-01-31T09:30:00Z is needed", services.Quote(row.At))
	}
	// The ID of millisecond 0 is 0, which stands for no ID.
	if row.firstIDOfMilli = services.SortableIDAt(moment); moment.UnixMilli() < 1 || row.firstIDOfMilli > im.ids.Next() {
		return row, services.Errorf(services.Invalid, "at is %s: it is before 1970 or in the future", services.Quote(row.At))
	}
	return row, nil
}

// isPostID reports whether a name of a post is an ID of the API.
func isPostID(name string) bool { return strings.HasPrefix(name, services.PostType+":") }

// Commit plans and writes the batch and the position in the file, 0 at the end of the file.
func (im *postImport) Commit(ctx context.Context, line int64) error {
	err := im.CommitPlan(ctx, line, im.plan, im.write)
	if err == nil {
		im.keys.RememberIDs(im.users)
	}
	return err
}

// write inserts the planned posts, with their authors.
func (im *postImport) write(ctx context.Context, tx *sql.Tx, planned []plannedPost) (err error) {
	if im.users, err = im.keys.EnsureUsers(ctx, tx, services.Map(planned, func(plan plannedPost) int32 { return int32(plan.Author) })); err != nil {
		return err
	}
	numbered, named := make([]services.Post, len(planned)), make([]refs.ObjectWithRef, 0, len(planned))
	for i, plan := range planned {
		post := plan.Post
		// Until here the author is an index in the table of keys, because planning creates no users.
		post.Author = im.keys.ID(int32(post.Author), im.users)
		numbered[i] = post
		if plan.ref.Text != "" {
			named = append(named, refs.NewObject(plan.ref, uint64(post.ID), post.Author))
		}
	}
	// Insert in the order of the table's key, so that the index grows at one position.
	slices.SortFunc(numbered, func(a, b services.Post) int { return int(int64(a.ID) - int64(b.ID)) })
	inserted, err := posts.Import(ctx, tx, numbered)
	if err != nil {
		return err
	}
	// An ID of the plan was taken by a server or another import, and the row with it was left out.
	if inserted < len(planned) {
		return importer.ErrTaken
	}
	return refs.ImportAll(ctx, tx, named)
}
