package webhooks

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"tidings/services/outbound"
)

// sender makes the requests to endpoints. Its guard also checks the addresses of endpoints that are added.
type sender struct {
	guard  outbound.Guard
	client *outbound.Client
}

// answer is the outcome of a request. Its error may be shown to operators: it has neither the address nor the secrets.
type answer struct {
	status       int           // the HTTP status; 0: there was no answer
	err          string        // why it counts as a failure; "" if it does not
	receiverGone bool          // the receiver wants no more events
	retryAfter   time.Duration // how long the receiver asks to wait; 0: it does not
	took         time.Duration // how long the whole request took
}

// post sends one event, signed by each of the secrets.
func (s *sender) post(ctx context.Context, to, id string, now time.Time, text []byte, secrets []string) answer {
	got := s.client.Send(ctx, func(ctx context.Context) (*http.Request, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		// The event is signed in here, because signing may fail: the error then counts as the error of the request, and is shown.
		signature, err := sign(id, now, text, secrets)
		if err != nil {
			return nil, err
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("User-Agent", "Tidings")
		request.Header.Set(standardwebhooks.HeaderWebhookID, id)
		request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
		request.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
		return request, nil
	})
	a := answer{status: got.Status, err: got.Err, retryAfter: got.RetryAfter, took: got.Took}
	// By the specification, this answer means that the receiver wants no events. The endpoint rests until somebody replays it.
	if a.status == http.StatusGone {
		a.receiverGone, a.err = true, "the receiver answered 410: it wants no more events"
	}
	return a
}

// sign returns the header with the signatures, one for each secret: the receiver accepts any of them. So the receiver can change to the
// new secret at any time during the overlap.
func sign(id string, now time.Time, text []byte, secrets []string) (string, error) {
	var signatures []string
	for _, secret := range secrets {
		// The library's own error may contain a part of the secret.
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
