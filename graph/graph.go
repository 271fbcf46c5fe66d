// Package graph is the contract: the GraphQL schema in *.graphqls, and the Go that gqlgen generates from it.
// Only this file and scalars.go are written by hand.
package graph

import "tidings/services"

//go:generate go run github.com/99designs/gqlgen generate

// Viewer is the user whom the token names; its fields are resolved when they are asked for.
type Viewer struct {
	Number services.UserNumber
	Key    string
}
