package nodes

import (
	"os"
	"testing"

	"tidings/tests/world"
)

func TestMain(m *testing.M) { os.Exit(world.Main(m)) }
