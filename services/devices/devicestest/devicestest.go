// Package devicestest has a push service for tests, and browsers that subscribe to it. The service checks every request as a push
// service does, by RFC 8030 and RFC 8292, and decrypts the message as a browser does, by RFC 8291. Its code is independent of the
// product's.
package devicestest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"time"
)

// b64 is the base64 encoding of all texts of Web Push.
var b64 = base64.RawURLEncoding

// Browser is a subscription of one browser. It gives the exported fields to the application; the private key stays in the
// browser.
type Browser struct {
	Endpoint     string // the address to send messages for the browser to
	P256dh, Auth string // the browser's public key and authSecret, as text

	privateKey *ecdh.PrivateKey
	authSecret []byte // what the browser shares with the application, by RFC 8291
}

// NewBrowser makes a browser that has subscribed at an address, with keys of its own.
func NewBrowser(endpoint string) *Browser {
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	auth := make([]byte, 16)
	_, _ = rand.Read(auth) // never fails
	return &Browser{
		Endpoint: endpoint, P256dh: b64.EncodeToString(key.PublicKey().Bytes()), Auth: b64.EncodeToString(auth), privateKey: key, authSecret: auth,
	}
}

// Message is the text for a service worker: the total of a user's badges, and the item that alerts. Its fields are those of message in
// package devices. It is declared here once more, so that a change of that declaration is found.
type Message struct {
	Version, UserID string
	Total           int
	Display         string
	Silent          bool
	Alert           *string
	Cause           *struct {
		Source, ItemID string
		Part           *string
		At             time.Time
	}
}

// By RFC 8188, the header has a salt, the size of records, and the sender's public key. The tag is the tag of AES-GCM.
const (
	bodyHeaderBytes = 86 // 16 of salt, 4 of the size, 1 of the key's length, 65 of the key
	gcmTagBytes     = 16
	maxBodyBytes    = 4096 // bytes that a push service takes
)

// Decrypt reads the body of a request, by RFC 8291 and RFC 8188. A field that Message does not have is an error.
func (b *Browser) Decrypt(body []byte) (m Message, err error) {
	if len(body) < bodyHeaderBytes+gcmTagBytes+1 || len(body) > maxBodyBytes {
		return m, fmt.Errorf("a body of %d bytes", len(body))
	}
	// The header of RFC 8188: salt, size of a record, length of the key, key.
	salt, size, point := body[:16], binary.BigEndian.Uint32(body[16:20]), body[21:bodyHeaderBytes]
	if body[20] != 65 || int(size) < len(body)-bodyHeaderBytes {
		return m, fmt.Errorf("a header with a key of %d bytes and records of %d", body[20], size)
	}
	sender, err := ecdh.P256().NewPublicKey(point)
	if err != nil {
		return m, err
	}
	secret, err := b.privateKey.ECDH(sender)
	if err != nil {
		return m, err
	}
	// The shared secret of both keys and the browser's auth secret give the key of the text and its nonce.
	info := slices.Concat([]byte("WebPush: info\x00"), b.privateKey.PublicKey().Bytes(), point)
	ikm, err := hkdf.Key(sha256.New, secret, b.authSecret, string(info), 32)
	if err != nil {
		return m, err
	}
	key, keyErr := hkdf.Key(sha256.New, ikm, salt, "Content-Encoding: aes128gcm\x00", 16)
	nonce, nonceErr := hkdf.Key(sha256.New, ikm, salt, "Content-Encoding: nonce\x00", 12)
	if err := errors.Join(keyErr, nonceErr); err != nil {
		return m, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return m, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return m, err
	}
	text, err := gcm.Open(nil, nonce, body[bodyHeaderBytes:], nil)
	if err != nil {
		return m, err
	}
	// The text of a record ends with the byte 2 and zeros, which are the padding.
	text = []byte(strings.TrimRight(string(text), "\x00"))
	if len(text) == 0 || text[len(text)-1] != 2 {
		return m, errors.New("the text has no end")
	}
	decoder := json.NewDecoder(strings.NewReader(string(text[:len(text)-1])))
	decoder.DisallowUnknownFields()
	return m, decoder.Decode(&m)
}

// CheckVAPID checks the Authorization header of a request to an origin, by RFC 8292: its token is signed by the key, is for this
// origin and for a day at most, and has an address of the operator, which CheckVAPID returns. It verifies with the standard
// library alone, so that an error of the library that signs is found.
func CheckVAPID(header, public, origin string) (subject string, err error) {
	rest, some := strings.CutPrefix(header, "vapid ")
	if !some {
		return "", fmt.Errorf("the header is %q", header)
	}
	values := map[string]string{}
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		values[name] = value
	}
	if values["k"] != public {
		return "", fmt.Errorf("the key is %q", values["k"])
	}
	raw, err := b64.DecodeString(values["k"])
	if err != nil {
		return "", fmt.Errorf("the key is %q", values["k"])
	}
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), raw)
	if err != nil {
		return "", err
	}
	parts := strings.Split(values["t"], ".")
	if len(parts) != 3 {
		return "", fmt.Errorf("the token is %q", values["t"])
	}
	// ES256: the two numbers of the signature, 32 bytes each.
	signature, err := b64.DecodeString(parts[2])
	if err != nil || len(signature) != 64 {
		return "", fmt.Errorf("the signature is %q", parts[2])
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if !ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])) {
		return "", errors.New("the signature is not the key's")
	}
	var head struct{ Alg, Typ string }
	var claims struct {
		Aud, Sub string
		Exp      int64
	}
	if err := errors.Join(decodeTokenPart(parts[0], &head), decodeTokenPart(parts[1], &claims)); err != nil {
		return "", err
	}
	left := time.Until(time.Unix(claims.Exp, 0))
	if head.Alg != "ES256" || claims.Aud != origin || left <= 0 || left > 24*time.Hour {
		return "", fmt.Errorf("%+v, %+v at %s", head, claims, origin)
	}
	return claims.Sub, nil
}

// decodeTokenPart reads a part of a JSON Web Token.
func decodeTokenPart(part string, into any) error {
	text, err := b64.DecodeString(part)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// checkHeaders returns an error for a wrong header of a request, apart from VAPID's.
func checkHeaders(r *http.Request) error {
	for name, want := range map[string]string{"Content-Encoding": "aes128gcm", "TTL": "2419200"} {
		if got := r.Header.Get(name); got != want {
			return fmt.Errorf("%s is %q", name, got)
		}
	}
	if got := r.Header.Get("Topic"); len(got) != 32 {
		return fmt.Errorf("the Topic is %q: 32 characters are expected", got)
	}
	if got := r.Header.Get("Urgency"); got != "normal" && got != "high" {
		return fmt.Errorf("the Urgency is %q", got)
	}
	return nil
}

// ReadRequest checks and decrypts a request to a browser's endpoint at an origin.
func (b *Browser) ReadRequest(r *http.Request, body []byte, public, origin string) (m Message, err error) {
	if err := checkHeaders(r); err != nil {
		return m, err
	}
	if subject, err := CheckVAPID(r.Header.Get("Authorization"), public, origin); err != nil || subject != "mailto:ops@example.com" {
		return m, fmt.Errorf("the subject is %q: %w", subject, err)
	}
	if m, err = b.Decrypt(body); err != nil {
		return m, err
	}
	if urgent := r.Header.Get("Urgency") == "high"; urgent == m.Silent {
		return m, fmt.Errorf("silent is %v and Urgency %q", m.Silent, r.Header.Get("Urgency"))
	}
	return m, nil
}
