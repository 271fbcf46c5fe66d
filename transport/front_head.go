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

// head is the head of a plain request, with everything that follows from it alone. No field depends on the body, the address or
// the time, except caller, which expires. It is shared by all connections that send these bytes, and does not change.
type head struct {
	text        []byte        // the bytes of the head, with its blank line
	length      int           // of the body
	request     *http.Request // without its body, context and address
	answerForm  answerForm    // the form of the answer
	gzip        bool          // the client accepts gzip
	answerLines []byte        // the first lines of the answer's head
	forwarded   bool          // the request has X-Forwarded-For
	// A unique head is not remembered: a client that gives each request its own ID would fill the memory with heads that never come
	// again.
	unique bool   // no other request has the same head
	id     string // the ID that the client gave to the request

	caller *frontCaller // nil until the token was checked
}

// frontCaller is the caller that the token of a request names. It may be used as long as Identity.stillValid returns true.
type frontCaller struct {
	viewer  services.Viewer
	ctx     context.Context // has the viewer
	expires time.Time       // zero is never
	// keysVersion is what Identity.keysVersion returned when the token was checked. It is only compared.
	keysVersion any
}

// headOf returns the head of a request, nil for one that is not plain.
func (f *Front) headOf(text []byte) *head {
	if known, ok := f.heads.get(text); ok {
		return f.withoutStaleCaller(known)
	}
	if !plainHead(text[len(frontStart):]) {
		return nil
	}
	// The text is a part of the connection's buffer, so a copy is kept.
	return f.readHead(bytes.Clone(text))
}

// withoutStaleCaller returns a head. If stillValid is false for its token, the result has no caller, so that identify checks the token again.
// The token may still be good after a reload of the keys, and a refusal is the same as for a new head.
func (f *Front) withoutStaleCaller(h *head) *head {
	if h.caller == nil || f.queries.cfg.Identity.stillValid(h.caller) {
		return h
	}
	unchecked := *h
	unchecked.caller = nil
	return &unchecked
}

// specialHeaders change the meaning of a request, or how it is read. uniqueHeaders have a different value in each request. A header
// that is not in these lists, nor known to readHead, must have no effect on the answer of the HTTP server.
var (
	specialHeaders = []string{ // in lower case; a request with one of them is not plain
		"connection", "content-encoding", "expect", "http2-settings", "keep-alive", "proxy-authorization", "proxy-connection", "range", "te", "trailer",
		"transfer-encoding", "upgrade", strings.ToLower(streamTokenHeader), "traceparent",
	}
	uniqueHeaders = []string{strings.ToLower(requestHeader)} // a head with one of them is not remembered
)

// plainHead reports whether all lines of a head are headers in their usual form, each of them once, and none is special. It is stricter
// than the HTTP server. A head that two parsers could read differently is not plain: one with folded lines, spaces before a colon, a
// length with a sign, or a header twice. So nobody can make a proxy see other requests than the front does.
func plainHead(lines []byte) bool {
	// The array is on the stack: 32 names are more than browsers send. A head with more names is foreign.
	var seen [32]string
	names := seen[:0]
	for len(lines) > len("\r\n") {
		line, rest, _ := bytes.Cut(lines, []byte("\r\n"))
		lines = rest
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found || len(name) == 0 || slices.ContainsFunc(name, notInName) || slices.ContainsFunc(value, notInValue) {
			return false
		}
		lower := strings.ToLower(string(name))
		switch {
		// keep-alive is the default of HTTP/1.1 and changes nothing.
		case lower == "connection" && strings.EqualFold(string(bytes.TrimSpace(value)), "keep-alive"):
		case lower == "content-length" && slices.ContainsFunc(bytes.TrimSpace(value), notDigit), slices.Contains(specialHeaders, lower):
			return false
		}
		if slices.Contains(names, lower) || len(names) == len(seen) {
			return false
		}
		names = append(names, lower)
	}
	return slices.Contains(names, "host") && slices.Contains(names, "content-length") && slices.Contains(names, "authorization")
}

// notInName, notInValue, notDigit and notInHost report characters that make a text unusual. They are stricter than the standards.
func notInName(c byte) bool {
	return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-')
}

// notInValue reports control characters and bytes above ASCII, which parsers read in different ways.
func notInValue(c byte) bool { return c < ' ' || c > '~' }

func notDigit(c byte) bool { return c < '0' || c > '9' }

// notInHost takes a rune, because strings.ContainsFunc needs that. It reports all characters above ~.
func notInHost(c rune) bool {
	return notInName(byte(c)) && c != '.' && c != ':' && c != '[' && c != ']' || c > '~'
}

// readHead reads a head as the HTTP server does, and applies the checks that need nothing else. It returns nil if a check fails:
// the HTTP server then answers the request, mostly with an error. The first lines of the answer are made here, because they
// depend on nothing else.
func (f *Front) readHead(text []byte) *head {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
	if err != nil || r.Close || len(r.TransferEncoding) > 0 || r.ContentLength < 0 || r.Host == "" || strings.ContainsFunc(r.Host, notInHost) {
		return nil
	}
	if f.loopback && !isLoopback(r.Host) {
		return nil
	}
	h := &head{text: text, length: int(r.ContentLength), request: r, gzip: services.AcceptsGzip(r.Header.Values("Accept-Encoding"))}
	// With the scope ingest a body may be longer than BodyLimit, but such a request is not plain.
	if int64(h.length) != r.ContentLength || r.ContentLength > min(f.queries.cfg.BodyLimit, maxFrontRequest) {
		return nil
	}
	for name := range r.Header {
		if f.loopback && wasForwarded(name) {
			return nil
		}
		h.forwarded = h.forwarded || name == "X-Forwarded-For"
		h.unique = h.unique || slices.Contains(uniqueHeaders, strings.ToLower(name))
	}
	// queries.Do calls the same functions, so that the headers are the same.
	answer := &recorder{header: http.Header{}}
	w := newRequest(answer, r)
	h.id = w.id
	f.queries.origins.writeCORSHeaders(w, r)
	if _, err := f.queries.checkRequest(r); err != nil || checkMedia(r) != nil {
		return nil
	}
	// An answer as an event stream is left to the HTTP server.
	h.answerForm.accepted, h.answerForm.acceptsEvents = negotiate(r.Header.Values("Accept"), f.queries.sockets != nil)
	if h.answerForm.accepted != typeJSON && h.answerForm.accepted != typeResponse {
		return nil
	}
	setContentHeaders(answer.header, h.answerForm.accepted)
	h.answerLines = appendHeader([]byte("HTTP/1.1 200 OK\r\n"), answer.header)
	return h
}

// checkMedia returns an error for a body that is not JSON. A foreign page can send some content types without a preflight
// request, but never JSON. So this check also prevents forged requests.
func checkMedia(r *http.Request) error {
	content := r.Header.Get("Content-Type")
	if len(content) > maxMediaHeader {
		return &httpError{http.StatusUnsupportedMediaType, "Content-Type: up to " + strconv.Itoa(maxMediaHeader) + " bytes are allowed", maxMediaHeader}
	}
	media, details, err := mime.ParseMediaType(content)
	if charset := details["charset"]; err != nil || media != typeJSON || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return &httpError{http.StatusUnsupportedMediaType, "Content-Type: only application/json in UTF-8 is allowed", 0}
	}
	return nil
}

// identify returns the head with the caller of its token, and remembers it; nil if the token is refused. Only heads with a good
// token are remembered, so nobody can fill the memory without a token.
func (f *Front) identify(h *head, request services.Request) *head {
	if h.caller != nil {
		return h
	}
	token, err := bearer(h.request.Header)
	if err != nil || token == "" {
		return nil
	}
	identity := f.queries.cfg.Identity
	// keysVersion is called before the check: if the keys are reloaded during the check, stillValid is false, and the token is checked
	// again.
	keys := identity.keysVersion()
	ctx := services.WithRequest(h.request.Context(), request)
	viewer, expires, err := identity.Viewer(ctx, token, h.request.Header.Get(actAsHeader), h.request.Header.Get(deviceHeader))
	if err != nil {
		return nil
	}
	// known is a copy, because other connections that sent the same bytes may use the head without a caller.
	known := *h
	// The context has the viewer and no data of this request, because other requests will use it.
	known.caller = &frontCaller{viewer, services.WithViewer(context.Background(), viewer), expires, keys}
	if !known.unique {
		f.heads.put(known.text, &known, headOverhead+len(known.text))
	}
	return &known
}

// headOverhead is the approximate memory of a head in addition to its texts.
const headOverhead = 1 << 10
