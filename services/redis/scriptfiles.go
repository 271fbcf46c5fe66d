package redis

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
)

//go:embed lua/*.lua
var engineLuaFiles embed.FS

// sharedLua is the text of the engine's own lua/lib.lua. It stands before every script of ScriptFiles.
var sharedLua = ScriptFiles{engineLuaFiles}.FileText("lib")

// CappedListPart is a part of the engine that packages name in Load before their own: helpers for lists of the newest entries of
// something, which are cut to a length and know how far back they are complete.
const CappedListPart = "lib_capped_list"

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
	return registerScript(name, texts...)
}

// FileText is the text of lua/NAME.lua, to stand before a script. A part that the package does not have is one of the engine. It
// panics without the file.
func (f ScriptFiles) FileText(name string) string {
	file := "lua/" + name + ".lua"
	text, err := fs.ReadFile(f.FS, file)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = engineLuaFiles.ReadFile(file)
	}
	if err != nil {
		panic(fmt.Sprintf("redis: the script %s is missing: %v", name, err))
	}
	return string(text) + "\n"
}
