package rdb

import (
	"testing"

	"tidings/services/redis/clienttest"
)

func TestEveryScriptFileIsLoadedAfterItsParts(t *testing.T) {
	clienttest.EveryScriptIsLoaded(t, luaFiles)
}
