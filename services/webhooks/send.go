package webhooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// sender makes the requests.
type sender struct {
	encrypted, plain http.RoundTripper
	timeout          time.Duration
}

const (
	mostRead   = 16 << 10    // bytes of an answer
	longestAsk = time.Hour   // that a receiver may ask for by Retry-After
	longError  = 200         // characters
	idleFor    = time.Minute // of a connection
)

func newSender(allowed []netip.Prefix, timeout time.Duration, each int) *sender {
	transport := func(scheme string) *http.Transport {
		return &http.Transport{
			Proxy:       nil, // it would dial for us, and so past the check of addresses
			DialContext: dialer(scheme, allowed), ForceAttemptHTTP2: true, DisableCompression: true, MaxResponseHeaderBytes: mostRead,
			MaxIdleConnsPerHost: each, IdleConnTimeout: idleFor, TLSHandshakeTimeout: timeout,
		}
	}
	return &sender{encrypted: transport("https"), plain: transport("http"), timeout: timeout}
}

// closeIdle closes connections that nothing uses.
func (s *sender) closeIdle() {
	for _, one := range []http.RoundTripper{s.encrypted, s.plain} {
		if one, ok := one.(*http.Transport); ok {
			one.CloseIdleConnections()
		}
	}
}

// answer is what became of a request.
type answer struct {
	status int           // HTTP's; 0: there was no answer
	err    string        // why it counts as a failure; "" if it does not
	gone   bool          // the receiver wants no more events
	after  time.Duration // until when the receiver asks to wait; 0: it does not
	took   time.Duration
}

// post sends one event, signed by each of the secrets.
func (s *sender) post(ctx context.Context, to, id string, now time.Time, text []byte, secrets []string) (a answer) {
	began := time.Now()
	defer func() { a.took = time.Since(began) }()
	within := s.timeout
	if end, some := ctx.Deadline(); some {
		within = min(within, time.Until(end))
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(text))
	if err != nil {
		return answer{err: plainError(err)}
	}
	signature, err := sign(id, now, text, secrets)
	if err != nil {
		return answer{err: plainError(err)}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "Tidings")
	request.Header.Set(standardwebhooks.HeaderWebhookID, id)
	request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	request.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	over := s.encrypted
	if request.URL.Scheme != "https" {
		over = s.plain
	}
	// A round trip follows no redirect: its target would be chosen by whoever answers.
	got, err := over.RoundTrip(request)
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return answer{err: fmt.Sprintf("there was no answer within %s", within.Round(time.Millisecond))}
		}
		return answer{err: plainError(err)}
	}
	defer got.Body.Close()
	if got.ContentLength >= 0 && got.ContentLength <= mostRead {
		_, _ = io.Copy(io.Discard, got.Body) // so that the connection can be used again; what it says does not matter
	}
	return judge(got)
}

func judge(got *http.Response) answer {
	a := answer{status: got.StatusCode}
	switch {
	case got.StatusCode >= 200 && got.StatusCode < 300:
		return a
	case got.StatusCode >= 300 && got.StatusCode < 400:
		a.err = fmt.Sprintf("the receiver answered %d: redirects are not followed", got.StatusCode)
	case got.StatusCode == http.StatusGone:
		a.gone, a.err = true, "the receiver answered 410: it wants no more events"
	default:
		a.err = fmt.Sprintf("the receiver answered %d", got.StatusCode)
	}
	if seconds, err := strconv.Atoi(got.Header.Get("Retry-After")); err == nil && seconds > 0 {
		a.after = min(time.Duration(min(seconds, int(longestAsk/time.Second)))*time.Second, longestAsk)
	}
	return a
}

// sign is the header with the signatures, one for each secret: the receiver accepts any.
func sign(id string, now time.Time, text []byte, secrets []string) (string, error) {
	var signatures []string
	for _, secret := range secrets {
		by, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return "", errors.New("a secret cannot be read")
		}
		one, err := by.Sign(id, now, text)
		if err != nil {
			return "", err
		}
		signatures = append(signatures, one)
	}
	return strings.Join(signatures, " "), nil
}

// plainError is the text of an error without the address, which may hold a token.
func plainError(err error) string {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	text := strings.ToValidUTF8(err.Error(), "")
	if short := []rune(text); len(short) > longError {
		text = string(short[:longError])
	}
	return text
}
