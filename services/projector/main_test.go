package projector_test

import (
	"testing"

	"go.uber.org/goleak"

	"tidings/services/fanout/fanouttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a world on the engines that are quickest to start.
func world(t *testing.T) *fanouttest.World {
	t.Helper()
	return fanouttest.New(t, fanouttest.Options{Redis: "embedded"})
}

// served is a world on a redis-server, which the test may flush and kill.
func served(t *testing.T) *fanouttest.World {
	t.Helper()
	return fanouttest.New(t, fanouttest.Options{})
}
