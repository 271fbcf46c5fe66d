package transport

import (
	"bufio"
	"bytes"
	"context"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidings/services"
)

// requestHead is the head of a plain request, with everything that follows from it alone. No field depends on the body, the address or
// the time, except caller, which expires. It is shared by all connections that send these bytes, and does not change.
type requestHead struct {
	text            []byte        // the bytes of the head, with its blank line
	bodyLength      int           // the value of Content-Length
	request         *http.Request // without its body, context and address
	answerForm      answerForm    // the form of the answer
	acceptsGzip     bool          // the client accepts gzip
	answerHeadLines []byte        // the first lines of the answer's head
	hasForwardedFor bool          // the request has X-Forwarded-For
	// A unique head is not remembered: a client that gives each request its own ID would fill the memory with heads that never come
	// again.
	uncacheable     bool   // no other request has the same head
	clientRequestID string // the ID that the client gave to the request

	caller *frontCaller // nil until the token was checked
}

// frontCaller is the caller that the token of a request names. It may be used until the token expires or the keys that verify tokens
// are reloaded: as long as Identity.stillValid returns true.
type frontCaller struct {
	viewer       services.Viewer
	ctx          context.Context // has the viewer
	tokenExpires time.Time       // zero is never
	// tokenKeysVersion stands for the keys by which the token was checked: the result of Identity.tokenKeysVersion. It is only compared.
	tokenKeysVersion any
}

// headOf returns the head of a request, nil for one that is not plain.
func (f *Front) headOf(text []byte) *requestHead {
	if known, ok := f.requestHeads.get(text); ok {
		return f.withoutStaleCaller(known)
	}
	if !isPlainHead(text[len(plainRequestStart):]) {
		return nil
	}
	// The text is a part of the connection's buffer, so a copy is kept.
	return f.readHead(bytes.Clone(text))
}

// withoutStaleCaller returns the head h. If its token has expired, or the keys were reloaded since the token was checked, the result has
// no caller, so that withCaller checks the token again. The token may be good for the new keys too, and a refusal is the same as for a
// new head.
func (f *Front) withoutStaleCaller(h *requestHead) *requestHead {
	if h.caller == nil || f.httpTransport.cfg.Identity.stillValid(h.caller) {
		return h
	}
	unchecked := *h
	unchecked.caller = nil
	return &unchecked
}

// nonPlainHeaders change the meaning of a request, or how it is read. perRequestHeaders have a different value in each request. A
// header that is not in these lists, nor known to readHead, must have no effect on the answer of the HTTP server.
var (
	nonPlainHeaders = []string{ // in lower case; a request with one of them is not plain
		"connection", "content-encoding", "expect", "http2-settings", "keep-alive", "proxy-authorization", "proxy-connection", "range", "te", "trailer",
		"transfer-encoding", "upgrade", strings.ToLower(streamTokenHeader), "traceparent",
	}
	perRequestHeaders = []string{strings.ToLower(requestIDHeader)} // a head with one of them is not remembered
)

// isPlainHead reports whether all lines of a head are headers in their usual form, each of them once, and none is special. It is
// stricter than the HTTP server. A head that two parsers could read differently is not plain: one with folded lines, spaces before
// a colon, a length with a sign, or a header twice. So nobody can make a proxy see other requests than the front does.
func isPlainHead(lines []byte) bool {
	// The array is on the stack: 32 names are more than browsers send. A head with more names is not plain.
	var seen [32]string
	names := seen[:0]
	for len(lines) > len("\r\n") {
		line, rest, _ := bytes.Cut(lines, []byte("\r\n"))
		lines = rest
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found || len(name) == 0 || slices.ContainsFunc(name, isUnusualInHeaderName) || slices.ContainsFunc(value, isUnusualInHeaderValue) {
			return false
		}
		lower := strings.ToLower(string(name))
		switch {
		// keep-alive is the default of HTTP/1.1 and changes nothing.
		case lower == "connection" && strings.EqualFold(string(bytes.TrimSpace(value)), "keep-alive"):
		case lower == "content-length" && slices.ContainsFunc(bytes.TrimSpace(value), notDigit), slices.Contains(nonPlainHeaders, lower):
			return false
		}
		if slices.Contains(names, lower) || len(names) == len(seen) {
			return false
		}
		names = append(names, lower)
	}
	return slices.Contains(names, "host") && slices.Contains(names, "content-length") && slices.Contains(names, "authorization")
}

// isUnusualInHeaderName, isUnusualInHeaderValue, notDigit and isUnusualInHost report characters that make a text unusual. They are
// stricter than the standards.
func isUnusualInHeaderName(c byte) bool {
	return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-')
}

// isUnusualInHeaderValue reports control characters and bytes above ASCII, which parsers read in different ways.
func isUnusualInHeaderValue(c byte) bool { return c < ' ' || c > '~' }

func notDigit(c byte) bool { return c < '0' || c > '9' }

// isUnusualInHost takes a rune, because strings.ContainsFunc needs that. It reports all characters above ~.
func isUnusualInHost(c rune) bool {
	return isUnusualInHeaderName(byte(c)) && c != '.' && c != ':' && c != '[' && c != ']' || c > '~'
}

// readHead reads a head as the HTTP server does, and applies the checks that need nothing else. It returns nil if a check fails:
// the HTTP server then answers the request, mostly with an error. The first lines of the answer are made here, because they
// depend on nothing else.
func (f *Front) readHead(text []byte) *requestHead {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
	if err != nil || r.Close || len(r.TransferEncoding) > 0 || r.ContentLength < 0 || r.Host == "" || strings.ContainsFunc(r.Host, isUnusualInHost) {
		return nil
	}
	if f.loopbackOnly && !isLoopback(r.Host) {
		return nil
	}
	h := &requestHead{text: text, bodyLength: int(r.ContentLength), request: r, acceptsGzip: services.AcceptsGzip(r.Header.Values("Accept-Encoding"))}
	// With the scope ingest a body may be longer than BodyLimit, but such a request is not plain.
	if int64(h.bodyLength) != r.ContentLength || r.ContentLength > min(f.httpTransport.cfg.BodyLimit, maxFrontRequestBytes) {
		return nil
	}
	for name := range r.Header {
		if f.loopbackOnly && isForwardingHeader(name) {
			return nil
		}
		h.hasForwardedFor = h.hasForwardedFor || name == "X-Forwarded-For"
		h.uncacheable = h.uncacheable || slices.Contains(perRequestHeaders, strings.ToLower(name))
	}
	// httpTransport.Do calls the same functions, so that the headers are the same.
	answer := &responseRecorder{header: http.Header{}}
	w := newRequest(answer, r)
	h.clientRequestID = w.id
	f.httpTransport.origins.writeCORSHeaders(w, r)
	if _, err := f.httpTransport.checkRequest(r); err != nil || checkContentType(r) != nil {
		return nil
	}
	// An answer as an event stream is left to the HTTP server.
	h.answerForm.mediaType, h.answerForm.acceptsEventStream = negotiateMediaType(r.Header.Values("Accept"), f.httpTransport.sockets != nil)
	if h.answerForm.mediaType != typeJSON && h.answerForm.mediaType != typeResponse {
		return nil
	}
	setContentHeaders(answer.header, h.answerForm.mediaType)
	h.answerHeadLines = appendHeader([]byte("HTTP/1.1 200 OK\r\n"), answer.header)
	return h
}

// checkContentType returns an error for a body that is not JSON. A foreign page can send some content types without a preflight
// request, but never JSON. So this check also prevents forged requests.
func checkContentType(r *http.Request) error {
	content := r.Header.Get("Content-Type")
	if len(content) > maxMediaHeaderBytes {
		return &httpError{http.StatusUnsupportedMediaType, "Content-Type: up to " + strconv.Itoa(maxMediaHeaderBytes) + " bytes are allowed", maxMediaHeaderBytes}
	}
	media, details, err := mime.ParseMediaType(content)
	if charset := details["charset"]; err != nil || media != typeJSON || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return &httpError{http.StatusUnsupportedMediaType, "Content-Type: only application/json in UTF-8 is allowed", 0}
	}
	return nil
}

// withCaller returns the head with the caller of its token, and remembers it; nil if the token is refused. Only heads with a good
// token are remembered, so nobody can fill the memory without a token. A head that no other request has is not remembered. Its caller
// is, with the head without the headers that differ: many proxies give each request an ID, and to verify a token takes long.
func (f *Front) withCaller(h *requestHead, request services.Request) *requestHead {
	if h.caller != nil {
		return h
	}
	if h.uncacheable {
		rest := f.headOf(withoutPerRequestHeaders(h.text))
		if rest == nil {
			return nil
		}
		if rest = f.withCaller(rest, request); rest == nil {
			return nil
		}
		known := *h
		known.caller = rest.caller
		return &known
	}
	token, err := bearerToken(h.request.Header)
	if err != nil || token == "" {
		return nil
	}
	identity := f.httpTransport.cfg.Identity
	// tokenKeysVersion is called before the check: if the keys are reloaded during the check, stillValid is false, and the token is
	// checked again.
	keys := identity.tokenKeysVersion()
	ctx := services.WithRequest(h.request.Context(), request)
	viewer, expires, err := identity.Viewer(ctx, token, h.request.Header.Get(actAsHeader), h.request.Header.Get(deviceHeader))
	if err != nil {
		return nil
	}
	// known is a copy, because other connections that sent the same bytes may use the head without a caller.
	known := *h
	// The context has the viewer and no data of this request, because other requests will use it.
	known.caller = &frontCaller{viewer, services.WithViewer(context.Background(), viewer), expires, keys}
	f.requestHeads.put(known.text, &known, requestHeadOverheadBytes+len(known.text))
	return &known
}

// withoutPerRequestHeaders returns a plain head without the headers that have a different value in each request.
func withoutPerRequestHeaders(head []byte) []byte {
	rest := make([]byte, 0, len(head))
	for line := range bytes.Lines(head) {
		name, _, _ := bytes.Cut(line, []byte(":"))
		if !slices.Contains(perRequestHeaders, strings.ToLower(string(name))) {
			rest = append(rest, line...)
		}
	}
	return rest
}

// requestHeadOverheadBytes is the approximate memory of a head in addition to its texts.
const requestHeadOverheadBytes = 1 << 10
