package webhooks

import (
	"time"

	"tidings/services"
)

// Settings are the settings of webhooks. New takes the default for a number that is zero.
type Settings struct {
	Allow            []string      `name:"webhooks-allow" for:"serve,webhooks" placeholder:"LIST" help:"the networks and addresses that events may be sent to though they are not public, also without https, separated by commas: 10.0.0.0/8,127.0.0.1; empty: none"`
	Timeout          time.Duration `name:"webhooks-timeout" for:"serve,webhooks" default:"10s" placeholder:"DURATION" min:"100ms" max:"30s" help:"the longest time for a receiver to answer an event; another node takes over the webhooks of one that crashed within this and 17 s"`
	ParallelRequests int           `name:"webhooks-requests" default:"8" placeholder:"COUNT" min:"1" max:"256" help:"the most requests to one webhook at the same time; each is about another user"`
}

// Faults returns the reasons why settings are invalid, by flag.
func (s Settings) Faults() map[string]string {
	return map[string]string{"webhooks-allow": services.CheckNetworks(s.Allow)}
}
