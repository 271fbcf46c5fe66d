package command

import (
	"strings"
	"testing"

	"tidings/services/devices"
)

// The command prints settings that the server takes, and the public key that belongs to the private one.
func TestVAPIDPrintsAKey(t *testing.T) {
	var out strings.Builder
	if err := runVAPID(&out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	command := mustParse(t, "", lines[1:]...)
	keys, reason := devices.ParseVAPIDKeys(command.Config.Devices.VAPIDPrivateKey, command.Config.Devices.VAPIDSubject)
	if reason != "" || !strings.HasSuffix(lines[0], " "+keys.Public) {
		t.Errorf("%s\n%s, %+v", out.String(), reason, keys)
	}
}

// Each fault of the settings of Web Push is reported for the setting that has it.
func TestWebPushFaults(t *testing.T) {
	wantParseFaults(t, map[string][]string{
		"--vapid-private-key x --vapid-subject mailto:a@b":    {"--vapid-private-key (TIDINGS_VAPID_PRIVATE_KEY)", "tidings vapid"},
		"--vapid-private-key " + vapidKey:                     {"--vapid-subject (TIDINGS_VAPID_SUBJECT)", "mailto:NAME@HOST"},
		"--vapid-subject mailto:a@b":                          {"--vapid-private-key", "tidings vapid makes one"},
		"--vapid-subject ops --vapid-private-key " + vapidKey: {`"ops"`, "https://HOST"},
		"--web-push-allow here":                               {"--web-push-allow", `"here"`},
	})
}
