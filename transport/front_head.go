package transport

import (
	"bufio"
	"bytes"
	"context"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"tidings/services"
)

// head is the head of a plain request, with everything that follows from it alone. It is shared and does not change.
type head struct {
	text      []byte
	length    int           // of the body
	request   *http.Request // without its body, context and address
	to        answering
	gzip      bool   // the client accepts it
	answer    []byte // the first lines of the answer's head
	forwarded bool   // the address is in a header
	once      bool   // no other request has the same head
	id        string // that the client gave to the request

	caller *frontCaller // nil until the token was checked
}

// frontCaller is the caller that the token of a request names.
type frontCaller struct {
	viewer  services.Viewer
	ctx     context.Context // has the viewer
	expires time.Time       // zero is never
	keys    any             // what the token was checked with
}

// headOf returns the head of a request, nil for one that is not plain.
func (f *Front) headOf(text []byte) *head {
	if known, ok := f.heads.get(text); ok {
		if known.caller == nil || f.queries.cfg.Identity.holds(known.caller) {
			return known
		}
		unchecked := *known
		unchecked.caller = nil
		return &unchecked
	}
	if !plainHead(text[len(frontStart):]) {
		return nil
	}
	return f.readHead(bytes.Clone(text))
}

// specialHeaders change what a request means, or how it is read. headersOnce have a value of their own in each request.
var (
	specialHeaders = []string{
		"connection", "content-encoding", "expect", "http2-settings", "keep-alive", "proxy-authorization", "proxy-connection", "range", "te", "trailer",
		"transfer-encoding", "upgrade", strings.ToLower(streamTokenHeader), "traceparent",
	}
	headersOnce = []string{strings.ToLower(requestHeader)}
)

// plainHead reports whether all lines of a head are headers in their usual form, each of them once, and none is special.
func plainHead(lines []byte) bool {
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

func notInName(c byte) bool {
	return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-')
}

func notInValue(c byte) bool { return c < ' ' || c > '~' }

func notDigit(c byte) bool { return c < '0' || c > '9' }

func notInHost(c rune) bool {
	return notInName(byte(c)) && c != '.' && c != ':' && c != '[' && c != ']' || c > '~'
}

// readHead reads a head as the HTTP server does, and applies the checks that need nothing else; nil if one refuses it.
func (f *Front) readHead(text []byte) *head {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
	if err != nil || r.Close || len(r.TransferEncoding) > 0 || r.ContentLength < 0 || r.Host == "" || strings.ContainsFunc(r.Host, notInHost) {
		return nil
	}
	if f.loopback && !isLoopback(r.Host) {
		return nil
	}
	h := &head{text: text, length: int(r.ContentLength), request: r, gzip: services.AcceptsGzip(r.Header.Values("Accept-Encoding"))}
	if int64(h.length) != r.ContentLength || r.ContentLength > min(f.queries.cfg.BodyLimit, frontLongest) {
		return nil
	}
	for name := range r.Header {
		if f.loopback && wasForwarded(name) {
			return nil
		}
		h.forwarded = h.forwarded || name == "X-Forwarded-For"
		h.once = h.once || slices.Contains(headersOnce, strings.ToLower(name))
	}
	answer := &recorder{header: http.Header{}}
	w := newRequest(answer, r)
	h.id = w.id
	f.queries.origins.grant(w, r)
	if _, err := f.queries.refuses(r); err != nil || checkMedia(r) != nil {
		return nil
	}
	h.to.accepted, h.to.events = negotiate(r.Header.Values("Accept"), f.queries.sockets != nil)
	if h.to.accepted != typeJSON && h.to.accepted != typeResponse {
		return nil
	}
	describe(answer.header, h.to.accepted)
	h.answer = appendHeader([]byte("HTTP/1.1 200 OK\r\n"), answer.header)
	return h
}

// checkMedia returns an error for a body that is not JSON. A foreign page can send some content types without a preflight
// request, but never JSON. So this check also prevents forged requests.
func checkMedia(r *http.Request) error {
	media, details, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if charset := details["charset"]; err != nil || media != typeJSON || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return &httpError{http.StatusUnsupportedMediaType, "Content-Type: only application/json in UTF-8 is allowed", 0}
	}
	return nil
}

// identified returns the head with the bearer of its token, and remembers it; nil if the token is refused.
func (f *Front) identified(h *head, request services.Request) *head {
	if h.caller != nil {
		return h
	}
	token, err := bearer(h.request.Header)
	if err != nil || token == "" {
		return nil
	}
	identity := f.queries.cfg.Identity
	keys := identity.keysNow()
	ctx := services.WithRequest(h.request.Context(), request)
	viewer, expires, err := identity.Viewer(ctx, token, h.request.Header.Get(actAsHeader), h.request.Header.Get(deviceHeader))
	if err != nil {
		return nil
	}
	known := *h
	known.caller = &frontCaller{viewer, services.WithViewer(context.Background(), viewer), expires, keys}
	if !known.once {
		f.heads.put(known.text, &known, headBytes+len(known.text))
	}
	return &known
}

// headBytes is about the memory of a head beside its texts.
const headBytes = 1 << 10
