package messages

import (
	"context"
	"maps"
	"slices"

	"tidings/services"
	"tidings/services/importer"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/refs"
	"tidings/services/sql"
)

// importForm is the form of a file of site messages.
var importForm = importer.Form{
	Name: "messages", ExpectedLine: `JSON Lines like {"key":"spring","title":"...","content":"...","to":["alice"]}`, CountedUnit: "recipients", MaxBytesPerLine: 1 << 20,
	NamesRecipients: true,
}

// Import is the import of site messages. types are the types of messages that exist, the default first. It queues the jobs that
// deliver the messages with the messages themselves.
func Import(types []string) importer.Kind {
	return importer.Kind{
		Form: importForm, Objects: "site messages", FileFormat: "JSON Lines", Help: importHelp,
		Examples: []string{"tidings import messages spring.jsonl.gz"},
		Import: func(ctx context.Context, db *sql.DB, ids *services.IDClock, opts importer.Options) (importer.Report, error) {
			return ImportFile(ctx, db, ids, types, opts)
		},
	}
}

// importHelp is the part of tidings import --help on messages.
const importHelp = `Messages: a line of FILE is {"key":"spring","type":"general","title":"...","content":"...","to":["alice","bob"]}, up to
1 MB, with 1 to 10,000 recipients. Later lines with the same key add recipients and may leave out the text, so that
one message can go to millions. A recipient gets a message of one key once, even if several imports name them. The
messages reach their recipients while the server runs.
`

// messageRow is one line: a message and some of its recipients. Further lines of the same key name more recipients, and need not
// repeat the text.
type messageRow struct {
	Key     string   `json:"key"` // the ref of the message
	Type    string   `json:"type"`
	Title   string   `json:"title"`
	Content string   `json:"content"`
	To      []string `json:"to"` // the keys of recipients

	message ID
	text    Text // all lines of a key share it
}

// messageImport is one import of site messages under way. newMessages has the messages that the next commit inserts, by their
// keys: lines of the batch find their message there before the database has it.
type messageImport struct {
	*importer.Run
	ids   interface{ Next() services.SortableID } // makes the IDs of messages
	types []string                                // of messages that exist, the default first

	batch []messageRow // since the last commit
	// recipientCount counts the recipients of the batch, each as often as a line names them: the cost of a transaction depends on it.
	recipientCount int
	newMessages    map[string]messageRow
	textBytes      int // of the texts of newMessages
}

// ImportFile sends the site messages of a file of JSON Lines, to any number of users. The key of a message is its ref, so that lines,
// runs and files may name the same message, and no user gets it twice. The import stores the text and the list of recipients; the
// server delivers them when it runs. Bad lines are put aside and reported; the error is INVALID for a file that cannot be read or is
// cut off, as by social.ImportFile. types are the types of messages that exist, the default first.
func ImportFile(ctx context.Context, db importer.DB, ids interface{ Next() services.SortableID }, types []string, opts importer.Options) (importer.Report, error) {
	run, err := importer.Open(db, opts, importForm)
	if err != nil {
		return importer.Report{}, err
	}
	return run.ImportLines(ctx, &messageImport{Run: run, ids: ids, types: types, newMessages: map[string]messageRow{}})
}

// BatchFull reports whether the batch must be written. A line may name many recipients, so they are counted and not the lines.
func (im *messageImport) BatchFull() bool { return im.Full(im.recipientCount, im.textBytes) }

// AddLine parses one line: a good one enters the batch, a bad one is put aside.
func (im *messageImport) AddLine(ctx context.Context, line []byte) error {
	if importer.IsBlank(line) {
		return nil
	}
	row, err := im.row(ctx, line)
	// Lines are looked up one by one, so an error may be the database's and not the line's: then the import breaks off
	// here.
	if services.IsUnavailable(err) {
		return err
	}
	if err != nil {
		return im.RefuseLine(line, err)
	}
	im.batch = append(im.batch, row)
	im.recipientCount += len(row.To)
	im.FoundGoodLine()
	return nil
}

// row reads a line and finds its message, in newMessages or in the database. A message that is in neither is new, and row adds it to
// newMessages. The rest of the line is checked first: a bad line must not leave a message without recipients.
func (im *messageImport) row(ctx context.Context, line []byte) (row messageRow, err error) {
	if err := importForm.ReadObject(line, &row, "key, type, title, content and to"); err != nil {
		return row, err
	}
	if err := refs.CheckKey("key", row.Key); err != nil {
		return row, err
	}
	if n := len(row.To); n == 0 || n > maxRecipients {
		return row, services.Errorf(services.Invalid, "to: 1 to %d recipients are allowed in a line, got %d", maxRecipients, n)
	}
	for i, key := range row.To {
		row.To[i] = im.Opts.KeyPrefix + key
		if err := services.CheckUserKey(row.To[i]); err != nil {
			return row, services.Errorf(services.Invalid, "to: %s", err)
		}
	}
	given := Text{Type: row.Type, Title: row.Title, Content: row.Content}
	// A message that the batch does not have may be one of an earlier batch, run or file, or one that ingest sent.
	known, found := im.newMessages[row.Key]
	if !found {
		if known.message, known.text, found, err = im.findStored(ctx, row.Key); err != nil {
			return row, err
		}
	}
	if found {
		row.message, row.text = known.message, known.text
		return row, checkSameText(given, known.text, row.Key)
	}
	// The first line of a key has to have the whole text.
	if err := given.Check(im.types); err != nil {
		return row, err
	}
	// A user's list is in the order of IDs: a message gets its ID at the first line of its key.
	row.message, row.text = ID(im.ids.Next()), given
	im.newMessages[row.Key] = row
	// Only the content is counted: the other texts are short.
	im.textBytes += len(row.text.Content)
	return row, nil
}

// findStored finds a message in the database by its key. The statements read outside of the transaction. If another client takes the
// key before the commit, refs.ImportAll notices, and the import breaks off with CONFLICT.
func (im *messageImport) findStored(ctx context.Context, key string) (id ID, text Text, found bool, err error) {
	known, err := refs.FindKeys(ctx, im.DB, services.SiteMessageType, []string{key})
	holder, found := known[messageRef(key)]
	if err != nil || !found {
		return id, text, false, err
	}
	id = ID(holder.Object.Number)
	text, found, err = readText(ctx, im.DB, id)
	return id, text, found, err
}

// messageRef is the ref of a message with a key.
func messageRef(key string) services.Ref {
	return services.Ref{Type: services.SiteMessageType, Text: key}
}

// checkSameText reports whether a further line of a key agrees with the earlier ones. A part that the line leaves out agrees.
func checkSameText(given, known Text, key string) error {
	for _, part := range []struct{ field, given, known string }{
		{"type", given.Type, known.Type}, {"title", given.Title, known.Title}, {"content", given.Content, known.Content},
	} {
		if part.given != "" && part.given != part.known {
			return services.Errorf(services.Conflict, "key: %s is a message with another %s", services.Quote(key), part.field)
		}
	}
	return nil
}

// Commit writes the batch and the position in the file, 0 at the end of the file.
func (im *messageImport) Commit(ctx context.Context, line int64) error {
	if err := im.FlushBadLines(); err != nil {
		return err
	}
	// One statement finds the users of all rows; a user may be in many of them.
	var keys []string
	for _, row := range im.batch {
		keys = append(keys, row.To...)
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	err := im.DB.Write(ctx, func(tx *sql.Tx) error {
		ids, err := people.EnsureLocked(ctx, tx, keys, nil)
		if err != nil {
			return err
		}
		var named []refs.ObjectWithRef
		for _, key := range slices.Sorted(maps.Keys(im.newMessages)) { // in one order, so that two imports at once do not deadlock
			row := im.newMessages[key]
			if err := Insert(ctx, tx, row.message, row.text); err != nil {
				return err
			}
			named = append(named, refs.NewObject(messageRef(key), uint64(row.message), 0))
		}
		if err := refs.ImportAll(ctx, tx, named); err != nil {
			return err
		}
		for _, row := range im.batch {
			// The jobs deliver each row: the server's workers write the recipients' rows, however many there
			// are, and a recipient who has the message already does not get it again.
			queued, err := DeliverJobs(row.message, services.Map(row.To, func(key string) services.UserID { return ids[key] }))
			if err != nil {
				return err
			}
			if err := jobs.Enqueue(ctx, tx, queued...); err != nil {
				return err
			}
		}
		// At the end line is 0, so that the same file may be imported again: refs and recipients make that harmless.
		return im.SavePosition(ctx, tx, line)
	})
	if err != nil {
		return im.WithPosition(err)
	}
	im.Committed(importer.Report{GoodRows: int64(len(im.batch)), NewItems: int64(len(im.newMessages)), Recipients: int64(im.recipientCount)})
	im.batch, im.recipientCount = im.batch[:0], 0
	// newMessages is cleared only after the commit: a further line of a key now finds its message in the database.
	clear(im.newMessages)
	im.textBytes = 0
	return nil
}
