//go:build !linux

package transport

// newInputPoller returns nil: each socket waits in a goroutine of its own.
func newInputPoller() inputPoller { return nil }
