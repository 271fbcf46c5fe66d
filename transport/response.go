package transport

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"tidings/services"
)

// httpError is a fault with a status of its own; its code is INVALID.
type httpError struct {
	status  int
	message string
	limit   int // 0: it is about none
}

func (e *httpError) Error() string { return e.message }

// statusOf is the status of a request that was refused before anything was executed.
func statusOf(err error) int {
	if own, ok := errors.AsType[*httpError](err); ok {
		return own.status
	}
	switch services.CodeOf(err) {
	case services.Unauthenticated:
		return http.StatusUnauthorized
	case services.Forbidden:
		return http.StatusForbidden
	case services.NotFound:
		return http.StatusNotFound
	case services.Conflict:
		return http.StatusConflict
	case services.RateLimited:
		return http.StatusTooManyRequests
	case services.Unavailable:
		return http.StatusServiceUnavailable
	case services.Internal:
		return http.StatusInternalServerError
	default:
		return http.StatusBadRequest
	}
}

// faultError is an error of ours in GraphQL's form. It keeps the cause for the log and shows the message alone.
func faultError(err error) *gqlerror.Error {
	known, ok := errors.AsType[*services.Error](err)
	if own, isOwn := errors.AsType[*httpError](err); isOwn {
		known = &services.Error{Code: services.Invalid, Message: own.message, Limit: own.limit}
	} else if !ok {
		known = &services.Error{Code: services.Internal, Message: err.Error()}
	}
	message := known.Message
	if ok && known.Cause == nil {
		message = err.Error() // what wraps it belongs to the message
	}
	shown := *known
	shown.Message = message // the argument may stand in what wraps it
	return &gqlerror.Error{Err: err, Message: message, Extensions: shown.Extensions()}
}

// retryAfter is how long a client is asked to wait; 0 says nothing.
func retryAfter(err error) time.Duration {
	if known, ok := errors.AsType[*services.Error](err); ok {
		return known.RetryAfter
	}
	return 0
}

func asList(err error) gqlerror.List { return gqlerror.List{faultError(err)} }

// withCodes gives the errors of parsing and validation the code that we document. The error within carries it
// too, so that a presenter which looks for services.Error finds it.
func withCodes(list gqlerror.List) gqlerror.List {
	coded := make(gqlerror.List, len(list))
	for i, fault := range list {
		copied := *fault
		code, _ := fault.Extensions["code"].(string)
		switch code {
		case "", errcode.ParseFailed, errcode.ValidationFailed:
			copied.Extensions = maps.Clone(fault.Extensions)
			if copied.Extensions == nil {
				copied.Extensions = map[string]any{}
			}
			known := &services.Error{Code: services.Invalid, Message: variable(fault) + fault.Message, Reason: fault.Rule}
			maps.Copy(copied.Extensions, known.Extensions())
			copied.Err = known
		}
		coded[i] = &copied
	}
	return coded
}

// variable names the variable whose value is at fault, and the place in it: the message alone says only what kind of
// value it cannot be.
func variable(fault *gqlerror.Error) string {
	if len(fault.Path) < 2 || fault.Path[0] != ast.PathName("variable") {
		return ""
	}
	return "$" + fault.Path[1:].String() + ": "
}

// writeFault answers a request that was not executed.
func writeFault(w http.ResponseWriter, status int, err error) {
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if wait := retryAfter(err); wait > 0 { // a header in whole seconds, rounded up
		w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	}
	write(w, status, typeJSON, appendResponse(nil, stamped(w, &graphql.Response{Errors: asList(err)})))
}

// writeResponse answers a request that was understood. What is wrong with the operation itself is told with
// 200 in plain JSON, where clients look at the body, and with 400 in the newer type, where they look at the status.
func writeResponse(w http.ResponseWriter, accepted string, response *graphql.Response) {
	status := http.StatusOK
	if accepted == typeResponse && isRequestError(response) {
		status = http.StatusBadRequest
	}
	write(w, status, accepted, appendResponse(nil, stamped(w, response)))
}

// bounded is the response, or the error that takes the place of one that is too long. Nothing of that one is sent.
func bounded(kind ast.Operation, response *graphql.Response, limit int) *graphql.Response {
	size := len(response.Data)
	if size <= limit && len(response.Errors)+len(response.Extensions) > 0 {
		size = len(appendResponse(nil, response))
	}
	if size <= limit {
		return response
	}
	advice := "ask for fewer fields or smaller pages"
	if kind == ast.Mutation {
		advice = "the mutation has been executed"
	}
	return &graphql.Response{Errors: asList(services.Errorf(services.Invalid, "answer: %d bytes, up to %d are allowed: %s", size, limit, advice))}
}

// isRequestError says that nothing was executed: such a response has no data, not even null.
func isRequestError(response *graphql.Response) bool {
	return len(response.Data) == 0 && len(response.Errors) > 0
}

func write(w http.ResponseWriter, status int, media string, body []byte) {
	header := w.Header()
	header.Set("Content-Type", media+"; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Cache-Control", "no-store") // every answer is one viewer's
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that went away is told nothing
}

// appendResponse writes a response as JSON. The common one, data and nothing else, costs a copy; gqlgen's own
// encoding would check the whole of it again, and would write data where there must be none.
func appendResponse(to []byte, response *graphql.Response) []byte {
	to = append(to, '{')
	if len(response.Errors) > 0 {
		to = appendField(to, "errors", brief(response.Errors))
	}
	if !isRequestError(response) {
		to = appendName(to, "data")
		if len(response.Data) == 0 {
			to = append(to, "null"...)
		} else {
			to = append(to, response.Data...)
		}
	}
	if len(response.Extensions) > 0 {
		to = appendField(to, "extensions", response.Extensions)
	}
	return append(to, '}')
}

// Errors can repeat what was sent: the values, and the names that are not the schema's. They repeat no more of it than
// a person needs to find the place.
const (
	maxWord    = 100 // bytes of a part without a space, quotations being one part
	maxMessage = 400 // bytes of a message
)

// brief is the list with messages that repeat no long part of a request.
func brief(list gqlerror.List) gqlerror.List {
	var cut gqlerror.List
	for i, fault := range list {
		message := shortened(fault.Message)
		if message == fault.Message {
			continue
		}
		if cut == nil {
			cut = slices.Clone(list) // others may hold the list, and its errors
		}
		copied := *fault
		copied.Message = message
		cut[i] = &copied
	}
	if cut == nil {
		return list
	}
	return cut
}

// shortened cuts a message, and the long words and quotations in it.
func shortened(message string) string {
	if len(message) <= maxWord {
		return message
	}
	var short []byte
	for rest := message; rest != ""; {
		word := firstWord(rest)
		rest = rest[len(word):]
		if len(word) > maxWord {
			word = strings.ToValidUTF8(word[:maxWord-len(ellipsis)], "") + ellipsis
		}
		short = append(short, word...)
	}
	if len(short) > maxMessage {
		return strings.ToValidUTF8(string(short[:maxMessage-len(ellipsis)]), "") + ellipsis
	}
	return string(short)
}

const ellipsis = "..."

// firstWord is what a text begins with up to its first space that stands in no quotation; or that space.
func firstWord(text string) string {
	quoted := false
	for end := 0; end < len(text); end++ {
		switch {
		case text[end] == '"':
			quoted = !quoted
		case text[end] == '\\' && quoted:
			end++
		case text[end] == ' ' && !quoted:
			return text[:max(end, 1)]
		}
	}
	return text
}

func appendName(to []byte, name string) []byte {
	if to[len(to)-1] != '{' {
		to = append(to, ',')
	}
	to = append(to, '"')
	to = append(to, name...)
	return append(to, '"', ':')
}

func appendField(to []byte, name string, value any) []byte {
	text, err := json.Marshal(value)
	if err != nil { // an extension that is no JSON: never of the client's making
		text = []byte(`null`)
	}
	return append(appendName(to, name), text...)
}
