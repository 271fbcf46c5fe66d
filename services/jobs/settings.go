package jobs

// Settings are the settings of the workers.
type Settings struct {
	Workers int `default:"4" placeholder:"COUNT" min:"1" max:"256" help:"the number of workers that project facts into feeds and badges"`
}
