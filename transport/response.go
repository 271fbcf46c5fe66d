package transport

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
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
	code, message := services.CodeOf(err), err.Error()
	if own, ok := errors.AsType[*httpError](err); ok {
		code, message = services.Invalid, own.message
	} else if known, ok := errors.AsType[*services.Error](err); ok && known.Cause != nil {
		message = known.Message
	}
	shown := &gqlerror.Error{Err: err, Message: message, Extensions: map[string]any{"code": string(code)}}
	if wait := retryAfter(err); wait > 0 {
		shown.Extensions["retryAfterMs"] = wait.Milliseconds()
	}
	return shown
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
			copied.Extensions["code"] = string(services.Invalid)
			copied.Err = &services.Error{Code: services.Invalid, Message: variable(fault) + fault.Message}
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
	write(w, status, typeJSON, appendResponse(nil, &graphql.Response{Errors: asList(err)}))
}

// writeResponse answers a request that was understood. What is wrong with the operation itself is told with
// 200 in plain JSON, where clients look at the body, and with 400 in the newer type, where they look at the status.
func writeResponse(w http.ResponseWriter, accepted string, response *graphql.Response) {
	status := http.StatusOK
	if accepted == typeResponse && isRequestError(response) {
		status = http.StatusBadRequest
	}
	write(w, status, accepted, appendResponse(nil, response))
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
		to = appendField(to, "errors", response.Errors)
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
