package chat

import "time"

// Settings are the settings of conversations. New takes the default for a number that is zero.
type Settings struct {
	MaxGroupMembers int `name:"max-group" default:"500" placeholder:"COUNT" min:"2" max:"100000" help:"the most members of a GROUP"`
	// These two bound the cost of counting on write: one state takes some 5 us of Redis' one thread, so 300 messages a second to 500
	// members would fill it.
	MaxMembersCountedOnWrite int `name:"max-write-members" default:"500" placeholder:"COUNT" min:"1" max:"1000000" help:"unread messages of a conversation with more members are counted when a member reads, not when a message is written"`
	MaxLoadCountedOnWrite    int `name:"max-write-load" default:"20000" placeholder:"COUNT" min:"1" max:"100000000" help:"the same for a conversation with this many members times messages a minute, until both numbers are below half of their limits"`

	InsideLease  time.Duration `default:"60s" placeholder:"DURATION" min:"1s" max:"1h" help:"the time for which a device is inside a conversation after it entered"`
	MuteMentions bool          `help:"a muted conversation does not count in the total at all; without this setting, messages that mention the user still count"`
}
