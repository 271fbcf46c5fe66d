package transport

import (
	"crypto/rand"
	"maps"
	"net/http"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"tidings/services"
)

// requestIDHeader is the header by which proxies and clients name a request. Answers repeat it, and errors have it as requestId.
const requestIDHeader = "X-Request-Id"

// requestID is the ID of a request. It is generated when it is needed, because most requests have no error. The errors of one request
// are made by many goroutines, and all must find the same ID. The zero value has no ID yet.
type requestID struct {
	once sync.Once // generates id
	id   string    // the ID; "" until it is needed, unless the client gave one
}

// setRequestIDFrom takes the ID that the client gave to the request that w answers. It is called before an ID is needed. The
// operation of an event stream then has the ID of the request that began it.
func (r *requestID) setRequestIDFrom(w http.ResponseWriter) { r.id = w.Header().Get(requestIDHeader) }

// RequestID is the id: the client's, or a random one that cannot be guessed.
func (r *requestID) RequestID() string {
	r.once.Do(func() {
		if r.id == "" {
			r.id = rand.Text()
		}
	})
	return r.id
}

// httpRequest is one HTTP request while it is answered: the response writer, and the ID for the errors of the answer. It is the
// services.Request of the request's context.
type httpRequest struct {
	http.ResponseWriter
	requestID
}

// newRequest begins a request. A client or a proxy may give it an ID, and then finds the ID in the answer. IDs go into logs, so an ID
// that is too long, or has other characters than services.CheckIdentifier allows, is ignored.
func newRequest(w http.ResponseWriter, r *http.Request) *httpRequest {
	one := &httpRequest{ResponseWriter: w}
	if given := r.Header.Get(requestIDHeader); given != "" && services.CheckIdentifier(given) == nil {
		one.id = given
		w.Header().Set(requestIDHeader, given)
	}
	return one
}

// Unwrap is for http.ResponseController, which sets deadlines, flushes and hijacks.
func (r *httpRequest) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// withRequestID returns the response with the request's ID in its errors, as in the header of the answer. A response without errors is
// returned unchanged, and has no such header unless the client gave an ID.
func withRequestID(w http.ResponseWriter, response *graphql.Response) *graphql.Response {
	if len(response.Errors) == 0 {
		return response
	}
	id := w.(services.Request).RequestID() // the writer of a handler is an httpRequest
	w.Header().Set(requestIDHeader, id)
	copied := *response
	copied.Errors = errorsWithID(response.Errors, id)
	return &copied
}

// errorsWithID returns the errors with the ID of their request.
func errorsWithID(list gqlerror.List, id string) gqlerror.List {
	shown := make(gqlerror.List, len(list)) // other goroutines may hold the list and its errors
	for i, fault := range list {
		copied := *fault
		copied.Extensions = maps.Clone(fault.Extensions)
		if copied.Extensions == nil {
			copied.Extensions = map[string]any{}
		}
		copied.Extensions["requestId"] = id
		shown[i] = &copied
	}
	return shown
}
