package transport

import (
	"context"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/services"
)

const (
	// The buffers of a connection take an answer up to this length at once, whether its client reads or not.
	maxSmallAnswerBytes = 16 << 10 // bytes

	methodsWithoutStreams = "GET, POST, OPTIONS"              // the methods of a server without event streams
	methodsWithStreams    = "GET, POST, PUT, DELETE, OPTIONS" // the methods of a server with event streams

	// The most bytes of all headers Accept together, and of Content-Type. Browsers send less than 200. A longer one is refused before it
	// is parsed, because to parse it takes much more time and memory than to send it.
	maxMediaHeaderBytes = 2 << 10

	typeJSON     = "application/json"                  // the older media type of an answer
	typeResponse = "application/graphql-response+json" // the newer media type of an answer
)

// httpTransport serves queries and mutations over HTTP, by the GraphQL-over-HTTP specification. It is the last of the transports and
// accepts every request, so that each bad request gets a documented error. It is also the HTTP side of event streams; their other
// half is in Sockets.
//
// It keeps no data of a request. Handler sets all fields, and they do not change. Only documents, backlog and sockets have state
// of their own.
type httpTransport struct {
	cfg            Config
	backlog        *answerBacklog // shared with the sockets
	documents      *documentPreparer
	origins        allowedOrigins // the pages that may call
	trustedProxies trustedProxies // finds the address of a client
	sockets        *Sockets       // holds the event streams; nil refuses them
}

// Supports accepts every request. Upgrades reach it only if there are no sockets.
func (q *httpTransport) Supports(*http.Request) bool { return true }

// Do answers one request. The checks are ordered by their cost, and the first refusal is the answer. The limit of the address comes
// before the token, because an attacker could otherwise make this server verify signatures without limit.
func (q *httpTransport) Do(writer http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor) {
	w := newRequest(writer, r)
	// This comes before any refusal, because a page can read an error only if the answer permits its origin.
	q.origins.writeCORSHeaders(w, r)
	if status, err := q.checkRequest(r); err != nil {
		if status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", q.allowHeader())
		}
		writeFault(w, status, err)
		return
	}
	// A preflight has no token and executes nothing; writeCORSHeaders has answered it.
	if r.Method == http.MethodOptions {
		w.Header().Set("Allow", q.allowHeader())
		w.WriteHeader(http.StatusNoContent)
		return
	}
	// The limiter is the cheapest bound for work that a stranger can cause. It is asked before the token and the body are read.
	address := q.trustedProxies.clientAddress(r)
	if err := q.chargeAddress(r.Context(), address); err != nil {
		writeFault(w, statusOf(err), err)
		return
	}
	accepted, events := negotiateMediaType(r.Header.Values("Accept"), q.sockets != nil)
	if accepted == "" && r.Method != http.MethodPut && r.Method != http.MethodDelete { // these get no GraphQL response
		writeFault(w, http.StatusNotAcceptable, services.Errorf(services.Invalid,
			"Accept: only %s, %s and %s can be sent, and up to %d bytes are read", typeJSON, typeResponse, typeEvents, maxMediaHeaderBytes))
		return
	}
	who, err := q.identify(w, r)
	if err != nil {
		writeFault(w, statusOf(err), err)
		return
	}
	who.address = address
	// A PUT makes a reservation. It, and every request that names a reservation, belong to the single connection mode of GraphQL
	// over SSE.
	if q.sockets != nil {
		if r.Method == http.MethodPut {
			q.reserveStream(w, who, exec)
			return
		}
		if token := streamToken(r); token != "" || r.Method == http.MethodDelete {
			q.serveReservation(w, r, exec, who, accepted, token)
			return
		}
	}
	started := graphql.Now()
	request, err := q.read(w, r, who.maxBodyBytes)
	if err != nil {
		writeFault(w, statusOf(err), err)
		return
	}
	// Middleware may read the headers. subscribe removes them again, because an operation with headers is not shared.
	request.Headers = r.Header
	request.ReadTime = graphql.TraceTiming{Start: started, End: graphql.Now()}
	q.execute(w, r, exec, request, who, answerForm{accepted, events})
}

// checkRequest returns the error and the status of a request with a wrong method or header. The Front calls it too.
func (q *httpTransport) checkRequest(r *http.Request) (status int, err error) {
	switch {
	case isUpgrade(r):
		return http.StatusBadRequest, services.Errorf(services.Invalid, "Upgrade: this address does not accept it")
	case r.Method == http.MethodOptions:
		return 0, nil
	case !q.allowsMethod(r.Method):
		return http.StatusMethodNotAllowed, services.Errorf(services.Invalid, "method: only %s are allowed", q.allowHeader())
	case !q.origins.allows(r):
		return http.StatusForbidden, foreignPageError(r)
	case r.Method == http.MethodGet && r.ContentLength != 0:
		return http.StatusBadRequest, unreadBodyError("a GET")
	}
	return 0, nil
}

// unreadBodyError is the error for a request with a body where none is read. The HTTP server reads the rest of a body before it
// sends an answer. So the read deadline may be removed only when no body is left, or a client could hold the connection for ever.
func unreadBodyError(what string) error {
	return services.Errorf(services.Invalid, "body: %s must have none", what)
}

// allowsMethod reports whether requests with a method are served.
func (q *httpTransport) allowsMethod(method string) bool {
	switch method {
	case http.MethodPost, http.MethodGet:
		return true
	case http.MethodPut, http.MethodDelete:
		return q.sockets != nil
	}
	return false
}

// allowHeader returns the value of the header Allow.
func (q *httpTransport) allowHeader() string {
	if q.sockets != nil {
		return methodsWithStreams
	}
	return methodsWithoutStreams
}

// caller is the client of a request, as its headers describe it. Without a token there is no viewer: each resolver decides
// whether it needs one.
type caller struct {
	ctx          context.Context // the context of the request; it has the viewer if there is a token
	address      string          // as trustedProxies.clientAddress returns it
	tokenExpires time.Time       // of the token; zero means never
	maxBodyBytes int64           // the most bytes of a body
}

// withViewer returns the caller with the viewer of a token. Requests with the scope ingest may have longer bodies.
func (c caller) withViewer(viewer services.Viewer, expires time.Time, cfg Config) caller {
	if viewer.Has(services.ScopeIngest) {
		c.maxBodyBytes = cfg.IngestBodyLimit
	}
	c.ctx, c.tokenExpires = services.WithViewer(c.ctx, viewer), expires
	return c
}

// identify finds the viewer if there is a token. If the Front has verified the token of this request already, the viewer comes from
// the context, where the Front has put what it checked and charged (see frontCharges).
func (q *httpTransport) identify(w *httpRequest, r *http.Request) (caller, error) {
	who := caller{ctx: services.WithRequest(r.Context(), w), maxBodyBytes: q.cfg.BodyLimit}
	if charges, ok := r.Context().Value(frontChargesKey{}).(*frontCharges); ok && charges.caller != nil {
		return who.withViewer(charges.caller.viewer, charges.caller.tokenExpires, q.cfg), nil
	}
	token, err := bearerToken(r.Header)
	if err != nil || token == "" {
		return who, err
	}
	viewer, expires, err := q.cfg.Identity.Viewer(who.ctx, token, r.Header.Get(actAsHeader), r.Header.Get(deviceHeader))
	if err != nil {
		return who, err
	}
	return who.withViewer(viewer, expires, q.cfg), nil
}

// answerForm is the form of the answer that a client accepts.
type answerForm struct {
	mediaType          string // such as typeJSON
	acceptsEventStream bool   // a subscription may be answered with an event stream
}

// execute runs one operation and writes its response. It charges the operation only when it is known to be valid and permitted,
// so that a bad request is charged only to its address.
func (q *httpTransport) execute(w http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor, request *requestParams, who caller, to answerForm) {
	operation, cost, faults := createOperation(who.ctx, exec, q.documents, request)
	if faults != nil {
		response := exec.DispatchError(graphql.WithOperationContext(who.ctx, operation), withCodes(faults))
		q.respond(w, r, to.mediaType, response)
		return
	}
	kind := operation.Operation.Operation
	switch {
	case kind == ast.Subscription && !to.acceptsEventStream:
		writeFault(w, http.StatusBadRequest, services.Errorf(services.Invalid, "operation: a subscription needs a WebSocket, or Accept: %s", typeEvents))
		return
	// A GET can be sent by a link, a prefetch or a retry of a proxy, and must change nothing.
	case kind == ast.Mutation && r.Method == http.MethodGet:
		refuseMutationByGET(w)
		return
	}
	if !isOperationCharged(who.ctx) {
		if err := q.cfg.Limits.ChargeOperation(who.ctx, who.address, operation, cost); err != nil {
			writeFault(w, statusOf(err), err)
			return
		}
	}
	// A subscription may last for hours, so the timeout below does not apply to it.
	if kind == ast.Subscription {
		q.subscribe(w, r, exec, who, operation, cost)
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
	q.respond(w, r, to.mediaType, boundResponse(kind, response, q.cfg.MaxAnswerBytes))
}

// refuseMutationByGET answers a mutation by GET with an error.
func refuseMutationByGET(w http.ResponseWriter) {
	w.Header().Set("Allow", http.MethodPost)
	writeFault(w, http.StatusMethodNotAllowed, services.Errorf(services.Invalid, "method: a mutation needs POST"))
}

// respond writes a response within the write timeout. A small response fits into the connection's buffers: its write does not
// wait, and the server's own deadline is enough. A longer one counts in the backlog until it is written, and has a shorter
// deadline while the backlog is over its limit.
func (q *httpTransport) respond(w http.ResponseWriter, r *http.Request, accepted string, response *graphql.Response) {
	if size := len(response.Data); size > maxSmallAnswerBytes {
		q.backlog.addAnswerBytes(size)
		defer q.backlog.removeAnswerBytes(size)
		_ = http.NewResponseController(w).SetWriteDeadline(deadlineAfter(q.backlog.writeTimeout(size, q.cfg.WriteTimeout))) // not every writer supports deadlines
	}
	if accepted == typeEvents {
		writeAsEventStream(w, response)
		return
	}
	writeResponse(w, r, accepted, response)
}

// negotiateMediaType chooses the media type of the answer: the type with the highest q, or the first of several with that q. It is
// plain JSON without an Accept header, and "" if no type is possible or the header is too long. An event stream can be chosen only
// if the server has them. events reports that the client accepts one, even if it prefers JSON: a subscription is then still
// answered with a stream. An element that cannot be read is skipped, and parameters other than q are ignored.
func negotiateMediaType(accept []string, hasEvents bool) (chosen string, events bool) {
	if len(accept) == 0 {
		return typeJSON, false
	}
	// All headers of this name form one list, by the rules of HTTP.
	list := strings.Join(accept, ",")
	if len(list) > maxMediaHeaderBytes {
		return "", false
	}
	best := 0.0
	for part := range strings.SplitSeq(list, ",") {
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
		// A wildcard gets plain JSON, which every client can read.
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
		// A quality of 0 means that the client refuses the type, and is never above best.
		if quality > best {
			best, chosen = quality, media
		}
	}
	return chosen, events
}
