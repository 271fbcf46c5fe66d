package live

import "time"

// Settings are the settings of shows and of the sessions of live boards. New takes the default for what is zero.
type Settings struct {
	Limits ShowLimits `embed:""`

	SessionScope string `name:"board-sessions" default:"request" placeholder:"SCOPE" oneof:"request device user" help:"the scope of a session of the live board: request: each first page starts its own; device or user: each device or each user has one at a time, and a new first page ends it; with user, boards that are open in two tabs or on two devices end each other's sessions"`
	// A session lives up to a thirtieth longer. No session lives longer than maxSessionLifeInIdleTimes times that.
	SessionIdleTime time.Duration `name:"board-session-for" default:"30m" placeholder:"DURATION" min:"1m" max:"2h" help:"the lifetime of a session of the live board after its last page or open subscription; it ends after 24 times as long in any case"`
}

// ShowLimits define when shows without further reports are closed.
type ShowLimits struct {
	CloseUnstartedAfter time.Duration `name:"show-late-after" default:"6h" placeholder:"DURATION" min:"1m" max:"720h" help:"an upcoming show that is not started is cancelled this long after its planned start; it becomes a replay if its end was reported"`
	CloseLiveAfter      time.Duration `name:"show-longest" default:"12h" placeholder:"DURATION" min:"1m" max:"720h" help:"a live show that is not ended becomes a replay this long after its start"`
}
