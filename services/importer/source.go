package importer

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"tidings/services"
)

// progressKeySampleBytes is how many bytes of the beginning of a file it is recognized by.
const progressKeySampleBytes = 64 << 10

var (
	gzipMagic     = []byte{0x1f, 0x8b}       // the first bytes of every gzip file
	byteOrderMark = []byte{0xef, 0xbb, 0xbf} // the mark that some programs put before UTF-8
)

// importFile is the file to import, read line by line. nextLine sets lineNumber and noLineBreak for each line; everything else is set
// when the file is opened.
type importFile struct {
	progressKey  string // made of a regular file and its options; "" when reading cannot be resumed
	badLinesPath string // the file of bad lines
	size         int64  // in bytes as stored; 0: unknown
	lineNumber   int64  // the number of the last line read, from 1
	gzipped      bool   // the file is compressed by gzip, which detects a file that is cut off
	noLineBreak  bool   // the last line read has no line break: the file may be truncated there

	form    Form            // the form of its lines
	file    *os.File        // nil for the standard input
	counter *countingReader // counts what was read, as it is stored
	reader  *bufio.Reader   // reads lines, unpacked
}

// countingReader counts the bytes as they are stored, before anything is unpacked: the size of a packed file says nothing of its rows.
type countingReader struct {
	io.Reader
	bytesRead int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.bytesRead += int64(n)
	return n, err
}

// openSource opens the file of an import, or for "-" the standard input. It returns INVALID if that cannot be read.
func openSource(opts Options, form Form) (*importFile, error) {
	// Without a regular file there is no folder beside it: bad lines go into the working folder.
	s := &importFile{badLinesPath: "import-" + form.Name + ".bad", form: form, counter: &countingReader{Reader: opts.Input}}
	// The standard input cannot be read again, so it has no progressKey and no stored progress.
	if opts.File == "-" {
		if opts.Input == nil {
			return nil, services.Errorf(services.Invalid, "there is no standard input to import from")
		}
		return s, s.prepareReader(opts.File)
	}
	file, err := os.Open(opts.File)
	if err != nil {
		return nil, services.Wrapf(services.Invalid, err, "the file cannot be read")
	}
	s.file, s.counter.Reader = file, file
	if err := s.setProgressKey(opts); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.prepareReader(opts.File); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// setProgressKey makes the key under which the progress is stored, from the path, the size, the first 64 KB and the options that
// change rows. A file that was edited behind the first 64 KB, but has its old size, is taken for the same file. Only a regular
// file has a key: a pipe cannot be read again.
func (s *importFile) setProgressKey(opts Options) error {
	info, err := s.file.Stat()
	if err != nil {
		return services.Wrapf(services.Invalid, err, "the file cannot be read")
	}
	if info.IsDir() {
		return services.Errorf(services.Invalid, "%s is a folder: a file is needed", opts.File)
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	path, err := filepath.Abs(opts.File)
	if err != nil {
		return services.Wrapf(services.Invalid, err, "the path of the file cannot be found")
	}
	// A hash, so that the key is short and says nothing of the file.
	hash := sha256.New()
	if _, err := io.CopyN(hash, s.file, progressKeySampleBytes); err != nil && err != io.EOF {
		return services.Wrapf(services.Invalid, err, "%s cannot be read", opts.File)
	}
	// The sample is read again as lines.
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return services.Wrapf(services.Invalid, err, "%s cannot be read", opts.File)
	}
	_, _ = fmt.Fprintf(hash, "\x00%s\x00%d\x00%t\x00%s", path, info.Size(), opts.BothDirections, opts.KeyPrefix)
	s.progressKey = fmt.Sprintf("%s:%x", s.form.Name, hash.Sum(nil))
	s.size = info.Size()
	s.badLinesPath = opts.File + ".bad"
	return nil
}

// prepareReader prepares the reader of lines. It detects gzip by the first bytes, because the name of a file proves nothing, and
// skips the mark of the byte order, which would become a part of the first key.
func (s *importFile) prepareReader(name string) error {
	room := max(64<<10, s.form.MaxBytesPerLine+2) // room for a line that is not too long
	raw := bufio.NewReaderSize(s.counter, room)
	s.reader = raw
	if start, err := raw.Peek(len(gzipMagic)); err != nil && err != io.EOF {
		return services.Wrapf(services.Invalid, err, "%s cannot be read", name)
	} else if bytes.Equal(start, gzipMagic) {
		unpacked, err := gzip.NewReader(raw)
		if err != nil {
			return services.Wrapf(services.Invalid, err, "%s begins like a gzip file but is not one", name)
		}
		s.reader, s.gzipped = bufio.NewReaderSize(unpacked, room), true
	}
	// An error is ignored here: the first read of a line meets it again, and reports it.
	if start, _ := s.reader.Peek(len(byteOrderMark)); bytes.Equal(start, byteOrderMark) {
		_, _ = s.reader.Discard(len(byteOrderMark))
	}
	return nil
}

// nextLine is the next line without its end, valid until the next call. A line that is longer than its form allows is cut to one
// byte more than that, by which its parser sees that it is too long. io.EOF comes after the last line; with another error
// the line is incomplete.
func (s *importFile) nextLine() ([]byte, error) {
	line, err := s.reader.ReadSlice('\n')
	if err == io.EOF && len(line) == 0 {
		return nil, err
	}
	s.lineNumber++
	// Keep the beginning of the line and read past the rest, so that no line needs more memory than the buffer.
	if err == bufio.ErrBufferFull {
		line = bytes.Clone(line[:s.form.MaxBytesPerLine+1])
		for err == bufio.ErrBufferFull {
			_, err = s.reader.ReadSlice('\n')
		}
	}
	if err != nil && err != io.EOF {
		return nil, err
	}
	// A packed file that is cut off ends with an error of its own. A last line that ends with CR is whole: nothing but
	// its LF can be missing.
	s.noLineBreak = err == io.EOF && !s.gzipped && !bytes.HasSuffix(line, []byte{'\r'})
	line = bytes.TrimRight(line, "\r\n")
	return line[:min(len(line), s.form.MaxBytesPerLine+1)], nil
}

// bytesRead is how much of the file was read, as it is stored: up to a buffer more than the lines that were returned.
func (s *importFile) bytesRead() int64 { return s.counter.bytesRead }

// close closes the file; the standard input stays open.
func (s *importFile) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
