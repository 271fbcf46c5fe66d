package importer

import (
	"context"
	"maps"
	"slices"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/messages"
	"tidings/services/people"
	"tidings/services/refs"
	"tidings/services/sql"
)

// messageForm is the form of a file of site messages.
var messageForm = fileForm{
	name: "messages", expectedLine: `JSON Lines like {"key":"spring","title":"...","content":"...","to":["alice"]}`, countedUnit: "recipients", maxBytesPerLine: 1 << 20,
}

// messageRow is one line: a message and some of its recipients. Further lines of the same key name more recipients, and need not
// repeat the text.
type messageRow struct {
	Key     string   `json:"key"` // the ref of the message
	Type    string   `json:"type"`
	Title   string   `json:"title"`
	Content string   `json:"content"`
	To      []string `json:"to"` // the keys of recipients

	message messages.ID
	text    messages.Text // all lines of a key share it
}

// messageImport is one import of site messages under way. newMessages has the messages that the next commit inserts, by their
// keys: lines of the batch find their message there before the database has it.
type messageImport struct {
	*fileRun
	facts *sql.DB                             // the database, to look up messages of earlier imports
	ids   interface{ Next() services.PostID } // makes the IDs of messages
	types []string                            // of messages that exist, the default first

	batch []messageRow // since the last commit
	// recipientCount counts the recipients of the batch, each as often as a line names them: the cost of a transaction depends on it.
	recipientCount int
	newMessages    map[string]messageRow
	textBytes      int // of the texts of newMessages
}

// maxBatchTextBytes bounds the texts of a batch, in bytes. 20,000 rows of the longest texts would be gigabytes.
const maxBatchTextBytes = 8 << 20

// Messages sends the site messages of a file of JSON Lines, to any number of users. The key of a message is its ref, so that lines,
// runs and files may name the same message, and no user gets it twice. The import stores the text and the list of recipients; the
// server delivers them when it runs. Bad lines are put aside and reported; the error is INVALID for a file that cannot be read or is
// cut off, as by Follows. types are the types of messages that exist, the default first. facts is the database under db.
func Messages(ctx context.Context, db Store, facts *sql.DB, ids interface{ Next() services.PostID }, types []string, opts Options) (Report, error) {
	run, err := newRun(db, opts, messageForm)
	if err != nil {
		return Report{}, err
	}
	return run.importLines(ctx, &messageImport{fileRun: run, facts: facts, ids: ids, types: types, newMessages: map[string]messageRow{}})
}

// batchFull reports whether the batch has reached one of three limits: the recipients of a transaction, the memory for texts, and
// bad lines that wait. A line may name many recipients, so they are counted and not the lines.
func (im *messageImport) batchFull() bool {
	return im.recipientCount >= im.opts.BatchSize || im.textBytes >= maxBatchTextBytes || im.bad.pendingLines() >= im.opts.BatchSize
}

// addLine parses one line: a good one enters the batch, a bad one is put aside.
func (im *messageImport) addLine(ctx context.Context, line []byte) error {
	if isBlank(line) {
		return nil
	}
	row, err := im.row(ctx, line)
	// Lines are looked up one by one, so an error may be the database's and not the line's: then the import breaks off
	// here.
	if services.IsUnavailable(err) {
		return err
	}
	if err != nil {
		return im.refuseLastLine(line, err)
	}
	im.batch = append(im.batch, row)
	im.recipientCount += len(row.To)
	im.hasGoodLine = true
	return nil
}

// row reads a line and finds its message, in newMessages or in the database. A message that is in neither is new, and row adds it to
// newMessages. The rest of the line is checked first: a bad line must not leave a message without recipients.
func (im *messageImport) row(ctx context.Context, line []byte) (row messageRow, err error) {
	if len(line) > messageForm.maxBytesPerLine {
		return row, services.Errorf(services.Invalid, "longer than %d bytes", messageForm.maxBytesPerLine)
	}
	if err := readObject(line, &row, "key, type, title, content and to"); err != nil {
		return row, err
	}
	if err := checkRefKey("key", row.Key); err != nil {
		return row, err
	}
	if n := len(row.To); n == 0 || n > messages.MaxRecipients {
		return row, services.Errorf(services.Invalid, "to: 1 to %d recipients are allowed in a line, got %d", messages.MaxRecipients, n)
	}
	for i, key := range row.To {
		row.To[i] = im.opts.KeyPrefix + key
		if err := services.CheckUserKey(row.To[i]); err != nil {
			return row, services.Errorf(services.Invalid, "to: %s", err)
		}
	}
	given := messages.Text{Type: row.Type, Title: row.Title, Content: row.Content}
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
	row.message, row.text = messages.ID(im.ids.Next()), given
	im.newMessages[row.Key] = row
	// Only the content is counted: the other texts are short.
	im.textBytes += len(row.text.Content)
	return row, nil
}

// findStored finds a message in the database by its key. The statements read outside of the transaction. If another client takes the
// key before the commit, importRefs notices, and the import breaks off with CONFLICT.
func (im *messageImport) findStored(ctx context.Context, key string) (id messages.ID, text messages.Text, found bool, err error) {
	known, err := findRefs(ctx, im.facts, services.SiteMessageType, []string{key})
	holder, found := known[messageRef(key)]
	if err != nil || !found {
		return id, text, false, err
	}
	id = messages.ID(holder.Object.Number)
	text, found, err = messages.TextOf(ctx, im.facts, id)
	return id, text, found, err
}

// messageRef is the ref of a message with a key.
func messageRef(key string) services.Ref {
	return services.Ref{Type: services.SiteMessageType, Text: key}
}

// checkSameText reports whether a further line of a key agrees with the earlier ones. A part that the line leaves out agrees.
func checkSameText(given, known messages.Text, key string) error {
	for _, part := range []struct{ field, given, known string }{
		{"type", given.Type, known.Type}, {"title", given.Title, known.Title}, {"content", given.Content, known.Content},
	} {
		if part.given != "" && part.given != part.known {
			return services.Errorf(services.Conflict, "key: %s is a message with another %s", services.Quote(key), part.field)
		}
	}
	return nil
}

// commit writes the batch and the position in the file, 0 at the end of the file.
func (im *messageImport) commit(ctx context.Context, line int64) error {
	if err := im.bad.flush(); err != nil {
		return err
	}
	// One statement finds the users of all rows; a user may be in many of them.
	var keys []string
	for _, row := range im.batch {
		keys = append(keys, row.To...)
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	err := im.db.Write(ctx, func(tx *sql.Tx) error {
		numbers, err := people.EnsureLocked(ctx, tx, keys, nil)
		if err != nil {
			return err
		}
		var named []refs.ObjectWithRef
		for _, key := range slices.Sorted(maps.Keys(im.newMessages)) { // in one order, so that two imports at once do not deadlock
			row := im.newMessages[key]
			if err := messages.Insert(ctx, tx, row.message, row.text); err != nil {
				return err
			}
			named = append(named, namedObject(messageRef(key), uint64(row.message), 0))
		}
		if err := importRefs(ctx, tx, named); err != nil {
			return err
		}
		for _, row := range im.batch {
			// The jobs deliver each row: the server's workers write the recipients' rows, however many there
			// are, and a recipient who has the message already does not get it again.
			users := make([]services.UserID, len(row.To))
			for i, key := range row.To {
				users[i] = numbers[key]
			}
			queued, err := messages.DeliverJobs(row.message, users)
			if err != nil {
				return err
			}
			if err := jobs.Enqueue(ctx, tx, queued...); err != nil {
				return err
			}
		}
		if im.source.progressKey == "" {
			return nil
		}
		// At the end line is 0, so that the same file may be imported again: refs and recipients make that harmless.
		return setProgress(ctx, tx, im.source.progressKey, line)
	})
	if err != nil {
		return im.withPosition(err)
	}
	im.report.GoodRows += int64(len(im.batch))
	im.report.NewItems += int64(len(im.newMessages))
	im.report.Recipients += int64(im.recipientCount)
	im.batch, im.recipientCount = im.batch[:0], 0
	// newMessages is cleared only after the commit: a further line of a key now finds its message in the database.
	clear(im.newMessages)
	im.textBytes = 0
	im.showProgress()
	return nil
}
