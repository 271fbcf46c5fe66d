package social

// Settings are the limits of the lists of one user. New takes the default for a limit that is zero.
type Settings struct {
	MaxFollowees int `default:"2000" placeholder:"COUNT" min:"1" max:"100000" help:"the most users that one user may follow; it does not apply to imports"`
	MaxMutes     int `default:"10000" placeholder:"COUNT" min:"1" max:"1000000" help:"the most users that one user may mute"`
	MaxBlocks    int `default:"10000" placeholder:"COUNT" min:"1" max:"1000000" help:"the most users that one user may block"`
	MaxHides     int `default:"10000" placeholder:"COUNT" min:"1" max:"1000000" help:"the most users that one user may hide from"`
}
