package transport

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/services"
)

const streamTokenHeader = "X-Graphql-Event-Stream-Token" // in the canonical form of http.Header, which saves a conversion for each request

// streamToken is the token of the reservation that a request names; "" for none. A browser's EventSource can send it only in
// the URL. The query is parsed only if it can contain one, because most GETs are queries.
func streamToken(r *http.Request) string {
	if token := r.Header.Get(streamTokenHeader); token != "" {
		return token
	}
	if !strings.Contains(r.URL.RawQuery, "token=") {
		return ""
	}
	return r.URL.Query().Get("token")
}

// openStream makes an event stream and counts it like a socket, or returns the reason to refuse it. A stream with a token is
// reserved.
func (s *Sockets) openStream(who caller, exec graphql.GraphExecutor, token string) (*stream, error) {
	one, err := s.admitStream(who, exec, token)
	if err != nil {
		s.refusedCount.Add(1)
	}
	return one, err
}

// admitStream is openStream without the counter of refusals. If it refuses a stream, it undoes its counts. The context of a stream
// is not the context of a request, because a reserved stream has several requests.
func (s *Sockets) admitStream(who caller, exec graphql.GraphExecutor, token string) (*stream, error) {
	if closed := s.refusalReason(); closed != "" {
		return nil, goingAwayError(closed)
	}
	if !s.perAddress.enter(who.address) {
		return nil, s.addressLimitError()
	}
	one := &stream{
		peer:             peer{sockets: s, exec: exec, address: who.address, ctx: s.streamBaseContext, tokenExpires: who.tokenExpires},
		reservationToken: token, connected: make(chan struct{}), ended: make(chan struct{}),
	}
	one.sender = one
	if viewer, err := services.ViewerFrom(who.ctx); err == nil {
		if err := one.admit(viewer); err != nil {
			s.perAddress.leave(who.address)
			return nil, err
		}
	}
	s.streamCount.Add(1)
	// The timer is set before anybody can find the stream, because claim stops it.
	if token != "" {
		one.reservationTimer = time.AfterFunc(streamReservationTimeout, func() { one.close(nil) })
		s.mu.Lock()
		s.reservedStreams[token] = one
		s.mu.Unlock()
	}
	// A drain has begun since refusalReason was called. close releases the stream like any other.
	if !s.add(&one.peer) {
		one.close(nil)
		return nil, goingAwayError("going away")
	}
	return one, nil
}

// forget uncounts a stream and removes its reservation. The token of a stream with distinct connections is "", which is never in
// the map.
func (s *Sockets) forget(one *stream) {
	s.streamCount.Add(-1)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.reservedStreams, one.reservationToken)
}

// reserveStream answers a PUT with the token of a new reservation. The token is a secret: its holder can read the stream.
func (q *httpTransport) reserveStream(w http.ResponseWriter, who caller, exec graphql.GraphExecutor) {
	one, err := q.sockets.openStream(who, exec, rand.Text())
	if err != nil {
		writeFault(w, statusOf(err), err)
		return
	}
	write(w, http.StatusCreated, "text/plain", []byte(one.reservationToken))
}

// subscribe answers a subscription with an event stream of its own. It returns when the stream has ended, because the response ends
// with its handler.
func (q *httpTransport) subscribe(w http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor, who caller, parsed *graphql.OperationContext, cost int) {
	stream, err := q.sockets.openStream(who, exec, "")
	if err != nil {
		writeFault(w, statusOf(err), err)
		return
	}
	one := newOperation(&stream.peer, "")
	one.setRequestIDFrom(w)
	if !stream.claimFor(one) { // a drain has begun in the meantime
		one.cancel()
		stream.close(nil)
		writeFault(w, http.StatusServiceUnavailable, goingAwayError("going away"))
		return
	}
	// The status is sent before the resolver runs, so that a page knows at once that it is connected. Errors follow as events.
	stream.attach(w)
	parsed.Headers = nil // as on a socket: an operation with headers is not shared
	// The operation runs in another goroutine; this one keeps the response open, and notices when the client goes away.
	go one.run(parsed, cost)
	stream.serve(r.Context())
}

// serveReservation answers a request that names a reservation: it connects the stream, executes an operation on it, or stops one. The
// method and the media type decide which.
func (q *httpTransport) serveReservation(w http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor, who caller, accepted, token string) {
	stream, err := q.sockets.findReservedStream(token, who, accepted == typeEvents)
	switch {
	case err != nil:
		writeFault(w, statusOf(err), err)
	case accepted == typeEvents && r.ContentLength != 0:
		writeFault(w, http.StatusBadRequest, unreadBodyError("a request that connects an event stream"))
	case accepted == typeEvents:
		if !stream.connect(w) {
			writeFault(w, http.StatusConflict, services.Errorf(services.Conflict, "token: its event stream is open already"))
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the deadline was for reading the request
		stream.serve(r.Context())
	case r.Method == http.MethodDelete:
		id, err := checkOperationID(r.URL.Query().Get("operationId"))
		if err != nil {
			writeFault(w, statusOf(err), err)
			return
		}
		// The operation may just have ended by itself. Its client wanted it to end, so the answer is 200 in either case.
		if one := stream.removeByID(id); one != nil {
			one.stop()
		}
		write(w, http.StatusOK, "text/plain", nil)
	default:
		q.executeOnStream(w, r, exec, who, stream)
	}
}

// findReservedStream returns a reserved stream to its owner. fulfils says that the request only connects the stream. A browser's
// EventSource cannot send headers, so such a request needs no Authorization: the reservation's token identifies the viewer. With
// Authorization, the user and the scopes must equal the reservation's user and scopes. The user's token may differ, because tokens are
// renewed.
func (s *Sockets) findReservedStream(token string, who caller, fulfils bool) (*stream, error) {
	s.mu.Lock()
	one := s.reservedStreams[token]
	s.mu.Unlock()
	if one == nil {
		return nil, services.Errorf(services.NotFound, "token: no event stream is reserved for it, or its reservation has ended: reserve one by PUT")
	}
	// ownerErr and viewerErr are errors: nil means that there is a viewer.
	owner, ownerErr := services.ViewerFrom(one.ctx)
	viewer, viewerErr := services.ViewerFrom(who.ctx)
	if fulfils && viewerErr != nil {
		return one, nil
	}
	if (ownerErr == nil) != (viewerErr == nil) || owner.Key != viewer.Key || !slices.Equal(owner.Scopes, viewer.Scopes) {
		return nil, services.Errorf(services.Forbidden, "token: the event stream was reserved with another Authorization")
	}
	return one, nil
}

// executeOnStream executes an operation on a stream. The answer 202 means that the results arrive on the stream. A refusal is answered
// here, with a status, and nothing is sent on the stream.
func (q *httpTransport) executeOnStream(w http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor, who caller, stream *stream) {
	request, err := q.read(w, r, who.maxBodyBytes)
	if err != nil {
		writeFault(w, statusOf(err), err)
		return
	}
	text, _ := request.Extensions["operationId"].(string)
	id, err := checkOperationID(text)
	if err != nil {
		writeFault(w, statusOf(err), err)
		return
	}
	delete(request.Extensions, "operationId") // an operation with extensions is not shared
	one := newOperation(&stream.peer, id)
	one.setRequestIDFrom(w)
	// Most steps below can refuse. Only this function knows an operation that has not begun, so it is cancelled here.
	accepted := false
	defer func() {
		if !accepted {
			one.cancel()
		}
	}()
	parsed, cost, faults := createOperation(graphql.StartOperationTrace(one.ctx), exec, q.documents, request)
	if faults != nil {
		response := exec.DispatchError(graphql.WithOperationContext(who.ctx, parsed), withCodes(faults))
		write(w, http.StatusBadRequest, typeJSON, appendResponse(nil, withRequestID(w, response)))
		return
	}
	if parsed.Operation.Operation == ast.Mutation && r.Method == http.MethodGet {
		refuseMutationByGET(w)
		return
	}
	// The address was charged when the request came.
	if err := q.cfg.Limits.ChargeOperation(one.ctx, who.address, parsed, cost); err != nil {
		writeFault(w, statusOf(err), err)
		return
	}
	// This check comes last, because an operation that has begun must run.
	switch stream.begin(one) {
	case beginDuplicateID:
		err = services.Errorf(services.Conflict, "operationId: is in use on this event stream")
	case beginAtLimit:
		err = stream.operationLimitError()
	case beginClosing:
		err = services.Errorf(services.NotFound, "token: its event stream has ended: reserve one by PUT")
	}
	if err != nil {
		writeFault(w, statusOf(err), err)
		return
	}
	accepted = true
	go one.run(parsed, cost)
	write(w, http.StatusAccepted, "text/plain", nil)
}

// checkOperationID checks the id of an operation on a stream. The client chooses it, as on a socket.
func checkOperationID(id string) (string, error) {
	if id == "" || len(id) > maxOperationIDBytes {
		return "", services.Errorf(services.Invalid, "operationId: 1 to %d bytes are needed", maxOperationIDBytes)
	}
	return id, nil
}

// writeAsEventStream answers an operation that is not a subscription with an event stream that ends at once, for clients that accept
// nothing else. A stream without a token writes the form of distinct connections.
func writeAsEventStream(w http.ResponseWriter, response *graphql.Response) {
	var one stream
	body := one.complete(one.next(nil, "", withRequestID(w, response)), "")
	write(w, http.StatusOK, typeEvents, body)
}
