package sql

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
)

// SQLite keeps the bytes of deleted rows until it needs their place, in the free parts of pages and in free pages. It can overwrite them at
// each deletion (secure_delete), but not the copies that stay behind when it moves rows within a page or splits it, nor what was deleted
// before that was switched on. So nothing is done in ordinary writes: Scrub overwrites it all, when somebody has to be forgotten.
//
// Scrub takes the file in parts of some pages. It reads a part through the table sqlite_dbpage, in one snapshot, and finds the
// bytes that belong to nothing (scrub_format.go): in pages of trees, in free pages, and behind the end of overflow chains. Pages
// in which such bytes are not zero are looked at again within a write transaction, and written with zeros there. What is not
// understood for sure is left alone: to keep a deleted name is bad, and to lose a row is worse.

// Scrubbed is a part of a file that was scrubbed. The caller keeps Next, so that a restart goes on there.
type Scrubbed struct {
	Next  int64 // the position of the next part
	More  bool  // there is a next part
	Pages int   // in which something was left
}

// ErrUnknownPages is the error of Scrub for a file whose pages it does not know for sure: one of 128 GiB or more, one with auto_vacuum, and
// one whose list of free pages is not as it should be.
var ErrUnknownPages = errors.New("the pages of the file are not as they should be")

// Damage says what is wrong with a SQLite file, "" for nothing. It reads the whole file. A damaged file must not be scrubbed: pages
// that somebody can still read may be in the list of free ones.
func (s *DB) Damage(ctx context.Context) (what string, err error) {
	if s.Dialect != SQLite {
		return "", nil
	}
	// 1 is the number of faults after which it stops: one is enough.
	rows, err := s.db.QueryContext(ctx, `PRAGMA quick_check(1)`)
	if err != nil {
		return "", Fault("check the file", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := rows.Scan(&what); err != nil {
			return "", Fault("check the file", err)
		}
	}
	if what == "ok" {
		what = ""
	}
	return what, Fault("check the file", rows.Err())
}

// Scrub overwrites what deleted and changed rows have left in the next part of a SQLite file, from the page behind after on. It reads
// beside the writer, and writes pages that have something left, a few at a time. PostgreSQL does the like by itself (VACUUM): there,
// nothing is to be done. A page that is not as it should be is left alone.
//
// What is left in a page moves to another page when rows move between the two, so that one round can miss it where others write at the
// same time. A second round finds that. The old content of a page is in the write-ahead log until EmptyLog.
func (s *DB) Scrub(ctx context.Context, after int64) (part Scrubbed, err error) {
	if s.Dialect != SQLite {
		return part, nil
	}
	var left []int64
	var file fileFormat
	read, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // all of the part is read of one snapshot
	if err != nil {
		return part, Fault("scrub", err)
	}
	defer func() { _ = read.Rollback() }()
	if file, err = readFormat(ctx, transaction{read}, after+1, after+scrubPages); err == nil && file.known() && after < file.pages {
		left, err = leftIn(ctx, transaction{read}, file, after+1, min(after+scrubPages, file.pages))
	}
	// The snapshot ends before the writes: it would keep the log from being emptied.
	if err = errorsOf(err, read.Rollback()); err != nil {
		return part, Fault("scrub", err)
	}
	if !file.known() {
		return part, ErrUnknownPages
	}
	// Few pages in each transaction: other writes wait meanwhile.
	for some := range slices.Chunk(left, scrubWrites) {
		if err := s.Write(ctx, func(tx *Tx) error { return Fault("scrub", overwrite(ctx, tx.db, some)) }); err != nil {
			return part, err
		}
	}
	// Also of pages that could not be understood: the caller goes on, and Pages counts only what was found.
	next := after + scrubPages
	return Scrubbed{Next: next, More: next < file.pages, Pages: len(left)}, nil
}

// Scrubs reports whether Scrub does anything: on SQLite.
func (s *DB) Scrubs() bool { return s.Dialect == SQLite }

// EmptyLog copies SQLite's write-ahead log into the file and truncates it, between two transactions. false: a reader, such as a backup,
// still needs a part of the log, or another process holds a lock; try again later. Elsewhere it is true.
func (s *DB) EmptyLog(ctx context.Context) (emptied bool, err error) {
	if s.Dialect != SQLite {
		return true, nil
	}
	if err := s.begin(); err != nil {
		return false, err
	}
	defer s.writing.Done()
	return s.writer.emptyLog(ctx)
}

// emptyLog empties the log in the writer's turn, between two groups.
func (w *writer) emptyLog(ctx context.Context) (emptied bool, err error) {
	w.turn.Lock()
	defer w.turn.Unlock()
	rows, err := w.conn.query(ctx, "PRAGMA wal_checkpoint(TRUNCATE)", nil)
	if err != nil {
		return false, Fault("empty the log", err)
	}
	defer rows.Close()
	// SQLite answers with one row: whether it was kept from emptying, and how far it came.
	var stopped, pages, copied int
	for rows.Next() {
		if err := rows.Scan(&stopped, &pages, &copied); err != nil {
			return false, Fault("empty the log", err)
		}
	}
	return stopped == 0 && rows.Err() == nil, Fault("empty the log", rows.Err())
}

// These bound a part: the pages that are read, and those that one transaction looks at again and writes.
const (
	scrubPages  = 1024
	scrubWrites = 32 // rows with long overflow chains hold others longest: 385 ms was seen with 128
)

// pages reads pages by their numbers; those behind the end are absent.
func pages(ctx context.Context, q queryer, numbers []int64, each func(number int64, data []byte)) error {
	list, err := json.Marshal(numbers)
	if err != nil || len(numbers) == 0 {
		return err
	}
	// The list drives the join, so that each page is read by its number and not the table by its order.
	rows, err := q.query(ctx, `SELECT p.pgno, p.data FROM json_each(?1) AS j CROSS JOIN sqlite_dbpage AS p WHERE p.pgno = j.value`, []any{string(list)})
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var number int64
		var data []byte
		if err := rows.Scan(&number, &data); err != nil {
			return err
		}
		each(number, data)
	}
	return rows.Err()
}

// readFormat reads the head of the file, and which of the pages from first to last are free. It walks along the whole
// list of free pages, because the list is in no order.
func readFormat(ctx context.Context, q queryer, first, last int64) (file fileFormat, err error) {
	file.first, file.last = first, last
	rows, err := q.query(ctx, `PRAGMA page_count`, nil)
	if err != nil {
		return file, err
	}
	for rows.Next() {
		err = errorsOf(err, rows.Scan(&file.pages))
	}
	if err = errorsOf(err, rows.Err(), rows.Close()); err != nil {
		return file, err
	}
	next := int64(0)
	if err := pages(ctx, q, []int64{1}, func(_ int64, head []byte) { next = file.head(head) }); err != nil || !file.known() {
		return file, err
	}
	// The list of free pages is a chain of trunk pages. list ends it where a trunk comes twice.
	for next > 0 {
		trunk := next
		next = 0
		if err := pages(ctx, q, []int64{trunk}, func(_ int64, data []byte) { next = file.list(trunk, data) }); err != nil {
			return file, err
		}
	}
	file.damaged = file.damaged || file.listed != file.counted
	return file, nil
}

// leftIn are the pages from first to last in which something is left, or in whose overflow pages.
func leftIn(ctx context.Context, q queryer, file fileFormat, first, last int64) (left []int64, err error) {
	numbers := make([]int64, 0, last-first+1)
	for number := first; number <= last; number++ {
		numbers = append(numbers, number)
	}
	err = scrubbed(ctx, q, file, numbers, func(of int64, _ scrubbedPage) error {
		left = append(left, of)
		return nil
	})
	slices.Sort(left)
	return slices.Compact(left), err
}

// overwrite overwrites what is left in pages, in the order of their numbers, and in their overflow pages, as they are in this transaction.
func overwrite(ctx context.Context, q queryer, numbers []int64) error {
	file, err := readFormat(ctx, q, numbers[0], numbers[len(numbers)-1])
	// The file is looked at again in the transaction: it may have changed since, also from one that is known to one
	// that is not.
	if err != nil || !file.known() {
		return err
	}
	return scrubbed(ctx, q, file, numbers, func(_ int64, page scrubbedPage) error {
		_, err := q.exec(ctx, `UPDATE sqlite_dbpage SET data = ?1 WHERE pgno = ?2`, []any{page.data, page.number})
		return err
	})
}

// scrubbedPage is a page as it should be.
type scrubbedPage struct {
	number int64
	data   []byte
}

// scrubbed finds the pages among some, and among their overflow pages, in which something is left. found is called with
// the number among the given ones, and the page without it. found is called after all pages are read: SQLite must not
// write a table that it reads.
func scrubbed(ctx context.Context, q queryer, file fileFormat, numbers []int64, found func(of int64, page scrubbedPage) error) error {
	var dirty []scrubbedPage
	var of []int64
	var chains []chain
	clean := func(owner, number int64, data []byte, holes []hole) {
		// zero has written into data, which is the page as it should be.
		if zero(data, holes) {
			dirty, of = append(dirty, scrubbedPage{number, data}), append(of, owner)
		}
	}
	err := pages(ctx, q, numbers, func(number int64, data []byte) {
		holes, more := file.holes(number, data)
		// Overflow pages do not say what they are: only the chain from its row does.
		chains = append(chains, more...)
		clean(number, number, data, holes)
	})
	for err == nil && len(chains) > 0 { // each turn reads the next page of every chain
		// By the page, because the answers come in no order. Two chains never share a page in a file that is whole.
		waiting, next := map[int64]chain{}, []int64{}
		for _, c := range chains {
			waiting[c.next] = c
			next = append(next, c.next)
		}
		chains = nil
		err = pages(ctx, q, next, func(number int64, data []byte) {
			c := waiting[number]
			if after, holes := c.follow(data, file.usable); after.next > 0 {
				chains = append(chains, after)
			} else {
				clean(c.of, number, data, holes)
			}
		})
	}
	for i := 0; err == nil && i < len(dirty); i++ {
		err = found(of[i], dirty[i])
	}
	return err
}

// errorsOf is the first error; a transaction that has ended already is none.
func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil && err != sql.ErrTxDone {
			return err
		}
	}
	return nil
}
