package services

// ConversationID is the dense number that Tidings gives a conversation: 1 is the oldest, 0 is none. The API shows it as 7
// letters.
type ConversationID uint32

// MessageID is a message's conversation and its number within it, from 1 on without gaps. A greater ID in one conversation is a
// newer message. It has 63 bits and prints as 13 letters, like a post ID.
type MessageID uint64

// A message ID is its conversation, 32 bits, and its number, 31: 63 together, as a BIGINT of SQL holds.
const (
	conversationLetters = 7 // of a printed ConversationID
	messageNumberBits   = 31
	// MaxMessageNumber is the greatest message number in a conversation.
	MaxMessageNumber = 1<<messageNumberBits - 1
)

// String prints the conversation as 7 letters that sort like the number.
func (id ConversationID) String() string {
	return PostID(id).String()[PostIDLetters-conversationLetters:]
}

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
func (id MessageID) String() string { return PostID(id).String() }

// GlobalID is the message's ID in the API, message:KEY, where KEY is String.
func (id MessageID) GlobalID() string { return GlobalID(MessageType, id.String()) }

// ParseConversationID reads "conversation:KEY". field names the argument in the error.
func ParseConversationID(field, id string) (ConversationID, error) {
	kind, key, err := SplitGlobalID(id)
	if err == nil && kind == ConversationType && len(key) == conversationLetters {
		place, err := ParsePostID("000000" + key)
		if err == nil && place > 0 && place <= PostID(^ConversationID(0)) {
			return ConversationID(place), nil
		}
	}
	return 0, Errorf(Invalid, "%s: %s is not the id of a conversation: expected conversation: and %d letters", field, Quote(id), conversationLetters)
}

// ParseMessageID reads "message:KEY". field names the argument in the error.
func ParseMessageID(field, id string) (MessageID, error) {
	place, err := ParseTypedID(field, id, MessageType)
	if CodeOf(err) != Invalid && (MessageID(place).Conversation() == 0 || MessageID(place).Number() == 0) {
		err = Errorf(Invalid, "%s: %s is not the id of a message", field, Quote(id))
	}
	return MessageID(place), err
}

// Membership is one user's own state in a conversation, a versioned field. Base, K, Mentions and the flags except ReadSide are absolute
// and belong together: the values with the greater Version are newer. ReadSide says that the conversation is counted when badges are
// read, and not when a message is written. Its version is WayVersion. Head only grows.
type Membership struct {
	Conversation ConversationID
	User         UserID
	Head         int64 // the number of the newest message; only grows
	Base         int64 // read up to this number
	K            int64 // never above 0: own and recalled messages above Base
	Version      int64 // rises with every change of this user's row
	Mentions     int64 // messages above Base that mention the user
	Gen          int64 // rises with every "mark unread": a mark with an older Gen comes too late and is ignored
	Left         bool  // the user has left: nothing counts any more
	Muted        bool
	Inside       bool  // open on some device: nothing counts until it is closed
	Marked       bool  // marked as unread since the user entered, wrote or read all: the devices that have it open read nothing
	ReadSide     bool  // counted when badges are read: see above
	WayVersion   int64 // the version of ReadSide

	// These are set if messages leave the count because of their age; both are days since 1970. AgedOn is the day as of which
	// messages were last taken out: those that were too old on it are not in Base, K and Mentions, as if they had been read.
	// LeavesOn is the day on which the next message becomes too old. AgedOn 0 means that no message was taken out, and LeavesOn 0
	// that none will be.
	AgedOn, LeavesOn int64
}

// Unread is how many messages are unread: 0 if the user has left the conversation, or has it open now.
func (m Membership) Unread() int64 {
	if m.Left || m.Inside {
		return 0
	}
	return m.Head - m.Base + m.K
}

// UnreadMentions is how many of the unread messages mention the user.
func (m Membership) UnreadMentions() int64 {
	if m.Left || m.Inside {
		return 0
	}
	return m.Mentions
}
