package services

// ConversationID is the dense number that Tidings gives a conversation: 1 is the oldest, 0 is none. The API shows it as 7
// letters.
type ConversationID uint32

// MessageID is a message's conversation and its number within it, from 1 on without gaps. A greater ID in one conversation is a
// newer message. It has 63 bits and prints as 13 letters, like a post ID.
type MessageID uint64

// A message ID is its conversation, 32 bits, and its number, 31: 63 together, as a BIGINT of SQL holds.
const (
	conversationIDLetters = 7  // of a printed ConversationID
	messageNumberBits     = 31 // the lowest bits of a MessageID
	// MaxMessageNumber is the greatest message number in a conversation.
	MaxMessageNumber = 1<<messageNumberBits - 1
)

// String prints the conversation as 7 letters that sort like the number.
func (id ConversationID) String() string {
	return SortableID(id).String()[SortableIDLetters-conversationIDLetters:]
}

// Int64 is the id as SQL keeps it.
func (id ConversationID) Int64() int64 { return int64(id) }

// GlobalID is the conversation's ID in the API, conversation:KEY, where KEY is String.
func (id ConversationID) GlobalID() string { return GlobalID(ConversationType, id.String()) }

// NewMessageID is the ID of a conversation's message with a number.
func NewMessageID(conversation ConversationID, number int64) MessageID {
	return MessageID(uint64(conversation)<<messageNumberBits | uint64(number))
}

// Conversation is the message's conversation.
func (id MessageID) Conversation() ConversationID { return ConversationID(id >> messageNumberBits) }

// Number is the message's number within its conversation.
func (id MessageID) Number() int64 { return int64(id & MaxMessageNumber) }

// String prints the message as 13 letters that sort like the number.
func (id MessageID) String() string { return SortableID(id).String() }

// GlobalID is the message's ID in the API, message:KEY, where KEY is String.
func (id MessageID) GlobalID() string { return GlobalID(MessageType, id.String()) }

// ParseConversationID reads "conversation:KEY". field names the argument in the error.
func ParseConversationID(field, id string) (ConversationID, error) {
	kind, key, err := SplitGlobalID(id)
	if err == nil && kind == ConversationType && len(key) == conversationIDLetters {
		id, err := ParseSortableID("000000" + key)
		if err == nil && id > 0 && id <= SortableID(^ConversationID(0)) {
			return ConversationID(id), nil
		}
	}
	return 0, Errorf(Invalid, "%s: %s is not the id of a conversation: expected conversation: and %d letters", field, Quote(id), conversationIDLetters)
}

// ParseMessageID reads "message:KEY". field names the argument in the error.
func ParseMessageID(field, id string) (MessageID, error) {
	value, err := ParseTypedID(field, id, MessageType)
	if CodeOf(err) != Invalid && (MessageID(value).Conversation() == 0 || MessageID(value).Number() == 0) {
		err = Errorf(Invalid, "%s: %s is not the id of a message", field, Quote(id))
	}
	return MessageID(value), err
}

// Membership is one user's own state in a conversation, a versioned field. ReadUpTo, UnreadAdjustment, Mentions and the flags
// except CountedOnRead are absolute and belong together: the values with the greater Version are newer. CountedOnRead says that the
// conversation is counted when badges are read, and not when a message is written. Its version is CountedOnReadVersion.
// NewestMessageNumber only grows.
type Membership struct {
	Conversation         ConversationID
	User                 UserID
	NewestMessageNumber  int64 // the number of the newest message; only grows
	ReadUpTo             int64 // read up to this number
	UnreadAdjustment     int64 // never above 0: own and recalled messages above ReadUpTo
	Version              int64 // rises with every change of this user's row
	Mentions             int64 // messages above ReadUpTo that mention the user
	MarkUnreadGeneration int64 // rises with every "mark unread": a mark with an older generation comes too late and is ignored
	HasLeft              bool  // the user has left: nothing counts any more
	Muted                bool  // only mentions count; with chat.Config.MuteMentions nothing counts
	IsOpen               bool  // open on some device: nothing counts until it is closed
	MarkedUnread         bool  // marked as unread since the user entered, wrote or read all: devices that have it open read nothing
	CountedOnRead        bool  // the conversation is counted when badges are read, not when a message is written
	CountedOnReadVersion int64 // the version of CountedOnRead

	// These are set if messages leave the count because of their age; both are days since 1970. ExpiredAsOfDay is the day as of
	// which messages were last taken out: those that were too old on it are not in ReadUpTo, UnreadAdjustment and Mentions, as if
	// they had been read. NextExpiryDay is the day on which the next message becomes too old. ExpiredAsOfDay 0 means that no
	// message was taken out, and NextExpiryDay 0 that none will be.
	ExpiredAsOfDay, NextExpiryDay int64
}

// Unread is how many messages are unread: 0 if the user has left the conversation, or has it open now.
func (m Membership) Unread() int64 {
	if m.HasLeft || m.IsOpen {
		return 0
	}
	return m.NewestMessageNumber - m.ReadUpTo + m.UnreadAdjustment
}

// UnreadMentions is how many of the unread messages mention the user.
func (m Membership) UnreadMentions() int64 {
	if m.HasLeft || m.IsOpen {
		return 0
	}
	return m.Mentions
}
