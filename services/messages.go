package services

import (
	"slices"
	"strings"
	"time"
)

// SiteMessage is a message from the host application to users, as one recipient has it.
type SiteMessage struct {
	ID        PostID // also its position: greater is newer
	Type      string
	Title     string    // 1 to 255 characters
	Content   string    // to 64 KB
	CreatedAt time.Time // to the microsecond
	UpdatedAt time.Time // the last change of the text; CreatedAt if there was none
	ReadAt    time.Time // when the user marked it read; zero while it is unread
}

// GlobalID is the message's id as the API shows it.
func (m SiteMessage) GlobalID() string { return GlobalID(SiteMessageType, m.ID.String()) }

// SiteMessageReport is a site message as its sender sees it. Both counts are of the existing rows: while a message to many is
// being delivered, Recipients grows.
type SiteMessageReport struct {
	Message    SiteMessage // without ReadAt
	Recipients int
	ReadCount  int
}

// The limits of a site message.
const (
	MaxMessageTitle      = 255
	MaxMessageContent    = 64 << 10 // bytes
	MaxMessageRecipients = 10_000   // of one call
)

// CheckMessageTitle reports whether a title is valid: 1 to 255 characters that are not all white space.
func CheckMessageTitle(title string) error { return CheckFilled("title", title, MaxMessageTitle) }

// CheckMessageContent reports whether a content is valid: UTF-8 without NUL, up to 64 KB.
func CheckMessageContent(content string) error {
	if len(content) > MaxMessageContent {
		return Errorf(Invalid, "content: up to %d bytes are allowed, got %d", MaxMessageContent, len(content))
	}
	return CheckText("content", content, 0, MaxMessageContent)
}

// CheckMessageType reports whether a type is configured.
func CheckMessageType(kind string, types []string) error {
	if slices.Contains(types, kind) {
		return nil
	}
	return Errorf(Invalid, "type: %s is not a type of site messages: %s", Quote(kind), strings.Join(types, ", "))
}

// ParseSiteMessageID reads "siteMessage:KEY". field names the argument in the error.
func ParseSiteMessageID(field, id string) (PostID, error) {
	return ParseTypedID(field, id, SiteMessageType)
}
