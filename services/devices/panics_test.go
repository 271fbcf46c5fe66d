package devices

import (
	"context"
	"testing"

	"tidings/services"
	"tidings/services/people/peopletest"
	"tidings/services/sql/sqltest"
)

// A panic of checkDevices, which looks for devices, ends Run with its pool, so that the node can begin Run again: Run does not wait for a
// pool that nobody ends.
func TestAPanicOfCheckDevicesEndsRun(t *testing.T) {
	b := peopletest.NewTestDB(t, sqltest.SQLite(t))
	ctx, cancel := context.WithCancel(b.Ctx)
	defer cancel()
	looks := 0
	s := newDeviceWorld(b).newNode(func(cfg *Config) {
		cfg.StreamNeeded = func(context.Context) (bool, error) {
			if looks++; looks == 1 {
				panic("while it looks")
			}
			cancel()
			return false, nil
		}
	})
	run := func() (err error) {
		defer services.Recover(&err)
		return s.Run(ctx)
	}
	if err := run(); !services.IsPanic(err) {
		t.Fatalf("it ended with %v", err)
	}
	if err := run(); err != context.Canceled || looks != 2 {
		t.Errorf("it ended with %v after %d looks", err, looks)
	}
}
