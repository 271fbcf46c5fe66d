// Package outbound makes requests to addresses that others have named: webhooks, push services. It has what such requests
// share: the guard of addresses, the client, and the times between attempts.
//
// It guarantees that no request goes to an address that is neither public nor allowed, whatever its name resolves to when it is
// dialled; that no redirect is followed, because the receiver would choose its target; and that a request ends within its time.
//
// The path of a request: CheckURL refuses a bad address when it is named. Client.Send builds the request, and its dialer asks
// the guard again, by the address that the name resolved to. answerOf turns the HTTP response into the Answer that the caller
// keeps.
//
// On failure: the answer says what went wrong in a text without the address, which may hold a token. Nothing is repeated
// here: the callers keep the messages in SQL, and RetryPause gives the time until the next attempt.
package outbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
)

const (
	// A longer answer is not read: it costs a connection, not memory.
	maxAnswerBytes        = 16 << 10    // bytes of an answer
	maxRetryAfter         = time.Hour   // the longest wait that a receiver may ask for by Retry-After
	maxErrorLength        = 200         // the most characters of an error's text
	idleConnectionTimeout = time.Minute // how long an unused connection is kept
	// maxIdleConnections is how many unused connections to all hosts together are kept: each is an open file, and users name hosts.
	maxIdleConnections = 1024
	// firstRetryPause is the pause after the first failure. It is so short that a receiver's restart causes hardly any delay.
	firstRetryPause = 5 * time.Second
)

// RetryFor is how long after its first attempt a message is still retried.
const RetryFor = 24 * time.Hour

// These are the longest pauses between attempts, and the number of failures that makes a receiver count as failing as a whole.
const (
	LongestRetryPause = time.Hour       // the longest time between two attempts for one message
	LongestDownPause  = 5 * time.Minute // the longest time between two requests to a receiver that fails as a whole
	FailuresUntilDown = 5               // how many failures in a row show that a receiver fails as a whole
)

// RetryPause returns the time to wait after a failure; failures is the number of failures before it. The time doubles with each
// failure, up to most, and is shortened by up to a fifth so that attempts do not come together. The bound of the shift keeps it
// from overflowing.
func RetryPause(failures int, most time.Duration) time.Duration {
	long := min(firstRetryPause<<min(failures, 20), most)
	return long - rand.N(long/5)
}

// Client makes requests. It is safe for concurrent use. It has a transport for each scheme, because the guard must know when
// it dials whether the connection is going to be encrypted.
type Client struct {
	tlsTransport, plaintextTransport *http.Transport // for https, and for http
	timeout                          time.Duration   // the longest that one request may take
	maxIdleConnections               int64
	connections, requests            atomic.Int64 // open connections, and requests under way
}

// dialFunc connects to an address.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// NewClient makes a client. timeout bounds a request; each is the number of idle connections kept open to one host.
func NewClient(guard Guard, timeout time.Duration, each int) *Client {
	return newClient(guard.dialer, timeout, each)
}

// newClient makes a client that connects by the functions that dialer returns for "https" and "http".
func newClient(dialer func(scheme string) dialFunc, timeout time.Duration, each int) *Client {
	c := &Client{timeout: timeout, maxIdleConnections: maxIdleConnections}
	transport := func(scheme string) *http.Transport {
		return &http.Transport{
			Proxy:       nil, // a proxy would dial instead of the client, so no address would be checked
			DialContext: c.countConnections(dialer(scheme)), ForceAttemptHTTP2: true, DisableCompression: true, MaxResponseHeaderBytes: maxAnswerBytes,
			MaxIdleConnsPerHost: each, IdleConnTimeout: idleConnectionTimeout, TLSHandshakeTimeout: timeout,
		}
	}
	c.tlsTransport, c.plaintextTransport = transport("https"), transport("http")
	return c
}

// countConnections returns a function that connects by dial, and counts the connections until they are closed.
func (c *Client) countConnections(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c.connections.Add(1)
		return &countedConn{Conn: conn, closed: sync.OnceFunc(func() { c.connections.Add(-1) })}, nil
	}
}

// countedConn is a connection that is counted until it is closed.
type countedConn struct {
	net.Conn
	closed func() // counts the first Close
}

// Close closes the connection.
func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// CloseIdle closes connections that nothing uses.
func (c *Client) CloseIdle() {
	c.tlsTransport.CloseIdleConnections()
	c.plaintextTransport.CloseIdleConnections()
}

// Answer is the outcome of a request.
type Answer struct {
	Status     int           // the status of the HTTP response; 0: there was no response
	Err        string        // why it counts as a failure; "" for a status of 200 to 299
	RetryAfter time.Duration // how long the receiver asks to wait; 0: it does not ask
	Took       time.Duration // how long Send took
}

// Send makes one request, within the client's time or the deadline of ctx if that is sooner. build makes a new request, so
// that its signature has the time of this attempt; its error counts as a failure of the request.
func (c *Client) Send(ctx context.Context, build func(ctx context.Context) (*http.Request, error)) (a Answer) {
	began := time.Now()
	defer func() { a.Took = time.Since(began) }()
	c.requests.Add(1)
	defer c.requests.Add(-1)
	// Transport.MaxIdleConns would not do: it leaves connections of HTTP/2 open. Several requests may share one of those, so there may
	// be more idle connections than the difference, by as many as there are requests at most.
	if c.connections.Load()-c.requests.Load() >= c.maxIdleConnections {
		c.CloseIdle()
	}
	within := c.timeout
	if end, some := ctx.Deadline(); some {
		within = min(within, time.Until(end))
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	request, err := build(ctx)
	if err != nil {
		return Answer{Err: errorWithoutAddress(err)}
	}
	over := c.tlsTransport
	if request.URL.Scheme != "https" {
		over = c.plaintextTransport
	}
	got, err := over.RoundTrip(request) // a round trip follows no redirect
	if err != nil {
		// The transport's own error would say "context deadline exceeded", which tells an operator nothing.
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return Answer{Err: fmt.Sprintf("there was no answer within %s", within.Round(time.Millisecond))}
		}
		return Answer{Err: errorWithoutAddress(err)}
	}
	defer got.Body.Close()
	// A body of unknown or great length is left unread; closing it closes the connection.
	if got.ContentLength >= 0 && got.ContentLength <= maxAnswerBytes {
		_, _ = io.Copy(io.Discard, got.Body) // so that the connection can be used again; the content does not matter
	}
	return answerOf(got)
}

// answerOf converts an HTTP response to an Answer: only a status from 200 to 299 is a success.
func answerOf(got *http.Response) Answer {
	a := Answer{Status: got.StatusCode}
	switch {
	case got.StatusCode >= 200 && got.StatusCode < 300:
		return a
	case got.StatusCode >= 300 && got.StatusCode < 400:
		a.Err = fmt.Sprintf("the receiver answered %d: redirects are not followed", got.StatusCode)
	default:
		a.Err = fmt.Sprintf("the receiver answered %d", got.StatusCode)
	}
	a.RetryAfter = retryAfter(got.Header)
	return a
}

// retryAfter returns the wait that a receiver asks for in the header Retry-After: seconds, or a time by the receiver's own clock.
func retryAfter(header http.Header) time.Duration {
	text := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(seconds, 0), int(maxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	// The receiver's clock may be wrong by hours, but the difference of its two times is right.
	now, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// errorWithoutAddress returns the text of an error without the address, which may hold a token. It has only printable characters,
// because a receiver can influence it: the names in its certificate may have other characters, and PostgreSQL refuses a NUL.
func errorWithoutAddress(err error) string {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	text := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, strings.ToValidUTF8(err.Error(), ""))
	if short := []rune(text); len(short) > maxErrorLength {
		text = string(short[:maxErrorLength])
	}
	return text
}
