package transport

import (
	"encoding/json"
	"strconv"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"tidings/services"
)

// The close codes of graphql-transport-ws.
const (
	closeBadMessage           = 4400 // not a message of the protocol
	closeUnauthorized         = 4401 // subscribe before the acknowledgement
	closeForbidden            = 4403 // the token is not valid or has expired, or its user was erased
	closeSubprotocol          = 4406 // the client does not speak graphql-transport-ws
	closeInitTimeout          = 4408 // no connection_init in time
	closeDuplicateOperationID = 4409 // subscribe with an id that is in use
	closeTooManyRequests      = 4429 // a second connection_init; also too many messages or sockets, as 429 in HTTP
)

// The types of messages.
const (
	messageInit      = "connection_init"
	messageAck       = "connection_ack"
	messagePing      = "ping"
	messagePong      = "pong"
	messageSubscribe = "subscribe"
	messageNext      = "next"
	messageError     = "error"
	messageComplete  = "complete"
)

const maxOperationIDBytes = 128 // bytes of an operation's id; clients use counters and UUIDs

// message is a checked message of a client. Only the fields of its kind are set.
//
// Its texts are copies: the socket reuses the memory of the message as soon as it is handled.
type message struct {
	kind        string         // its type: messageInit or another of the constants message...
	id          string         // the operation's ID, in subscribe and complete
	params      *requestParams // the operation, in subscribe
	initPayload map[string]any // the payload of connection_init; nil if absent
	pingPayload []byte         // the payload of ping or pong, unparsed; nil if absent
}

// parseMessage reads one message of a client. An error describes the fault for people, repeats nothing of the message, and means
// that the socket must be closed with 4400. Members that the protocol does not have are ignored, because some clients add them.
func parseMessage(text []byte) (message, error) {
	var parts struct {
		// Pointers distinguish an absent member from an empty one.
		Type    *string         `json:"type"`
		ID      *string         `json:"id"`
		Payload json.RawMessage `json:"payload"`
	}
	if err := services.CheckUnicode("message", text); err != nil {
		return message{}, err
	}
	if isAbsentOrNull(text) || json.Unmarshal(text, &parts) != nil {
		return message{}, badMessage("not a JSON object with strings as type and id")
	}
	if parts.Type == nil {
		return message{}, badMessage("type is missing")
	}
	read := message{kind: *parts.Type}
	var err error
	switch read.kind {
	case messageInit:
		read.initPayload, err = parseObject(parts.Payload, "payload")
		return read, err
	// The payload of a ping or a pong must be an object, and is returned as it came.
	case messagePing, messagePong:
		if _, err = parseObject(parts.Payload, "payload"); err == nil && !isAbsentOrNull(parts.Payload) {
			read.pingPayload = parts.Payload
		}
		return read, err
	// subscribe and complete have the ID of an operation, which is read below.
	case messageSubscribe, messageComplete:
	default:
		return message{}, badMessage("type is not one that a client sends")
	}
	// Without the bound, a client could store long texts as IDs, each of which is compared with the ID of every later message.
	if parts.ID == nil || *parts.ID == "" || len(*parts.ID) > maxOperationIDBytes {
		return message{}, badMessage("id: 1 to " + strconv.Itoa(maxOperationIDBytes) + " bytes are needed")
	}
	read.id = *parts.ID
	if read.kind == messageSubscribe {
		read.params, err = parseParams(parts.Payload, "payload", int64(len(text))) // MaxMessageBytes has bounded the whole message
	}
	return read, err
}

// badMessage is the error for a message that is not one of the protocol.
func badMessage(what string) error { return services.Errorf(services.Invalid, "message: %s", what) }

// credentials returns the token and the device in the payload of connection_init. Browsers cannot set the headers of an upgrade,
// so the payload carries their values. Client libraries use both spellings of authorization.
func credentials(payload map[string]any) (token, device string, err error) {
	for _, name := range []string{"authorization", "Authorization"} {
		// The first spelling with a token counts.
		if token, err = textMember(payload, name); token != "" || err != nil {
			break
		}
	}
	if err == nil {
		device, err = textMember(payload, "device")
	}
	return withoutBearerPrefix(token), device, err
}

// withoutBearerPrefix removes "Bearer " from a token. Some applications send the value of their header, others the token alone.
func withoutBearerPrefix(token string) string {
	const scheme = "bearer "
	if len(token) > len(scheme) && lowerASCII(token[:len(scheme)]) == scheme {
		return token[len(scheme):]
	}
	return token
}

// lowerASCII is text with its ASCII letters in lower case. strings.ToLower would also turn some other characters, such as the
// Kelvin sign, into ASCII letters.
func lowerASCII(text string) string {
	lower := []byte(text)
	for i, c := range lower {
		if c >= 'A' && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return string(lower)
}

// textMember is a member of the payload that must be a text; "" if it is absent or null.
func textMember(payload map[string]any, name string) (string, error) {
	value, given := payload[name]
	if !given || value == nil {
		return "", nil
	}
	text, ok := value.(string)
	if !ok {
		return "", services.Errorf(services.Invalid, "%s: must be a text", name)
	}
	return text, nil
}

// appendNext writes a message of the type next, which has a response of an operation. The append functions for messages are written by
// hand, because every push uses them: the data is JSON already and is only copied.
func appendNext(to []byte, id string, response *graphql.Response) []byte {
	to = append(appendMessageHead(to, messageNext, id), `,"payload":`...)
	return append(appendResponse(to, response), '}')
}

// appendError writes a message of the type error, which ends the operation.
func appendError(to []byte, id string, list gqlerror.List) []byte {
	return append(appendJSONMember(appendMessageHead(to, messageError, id), "payload", shortenErrors(list)), '}')
}

// appendComplete writes a message of the type complete, which ends the operation.
func appendComplete(to []byte, id string) []byte {
	return append(appendMessageHead(to, messageComplete, id), '}')
}

// appendMessageHead writes the first part of a message: all but the payload and the last brace.
func appendMessageHead(to []byte, kind, id string) []byte {
	to = append(append(append(to, `{"type":"`...), kind...), '"')
	if id == "" {
		return to
	}
	return appendJSONString(append(to, `,"id":`...), id)
}

// appendJSONString writes a JSON text. A text without special characters, as most operation IDs are, is only copied.
func appendJSONString(to []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, err := json.Marshal(text)
			if err != nil {
				panic(err) // a string can always be encoded
			}
			return append(to, quoted...)
		}
	}
	to = append(to, '"')
	to = append(to, text...)
	return append(to, '"')
}
