package audit

import "time"

// Settings are the settings of the audit. New takes the default for 0.
type Settings struct {
	// LapTime is the time in which every active user is visited at least once.
	LapTime time.Duration `name:"audit-every" default:"10m" placeholder:"DURATION" min:"10s" max:"24h" help:"the longest interval at which each active user's badges are compared with the facts, and repaired"`
}
