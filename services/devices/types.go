package devices

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	"tidings/services"
)

// The limits of devices.
const (
	MaxDevices    = 20 // of one user; a further device replaces the one registered longest ago
	maxNameLength = 64 // characters
)

// Device is a browser that a user has registered, as its user sees it. It has neither its keys nor its hash.
type Device struct {
	ID           string
	Name         string // "" for none
	Endpoint     string // the URL at its push service to which its messages are sent
	Silent       bool   // it also takes messages that show nothing
	RegisteredAt time.Time
	DeliveredAt  time.Time // zero: never
	FailingSince time.Time // zero: it does not fail
	Error        string    // of the last failure since the last delivery
}

// NewDevice is a device to register.
type NewDevice struct {
	Endpoint, P256dh, Auth string // as in the browser's PushSubscription
	Name                   string // the application's name for the device; "" for none
	Silent                 bool   // it also takes messages that show nothing
}

// hashOf is the primary key of a device's row. It includes the browser's encryption keys: an endpoint with other keys is another device,
// so that a stranger who knows an endpoint can neither take it over nor learn that somebody registered it.
func hashOf(endpoint, p256dh, auth string) string {
	sum := sha256.Sum256([]byte(endpoint + " " + p256dh + " " + auth))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// idOf is the global ID of a device. It differs for each user of one browser, so that an ID never passes to another user, and it
// does not reveal the endpoint.
func idOf(user services.UserID, hash string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", user, hash))
	return services.GlobalID(services.DeviceType, base64.RawURLEncoding.EncodeToString(sum[:16]))
}

// ParseID checks that id is a global ID of a device, and returns it as it is. The error is INVALID for anything else; field names the
// argument in it.
func ParseID(field, id string) (string, error) {
	kind, key, err := services.SplitGlobalID(id)
	if err != nil {
		return "", services.WithArgument(field, err)
	}
	if raw, err := base64.RawURLEncoding.Strict().DecodeString(key); kind != services.DeviceType || err != nil || len(raw) != 16 {
		return "", services.Errorf(services.Invalid, "%s: %s is not an ID of a device", field, services.Quote(id))
	}
	return id, nil
}

// deviceRow is a device with the fields that the deviceSender needs. See the table's migration for its columns.
type deviceRow struct {
	hash                          string // the key of the row: a hash of the endpoint and the keys (hashOf)
	user                          services.UserID
	endpoint                      string
	pushServiceHost               string    // the host of the endpoint
	p256dh, auth                  string    // the browser's keys, with which its messages are encrypted
	vapidPublicKey                string    // the public key of the server with which the browser subscribed
	silent                        bool      // it also takes messages that show nothing
	registeredAt                  int64     // in microseconds, as the statements compare it
	deliveredVersion, alertedUpTo uint64    // the version that the device has, and the one up to which items do not alert
	wantedVersion                 uint64    // the version of the user's newest change
	consecutiveFailures           int       // failures in a row
	undeliveredSince              time.Time // when it first failed, or first waited for a socket to close
}
