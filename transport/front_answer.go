package transport

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/services"
)

// knownRequest is a request that was read before, by its bytes. It is shared by all viewers who send these bytes.
type knownRequest struct {
	quick Quick // nil: the executor answers it, or the HTTP server
	joint any   // what a JointSchema knows of it; nil: it is answered by itself
	query bool  // it is a query
	// What Limits is told of the request: the document and its price. There are no variables in either.
	operation *graphql.OperationContext
	price     int
}

// requestOf returns what the bytes of a body ask for. Only queries are remembered: a mutation rarely comes twice, and what was
// refused is cheap to refuse again.
func (f *Front) requestOf(body []byte) *knownRequest {
	if known, ok := f.requests.get(body); ok {
		return known
	}
	known := f.readRequest(body)
	if known.query {
		f.requests.put(body, known, 0)
	}
	return known
}

// readRequest reads a body as the HTTP server does. Whatever it would refuse, and whatever depends on more than these bytes, is
// left to it: the result is then no query, and is not remembered.
func (f *Front) readRequest(body []byte) *knownRequest {
	left := &knownRequest{}
	if services.CheckUnicode("body", body) != nil {
		return left
	}
	request, err := parseParams(body, "body", f.queries.cfg.BodyLimit)
	// An extension may change what the request means, and none is so frequent that it would pay to know it here.
	if err != nil || len(request.Extensions) > 0 {
		return left
	}
	// A trusted document is resolved here; its text never changes. A hash is an extension, and was left above.
	if keep, err := f.queries.documents.persisted.resolve(request); err != nil || keep != nil {
		return left
	}
	doc, faults := f.queries.documents.prepare(request.Query)
	if len(faults) > 0 {
		return left
	}
	operation := doc.Operations.ForName(request.OperationName)
	if operation == nil || operation.Operation != ast.Query {
		return left
	}
	// The executor reads variables and computes the price by them. It is known to be a query, so the front may run the executor.
	if len(operation.VariableDefinitions)+len(request.Variables) > 0 {
		return &knownRequest{query: true}
	}
	// Without variables the price is the same each time, so it is computed with the first of these requests.
	price := doc.costOf(operation, nil)
	if price > f.queries.documents.dear {
		return left
	}
	known := &knownRequest{
		query: true, quick: f.quick.Quick(operation), price: price,
		operation: &graphql.OperationContext{RawQuery: request.Query, OperationName: request.OperationName, Doc: doc.QueryDocument, Operation: operation},
	}
	if f.loops != nil && known.quick != nil {
		known.joint = f.loops.schema.Joint(operation)
	}
	return known
}

// frontRequest is one request that the front answers: its context and its ID for errors in one allocation.
type frontRequest struct {
	frontContext
	requestID
}

// answer answers one request, or leaves it to the HTTP server. It applies the checks in that one's order. The address is always
// charged here; a payment tells whoever goes on what else was.
func (c *frontConn) answer(h *head, body []byte) frontOutcome {
	f, q := c.front, c.front.queries
	address := c.addressOf(h)
	if err := q.cfg.Limits.Address(address); err != nil {
		return c.refuse(h, err)
	}
	one := &frontRequest{}
	one.id = h.id
	// A refused token is the HTTP server's to explain.
	if h = f.identified(h, one); h == nil {
		return frontPaid
	}
	known := f.requestOf(body)
	// A head that comes once is in no memory, from which loops take theirs.
	if c.joint++; known.joint == nil || h.once {
		c.joint = min(c.joint, 0)
	}
	switch {
	case !known.query:
		return frontPaid
	case known.quick == nil:
		return c.execute(h, body, &payment{caller: h.caller})
	}
	// From here on the operation has its deadline, as in queries.execute.
	one.begin(services.WithRequest(h.caller.ctx, one), q.cfg.OperationTimeout)
	defer one.end()
	if err := q.cfg.Limits.Operation(one, address, known.operation, known.price); err != nil {
		return c.refuse(h, err)
	}
	return c.answerQuick(h, body, known.quick, one)
}

// answerQuick answers a compiled operation that was charged.
func (c *frontConn) answerQuick(h *head, body []byte, quick Quick, one *frontRequest) frontOutcome {
	// The answer is rendered behind room for its head, whose length is known only when the body is.
	out := answerBuffers.Get().(*[]byte)
	defer answerBuffers.Put(out)
	text, ok := tryQuick(quick, one, append((*out)[:answerHead], answerStart...))
	// A longer buffer is left to the collector: a few long answers would otherwise pin megabytes in the pool.
	if cap(text) <= answerKept {
		*out = text[:0]
	}
	// The executor says what was wrong, and also that the answer is too long. The operation was charged already.
	if !ok || len(text)-answerHead > c.front.queries.cfg.AnswerLimit {
		return c.execute(h, body, &payment{caller: h.caller, operation: true})
	}
	last := c.front.draining.Load()
	return outcome(last, c.send(finished(h, append(text, '}'), last)))
}

// answerStart is what the data of an answer begins with.
const answerStart = `{"data":`

// finished is a whole answer, compressed if the client accepts it and it pays: text has the body behind room for the head.
func finished(h *head, text []byte, last bool) []byte {
	if h.gzip && len(text)-answerHead >= compressFrom {
		short := compressed(text[answerHead:])
		return framed(h, append(text[:answerHead], short...), "Content-Encoding: gzip\r\n", last)
	}
	return framed(h, text, "", last)
}

// tryQuick calls quick, and treats a panic as no answer: the executor then runs the operation, panics again and presents the error.
// Without the recovery the panic would end the process, because no HTTP server is around this goroutine.
func tryQuick(quick Quick, ctx context.Context, to []byte) (text []byte, ok bool) {
	defer func() {
		if recover() != nil {
			text, ok = to, false
		}
	}()
	return quick(ctx, to)
}

// outcome is that of an answer which was sent, unless there was an error.
func outcome(last bool, err error) frontOutcome {
	if last || err != nil {
		return frontEnds
	}
	return frontMore
}

// addressOf is the address that a request is counted under. It is computed once for a connection, except behind a proxy.
func (c *frontConn) addressOf(h *head) string {
	if h.forwarded {
		return c.front.queries.addresses.of(&http.Request{RemoteAddr: c.conn.RemoteAddr().String(), Header: h.request.Header})
	}
	if c.address == "" {
		c.address = c.front.queries.addresses.of(&http.Request{RemoteAddr: c.conn.RemoteAddr().String()})
	}
	return c.address
}

const (
	// A usual head has about 250 bytes; a page of another origin adds the headers of CORS.
	answerHead = 768      // bytes of room for the head in front of an answer; a longer head is written apart
	answerKept = 64 << 10 // bytes of a buffer that is kept
)

// answerBuffers are reused. Answers are rendered behind the room for their head. They are pointers to slices, because a slice
// in a pool would be allocated for each Put.
var answerBuffers = sync.Pool{New: func() any {
	text := make([]byte, 0, 4<<10)
	return &text
}}

// framed is the whole answer: text has the body behind room for the head. more are further lines of the head. The result is a
// part of text, unless the head is longer than the room.
func framed(h *head, text []byte, more string, last bool) []byte {
	var room [answerHead]byte
	top := append(append(room[:0], h.answer...), more...)
	if last {
		top = append(top, "Connection: close\r\n"...)
	}
	top = append(top, "Content-Length: "...)
	top = strconv.AppendInt(top, int64(len(text)-answerHead), 10)
	top = append(append(append(top, "\r\nDate: "...), dateNow()...), "\r\n\r\n"...)
	// Rare: the body is copied behind the head, where otherwise the head is copied before the body.
	if len(top) > answerHead {
		return append(top, text[answerHead:]...)
	}
	start := answerHead - len(top)
	copy(text[start:], top)
	return text[start:]
}

// refuse answers with an error that ends nothing but the request: the client may go on with the connection, as it may with the
// HTTP server.
func (c *frontConn) refuse(h *head, err error) frontOutcome {
	return c.record(h, func(w http.ResponseWriter, r *http.Request) {
		c.front.queries.origins.grant(w, r)
		writeFault(newRequest(w, r), statusOf(err), err)
	})
}

// execute lets the executor answer a request, which was charged as paid says. Like the HTTP server, it ends the operation when
// the client goes away. The handler runs on this goroutine, so the next request of the connection waits, as HTTP/1.1 demands.
func (c *frontConn) execute(h *head, body []byte, paid *payment) frontOutcome {
	return c.record(h, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(context.WithValue(context.Background(), paymentKey{}, paid))
		defer cancel()
		defer c.watch(cancel)()
		r = r.WithContext(ctx)
		// The head is shared: record has made a copy of the request, and this is where it gets what is its own.
		r.RemoteAddr, r.Body = c.conn.RemoteAddr().String(), io.NopCloser(bytes.NewReader(body))
		c.front.handler.ServeHTTP(w, r)
	})
}

// record writes what a handler answers, once it has answered. A handler may write at any length: bounded keeps the answers of
// operations below the limit.
func (c *frontConn) record(h *head, handle func(w http.ResponseWriter, r *http.Request)) frontOutcome {
	// Kept and not streamed: the front writes an answer once, with its length.
	w := &recorder{header: http.Header{}}
	r := h.request.WithContext(context.Background())
	// A handler may change the headers of its request, and the head is shared.
	r.Header = maps.Clone(r.Header)
	handle(w, r)
	last := c.front.draining.Load()
	if last {
		w.header.Set("Connection", "close")
	}
	status := cmp.Or(w.status, http.StatusOK)
	text := strconv.AppendInt([]byte("HTTP/1.1 "), int64(status), 10)
	text = append(append(append(text, ' '), http.StatusText(status)...), "\r\n"...)
	text = append(append(append(appendHeader(text, w.header), "Date: "...), dateNow()...), "\r\n\r\n"...)
	return outcome(last, c.send(append(text, w.body...)))
}

// recorder is a response that is kept. What is written with it has its length in a header: all of this package's answers do.
type recorder struct {
	header http.Header
	status int
	body   []byte
}

// Header is the header of the response.
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader sets the status.
func (w *recorder) WriteHeader(status int) { w.status = cmp.Or(w.status, status) }

// Write keeps the text.
func (w *recorder) Write(text []byte) (int, error) {
	w.body = append(w.body, text...)
	return len(text), nil
}

// appendHeader writes headers in the order of their names.
func appendHeader(to []byte, header http.Header) []byte {
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			to = append(append(append(append(to, name...), ": "...), value...), "\r\n"...)
		}
	}
	return to
}

// dated is the text of the header Date in one second.
type dated struct {
	second int64
	text   string
}

// lastDate is replaced once a second, by whichever request first sees the new one. Two that do so write the same.
var lastDate atomic.Pointer[dated]

// dateNow is the present time for the header Date.
func dateNow() string {
	now := deadline(0)
	last := lastDate.Load()
	if last == nil || last.second != now.Unix() {
		last = &dated{now.Unix(), now.UTC().Format(http.TimeFormat)}
		lastDate.Store(last)
	}
	return last.text
}
