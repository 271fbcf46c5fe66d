package importer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"tidings/services"
)

// maxPrintedBadLines is how many bad lines are printed one by one.
const maxPrintedBadLines = 20

// badLines collects the lines that could not be used: for each a remark "# line 7: reason" and the unchanged line. Imports skip
// lines that begin with #, so the file can be imported itself once its lines are corrected. Nothing is written before flush,
// because a batch may be planned again.
type badLines struct {
	path  string    // of the file of bad lines
	out   io.Writer // the screen
	count int64     // bad lines in the file, and those that wait for flush

	// These bound the cost of a broken file: bytes for each line, and lines on the screen.
	maxKeptBytes int      // bytes of a line that are kept
	addedThisRun int      // bad lines of this run, of which the first are put on the screen
	handle       *os.File // the open file; nil before the first flush
	// pending has the entries that flush has yet to write. count includes them.
	pending      bytes.Buffer
	pendingCount int // the number of entries in pending
}

// badLineRemarkFormat precedes each bad line in the file. reopenCutAfter reads the number back by the same format.
const badLineRemarkFormat = "# line %d: "

// reopenCutAfter opens the file of an earlier run and removes the entries of later lines, because those lines are read again. A new
// import starts without the file.
func (b *badLines) reopenCutAfter(line int64) error {
	if line == 0 {
		return b.withAdvice(ignoreMissing(os.Remove(b.path)))
	}
	file, err := os.OpenFile(b.path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return b.withAdvice(err)
	}
	b.handle = file
	if err := file.Chmod(0o600); err != nil { // an older program may have written it with other permissions
		return b.withAdvice(err)
	}
	// Find the byte behind the last entry that stays, and cut the file there. The numbers may decrease within a batch, but a
	// batch lies on one side of the saved position, so all entries after the first greater number go too.
	var keep int64
	// A bad line never looks like a remark: lines that begin with # are comments, which no import puts aside.
	reader := bufio.NewReader(file)
	for {
		text, err := reader.ReadBytes('\n')
		var number int64
		if _, none := fmt.Sscanf(string(text), badLineRemarkFormat, &number); none == nil {
			if number > line {
				break
			}
			b.count++
		}
		if err == io.EOF {
			// A run that died in the middle of a remark left a part of it without the number. The line of that remark is read
			// again.
			if !bytes.HasPrefix(text, []byte("#")) {
				keep += int64(len(text))
			}
			break
		}
		if err != nil {
			return b.withAdvice(err)
		}
		keep += int64(len(text))
	}
	if err := file.Truncate(keep); err != nil {
		return b.withAdvice(err)
	}
	// The reader has read ahead, so the file's offset is not the cut.
	_, err = file.Seek(keep, io.SeekStart)
	return b.withAdvice(err)
}

// ignoreMissing drops the error of removing a file that does not exist.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// add records a bad line, and prints the first ones.
func (b *badLines) add(number int64, line []byte, reason error) {
	b.count++
	b.pendingCount++
	fmt.Fprintf(&b.pending, badLineRemarkFormat+"%s\n", number, reason)
	// A line that is too long arrives with one byte more than allowed, which only shows that it is too long.
	b.pending.Write(line[:min(len(line), b.maxKeptBytes)])
	b.pending.WriteByte('\n')
	// A failure to print stops nothing: the bad lines are in the file.
	switch b.addedThisRun++; {
	case b.addedThisRun <= maxPrintedBadLines:
		_, _ = fmt.Fprintf(b.out, "line %d: %s\n", number, reason)
	case b.addedThisRun == maxPrintedBadLines+1:
		_, _ = fmt.Fprintf(b.out, "further bad lines are in %s only\n", b.path)
	}
}

// pendingLines is the number of lines that wait for flush. Imports also commit when a full batch of them waits: otherwise a file
// without a good line would collect in memory.
func (b *badLines) pendingLines() int { return b.pendingCount }

// pathIfAny is the path of the file with the bad lines, "" when there are none.
func (b *badLines) pathIfAny() string {
	if b.count == 0 {
		return ""
	}
	return b.path
}

// flush writes the pending lines. Every commit calls it first: a saved position promises that the bad lines before it are in the
// file.
func (b *badLines) flush() error {
	// Without a bad line there is no file at all: an operator sees by its absence that every line was used.
	if b.pendingCount == 0 {
		return nil
	}
	// Bad lines hold keys and texts of users, so only the owner of the file may read them.
	if b.handle == nil {
		file, err := os.OpenFile(b.path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return b.withAdvice(err)
		}
		b.handle = file
		if err := file.Chmod(0o600); err != nil { // the file may have existed with other permissions
			return b.withAdvice(err)
		}
	}
	_, err := b.pending.WriteTo(b.handle)
	b.pendingCount = 0
	return b.withAdvice(err)
}

// close writes the pending entries and closes the file, also after a failure of the import. The next run cuts entries that lie
// behind the saved position.
func (b *badLines) close() error {
	err := b.flush()
	if b.handle != nil {
		err = errors.Join(err, b.withAdvice(b.handle.Close()))
	}
	return err
}

// withAdvice adds advice for the operator to an error of the file. The code is UNAVAILABLE, because the data are not at fault.
func (b *badLines) withAdvice(err error) error {
	if err == nil {
		return nil
	}
	return services.Wrapf(services.Unavailable, err, "the bad lines cannot be saved; copy the file into a folder that can be written")
}
