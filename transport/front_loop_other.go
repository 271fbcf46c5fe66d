//go:build !linux

package transport

// frontLoops serve connections only on Linux: elsewhere each connection has a goroutine.
type frontLoops struct{ schema JointSchema }

// newFrontLoops returns nil.
func newFrontLoops(*Front, JointSchema) *frontLoops { return nil }

// join leaves the connection to its goroutine.
func (*frontLoops) join(*frontConn) (joined, lost bool) { return false, false }

// loopConn is empty.
type loopConn struct{}

// shutDownSocket leaves it to the caller to close the connection.
func (*loopConn) shutDownSocket() bool { return false }

// removeClosedFromLoop has nothing to forget.
func (*loopConn) removeClosedFromLoop(*frontConn) {}
