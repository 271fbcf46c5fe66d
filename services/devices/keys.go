package devices

import (
	"crypto/ecdh"
	"encoding/base64"
	"net/url"
	"strings"

	webpush "github.com/SherClockHolmes/webpush-go"

	"tidings/services"
)

// VAPIDKeys are the VAPID keys of the installation: push services recognize its messages by them.
type VAPIDKeys struct {
	Private, Public string // base64url
	Subject         string // the address at which a push service reaches the operator: mailto: or https:
}

// NewVAPIDKeys makes a pair of keys, once for an installation: with other keys every browser has to subscribe again.
func NewVAPIDKeys() (private, public string, err error) { return webpush.GenerateVAPIDKeys() }

// ParseVAPIDKeys reads the private key and derives the public one, so that an operator cannot give a pair that does not match. It does
// not check the subject, as checkVAPIDSubject does. reason says why the key is invalid, for the setting's error; "" if it is valid.
func ParseVAPIDKeys(private, subject string) (keys VAPIDKeys, reason string) {
	raw, err := decodeBase64(private)
	if err != nil {
		return VAPIDKeys{}, "it must be base64url, as tidings vapid prints it"
	}
	key, err := ecdh.P256().NewPrivateKey(raw)
	if err != nil {
		return VAPIDKeys{}, "it is not a private key of P-256: 32 bytes as base64url are expected, as tidings vapid prints them"
	}
	public := base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes())
	return VAPIDKeys{Private: base64.RawURLEncoding.EncodeToString(raw), Public: public, Subject: subject}, ""
}

// checkVAPIDSubject returns the reason why a subject is invalid; "" if it is valid. Some push services refuse messages with a wrong
// subject, but only when the first is sent.
func checkVAPIDSubject(subject string) string {
	at, err := url.Parse(subject)
	_, host, mail := strings.Cut(subject, "@")
	switch {
	case err == nil && at.Scheme == "https" && at.Host != "":
		return ""
	case err == nil && at.Scheme == "mailto" && mail && host != "" && !strings.ContainsAny(subject, " <>"):
		return ""
	}
	return services.Quote(subject) + " is not an address of the operator, by which a push service can reach them: mailto:NAME@HOST or https://HOST is expected"
}

// decodeBase64 reads base64, of either alphabet and with padding or without: browsers and their helpers differ. Strict refuses spare
// bits at the end, so that one key has one text.
func decodeBase64(text string) ([]byte, error) {
	text = strings.NewReplacer("+", "-", "/", "_").Replace(strings.TrimRight(text, "="))
	return base64.RawURLEncoding.Strict().DecodeString(text)
}

const (
	publicKeyLength  = 65 // bytes of the browser's public key, an uncompressed point
	authSecretLength = 16 // bytes of the secret that a browser shares with its senders
)

// checkKeys checks the keys of a subscription, and returns them in the one form from which the hash is made. A bad key that is
// only found later would make every message fail for a day.
func checkKeys(p256dh, auth string) (point, secret string, err error) {
	raw, err := decodeBase64(p256dh)
	if err != nil {
		return "", "", services.Errorf(services.Invalid, "p256dh: it is not base64url: getKey(\"p256dh\") of the subscription is expected")
	}
	if len(raw) != publicKeyLength {
		return "", "", services.Errorf(services.Invalid, "p256dh: %d bytes are expected, got %d", publicKeyLength, len(raw))
	}
	if _, err := ecdh.P256().NewPublicKey(raw); err != nil {
		return "", "", services.Errorf(services.Invalid, "p256dh: it is not a public key: an uncompressed point of P-256 is expected")
	}
	short, err := decodeBase64(auth)
	if err != nil {
		return "", "", services.Errorf(services.Invalid, "auth: it is not base64url: getKey(\"auth\") of the subscription is expected")
	}
	if len(short) != authSecretLength {
		return "", "", services.Errorf(services.Invalid, "auth: %d bytes are expected, got %d", authSecretLength, len(short))
	}
	return base64.RawURLEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(short), nil
}

// subscriber is the subject in the form that the library takes: the library adds mailto: itself.
func subscriber(subject string) string { return strings.TrimPrefix(subject, "mailto:") }
