package transport

import (
	"bytes"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// compressFrom is the length in bytes from which an answer is compressed. A shorter one, as of badges, fits into few packets
// anyway, and would only cost time.
const compressFrom = 2 << 10

// compressors are writers that were used before: a new one takes more memory than most answers.
var compressors = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}}

// compressed is the body in the form of gzip, at the fastest level. BenchmarkCompressed has the time for a page of 20 posts.
func compressed(body []byte) []byte {
	var short bytes.Buffer
	short.Grow(len(body) / 3)
	w := compressors.Get().(*gzip.Writer)
	defer func() {
		w.Reset(nil) // so that it does not keep the answer
		compressors.Put(w)
	}()
	w.Reset(&short)
	if _, err := w.Write(body); err != nil {
		panic(err) // a buffer takes everything
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return short.Bytes()
}
