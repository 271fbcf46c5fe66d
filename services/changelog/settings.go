package changelog

import "time"

// Settings are the settings of the follower. If the hint of a change of shared data was lost, the change is on open pages within
// PollInterval. New takes the default for 0.
type Settings struct {
	PollInterval time.Duration `name:"log-interval" default:"500ms" placeholder:"DURATION" min:"50ms" max:"1m" help:"the interval at which a node reads the changelog of shared data without a hint"`
}
