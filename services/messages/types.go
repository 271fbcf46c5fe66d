package messages

import (
	"slices"
	"strings"
	"time"

	"tidings/services"
)

// ID is the identity and position of a message: a greater ID is newer. 0 is before every message. It holds the time of sending,
// so expiry and digests compare IDs and read no times.
type ID services.SortableID

// MaxID is after every message that can exist.
const MaxID = ID(services.MaxSortableID)

// ParseID reads the output of GlobalID. field names the argument in the error.
func ParseID(field, id string) (ID, error) {
	value, err := services.ParseTypedID(field, id, services.SiteMessageType)
	return ID(value), err
}

// GlobalID is the ID as the API shows it.
func (id ID) GlobalID() string {
	return services.GlobalID(services.SiteMessageType, services.SortableID(id).String())
}

// DeliveryReportID is the ID of the message's report in the API.
func (id ID) DeliveryReportID() string {
	return services.GlobalID(services.ReportType, services.SortableID(id).String())
}

// ParseDeliveryReportID reads the output of DeliveryReportID. field names the argument in the error.
func ParseDeliveryReportID(field, id string) (ID, error) {
	value, err := services.ParseTypedID(field, id, services.ReportType)
	return ID(value), err
}

// Int64 is the ID as SQL keeps it.
func (id ID) Int64() int64 { return int64(id) }

// Time is when the ID was made, to the millisecond, in UTC.
func (id ID) Time() time.Time { return services.SortableID(id).Time() }

// Message is a message from the host application to users, as one recipient has it.
type Message struct {
	ID ID
	// Type is set when the message is sent and never changes: rows of recipients repeat it, for their index.
	Type      string
	Title     string    // 1 to 255 characters
	Content   string    // up to 64 KB
	CreatedAt time.Time // to the microsecond
	UpdatedAt time.Time // the last change of the text; CreatedAt if there was none
	ReadAt    time.Time // when the user marked it read; zero while it is unread
}

// SentMessage is a message as its sender sees it. Both counts are of the existing rows: while a message to many is being delivered,
// Recipients grows. Rows of erased users are gone, so it may also fall.
type SentMessage struct {
	Message    Message // without ReadAt
	Recipients int     // users that it was delivered to
	ReadCount  int     // those of them who have read it
}

// unreadState is a user's absolute state of one type of messages: a lower version is an older state. The version rises in the
// transaction that changes which messages are unread, under the lock of the state's row.
type unreadState struct {
	User    services.UserID
	Type    string
	Version uint64
	Unread  int                // counted up to services.MaxCountedSiteMessages + 1
	Days    services.DayCounts // of the unread messages: OlderCount and CountByDay add up to Unread
}

// documentState is the part of a state that a document shows.
func (s unreadState) documentState() services.MessageTypeState {
	return services.MessageTypeState{Type: s.Type, Version: s.Version, Unread: s.Unread, UnreadByDay: s.Days}
}

// The limits of a message.
const (
	maxTitle   = 255      // characters
	maxContent = 64 << 10 // bytes
	// maxRecipients bounds the recipients of one call, and so how many jobs a mark may have to look through: see maxChunksPerMessage.
	maxRecipients = 10_000
)

// Text is the text and the type of a message. Check it before it is stored: SQL has no bounds of its own.
type Text struct {
	Type    string // "" is the default: the first that is configured
	Title   string
	Content string
}

// Check sets the type of a text that has none, and reports whether a message can have this text, given the existing types.
func (t *Text) Check(types []string) error {
	if t.Type == "" {
		t.Type = types[0]
	}
	if err := checkType(t.Type, types); err != nil {
		return err
	}
	if err := checkTitle(t.Title); err != nil {
		return err
	}
	return checkContent(t.Content)
}

// checkTitle reports whether a title is valid: 1 to 255 characters that are not all white space.
func checkTitle(title string) error { return services.CheckFilled("title", title, maxTitle) }

// checkContent reports whether a content is valid: UTF-8 without NUL, up to 64 KB.
func checkContent(content string) error {
	// Bytes are counted before characters are checked, so that a text of megabytes is not walked.
	if len(content) > maxContent {
		return services.Errorf(services.Invalid, "content: up to %d bytes are allowed, got %d", maxContent, len(content))
	}
	return services.CheckText("content", content, 0, maxContent)
}

// checkType reports whether a type is configured.
func checkType(kind string, types []string) error {
	if slices.Contains(types, kind) {
		return nil
	}
	return services.Errorf(services.Invalid, "type: %s is not a type of site messages: %s", services.Quote(kind), strings.Join(types, ", "))
}

// CheckRecipients returns INVALID unless one call may name this number of recipients.
func CheckRecipients(count int) error {
	if count == 0 || count > maxRecipients {
		return services.Errorf(services.Invalid, "to: 1 to %d recipients are allowed, got %d", maxRecipients, count)
	}
	return nil
}
