package browsertest

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"sync"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
)

// Request is an HTTP request of a tab. It is a copy for the test, because the record goes on changing.
type Request struct {
	URL     string
	Method  string
	Headers map[string]string // as the page set them
	Status  int               // 0 until it is answered
	Error   string            // why it failed, "" when it did not
}

// Socket is a WebSocket that a tab opened. Messages are in their order.
type Socket struct {
	URL      string
	Sent     []string // the messages of the page
	Received []string // the messages of the server
	Closed   bool     // the connection has ended
}

// tabRecord lists the requests, sockets and page errors of one tab. The browser adds to it while a test reads.
type tabRecord struct {
	mu sync.Mutex // guards the other fields
	// idOrder has the IDs of the requests and sockets in the order in which they began; each ID is in one of the two maps below.
	idOrder    []network.RequestID
	requests   map[network.RequestID]*Request
	sockets    map[network.RequestID]*Socket
	pageErrors []string // what PageErrors returns
}

// tabRecordContextKey is the key of a tab's record in its context.
type tabRecordContextKey struct{}

// newTabRecord makes the empty record of a new tab.
func newTabRecord() *tabRecord {
	return &tabRecord{requests: map[network.RequestID]*Request{}, sockets: map[network.RequestID]*Socket{}}
}

// tabRecordOf returns the record of a tab. A context without a record is an error of the test.
func tabRecordOf(ctx context.Context) *tabRecord {
	seen, ok := ctx.Value(tabRecordContextKey{}).(*tabRecord)
	if !ok {
		panic("browsertest: the context is not one of NewProfileTab or NewTab")
	}
	return seen
}

// Requests lists the HTTP requests of the tab, oldest first. A request without an answer yet is in the list too, with
// the status 0.
func Requests(ctx context.Context) []Request {
	seen := tabRecordOf(ctx)
	seen.mu.Lock()
	defer seen.mu.Unlock()
	var requests []Request
	for _, id := range seen.idOrder {
		if request := seen.requests[id]; request != nil {
			requests = append(requests, *request)
		}
	}
	return requests
}

// Sockets lists the WebSockets that the tab opened, oldest first. They are copies, lists included, because the browser goes on
// appending to the originals.
func Sockets(ctx context.Context) []Socket {
	seen := tabRecordOf(ctx)
	seen.mu.Lock()
	defer seen.mu.Unlock()
	var sockets []Socket
	for _, id := range seen.idOrder {
		if socket := seen.sockets[id]; socket != nil {
			// The browser goes on writing to the original.
			copied := *socket
			copied.Sent, copied.Received = slices.Clone(socket.Sent), slices.Clone(socket.Received)
			sockets = append(sockets, copied)
		}
	}
	return sockets
}

// PageErrors lists the tab's exceptions, the errors on its console, the violations of its security policy and the requests that
// failed, oldest first. A correct page has none. A test that expects an error looks for its text.
func PageErrors(ctx context.Context) []string {
	seen := tabRecordOf(ctx)
	seen.mu.Lock()
	defer seen.mu.Unlock()
	return slices.Clone(seen.pageErrors)
}

// ForeignAddresses lists the addresses outside one origin ("http://127.0.0.1:8080") that the tab requested, sockets included.
// Addresses that need no network (data:, blob:, about:) are not foreign.
func ForeignAddresses(ctx context.Context, origin string) []string {
	var foreign []string
	for _, request := range Requests(ctx) {
		if !isWithinOrigin(request.URL, origin) {
			foreign = append(foreign, request.URL)
		}
	}
	for _, socket := range Sockets(ctx) {
		if !isWithinOrigin(socket.URL, origin) {
			foreign = append(foreign, socket.URL)
		}
	}
	return foreign
}

// isWithinOrigin reports whether an address needs no network, or is of an origin. A socket is of the origin with the same host. An
// address that cannot be read is foreign.
func isWithinOrigin(address, origin string) bool {
	asked, err := url.Parse(address)
	if err != nil {
		return false
	}
	own, err := url.Parse(origin)
	if err != nil {
		return false
	}
	switch asked.Scheme {
	case "data", "blob", "about":
		return true
	case own.Scheme:
		return asked.Host == own.Host
	// A page over http opens only ws, and a page over https only wss.
	case "ws":
		return own.Scheme == "http" && asked.Host == own.Host
	case "wss":
		return own.Scheme == "https" && asked.Host == own.Host
	default:
		return false
	}
}

// addEvent takes an event of the tab. The goroutine that reads the browser's messages calls it, so it must be short. It drops the
// types of events that no test asks for.
func (r *tabRecord) addEvent(event any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e := event.(type) {
	// Requests and sockets are found by their IDs. Events of requests and sockets that began before the record are dropped.
	case *network.EventRequestWillBeSent:
		r.addRequest(e)
	case *network.EventResponseReceived:
		// Later answers of one ID replace earlier ones. The answer of a redirect is kept by addRequest.
		if request := r.requests[e.RequestID]; request != nil {
			request.Status = int(e.Response.Status)
		}
	case *network.EventLoadingFailed:
		r.addFailedRequest(e)
	case *network.EventWebSocketCreated:
		r.idOrder = append(r.idOrder, e.RequestID)
		r.sockets[e.RequestID] = &Socket{URL: e.URL}
	// Frames are messages: neither side splits them here.
	case *network.EventWebSocketFrameSent:
		if socket := r.sockets[e.RequestID]; socket != nil {
			socket.Sent = append(socket.Sent, string(e.Response.PayloadData))
		}
	case *network.EventWebSocketFrameReceived:
		if socket := r.sockets[e.RequestID]; socket != nil {
			socket.Received = append(socket.Received, string(e.Response.PayloadData))
		}
	case *network.EventWebSocketClosed:
		if socket := r.sockets[e.RequestID]; socket != nil {
			socket.Closed = true
		}
	// A correct page causes none of these.
	case *runtime.EventExceptionThrown:
		r.addPageError("exception", exceptionText(e.ExceptionDetails))
	case *runtime.EventConsoleAPICalled:
		r.addConsoleError(e)
	// Messages of the browser itself, such as violations of the security policy.
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			r.addPageError("error", e.Entry.Text+" "+e.Entry.URL)
		}
	}
}

// addRequest notes a request. The browser gives a redirect the same ID as the request that it follows. So the earlier request
// moves to a made-up ID, and the redirect takes its place.
func (r *tabRecord) addRequest(e *network.EventRequestWillBeSent) {
	// Both addresses count for ForeignAddresses: a redirect may lead outside.
	if e.RedirectResponse != nil && r.requests[e.RequestID] != nil {
		r.requests[e.RequestID].Status = int(e.RedirectResponse.Status)
		kept := network.RequestID(fmt.Sprintf("%s redirected %d", e.RequestID, len(r.idOrder)))
		r.requests[kept] = r.requests[e.RequestID]
		r.idOrder[slices.Index(r.idOrder, e.RequestID)] = kept
	}
	// The protocol gives values of any type.
	headers := make(map[string]string, len(e.Request.Headers))
	for name, value := range e.Request.Headers {
		headers[name] = fmt.Sprint(value)
	}
	r.idOrder = append(r.idOrder, e.RequestID)
	r.requests[e.RequestID] = &Request{URL: e.Request.URL, Method: e.Request.Method, Headers: headers}
}

// addFailedRequest notes a request that got no answer. Closing a page cancels its open requests.
func (r *tabRecord) addFailedRequest(e *network.EventLoadingFailed) {
	request := r.requests[e.RequestID]
	if request == nil {
		return
	}
	request.Error = e.ErrorText
	// A request that the page itself cancelled is not a fault.
	if !e.Canceled {
		r.addPageError("failed", request.URL+" "+e.ErrorText)
	}
}

// addConsoleError notes errors and failed assertions that the page wrote to its console. Warnings are ignored.
func (r *tabRecord) addConsoleError(e *runtime.EventConsoleAPICalled) {
	if e.Type != runtime.ConsoleAPICalledTypeError && e.Type != runtime.ConsoleAPICalledTypeAssert {
		return
	}
	text := ""
	// An argument that is a text has a value, and one that is an object has a description.
	for _, arg := range e.Args {
		text += " " + string(arg.Value) + arg.Description
	}
	r.addPageError("console", text)
}

// addPageError adds an error of the page. The lock is held.
func (r *tabRecord) addPageError(kind, text string) {
	r.pageErrors = append(r.pageErrors, kind+": "+text)
}

// exceptionText returns an exception with its stack, or its message if there is no stack.
func exceptionText(details *runtime.ExceptionDetails) string {
	if details.Exception != nil && details.Exception.Description != "" {
		return details.Exception.Description
	}
	return details.Text
}
