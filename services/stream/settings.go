package stream

import "time"

// Settings are the settings of the change stream. New takes the default for a time that is zero.
type Settings struct {
	// Without AlwaysOn the stream is on while there are readers: see SetHasReaders.
	AlwaysOn       bool          `name:"changes" for:"serve,webhooks" help:"write the change stream, which admin.changes reads and webhooks are sent from"`
	ChangeInterval time.Duration `name:"changes-interval" default:"1s" placeholder:"DURATION" min:"10ms" max:"1m" help:"the time that changes of one user's badges are gathered for: the change stream has one change of a user in it at most"`
	LapInterval    time.Duration `name:"changes-lap" default:"1m" placeholder:"DURATION" min:"100ms" max:"24h" help:"the longest interval at which the change stream compares the badges of all active users, which finds new messages of large rooms and what else has no write for each user; after an announcement, a raised dot, a show or a post of a huge author it is a twelfth; longer if one takes more than a fifth of it; for users who are idle or dormant it is ten times as long, and after such a change once"`
}
