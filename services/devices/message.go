package devices

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	webpush "github.com/SherClockHolmes/webpush-go"

	"tidings/services"
	"tidings/services/outbound"
	"tidings/services/stream"
)

const (
	// messageTTL is how long a push service keeps a message for a browser that is off: the longest time that push services accept.
	// The message has the newest number however old it is, until the next message replaces it.
	messageTTL = 28 * 24 * time.Hour
	// topicLength is the length of the topic of a message, the greatest that push services accept.
	topicLength = 32
	// Messages are padded to one size, so that their length says nothing. The second size is for the longest keys of users, and
	// is the greatest that push services accept.
	usualPaddedBytes, maxPaddedBytes = 1024, 4096
	encryptionOverhead               = 86 + 16 + 1 // the header of RFC 8188, the tag, the end of the text
)

// message is the text for a service worker, as JSON. The fields have the names of BadgeChange in the schema. It is small: push
// services take 4 KB with the encryption.
type message struct {
	Version string      `json:"version"` // of the change
	UserID  string      `json:"userId"`
	Total   int         `json:"total"`
	Display string      `json:"display"` // the total as text
	Silent  bool        `json:"silent"`  // this change does not alert
	Alert   *string     `json:"alert"`   // the version of the last alert whose item is still unread; a state, unlike Silent
	Cause   *alertCause `json:"cause"`   // the item of Alert; nil without one
}

// alertCause is the newest item that alerts.
type alertCause struct {
	Source services.Source `json:"source"`
	Part   *string         `json:"part"`   // nil if the source has no parts
	ItemID string          `json:"itemId"` // its global ID
	At     string          `json:"at"`     // when it was made, in RFC 3339
}

// changeAlerts reports whether a change alerts a user who was alerted of everything up to the version heard. In quiet hours no change
// does.
func changeAlerts(change stream.Change, heard uint64) bool {
	return !change.Silent(heard)
}

// needsMessage reports whether a device gets a change: if it is the first that it gets, if the total changed, or if the change alerts.
// A device that is not silent gets only changes that alert, because browsers show a notice for every message to it.
func (r deviceRow) needsMessage(change stream.Change) bool {
	loud := changeAlerts(change, max(r.deliveredVersion, r.alertedUpTo))
	if !r.silent && !loud {
		return false
	}
	return r.deliveredVersion == 0 || change.State.Total.ChangedVersion > r.deliveredVersion || loud
}

// messageFor is the message about a change for a device. Silent is about this change; Alert is a state: the service worker may have
// missed a message that was replaced, and compares versions.
func (r deviceRow) messageFor(change stream.Change) message {
	state := change.State
	m := message{
		Version: stream.VersionText(change.Seq), UserID: services.GlobalID(services.UserType, change.Key), Total: state.Total.Value,
		Display: state.Total.Display, Silent: !changeAlerts(change, max(r.deliveredVersion, r.alertedUpTo)),
	}
	// In quiet hours an alert is shown only if the device already has the alert's version.
	if newest, loud := state.NewestAlert(r.alertedUpTo), state.NewestAlertVersion(); newest != nil && (!state.Quiet || loud <= r.deliveredVersion) {
		alert := stream.VersionText(loud)
		m.Alert, m.Cause = &alert, &alertCause{Source: newest.Source, ItemID: newest.ID, At: newest.At.UTC().Format("2006-01-02T15:04:05.000Z")}
		if part := newest.Part; part != "" {
			m.Cause.Part = &part
		}
	}
	return m
}

// topic makes a message replace the one that the push service still has for the browser, also after the browser has changed hands.
// Nobody without the browser's keys has the same topic.
func (r deviceRow) topic() string { return r.hash[:topicLength] }

// errRequestCaptured is what a requestCapture returns to the webpush library, so that the library makes a request and does not send
// it: Service.client sends it, which refuses addresses that are not public.
var errRequestCaptured = errors.New("the request is made")

// requestCapture is the HTTP client that the webpush library gets: it keeps the request, which Service.client sends.
type requestCapture struct{ request *http.Request }

// Do keeps the request, and sends nothing.
func (b *requestCapture) Do(request *http.Request) (*http.Response, error) {
	b.request = request
	return nil, errRequestCaptured
}

// send sends a message to a device, once.
func (s *Service) send(ctx context.Context, r deviceRow, m message) outbound.Answer {
	return s.client.Send(ctx, func(ctx context.Context) (*http.Request, error) {
		text, err := json.Marshal(m)
		if err != nil {
			return nil, err
		}
		size, urgency := uint32(usualPaddedBytes), webpush.UrgencyHigh
		if len(text) > usualPaddedBytes-encryptionOverhead {
			size = maxPaddedBytes
		}
		if m.Silent {
			urgency = webpush.UrgencyNormal // this message need not wake a device whose battery is low
		}
		var made requestCapture
		// The library encrypts and signs; the requestCapture in place of its client keeps it from sending.
		got, err := webpush.SendNotificationWithContext(ctx, text, &webpush.Subscription{Endpoint: r.endpoint, Keys: webpush.Keys{Auth: r.auth, P256dh: r.p256dh}}, &webpush.Options{
			HTTPClient: &made, RecordSize: size, Subscriber: subscriber(s.keys.Subject), Topic: r.topic(), TTL: int(messageTTL / time.Second), Urgency: urgency,
			VAPIDPublicKey: s.keys.Public, VAPIDPrivateKey: s.keys.Private,
		})
		if got != nil {
			_ = got.Body.Close() // there is no response: the requestCapture returns an error
		}
		// The keys of the browser were checked at its registration, so an error is rare here.
		if made.request == nil {
			return nil, err
		}
		made.request.Header.Set("User-Agent", "Tidings")
		return made.request, nil
	})
}
