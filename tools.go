//go:build tools

package main

// The tool directives of go.mod name and pin the commands that go:generate and make run: go tool gqlgen, go tool staticcheck. A
// command cannot be imported. These packages do the commands' work. Importing them lets vet and editors see the modules;
// TestToolsAgree checks that go.mod and this file name the same modules.
import (
	_ "github.com/99designs/gqlgen/api"
	_ "honnef.co/go/tools/lintcmd"
)
