package projector

import "time"

// Settings are the settings of dormant and idle users, and of the cleaner. New takes the defaults for times that are zero.
type Settings struct {
	// These two hold until an admin sets other values, which are in SQL.
	DormantAfter time.Duration `name:"active-for" default:"720h" placeholder:"DURATION" min:"1h" max:"8760h" help:"a user not seen for longer is dormant: Redis holds nothing of them until they return; an admin can change it while the server runs"`
	IdleAfter    time.Duration `default:"168h" placeholder:"DURATION" min:"1h" max:"8760h" help:"a user not seen for longer is idle: posts of big authors are not pushed to them, and their feed is completed when they return; it is compared by whole days and is at most active-for; an admin can change it while the server runs"`

	CleanEvery time.Duration `default:"10m" placeholder:"DURATION" min:"10s" max:"24h" help:"the interval of the cleaner, which trims inboxes in Redis and removes the data of dormant users and keys that belong to nobody"`
}
