package services

import (
	"errors"
	"slices"
	"strings"
)

// RefTypes are the types whose objects can have an ID of the host application's own, a ref.
var RefTypes = []string{PostType, ShowType, MessageType, ConversationType, SiteMessageType, AnnouncementType, HostNotificationType}

// Object is an object of one of RefTypes, by its number: a PostID, a ConversationID or a MessageID.
type Object struct {
	Type   string
	Number uint64 // unique among the objects of its type
}

// GlobalID is the ID of the object in the API.
func (o Object) GlobalID() string {
	if o.Type == ConversationType {
		return ConversationID(o.Number).GlobalID()
	}
	return GlobalID(o.Type, SortableID(o.Number).String())
}

// ParseObject parses the ID of an object whose type is in RefTypes. field names the argument in the error, which is INVALID.
func ParseObject(field, id string) (Object, error) {
	kind, _, _ := strings.Cut(id, ":")
	switch kind {
	case ConversationType:
		conversation, err := ParseConversationID(field, id)
		return Object{kind, uint64(conversation)}, err
	case MessageType:
		message, err := ParseMessageID(field, id)
		return Object{kind, uint64(message)}, err
	}
	if !slices.Contains(RefTypes, kind) {
		return Object{}, Errorf(Invalid, "%s: %s is not the id of an object that can have a ref", field, Quote(id))
	}
	number, err := ParseTypedID(field, id, kind)
	return Object{kind, uint64(number)}, err
}

// Ref is the host application's own ID of an object. It is unique for the type.
type Ref struct{ Type, Text string }

// refPrefix stands between the type and the ref in an ID that names an object by its ref.
const refPrefix = "ref:"

// GlobalID is the form of a ref in IDs: type:ref:TEXT, with the text escaped by escapeKey.
func (r Ref) GlobalID() string { return r.Type + ":" + refPrefix + escapeKey(r.Text) }

// IsRef reports whether an ID claims to name an object by its ref.
func IsRef(id string) bool {
	kind, rest, _ := strings.Cut(id, ":")
	return strings.HasPrefix(rest, refPrefix) && slices.Contains(RefTypes, kind)
}

// ParseRef parses an ID for which IsRef is true. It accepts only the form that Ref.GlobalID returns. field names the argument in
// the error, which is INVALID.
func ParseRef(field, id string) (Ref, error) {
	kind, rest, _ := strings.Cut(id, ":")
	text, err := UnescapeKey(strings.TrimPrefix(rest, refPrefix))
	if err == nil {
		err = CheckRef(text)
	}
	if err != nil {
		return Ref{}, Errorf(Invalid, "%s: %s", field, err)
	}
	return Ref{kind, text}, nil
}

// CheckRef returns an error for a ref that is not valid: a ref has 1 to 128 printable characters, by the rules of user keys.
func CheckRef(ref string) error {
	err := checkKey("ref", ref)
	// The message does not begin with the argument, so Argument is set here.
	if wrong, ok := errors.AsType[*Error](err); ok {
		wrong.Argument = "ref"
	}
	return err
}

// Label is the data that the host application attached to an object. The zero value is no label.
type Label struct {
	Ref  string // "" for none
	URL  string // "" for none
	Data string // a JSON object; "" for none
}

// maxLabelDataBytes bounds the data of a label, in bytes of JSON without white space.
const maxLabelDataBytes = 4 << 10

// CheckLabelData returns an error for data that is not valid: data is a JSON object of at most maxLabelDataBytes bytes. "" stands
// for none.
func CheckLabelData(data string) error {
	switch {
	case data == "":
	// The caller has parsed and compacted the data, so the first byte tells.
	case data[0] != '{':
		return Errorf(Invalid, "data: it must be a JSON object")
	case len(data) > maxLabelDataBytes:
		return Errorf(Invalid, "data: at most %d bytes are allowed, got %d", maxLabelDataBytes, len(data))
	}
	return nil
}
