package node

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// stamped is the version of a release: the release build sets it.
var stamped string

// Version is the version of a release, else the module's version as the build knows it: a tag, a commit, or (devel).
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return cmp.Or(stamped, info.Main.Version, "(devel)")
}

// Build says which program this is: its version, the commit it was built from, Go's version and the system.
func Build() string {
	commit := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			switch {
			case setting.Key == "vcs.revision":
				commit = " commit " + setting.Value
			case setting.Key == "vcs.modified" && setting.Value == "true":
				commit += " (modified)"
			}
		}
	}
	return fmt.Sprintf("%s%s %s %s/%s", Version(), commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
