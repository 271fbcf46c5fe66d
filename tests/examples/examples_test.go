// Package examples runs the programs of docs/examples beside the real server, as a reader does.
package examples

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"tidings/tests/world"
	"tidings/web/browsertest"
)

func TestMain(m *testing.M) { os.Exit(browsertest.Main(func() int { return world.Main(m) })) }

const maxProcessingWait = 2 * time.Minute // the longest wait until everything is processed, on a busy machine

// buildProgram builds the program of a folder.
func buildProgram(t *testing.T, folder string) string {
	t.Helper()
	folder = filepath.Join(world.RepositoryRoot(), folder)
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files { // so that Go's test cache knows that the test depends on the files
		if _, err := os.Stat(filepath.Join(folder, file.Name())); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "program")
	if err := world.BuildProgram(folder, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// freeAddress returns an unused address, on which a program can listen again after it was killed.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// askTidings sends a request to Tidings with a token of the application, for the user with the key if it is not "", and reads the data of
// the answer into a value.
func (b *tidingsAndHost) askTidings(key, query string, variables map[string]any, into any) error {
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "test", "scope": "ingest admin", "exp": time.Now().Add(time.Minute).Unix()}).
		SignedString([]byte(world.TestSecret))
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return err
	}
	headers := http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + token}}
	if key != "" {
		headers.Set("Tidings-Act-As", key)
	}
	var answer world.Answer
	if _, err := sendRequest(http.MethodPost, "http://"+b.tidingsAddress+"/graphql", headers, body, &answer); err != nil {
		return err
	}
	if len(answer.Errors) > 0 {
		return fmt.Errorf("%s (%s)", answer.Errors[0].Message, answer.ErrorCode())
	}
	return json.Unmarshal(answer.Data, into)
}

var httpClient = &http.Client{Timeout: 20 * time.Second}

// sendRequest sends a request and reads the JSON of a success into a value. The status is 0 if there was no answer.
func sendRequest(method, url string, headers http.Header, body []byte, into any) (status int, err error) {
	request, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header = headers
	response, err := httpClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode == http.StatusOK && into != nil {
		err = json.Unmarshal(text, into)
	}
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%d: %s", response.StatusCode, text)
	}
	return response.StatusCode, err
}
