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

// parsedBody is the meaning of a body. Once remembered, it is shared by all viewers who send the same bytes.
type parsedBody struct {
	hotAnswer      HotAnswerFunc // nil: the executor or the HTTP server answers the request
	jointOperation any           // the result of JointSchema.Joint; nil: it cannot be answered jointly
	frontMayAnswer bool          // it is a query that the front may answer; false: the HTTP server answers it
	uncacheable    bool          // its variables hardly come again: it is not remembered
	// The document and its cost, for Limits.ChargeOperation. Only a body with a hotAnswer has them.
	operation     *graphql.OperationContext
	operationCost int // the cost of the operation with its variables
	documentBytes int // the estimated memory of the document, which is kept as long as the body is remembered
}

// parsedBodyOf returns the meaning of the bytes of a body. Only queries are remembered: a mutation rarely comes twice, and a bad
// request is cheap to refuse again.
func (f *Front) parsedBodyOf(body []byte) *parsedBody {
	if known, ok := f.parsedBodies.get(body); ok {
		return known
	}
	known := f.parseBody(body)
	if known.frontMayAnswer && !known.uncacheable {
		f.parsedBodies.put(body, known, parsedBodyOverheadBytes+known.documentBytes)
	}
	return known
}

// parseBody reads a body as the HTTP server does. Three kinds of requests are left to the HTTP server: operations other than queries,
// requests that it would refuse, and requests whose meaning depends on more than these bytes. For these, frontMayAnswer is false,
// and the result is not remembered.
func (f *Front) parseBody(body []byte) *parsedBody {
	left := &parsedBody{}
	if services.CheckUnicode("body", body) != nil {
		return left
	}
	request, err := parseParams(body, "body", f.httpTransport.cfg.BodyLimit)
	// An extension may change the meaning of the request, and none is frequent enough to be supported here.
	if err != nil || len(request.Extensions) > 0 {
		return left
	}
	// A trusted document is resolved here, because its text never changes. A request with a hash has an extension, and was left to
	// the HTTP server above.
	if keep, err := f.httpTransport.documents.persisted.resolveText(request); err != nil || keep != nil {
		return left
	}
	doc, faults := f.httpTransport.documents.prepare(request.Query)
	if len(faults) > 0 {
		return left
	}
	operation := doc.Operations.ForName(request.OperationName)
	if operation == nil || operation.Operation != ast.Query {
		return left
	}
	varies, unique := len(operation.VariableDefinitions)+len(request.Variables) > 0, hasLongText(request.Variables)
	// The executor reads the variables and computes the cost of what HotAnswer does not answer.
	if varies && f.hotSchema.HotAnswer(operation, nil) == nil {
		return &parsedBody{frontMayAnswer: true, uncacheable: unique}
	}
	variables, ok := f.httpTransport.documents.readVariables(doc, operation, request)
	// The executor reports what is wrong with them. The request is known to be a query, so the front may run the executor.
	if !ok {
		return &parsedBody{frontMayAnswer: true, uncacheable: true}
	}
	// The cost of these bytes is the same each time, so it is computed once, with the first request.
	cost := doc.costOf(operation, variables)
	if cost > f.httpTransport.documents.maxCost {
		return left
	}
	hotAnswer := f.hotSchema.HotAnswer(operation, variables)
	// The executor reads the body again, so nothing else is kept for it.
	if hotAnswer == nil {
		return &parsedBody{frontMayAnswer: true, uncacheable: unique}
	}
	known := &parsedBody{
		frontMayAnswer: true, uncacheable: unique, hotAnswer: hotAnswer, operationCost: cost, documentBytes: doc.memoryBytes,
		operation: &graphql.OperationContext{RawQuery: request.Query, OperationName: request.OperationName, Doc: doc.QueryDocument, Operation: operation, Variables: variables},
	}
	// Loops answer remembered bodies only.
	if f.loops != nil && !unique {
		known.jointOperation = f.loops.schema.Joint(operation, variables)
	}
	return known
}

// minLongTextBytes is the length of a text from which on it is taken for a cursor or an ID. Names of enums and categories are shorter.
const minLongTextBytes = 16

// hasLongText reports whether a value of JSON has a text that hardly comes again, such as a cursor.
func hasLongText(value any) bool {
	switch value := value.(type) {
	case string:
		return len(value) >= minLongTextBytes
	case []any:
		return slices.ContainsFunc(value, hasLongText)
	case map[string]any:
		for _, member := range value {
			if hasLongText(member) {
				return true
			}
		}
	}
	return false
}

// frontRequest is one request that the front answers: its context, and its ID for errors, in one allocation.
type frontRequest struct {
	frontContext
	requestID
}

// answer answers one request, or leaves it to the HTTP server. It applies the checks in the order of the HTTP server. It always
// charges the address. If the executor answers the request, a frontCharges tells it which checks and charges are done.
func (c *frontConn) answer(h *requestHead, body []byte) frontOutcome {
	f, q := c.front, c.front.httpTransport
	address := c.addressOf(h)
	if err := q.cfg.Limits.ChargeAddress(address); err != nil {
		return c.refuse(h, err)
	}
	one := &frontRequest{}
	one.id = h.clientRequestID
	// If the token is refused, the HTTP server answers with the error.
	if h = f.withCaller(h, one); h == nil {
		return frontHandsOnCharged
	}
	known := f.parsedBodyOf(body)
	// Loops know only remembered heads, and a head that comes once is not remembered.
	if c.jointStreak++; known.jointOperation == nil || h.uncacheable {
		c.jointStreak = min(c.jointStreak, 0)
	}
	switch {
	case !known.frontMayAnswer:
		return frontHandsOnCharged
	case known.hotAnswer == nil:
		return c.execute(h, body, &frontCharges{caller: h.caller})
	}
	// From here on the operation has its deadline, as in httpTransport.execute.
	one.begin(services.WithRequest(h.caller.ctx, one), q.cfg.OperationTimeout)
	defer one.end()
	if err := q.cfg.Limits.ChargeOperation(one, address, known.operation, known.operationCost); err != nil {
		return c.refuse(h, err)
	}
	return c.answerHot(h, body, known.hotAnswer, one)
}

// answerHot answers an operation by its HotAnswerFunc. The operation was charged.
func (c *frontConn) answerHot(h *requestHead, body []byte, hotAnswer HotAnswerFunc, one *frontRequest) frontOutcome {
	// The answer is rendered behind room for its head: the head has the length of the body, so it is written last.
	out := answerBuffers.Get().(*[]byte)
	defer answerBuffers.Put(out)
	text, ok := tryHotAnswer(hotAnswer, one, append((*out)[:answerHeadRoom], answerStart...))
	// A longer buffer is left to the garbage collector: a few long answers would otherwise keep megabytes in the pool.
	if cap(text) <= maxPooledAnswerBytes {
		*out = text[:0]
	}
	// The executor runs the operation again and reports the error, which may be that the answer is too long. The operation was
	// charged already.
	if !ok || len(text)-answerHeadRoom > c.front.httpTransport.cfg.MaxAnswerBytes {
		return c.execute(h, body, &frontCharges{caller: h.caller, operationCharged: true})
	}
	last := c.front.draining.Load()
	return outcomeAfterSend(last, c.send(wholeAnswer(h, append(text, '}'), last)))
}

// answerStart begins the body of an answer, before its data.
const answerStart = `{"data":`

// wholeAnswer returns the whole answer, compressed if the client accepts that and the body is long enough. text has the body behind
// room for the head.
func wholeAnswer(h *requestHead, text []byte, last bool) []byte {
	if h.acceptsGzip && len(text)-answerHeadRoom >= minGzipSize {
		short := gzipBody(text[answerHeadRoom:])
		return prependAnswerHead(h, append(text[:answerHeadRoom], short...), "Content-Encoding: gzip\r\n", last)
	}
	return prependAnswerHead(h, text, "", last)
}

// tryHotAnswer calls hotAnswer, and treats a panic as no answer: the executor then runs the operation, panics again and presents
// the error. Without the recovery the panic would end the process, because no HTTP server is around this goroutine.
func tryHotAnswer(hotAnswer HotAnswerFunc, ctx context.Context, to []byte) (text []byte, ok bool) {
	defer func() {
		if recover() != nil {
			text, ok = to, false
		}
	}()
	return hotAnswer(ctx, to)
}

// outcomeAfterSend returns the outcome of sending an answer: the connection ends after an error and after its last answer.
func outcomeAfterSend(last bool, err error) frontOutcome {
	if last || err != nil {
		return frontClosesConn
	}
	return frontReadsMore
}

// addressOf returns the address that a request is counted under. It is computed once for a connection, except for requests with
// X-Forwarded-For.
func (c *frontConn) addressOf(h *requestHead) string {
	if h.hasForwardedFor {
		return c.front.httpTransport.trustedProxies.clientAddress(&http.Request{RemoteAddr: c.conn.RemoteAddr().String(), Header: h.request.Header})
	}
	if c.address == "" {
		c.address = c.front.httpTransport.trustedProxies.clientAddress(&http.Request{RemoteAddr: c.conn.RemoteAddr().String()})
	}
	return c.address
}

const (
	// A usual head has about 250 bytes; a page of another origin adds the headers of CORS.
	answerHeadRoom       = 768      // bytes of room for the head in front of an answer; behind a longer head, the body is copied
	maxPooledAnswerBytes = 64 << 10 // a buffer up to this many bytes is kept
)

// answerBuffers holds buffers for reuse. An answer is rendered in one, behind the room for its head. The pool has pointers to slices,
// because each Put of a slice would allocate.
var answerBuffers = sync.Pool{New: func() any {
	text := make([]byte, 0, 4<<10)
	return &text
}}

// prependAnswerHead returns the whole answer. text has the body behind room for the head, and more has further lines of the head.
// The result is a part of text, unless the head is longer than the room.
func prependAnswerHead(h *requestHead, text []byte, more string, last bool) []byte {
	var room [answerHeadRoom]byte
	top := append(append(room[:0], h.answerHeadLines...), more...)
	if last {
		top = append(top, "Connection: close\r\n"...)
	}
	top = append(top, "Content-Length: "...)
	top = strconv.AppendInt(top, int64(len(text)-answerHeadRoom), 10)
	top = append(append(append(top, "\r\nDate: "...), dateNow()...), "\r\n\r\n"...)
	// Rare: the head is too long for the room, so the body is copied behind it. Usually the head is copied into the room.
	if len(top) > answerHeadRoom {
		return append(top, text[answerHeadRoom:]...)
	}
	start := answerHeadRoom - len(top)
	copy(text[start:], top)
	return text[start:]
}

// refuse answers with an error that ends only the request: as with the HTTP server, the client may go on using the connection.
func (c *frontConn) refuse(h *requestHead, err error) frontOutcome {
	return c.answerByHandler(h, func(w http.ResponseWriter, r *http.Request) {
		c.front.httpTransport.origins.writeCORSHeaders(w, r)
		writeFault(newRequest(w, r), statusOf(err), err)
	})
}

// execute lets the executor answer a request. charges says what was charged for it. Like the HTTP server, it ends the operation when
// the client goes away. The handler runs on this goroutine, so the next request of the connection waits, as HTTP/1.1 demands.
func (c *frontConn) execute(h *requestHead, body []byte, charges *frontCharges) frontOutcome {
	return c.answerByHandler(h, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(context.WithValue(context.Background(), frontChargesKey{}, charges))
		defer cancel()
		defer c.watchClient(cancel)()
		r = r.WithContext(ctx)
		// The request of the head is shared, so answerByHandler has made a copy. Here the copy gets its own context, address and body.
		r.RemoteAddr, r.Body = c.conn.RemoteAddr().String(), io.NopCloser(bytes.NewReader(body))
		c.front.handler.ServeHTTP(w, r)
	})
}

// answerByHandler keeps the answer of a handler in memory, and writes it when the handler has returned. It needs no limit of its own,
// because boundResponse limits the answers of operations.
func (c *frontConn) answerByHandler(h *requestHead, handle func(w http.ResponseWriter, r *http.Request)) frontOutcome {
	// The answer is kept and not streamed, because the front writes it once, with its length.
	w := &responseRecorder{header: http.Header{}}
	r := h.request.WithContext(context.Background())
	// A handler may change the headers of its request, and the head is shared.
	r.Header = maps.Clone(r.Header)
	handle(w, r)
	last := c.front.draining.Load()
	if last {
		w.header.Set("Connection", "close")
	}
	return outcomeAfterSend(last, c.send(w.responseText()))
}

// responseRecorder keeps a response in memory.
type responseRecorder struct {
	header http.Header
	status int
	body   []byte
}

// Header returns the header of the response.
func (w *responseRecorder) Header() http.Header { return w.header }

// WriteHeader sets the status.
func (w *responseRecorder) WriteHeader(status int) { w.status = cmp.Or(w.status, status) }

// Write keeps the text.
func (w *responseRecorder) Write(text []byte) (int, error) {
	w.body = append(w.body, text...)
	return len(text), nil
}

// responseText returns the whole answer. It adds what the HTTP server adds to an answer: the handlers of this package set both headers
// themselves, but gqlgen's answer after a panic has none. Without a length the client would wait for the end of the connection.
func (w *responseRecorder) responseText() []byte {
	if w.header.Get("Content-Length") == "" {
		w.header.Set("Content-Length", strconv.Itoa(len(w.body)))
	}
	if len(w.body) > 0 && w.header.Get("Content-Type") == "" {
		w.header.Set("Content-Type", http.DetectContentType(w.body))
	}
	status := cmp.Or(w.status, http.StatusOK)
	text := strconv.AppendInt([]byte("HTTP/1.1 "), int64(status), 10)
	text = append(append(append(text, ' '), http.StatusText(status)...), "\r\n"...)
	text = append(append(append(appendHeader(text, w.header), "Date: "...), dateNow()...), "\r\n\r\n"...)
	return append(text, w.body...)
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

// dateHeader is the text of the header Date for one second.
type dateHeader struct {
	unixSecond int64 // as Unix time
	text       string
}

// lastDate is the header Date of the second in which it was last needed. The first request of a new second replaces it. Two requests that
// replace it at the same time store the same text.
var lastDate atomic.Pointer[dateHeader]

// dateNow returns the present time for the header Date.
func dateNow() string {
	now := deadlineAfter(0)
	last := lastDate.Load()
	if last == nil || last.unixSecond != now.Unix() {
		last = &dateHeader{now.Unix(), now.UTC().Format(http.TimeFormat)}
		lastDate.Store(last)
	}
	return last.text
}
