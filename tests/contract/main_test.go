package contract

import (
	"os"
	"testing"

	"tidings/tests/world"
	"tidings/web/browsertest"
)

func TestMain(m *testing.M) { os.Exit(browsertest.Main(func() int { return world.Main(m) })) }
