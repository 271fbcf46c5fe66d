package transport

import (
	"bytes"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// minGzipSize is the length in bytes from which an answer is compressed. A shorter one, such as badges, fits into a few packets
// anyway: compression would only cost time. The Front and writeResponse both use it, so that they give the same answer.
const minGzipSize = 2 << 10

// gzipWriters holds writers for reuse: a new one takes more memory than most answers. They are of a library that is faster than Go's
// own compress/gzip.
var gzipWriters = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}}

// gzipBody returns the body compressed by gzip at the fastest level. BenchmarkCompressed measures a page of 20 posts. A slower
// level costs much time and saves few bytes, because most of an answer is repeated keys.
func gzipBody(body []byte) []byte {
	var short bytes.Buffer
	// A guess at the length, so that the buffer seldom grows.
	short.Grow(len(body) / 3)
	w := gzipWriters.Get().(*gzip.Writer)
	defer func() {
		w.Reset(nil) // release the answer's buffer
		gzipWriters.Put(w)
	}()
	w.Reset(&short)
	if _, err := w.Write(body); err != nil {
		panic(err) // writing to a buffer cannot fail
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return short.Bytes()
}
