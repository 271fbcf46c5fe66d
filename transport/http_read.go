package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"tidings/services"
)

// read reads the request's parameters. limit is the most bytes of a body. The query of a URL is always limited to BodyLimit, also
// with the scope ingest.
func (q *httpTransport) read(w http.ResponseWriter, r *http.Request, limit int64) (request *requestParams, err error) {
	if r.Method == http.MethodGet {
		request, err = readURL(r.URL, q.cfg.BodyLimit)
	} else {
		request, err = q.readBody(w, r, limit)
	}
	if err == nil {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the deadline for reading the request would end the operation too
	}
	return request, err
}

// readBody reads a POST. A body that is too long is refused with 413, one that is too slow with 408, and one that is cut off with
// 400. At most limit bytes are read, so the length in the header need not be trusted.
func (q *httpTransport) readBody(w http.ResponseWriter, r *http.Request, limit int64) (*requestParams, error) {
	if err := checkContentType(r); err != nil {
		return nil, err
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, limit)); err != nil {
		if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
			return nil, &httpError{http.StatusRequestEntityTooLarge, "body: up to " + strconv.FormatInt(limit, 10) + " bytes are allowed", int(limit)}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, &httpError{http.StatusRequestTimeout, "body: did not arrive in time", 0}
		}
		return nil, services.Wrapf(services.Invalid, err, "body: it ended early")
	}
	// This comes before the parser, which would replace bytes that are not UTF-8 by a character that nobody sent.
	if err := services.CheckUnicode("body", body.Bytes()); err != nil {
		return nil, err
	}
	return parseParams(body.Bytes(), "body", q.cfg.BodyLimit)
}

// readURL reads a GET. If a parameter comes twice, the first counts.
func readURL(address *url.URL, limit int64) (*requestParams, error) {
	if int64(len(address.RawQuery)) > limit {
		return nil, &httpError{http.StatusRequestURITooLong, "URL: a query part of up to " + strconv.FormatInt(limit, 10) + " bytes is allowed", int(limit)}
	}
	values, err := url.ParseQuery(address.RawQuery)
	if err != nil {
		return nil, services.Errorf(services.Invalid, "URL: the query part is not well formed")
	}
	// Texts in GraphQL are UTF-8. A text of other bytes would be stored, but answers would show it as a different text.
	for name := range values {
		if !utf8.ValidString(values.Get(name)) {
			return nil, services.Errorf(services.Invalid, "URL: not valid UTF-8")
		}
	}
	request := &requestParams{documentID: values.Get("documentId")}
	request.OperationName = values.Get("operationName")
	request.Query = strings.Clone(values.Get("query")) // caches keep this text: a substring would keep the whole request line in memory
	for _, name := range []string{"variables", "extensions"} {
		if err := services.CheckUnicode(name, []byte(values.Get(name))); err != nil {
			return nil, err
		}
	}
	if request.Variables, err = parseObject([]byte(values.Get("variables")), "variables"); err != nil {
		return nil, err
	}
	if request.Extensions, err = parseObject([]byte(values.Get("extensions")), "extensions"); err != nil {
		return nil, err
	}
	return request, request.check()
}

// parseParams reads the five parameters of a GraphQL request from JSON. limit bounds the bytes of all parameters except the
// variables, because the query is parsed and remembered: the longer limit of ingest is for events, which are variables. The error
// names the parameter and repeats none of its content. what is the name of the text in errors: body, or payload for a message.
func parseParams(text []byte, what string, limit int64) (*requestParams, error) {
	// The parts stay raw, so that an error can name the wrong part.
	var parts struct {
		Query         json.RawMessage `json:"query"`
		DocumentID    json.RawMessage `json:"documentId"`
		OperationName json.RawMessage `json:"operationName"`
		Variables     json.RawMessage `json:"variables"`
		Extensions    json.RawMessage `json:"extensions"`
	}
	// The text null is valid JSON for a struct, but no request. If a member comes twice, the last counts: unlike in a token, both
	// come from the client itself.
	if json.Unmarshal(text, &parts) != nil || isAbsentOrNull(text) {
		return nil, services.Errorf(services.Invalid, "%s: not a JSON object", what)
	}
	if int64(len(text)-len(parts.Variables)) > limit {
		return nil, &httpError{http.StatusRequestEntityTooLarge, what + ": without its variables up to " + strconv.FormatInt(limit, 10) + " bytes are allowed", int(limit)}
	}
	request := &requestParams{}
	for _, part := range []struct {
		name string
		text json.RawMessage
		into *string
	}{{"query", parts.Query, &request.Query}, {"documentId", parts.DocumentID, &request.documentID}, {"operationName", parts.OperationName, &request.OperationName}} {
		if !isAbsentOrNull(part.text) && json.Unmarshal(part.text, part.into) != nil {
			return nil, services.Errorf(services.Invalid, "%s: must be a text", part.name)
		}
	}
	var err error
	if request.Variables, err = parseObject(parts.Variables, "variables"); err != nil {
		return nil, err
	}
	if request.Extensions, err = parseObject(parts.Extensions, "extensions"); err != nil {
		return nil, err
	}
	return request, request.check()
}

// checkQueryEscapes refuses half of a surrogate pair in a query. The strings of a query have the escapes of JSON, and the lexer
// would replace the half: two different keys could become equal. Block strings have no escapes, so a query with block strings is
// left to the parser.
func checkQueryEscapes(query string) error {
	if strings.IndexByte(query, '\\') < 0 || strings.Contains(query, `"""`) {
		return nil
	}
	return services.CheckUnicode("query", []byte(query))
}

// parseObject reads a JSON object that may be absent or null. Numbers stay texts, because an ID can have more digits than a
// float64 holds.
func parseObject(text []byte, what string) (map[string]any, error) {
	if isAbsentOrNull(text) {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var object map[string]any
	if decoder.Decode(&object) == nil && object != nil {
		if _, err := decoder.Token(); err == io.EOF { // nothing may follow it
			return object, nil
		}
	}
	return nil, services.Errorf(services.Invalid, "%s: must be a JSON object", what)
}

// isAbsentOrNull reports whether a part of a JSON text is absent or null, which mean the same in a request.
func isAbsentOrNull(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) == 0 || string(text) == "null"
}
