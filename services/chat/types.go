package chat

import (
	"time"

	"tidings/services"
)

// GroupPolicy is a user's setting: who may add them to a GROUP or a ROOM.
type GroupPolicy string

// The group policies. A block refuses under every policy.
const (
	addedByEveryone  GroupPolicy = "EVERYONE"     // the default
	addedByFollowees GroupPolicy = "WHO_I_FOLLOW" // the users that the user follows
	addedByNobody    GroupPolicy = "NOBODY"
)

// groupPolicies lists every group policy.
var groupPolicies = []GroupPolicy{addedByEveryone, addedByFollowees, addedByNobody}

// Kind is the kind of a conversation, which bounds its size.
type Kind string

// The kinds of conversations.
const (
	Direct Kind = "DIRECT" // two people; the same two have only one
	Group  Kind = "GROUP"  // members are added; up to 500 by default
	Room   Kind = "ROOM"   // anyone may join; without a limit
)

// CountingWay is how a conversation's unread messages reach its members' badges.
type CountingWay string

// The ways of counting. During a switch to counting on read (switchingToRead) both ways apply: messages are still projected to the
// members, and each member's own flag (Membership.CountedOnRead) says how the member counts.
const (
	OnWrite         CountingWay = "WRITE"   // a message is projected to each member
	switchingToRead CountingWay = "TO_READ" // the members' states are being switched; messages are still projected to each
	OnRead          CountingWay = "READ"    // a message is not projected: readers compare with the conversation's last sequence
)

// Conversation is a conversation as the facts know it: one row, without its members. It does not change when somebody reads.
type Conversation struct {
	ID           services.ConversationID
	Kind         Kind
	Title        string // up to 255 characters; "" for DIRECT
	Creator      services.UserID
	NewestNumber int64     // the number of its newest message, 0 if there is none; only grows
	LastActiveAt time.Time // of the newest message, or of the creation
	Members      int       // how many there are now
	// Revision rises with every visible change other than a new message: a recall, a change of members.
	Revision int64

	Way        CountingWay // how its unread messages are counted now
	WayVersion int64       // rises with every change of Way
	// MessagesPerMinute goes by the minutes of the program's clock, not the database's. The previous minute counts too, so that the
	// load does not fall to zero at the start of a minute.
	MessagesPerMinute int // messages in this minute or the one before, whichever is greater
}

// MemberState is a conversation and one member's own state in it, at one moment.
type MemberState struct {
	Conversation
	// Membership is of the same snapshot as the conversation: one statement reads both.
	Membership services.Membership
}

// Message is a message as the facts know it. Its number is its position in the conversation, and never changes.
type Message struct {
	ID       services.MessageID
	Author   services.UserID
	Body     string // 1 to 5,000 characters; "" if recalled
	SentAt   time.Time
	Recalled bool
}

// MembersPage selects a page of a conversation's members by their IDs: the first Size members with IDs greater than After.
type MembersPage struct {
	Conversation services.ConversationID
	After        services.UserID
	Size         int
}
