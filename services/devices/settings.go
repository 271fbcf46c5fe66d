package devices

import (
	"time"

	"tidings/services"
)

// Settings are the settings of Web Push. New takes the default for a number that is zero.
type Settings struct {
	// Without the key nothing can be registered, and nothing is sent.
	VAPIDPrivateKey string `name:"vapid-private-key" placeholder:"TEXT" secret:"all" help:"the private key of Web Push, as tidings vapid makes it, the same on every node: it switches Web Push on, and the change stream while a device is registered; safer in the environment, because other users can read a command line"`
	VAPIDSubject    string `name:"vapid-subject" placeholder:"URL" help:"how push services can reach you, mailto:NAME@HOST or https://HOST; needed with --vapid-private-key"`
	// A user with an open socket gets their newest change after they have closed it.
	OnlyAway           bool          `name:"web-push-away" help:"send nothing to the devices of users with an open socket until they have closed it"`
	Allow              []string      `name:"web-push-allow" placeholder:"LIST" help:"the networks and addresses of push services that may be called though they are not public, also without https, separated by commas; empty: none; any user can name an address in them"`
	Timeout            time.Duration `name:"web-push-timeout" default:"10s" placeholder:"DURATION" min:"100ms" max:"30s" help:"the longest time for a push service to answer; another node takes over from one that crashed within this and 17 s"`
	RequestsPerService int           `name:"web-push-requests" default:"32" placeholder:"COUNT" min:"1" max:"1024" help:"the most requests to one push service at the same time; to all of them together, eight times as many and 256 more"`
}

// Faults returns the reasons why settings are invalid, by flag. The key and the subject are checked together under the key, and the
// subject also alone, so that each error names its flag.
func (s Settings) Faults() map[string]string {
	faults := map[string]string{"vapid-private-key": "", "vapid-subject": "", "web-push-allow": services.CheckNetworks(s.Allow)}
	if s.VAPIDPrivateKey == "" && s.VAPIDSubject == "" {
		return faults
	}
	if s.VAPIDPrivateKey == "" {
		faults["vapid-private-key"] = "it is needed with --vapid-subject; tidings vapid makes one"
	} else {
		_, faults["vapid-private-key"] = ParseVAPIDKeys(s.VAPIDPrivateKey, s.VAPIDSubject)
	}
	faults["vapid-subject"] = checkVAPIDSubject(s.VAPIDSubject)
	return faults
}

// keys are the keys of the settings; the zero value without a key.
func (s Settings) keys() VAPIDKeys {
	if s.VAPIDPrivateKey == "" {
		return VAPIDKeys{}
	}
	keys, _ := ParseVAPIDKeys(s.VAPIDPrivateKey, s.VAPIDSubject) // Faults has checked them
	return keys
}
