//go:build tools

package main

// What go:generate and make run is named in go.mod by tool directives, which pin the commands: go tool gqlgen, go tool
// staticcheck. A command cannot be imported; these are the packages that do its work, so that vet and editors see, and
// TestToolsAgree holds, that both name the same modules.
import (
	_ "github.com/99designs/gqlgen/api"
	_ "honnef.co/go/tools/lintcmd"
)
