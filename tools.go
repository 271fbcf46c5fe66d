//go:build tools

// Package tools pins what is run by go:generate and by make, so that go.mod knows its exact version.
package tools

import (
	_ "github.com/99designs/gqlgen"
	_ "honnef.co/go/tools/cmd/staticcheck"
)
