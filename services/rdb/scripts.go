package rdb

import (
	"embed"
	"fmt"

	"tidings/services/redis"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// loadScript makes a script of lua/lib.lua, lua/lib_named.lua, lua/lib_inbox.lua, lua/lib_count.lua, further parts and
// lua/NAME.lua, and registers it. It is for package variables: without the file it panics.
func loadScript(name string, parts ...string) *redis.Script {
	return loadParts(name, append([]string{"lib", "lib_named", "lib_inbox", "lib_count"}, parts...)...)
}

// replaysLib is the part of scripts that change lists of replays.
const replaysLib = "lib_replays"

// viewsLib is the part of scripts that add to views.
const viewsLib = "lib_views"

// loadConversationScript makes a script of lua/lib.lua, lua/lib_conversations.lua and lua/NAME.lua, and registers it.
func loadConversationScript(name string) *redis.Script {
	return loadParts(name, "lib", "lib_conversations")
}

func loadParts(name string, parts ...string) *redis.Script {
	texts := make([]string, 0, len(parts)+1)
	for _, part := range append(parts, name) {
		texts = append(texts, luaFile(part))
	}
	return redis.RegisterScript(name, texts...)
}

func luaFile(name string) string {
	text, err := luaFiles.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(fmt.Sprintf("rdb: the script %s is missing: %v", name, err))
	}
	return string(text) + "\n"
}
