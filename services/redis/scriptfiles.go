package redis

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed lua/lib.lua
var sharedLuaFile embed.FS

// sharedLua is the text of the engine's own lua/lib.lua. It stands before every script of ScriptFiles.
var sharedLua = ScriptFiles{sharedLuaFile}.FileText("lib")

// ScriptFiles are the scripts of one package, which it embeds as lua/*.lua. A file whose name begins with "lib" is a part that
// stands before scripts; every other file is a script.
type ScriptFiles struct{ FS fs.FS }

// Load makes a script of the engine's own lib.lua (the clock, the nodes of a user), the parts and lua/NAME.lua, and registers
// it. It is for package variables: without one of the files, or with a name that another script has, it panics.
func (f ScriptFiles) Load(name string, parts ...string) *Script {
	texts := []string{sharedLua}
	for _, part := range append(parts[:len(parts):len(parts)], name) {
		texts = append(texts, f.FileText(part))
	}
	return RegisterScript(name, texts...)
}

// FileText is the text of lua/NAME.lua, to stand before a script. It panics without the file.
func (f ScriptFiles) FileText(name string) string {
	text, err := fs.ReadFile(f.FS, "lua/"+name+".lua")
	if err != nil {
		panic(fmt.Sprintf("redis: the script %s is missing: %v", name, err))
	}
	return string(text) + "\n"
}
