//go:build !linux

package transport

// newReadiness returns nil: each socket waits in a goroutine of its own.
func newReadiness() readiness { return nil }
