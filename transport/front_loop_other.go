//go:build !linux

package transport

// frontLoops serve connections only on Linux: elsewhere each connection has a goroutine.
type frontLoops struct{ schema JointSchema }

// newFrontLoops returns nil: there are no loops.
func newFrontLoops(*Front, JointSchema) *frontLoops { return nil }

// join leaves the connection to its goroutine.
func (*frontLoops) join(*frontConn) (joined, lost bool) { return false, false }

// loopConn is empty, because no connection is in a loop.
type loopConn struct{}

// shutDownSocket returns false: the caller closes the connection.
func (*loopConn) shutDownSocket() bool { return false }

// removeClosedFromLoop does nothing, because no connection is in a loop.
func (*loopConn) removeClosedFromLoop(*frontConn) {}
