package web

import (
	"os"
	"testing"

	"tidings/web/browsertest"
)

func TestMain(m *testing.M) { os.Exit(browsertest.Main(m.Run)) }
