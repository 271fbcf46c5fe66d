package command

import (
	"fmt"
	"io"

	"tidings/services/devices"
)

// vapidArgs are the words after vapid: none.
type vapidArgs struct{}

// Help is the text of tidings vapid --help above its flags.
func (vapidArgs) Help() string {
	return `Examples:

  tidings vapid >> tidings.env

A key for Web Push (VAPID) is made once, and is the same on every node. The output is for the environment of the server; the
subject is how push services can reach you. Pages get the public key from viewer { pushKey }. With another key every
browser has to subscribe anew.
`
}

// runVAPID does "tidings vapid": a new key, as lines for the environment. The public key is a comment in them: it follows
// from the private one, but people need it. It has no settings and stores nothing: if the output is lost, another key must be
// made, and browsers subscribe anew.
func runVAPID(out io.Writer) error {
	private, public, err := devices.NewVAPIDKeys()
	if err != nil {
		return err
	}
	// The address is a placeholder on purpose: a push service would write to it.
	_, err = fmt.Fprintf(out, "# the public key is %s\nTIDINGS_VAPID_PRIVATE_KEY=%s\nTIDINGS_VAPID_SUBJECT=mailto:you@example.com\n", public, private)
	return err
}
