// Package outboundtest provides receivers for tests of requests to addresses that others have named.
package outboundtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// StartServerWithNames starts a server whose certificate is for the given names and not for localhost, and returns its address:
// https://localhost and a port. The error of a request to the server contains these names, which can have any ASCII characters. The
// test's end stops the server.
func StartServerWithNames(t testing.TB, names ...string) (address string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: names, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the error about the untrusted certificate is expected
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
}

// AnswerGarbage writes a text to the connection in place of an HTTP answer, and closes the connection.
func AnswerGarbage(to http.ResponseWriter, text string) {
	connection, _, err := http.NewResponseController(to).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = connection.Write([]byte(text))
	_ = connection.Close()
}
