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

// httpError is an error with a status of its own; its code is INVALID. It is for the statuses that no code of services stands
// for, such as 413 and 415.
type httpError struct {
	status        int    // of HTTP
	message       string // what clients are shown
	exceededLimit int    // the limit that the request exceeds; 0: it exceeds none
}

// Error is the message that clients are shown.
func (e *httpError) Error() string { return e.message }

// statusOf is the status of a request that was refused before anything was executed. Errors of an operation that was executed have
// the status 200, see writeResponse.
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

// graphQLError is the GraphQL form of a service's error. It keeps the cause for the log and shows only the message.
func graphQLError(err error) *gqlerror.Error {
	known, ok := errors.AsType[*services.Error](err)
	if own, isOwn := errors.AsType[*httpError](err); isOwn {
		known = &services.Error{Code: services.Invalid, Message: own.message, Limit: own.exceededLimit}
	} else if !ok {
		known = &services.Error{Code: services.Internal, Message: err.Error()}
	}
	// With a cause, the text of err would repeat the cause: an engine's message, which may name tables or addresses.
	message := known.Message
	if ok && known.Cause == nil {
		message = err.Error() // the wrapping text is part of the message
	}
	shown := *known
	shown.Message = message // the wrapping text may name the argument
	return &gqlerror.Error{Err: err, Message: message, Extensions: shown.Extensions()}
}

// retryAfter is the time that a client is asked to wait; 0 if it is unknown.
func retryAfter(err error) time.Duration {
	if known, ok := errors.AsType[*services.Error](err); ok {
		return known.RetryAfter
	}
	return 0
}

// asList returns an error of services in the form of all refusals: a list with one GraphQL error.
func asList(err error) gqlerror.List { return gqlerror.List{graphQLError(err)} }

// withCodes adds the documented code to the errors of parsing and validation. The wrapped error has it too, so that a presenter
// that looks for a services.Error finds one. An error that has a code of ours already keeps it.
func withCodes(list gqlerror.List) gqlerror.List {
	coded := make(gqlerror.List, len(list))
	for i, fault := range list {
		// The executor may keep the error, so a copy is changed.
		copied := *fault
		code, _ := fault.Extensions["code"].(string)
		switch code {
		// gqlgen has codes of its own, which are not in the closed list of documented codes.
		case "", errcode.ParseFailed, errcode.ValidationFailed:
			copied.Extensions = maps.Clone(fault.Extensions)
			if copied.Extensions == nil {
				copied.Extensions = map[string]any{}
			}
			known := &services.Error{Code: services.Invalid, Message: faultyVariablePrefix(fault) + fault.Message, Reason: fault.Rule}
			maps.Copy(copied.Extensions, known.Extensions())
			copied.Err = known
		}
		coded[i] = &copied
	}
	return coded
}

// faultyVariablePrefix returns the name of a faulty variable, with the path in its value, because the message alone has neither; ""
// for another fault.
func faultyVariablePrefix(fault *gqlerror.Error) string {
	if len(fault.Path) < 2 || fault.Path[0] != ast.PathName("variable") {
		return ""
	}
	return "$" + fault.Path[1:].String() + ": "
}

// writeFault answers a request that was not executed. The answer is plain JSON, whatever the client accepts: a client that cannot
// read it still has the status. w is an httpRequest.
func writeFault(w http.ResponseWriter, status int, err error) {
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if wait := retryAfter(err); wait > 0 { // the header has whole seconds, rounded up
		w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	}
	write(w, status, typeJSON, appendResponse(nil, withRequestID(w, &graphql.Response{Errors: asList(err)})))
}

// writeResponse answers a well-formed request. A request error has the status 200 in plain JSON, whose clients read the body, and
// 400 in the newer media type, whose clients read the status. A long answer is compressed if the client accepts gzip.
func writeResponse(w http.ResponseWriter, r *http.Request, accepted string, response *graphql.Response) {
	status := http.StatusOK
	if accepted == typeResponse && isRequestError(response) {
		status = http.StatusBadRequest
	}
	// The body is encoded before the status is sent, because withRequestID sets a header.
	body := appendResponse(nil, withRequestID(w, response))
	if len(body) < minGzipSize || !services.AcceptsGzip(r.Header.Values("Accept-Encoding")) {
		write(w, status, accepted, body)
		return
	}
	w.Header().Set("Content-Encoding", "gzip") // without Vary, because no cache may store the answer
	write(w, status, accepted, gzipBody(body))
}

// boundResponse returns the response or, if it is too long, an error in its place. In the common case, short data without errors, the
// length is known without encoding. For a mutation the error says that it has been executed.
func boundResponse(kind ast.Operation, response *graphql.Response, limit int) *graphql.Response {
	size := len(response.Data)
	// Errors and extensions are part of the answer too, and may be longer than the data.
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

// isRequestError reports whether a response is what the specification calls a request error: nothing was executed, so there is no
// data, not even null. A response with field errors has data.
func isRequestError(response *graphql.Response) bool {
	return len(response.Data) == 0 && len(response.Errors) > 0
}

// write sends a whole body with its length, so that the Front can keep the connection.
func write(w http.ResponseWriter, status int, media string, body []byte) {
	setContentHeaders(w.Header(), media)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // nothing can be sent to a client that is gone
}

// setContentHeaders sets the headers of every answer in a media type. The Front calls it too.
func setContentHeaders(header http.Header, media string) {
	header.Set("Content-Type", media+"; charset=utf-8")
	header.Set("Cache-Control", "no-store") // every answer belongs to one viewer
	header.Set("X-Content-Type-Options", "nosniff")
}

// appendResponse writes a response as JSON. The common case, data without errors, is only copied. gqlgen's own encoding would check
// all of it again, and would write data even for a request error. Errors come first, as the specification recommends for people who
// read answers.
func appendResponse(to []byte, response *graphql.Response) []byte {
	to = append(to, '{')
	if len(response.Errors) > 0 {
		to = appendJSONMember(to, "errors", shortenErrors(response.Errors))
	}
	// A request error has no member data. Any other response has it, as null if there is no data.
	if !isRequestError(response) {
		to = appendJSONName(to, "data")
		if len(response.Data) == 0 {
			to = append(to, "null"...)
		} else {
			to = append(to, response.Data...)
		}
	}
	if len(response.Extensions) > 0 {
		to = appendJSONMember(to, "extensions", response.Extensions)
	}
	return append(to, '}')
}

// Errors can repeat parts of the request: values, and names that the schema does not have. They repeat only as much as
// people need to find the place.
const (
	maxErrorWordBytes    = 100 // bytes of a word; a quotation counts as one word
	maxErrorMessageBytes = 400 // bytes of a message
)

// shortenErrors returns the errors with shortened messages, which repeat no long part of a request. The list is copied only if a
// message is cut.
func shortenErrors(list gqlerror.List) gqlerror.List {
	var cut gqlerror.List
	for i, fault := range list {
		message := shortenMessage(fault.Message)
		if message == fault.Message {
			continue
		}
		if cut == nil {
			cut = slices.Clone(list) // other goroutines may hold the list and its errors
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

// shortenMessage cuts a message, and the long words and quotations in it. A cut never splits a character.
func shortenMessage(message string) string {
	if len(message) <= maxErrorWordBytes {
		return message
	}
	var short []byte
	for rest := message; rest != ""; {
		word := firstWord(rest)
		rest = rest[len(word):]
		if len(word) > maxErrorWordBytes {
			word = strings.ToValidUTF8(word[:maxErrorWordBytes-len(ellipsis)], "") + ellipsis
		}
		short = append(short, word...)
	}
	if len(short) > maxErrorMessageBytes {
		return strings.ToValidUTF8(string(short[:maxErrorMessageBytes-len(ellipsis)]), "") + ellipsis
	}
	return string(short)
}

// ellipsis marks a cut. Its length counts in the bounds above.
const ellipsis = "..."

// firstWord returns the text up to the first space outside a quotation, or that space if the text begins with it. It is empty
// only for an empty text. A backslash in a quotation escapes the next character.
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

// appendJSONName appends the name of a member, after a comma unless it is the first. to ends within an object.
func appendJSONName(to []byte, name string) []byte {
	if to[len(to)-1] != '{' {
		to = append(to, ',')
	}
	to = append(to, '"')
	to = append(to, name...)
	return append(to, '"', ':')
}

// appendJSONMember appends a member with any value.
func appendJSONMember(to []byte, name string, value any) []byte {
	text, err := json.Marshal(value)
	if err != nil { // an extension that cannot be encoded: never the client's fault
		text = []byte(`null`)
	}
	return append(appendJSONName(to, name), text...)
}
