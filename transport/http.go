package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/services"
)

const (
	smallAnswer = 16 << 10 // bytes

	allowedMethods = "GET, POST, OPTIONS"
	streamMethods  = "GET, POST, PUT, DELETE, OPTIONS" // where there are event streams

	typeJSON     = "application/json"
	typeResponse = "application/graphql-response+json"
)

// queries serves queries and mutations over HTTP, by the GraphQL-over-HTTP specification. It is the last of the transports and
// accepts every request, so that each bad request gets a documented error.
type queries struct {
	cfg       Config
	backlog   *backlog // of the sockets too
	documents *documents
	origins   origins
	addresses addresses
	sockets   *Sockets // takes the event streams; nil refuses them
}

// Supports accepts every request. Upgrades reach it only if there are no sockets.
func (q *queries) Supports(*http.Request) bool { return true }

// Do answers one request.
func (q *queries) Do(writer http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor) {
	w := newRequest(writer, r)
	q.origins.grant(w, r)
	if status, err := q.refuses(r); err != nil {
		if status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", q.methods())
		}
		writeFault(w, status, err)
		return
	}
	if r.Method == http.MethodOptions {
		w.Header().Set("Allow", q.methods())
		w.WriteHeader(http.StatusNoContent)
		return
	}
	address := q.addresses.of(r)
	if err := q.chargeAddress(r.Context(), address); err != nil {
		writeFault(w, statusOf(err), err)
		return
	}
	accepted, events := negotiate(r.Header.Values("Accept"), q.sockets != nil)
	if accepted == "" && r.Method != http.MethodPut && r.Method != http.MethodDelete { // these get no GraphQL response
		writeFault(w, http.StatusNotAcceptable, services.Errorf(services.Invalid, "Accept: only %s, %s and %s can be sent", typeJSON, typeResponse, typeEvents))
		return
	}
	who, err := q.identify(w, r)
	if err != nil {
		writeFault(w, statusOf(err), err)
		return
	}
	who.address = address
	if q.sockets != nil {
		if r.Method == http.MethodPut {
			q.reserve(w, who, exec)
			return
		}
		if token := streamToken(r); token != "" || r.Method == http.MethodDelete {
			q.onStream(w, r, exec, who, accepted, token)
			return
		}
	}
	started := graphql.Now()
	request, err := q.read(w, r, who.limit)
	if err != nil {
		writeFault(w, statusOf(err), err)
		return
	}
	request.Headers = r.Header
	request.ReadTime = graphql.TraceTiming{Start: started, End: graphql.Now()}
	q.execute(w, r, exec, request, who, answering{accepted, events})
}

// refuses returns the error and the status of a request with a wrong method or header.
func (q *queries) refuses(r *http.Request) (status int, err error) {
	switch {
	case isUpgrade(r):
		return http.StatusBadRequest, services.Errorf(services.Invalid, "Upgrade: this address does not accept it")
	case r.Method == http.MethodOptions:
		return 0, nil
	case !q.takes(r.Method):
		return http.StatusMethodNotAllowed, services.Errorf(services.Invalid, "method: only %s are allowed", q.methods())
	case !q.origins.allows(r):
		return http.StatusForbidden, foreignPage(r)
	}
	return 0, nil
}

func (q *queries) takes(method string) bool {
	switch method {
	case http.MethodPost, http.MethodGet:
		return true
	case http.MethodPut, http.MethodDelete:
		return q.sockets != nil
	}
	return false
}

func (q *queries) methods() string {
	if q.sockets != nil {
		return streamMethods
	}
	return allowedMethods
}

// caller is the client of a request, as its headers describe it.
type caller struct {
	ctx     context.Context // of the request; it has the viewer if there is a token
	address string          // as addresses.of returns it
	expires time.Time       // of the token; zero is never
	limit   int64           // bytes of a body
}

// identify finds the viewer if there is a token.
func (q *queries) identify(w *httpRequest, r *http.Request) (caller, error) {
	who := caller{ctx: services.WithRequest(r.Context(), w), limit: q.cfg.BodyLimit}
	if paid, ok := r.Context().Value(paymentKey{}).(*payment); ok && paid.caller != nil {
		return who.as(paid.caller.viewer, paid.caller.expires, q.cfg), nil
	}
	token, err := bearer(r.Header)
	if err != nil || token == "" {
		return who, err
	}
	viewer, expires, err := q.cfg.Identity.Viewer(who.ctx, token, r.Header.Get(actAsHeader), r.Header.Get(deviceHeader))
	if err != nil {
		return who, err
	}
	return who.as(viewer, expires, q.cfg), nil
}

// answering is the form of the answer that a client accepts.
type answering struct {
	accepted string // media type
	events   bool   // a subscription may be answered with an event stream
}

// execute runs one operation and writes its response.
func (q *queries) execute(w http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor, request *params, who caller, to answering) {
	operation, price, faults := createOperation(who.ctx, exec, q.documents, request)
	if faults != nil {
		response := exec.DispatchError(graphql.WithOperationContext(who.ctx, operation), withCodes(faults))
		q.respond(w, r, to.accepted, response)
		return
	}
	kind := operation.Operation.Operation
	switch {
	case kind == ast.Subscription && !to.events:
		writeFault(w, http.StatusBadRequest, services.Errorf(services.Invalid, "operation: a subscription needs a WebSocket, or Accept: %s", typeEvents))
		return
	case kind == ast.Mutation && r.Method == http.MethodGet:
		refuseMutation(w)
		return
	}
	if !chargedOperation(who.ctx) {
		if err := q.cfg.Limits.Operation(who.ctx, who.address, operation, price); err != nil {
			writeFault(w, statusOf(err), err)
			return
		}
	}
	if kind == ast.Subscription {
		q.subscribe(w, r, exec, who, operation)
		return
	}
	ctx, cancel := context.WithTimeout(who.ctx, q.cfg.OperationTimeout)
	defer cancel()
	next, ctx := exec.DispatchOperation(ctx, operation)
	response := next(ctx)
	if response == nil { // the context ended before execution began
		response = exec.DispatchError(ctx, asList(services.Errorf(services.Unavailable,
			"operation: not finished within %v, try again later", q.cfg.OperationTimeout)))
	}
	q.respond(w, r, to.accepted, bounded(kind, response, q.cfg.AnswerLimit))
}

// refuseMutation answers a mutation by GET.
func refuseMutation(w http.ResponseWriter) {
	w.Header().Set("Allow", http.MethodPost)
	writeFault(w, http.StatusMethodNotAllowed, services.Errorf(services.Invalid, "method: a mutation needs POST"))
}

// respond writes a response within the write timeout. A small one fits into the connection's buffer: it never waits, and the
// server's own deadline is enough.
func (q *queries) respond(w http.ResponseWriter, r *http.Request, accepted string, response *graphql.Response) {
	if size := len(response.Data); size > smallAnswer {
		q.backlog.enter(size)
		defer q.backlog.leave(size)
		_ = http.NewResponseController(w).SetWriteDeadline(deadline(q.backlog.within(size, q.cfg.WriteTimeout))) // not every writer supports deadlines
	}
	if accepted == typeEvents {
		writeEvents(w, response)
		return
	}
	writeResponse(w, r, accepted, response)
}

// read reads the request's parameters.
func (q *queries) read(w http.ResponseWriter, r *http.Request, limit int64) (request *params, err error) {
	if r.Method == http.MethodGet {
		request, err = readURL(r.URL, q.cfg.BodyLimit)
	} else {
		request, err = q.readBody(w, r, limit)
	}
	if err == nil {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the deadline was for reading the request, and would end the operation too
	}
	return request, err
}

// readBody reads a POST.
func (q *queries) readBody(w http.ResponseWriter, r *http.Request, limit int64) (*params, error) {
	if err := checkMedia(r); err != nil {
		return nil, err
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, limit)); err != nil {
		if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
			return nil, &httpError{http.StatusRequestEntityTooLarge, "body: up to " + strconv.FormatInt(limit, 10) + " bytes are allowed", int(limit)}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, &httpError{http.StatusRequestTimeout, "body: did not arrive in time", 0}
		}
		return nil, services.Wrapf(services.Invalid, err, "body: it ended early")
	}
	if err := services.CheckUnicode("body", body.Bytes()); err != nil {
		return nil, err
	}
	return parseParams(body.Bytes(), "body", q.cfg.BodyLimit)
}

// readURL reads a GET.
func readURL(address *url.URL, limit int64) (*params, error) {
	if int64(len(address.RawQuery)) > limit {
		return nil, &httpError{http.StatusRequestURITooLong, "URL: a query part of up to " + strconv.FormatInt(limit, 10) + " bytes is allowed", int(limit)}
	}
	values, err := url.ParseQuery(address.RawQuery)
	if err != nil {
		return nil, services.Errorf(services.Invalid, "URL: the query part is not well formed")
	}
	for name := range values {
		if !utf8.ValidString(values.Get(name)) {
			return nil, services.Errorf(services.Invalid, "URL: not valid UTF-8")
		}
	}
	request := &params{documentID: values.Get("documentId")}
	request.OperationName = values.Get("operationName")
	request.Query = strings.Clone(values.Get("query")) // caches keep this text: a substring would keep the whole request line in memory
	for _, name := range []string{"variables", "extensions"} {
		if err := services.CheckUnicode(name, []byte(values.Get(name))); err != nil {
			return nil, err
		}
	}
	if request.Variables, err = parseObject([]byte(values.Get("variables")), "variables"); err != nil {
		return nil, err
	}
	if request.Extensions, err = parseObject([]byte(values.Get("extensions")), "extensions"); err != nil {
		return nil, err
	}
	return request, request.check()
}

// parseParams reads the five parameters of a GraphQL request from JSON. limit bounds the bytes of all but the variables,
// because those are parsed and remembered. The error names the parameter and repeats none of its content.
func parseParams(text []byte, what string, limit int64) (*params, error) {
	var parts struct {
		Query         json.RawMessage `json:"query"`
		DocumentID    json.RawMessage `json:"documentId"`
		OperationName json.RawMessage `json:"operationName"`
		Variables     json.RawMessage `json:"variables"`
		Extensions    json.RawMessage `json:"extensions"`
	}
	if json.Unmarshal(text, &parts) != nil || isNull(text) {
		return nil, services.Errorf(services.Invalid, "%s: not a JSON object", what)
	}
	if int64(len(text)-len(parts.Variables)) > limit {
		return nil, &httpError{http.StatusRequestEntityTooLarge, what + ": without its variables up to " + strconv.FormatInt(limit, 10) + " bytes are allowed", int(limit)}
	}
	request := &params{}
	for _, part := range []struct {
		name string
		text json.RawMessage
		into *string
	}{{"query", parts.Query, &request.Query}, {"documentId", parts.DocumentID, &request.documentID}, {"operationName", parts.OperationName, &request.OperationName}} {
		if !isNull(part.text) && json.Unmarshal(part.text, part.into) != nil {
			return nil, services.Errorf(services.Invalid, "%s: must be a text", part.name)
		}
	}
	var err error
	if request.Variables, err = parseObject(parts.Variables, "variables"); err != nil {
		return nil, err
	}
	if request.Extensions, err = parseObject(parts.Extensions, "extensions"); err != nil {
		return nil, err
	}
	return request, request.check()
}

// checkQuery refuses half of a surrogate pair in a query, whose strings have the escapes of JSON. Block strings have none, so a
// query with block strings is left to the parser.
func checkQuery(query string) error {
	if strings.IndexByte(query, '\\') < 0 || strings.Contains(query, `"""`) {
		return nil
	}
	return services.CheckUnicode("query", []byte(query))
}

// parseObject reads a JSON object that may be absent or null. Numbers stay text, because an ID can have more digits than a
// float.
func parseObject(text []byte, what string) (map[string]any, error) {
	if isNull(text) {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var object map[string]any
	if decoder.Decode(&object) == nil && object != nil {
		if _, err := decoder.Token(); err == io.EOF { // nothing may follow it
			return object, nil
		}
	}
	return nil, services.Errorf(services.Invalid, "%s: must be a JSON object", what)
}

func isNull(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) == 0 || string(text) == "null"
}

// negotiate chooses the media type of the answer: the one that the client weights highest, the first of equals, plain JSON
// without an Accept header, "" if none is possible. Event streams are a choice if the server has them; events reports that the
// client accepts one.
func negotiate(accept []string, hasEvents bool) (chosen string, events bool) {
	if len(accept) == 0 {
		return typeJSON, false
	}
	best := 0.0
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		media, details, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil {
			continue
		}
		quality := 1.0
		if text, given := details["q"]; given {
			if quality, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		switch media {
		case "*/*", "application/*", typeJSON:
			media = typeJSON
		case typeResponse:
		case typeEvents:
			if !hasEvents {
				continue
			}
			events = events || quality > 0
		default:
			continue
		}
		if quality > best {
			best, chosen = quality, media
		}
	}
	return chosen, events
}
