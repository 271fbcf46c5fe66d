package sql

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
)

// SQLite keeps the bytes of deleted rows until it needs their space, in the free parts of pages and in free pages. It can
// overwrite them at each deletion (secure_delete). But secure_delete does not overwrite the copies that are left when SQLite moves
// rows within a page or splits a page, nor rows that were deleted before it was switched on. So ordinary writes overwrite no
// deleted bytes, and Scrub overwrites all of them when a user has to be forgotten.
//
// Scrub works on parts of pagesPerScrub pages. It reads a part through the table sqlite_dbpage, in one snapshot, and finds the unused
// bytes (scrub_format.go): in pages of trees, in free pages, and behind the end of overflow chains. Pages in which such bytes are
// not zero are read again within a write transaction, which overwrites the bytes with zeros. A page that is not understood with
// certainty is left alone: it is bad to keep a deleted name, but worse to lose a row.

// ScrubbedPart is a part of a file that was scrubbed. The caller keeps NextAfterPage, so that a restart goes on there.
type ScrubbedPart struct {
	NextAfterPage        int64 // the next part begins behind this page
	More                 bool  // there is a next part
	PagesWithDeletedData int   // pages in which deleted data was found
}

// ErrUnknownPages is the error of Scrub for a file whose pages it does not understand with certainty: a file of 128 GiB or more,
// with auto_vacuum, or with a damaged list of free pages.
var ErrUnknownPages = errors.New("the pages of the file are not as they should be")

// FindDamage describes the first fault of a SQLite file, "" for none. It reads the whole file. A damaged file must not be scrubbed:
// its list of free pages may contain pages that are in use.
func (s *DB) FindDamage(ctx context.Context) (what string, err error) {
	if s.Dialect != SQLite {
		return "", nil
	}
	// 1 is the number of faults after which the check stops: one is enough.
	rows, err := s.db.QueryContext(ctx, `PRAGMA quick_check(1)`)
	if err != nil {
		return "", MapError("check the file", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := rows.Scan(&what); err != nil {
			return "", MapError("check the file", err)
		}
	}
	if what == "ok" {
		what = ""
	}
	return what, MapError("check the file", rows.Err())
}

// Scrub overwrites the data that deleted and changed rows have left in one part of a SQLite file, which begins at page after+1. It
// reads while the writer works, and writes the pages that have such data, a few at a time. A malformed page is left alone.
// PostgreSQL overwrites deleted rows by itself (VACUUM): there, Scrub does nothing.
//
// When SQLite moves rows to another page, deleted data may move with them, so one round can miss that data while others write. A
// second round finds it. The old content of a page stays in the write-ahead log until EmptyWAL is called.
func (s *DB) Scrub(ctx context.Context, after int64) (part ScrubbedPart, err error) {
	if s.Dialect != SQLite {
		return part, nil
	}
	var left []int64
	var file filePages
	read, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // the whole part is read in one snapshot
	if err != nil {
		return part, MapError("scrub", err)
	}
	defer func() { _ = read.Rollback() }()
	if file, err = readFilePages(ctx, transaction{read}, after+1, after+pagesPerScrub); err == nil && file.isUnderstood() && after < file.pageCount {
		left, err = findPagesWithDeletedData(ctx, transaction{read}, file, after+1, min(after+pagesPerScrub, file.pageCount))
	}
	// The snapshot ends before the writes, because it would keep the log from being emptied.
	if err = firstError(err, read.Rollback()); err != nil {
		return part, MapError("scrub", err)
	}
	if !file.isUnderstood() {
		return part, ErrUnknownPages
	}
	// Each transaction writes few pages, because other writes wait meanwhile.
	for some := range slices.Chunk(left, pagesPerScrubWrite) {
		if err := s.Write(ctx, func(tx *Tx) error { return MapError("scrub", overwriteDeleted(ctx, tx.db, some)) }); err != nil {
			return part, err
		}
	}
	// The part is done even if some of its pages could not be understood: PagesWithDeletedData counts only those in which data was
	// found.
	next := after + pagesPerScrub
	return ScrubbedPart{NextAfterPage: next, More: next < file.pageCount, PagesWithDeletedData: len(left)}, nil
}

// CanScrub reports whether Scrub does anything: on SQLite.
func (s *DB) CanScrub() bool { return s.Dialect == SQLite }

// EmptyWAL copies SQLite's write-ahead log into the file and truncates it, between two transactions. It returns false if a reader,
// such as a backup, still needs a part of the log, or if another process holds a lock; try again later. On PostgreSQL it does
// nothing and returns true.
func (s *DB) EmptyWAL(ctx context.Context) (emptied bool, err error) {
	if s.Dialect != SQLite {
		return true, nil
	}
	if err := s.admitWrite(); err != nil {
		return false, err
	}
	defer s.activeWrites.Done()
	return s.writer.emptyWAL(ctx)
}

// emptyWAL empties the log in the writer's turn, between two groups.
func (w *writer) emptyWAL(ctx context.Context) (emptied bool, err error) {
	w.connMu.Lock()
	defer w.connMu.Unlock()
	rows, err := w.conn.query(ctx, "PRAGMA wal_checkpoint(TRUNCATE)", nil)
	if err != nil {
		return false, MapError("empty the log", err)
	}
	defer rows.Close()
	// SQLite answers with one row: whether something kept it from emptying the log, and how far it came.
	var stopped, pages, copied int
	for rows.Next() {
		if err := rows.Scan(&stopped, &pages, &copied); err != nil {
			return false, MapError("empty the log", err)
		}
	}
	return stopped == 0 && rows.Err() == nil, MapError("empty the log", rows.Err())
}

// The numbers of pages that a part has, and that one transaction reads again and writes.
const (
	pagesPerScrub      = 1024 // in a part
	pagesPerScrubWrite = 32   // pages with long overflow chains delay other writes most: 128 of them took 385 ms
)

// readPages reads pages by their numbers, and leaves out numbers behind the end of the file.
func readPages(ctx context.Context, q queryer, numbers []int64, each func(number int64, data []byte)) error {
	list, err := json.Marshal(numbers)
	if err != nil || len(numbers) == 0 {
		return err
	}
	// The list drives the join, so that SQLite reads each page by its number instead of scanning the table.
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

// readFilePages reads the head of the file, and which of the pages from first to last are free. It walks along the whole
// list of free pages, because the list is in no order.
func readFilePages(ctx context.Context, q queryer, first, last int64) (file filePages, err error) {
	file.rangeFirstPage, file.rangeLastPage = first, last
	rows, err := q.query(ctx, `PRAGMA page_count`, nil)
	if err != nil {
		return file, err
	}
	for rows.Next() {
		err = firstError(err, rows.Scan(&file.pageCount))
	}
	if err = firstError(err, rows.Err(), rows.Close()); err != nil {
		return file, err
	}
	next := int64(0)
	if err := readPages(ctx, q, []int64{1}, func(_ int64, head []byte) { next = file.readFileHeader(head) }); err != nil || !file.isUnderstood() {
		return file, err
	}
	// The list of free pages is a chain of trunk pages. file.readFreeListPage ends the chain where a trunk comes twice.
	for next > 0 {
		trunk := next
		next = 0
		if err := readPages(ctx, q, []int64{trunk}, func(_ int64, data []byte) { next = file.readFreeListPage(trunk, data) }); err != nil {
			return file, err
		}
	}
	file.freeListDamaged = file.freeListDamaged || file.freePagesListed != file.freePagesExpected
	return file, nil
}

// findPagesWithDeletedData returns the pages from first to last that have deleted data in them or in their overflow pages.
func findPagesWithDeletedData(ctx context.Context, q queryer, file filePages, first, last int64) (left []int64, err error) {
	numbers := make([]int64, 0, last-first+1)
	for number := first; number <= last; number++ {
		numbers = append(numbers, number)
	}
	err = eachPageWithDeletedData(ctx, q, file, numbers, func(of int64, _ scrubbedPage) error {
		left = append(left, of)
		return nil
	})
	slices.Sort(left)
	return slices.Compact(left), err
}

// overwriteDeleted overwrites the deleted data in pages and in their overflow pages, as they are in this transaction. numbers is
// sorted.
func overwriteDeleted(ctx context.Context, q queryer, numbers []int64) error {
	file, err := readFilePages(ctx, q, numbers[0], numbers[len(numbers)-1])
	// The file is examined again in the transaction: it may have changed since, and its pages may no longer be
	// understood.
	if err != nil || !file.isUnderstood() {
		return err
	}
	return eachPageWithDeletedData(ctx, q, file, numbers, func(_ int64, page scrubbedPage) error {
		_, err := q.exec(ctx, `UPDATE sqlite_dbpage SET data = ?1 WHERE pgno = ?2`, []any{page.data, page.number})
		return err
	})
}

// scrubbedPage is a page with its deleted data overwritten.
type scrubbedPage struct {
	number int64
	data   []byte // with zeros in place of the deleted data
}

// eachPageWithDeletedData finds the pages with deleted data among the given ones and their overflow pages. It calls found with the
// number of the given page (for an overflow page, the page of its row) and with the page in which the data is overwritten. It does
// so only after all pages are read: SQLite must not write a table that it reads.
func eachPageWithDeletedData(ctx context.Context, q queryer, file filePages, numbers []int64, found func(of int64, page scrubbedPage) error) error {
	var dirty []scrubbedPage
	var of []int64
	var chains []overflowChain
	clean := func(owner, number int64, data []byte, holes []unusedRange) {
		// zeroRanges has written into data, which is now the page without deleted data.
		if zeroRanges(data, holes) {
			dirty, of = append(dirty, scrubbedPage{number, data}), append(of, owner)
		}
	}
	err := readPages(ctx, q, numbers, func(number int64, data []byte) {
		holes, more := file.unusedRanges(number, data)
		// An overflow page cannot be recognised by its content, only by the chain from its row.
		chains = append(chains, more...)
		clean(number, number, data, holes)
	})
	for err == nil && len(chains) > 0 { // each turn reads the next page of every chain
		// waiting maps the next page of each chain to the chain, because the pages come in no order. In an undamaged file two chains
		// never share a page.
		waiting, next := map[int64]overflowChain{}, []int64{}
		for _, c := range chains {
			waiting[c.nextPage] = c
			next = append(next, c.nextPage)
		}
		chains = nil
		err = readPages(ctx, q, next, func(number int64, data []byte) {
			c := waiting[number]
			if after, holes := c.follow(data, file.usableBytes); after.nextPage > 0 {
				chains = append(chains, after)
			} else {
				clean(c.rowPage, number, data, holes)
			}
		})
	}
	for i := 0; err == nil && i < len(dirty); i++ {
		err = found(of[i], dirty[i])
	}
	return err
}

// firstError is the first error, except ErrTxDone, which means only that the transaction has already ended.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil && err != sql.ErrTxDone {
			return err
		}
	}
	return nil
}
