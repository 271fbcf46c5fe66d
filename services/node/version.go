package node

import "runtime/debug"

// Version is the module's version as the build knows it: a tag, a commit, or (devel).
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
