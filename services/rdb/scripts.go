package rdb

import (
	"embed"

	"tidings/services/redis"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// scripts are the Lua files of this package.
var scripts = redis.ScriptFiles{FS: luaFiles}

// loadScript registers a script that changes users' documents. The script follows the library parts for capped lists and for
// documents, and the given further parts.
func loadScript(name string, parts ...string) *redis.Script {
	return scripts.Load(name, append([]string{redis.CappedListPart, "lib_document", "lib_named", "lib_inbox", "lib_count"}, parts...)...)
}

// loadConversationScript registers a script that changes users' own states in conversations.
func loadConversationScript(name string) *redis.Script {
	return scripts.Load(name, "lib_conversations")
}
