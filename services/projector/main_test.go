package projector_test

import (
	"testing"

	"go.uber.org/goleak"

	"tidings/services/fanout/fanouttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newEmbeddedWorld is a world on the engines that are quickest to start.
func newEmbeddedWorld(t *testing.T) *fanouttest.World {
	t.Helper()
	return fanouttest.New(t, fanouttest.Options{RedisURL: "embedded"})
}

// newRedisServerWorld is a world on a redis-server, which the test may flush and kill.
func newRedisServerWorld(t *testing.T) *fanouttest.World {
	t.Helper()
	return fanouttest.New(t, fanouttest.Options{})
}
