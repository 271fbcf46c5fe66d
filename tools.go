//go:build tools

package main

// The tool directives of go.mod name and pin the commands that make runs: go tool gqlgen, for the bench's baseline, and go tool
// staticcheck. Go cannot import a command, so this file imports the packages that do the commands' work: vet and editors then see the
// modules. TestToolsFileAgreesWithGoMod checks that go.mod and this file name the same modules.
import (
	_ "github.com/99designs/gqlgen/api"
	_ "honnef.co/go/tools/lintcmd"
)
