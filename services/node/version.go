package node

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// releaseVersion and commit are the version of a release and the commit that it was built from: the release build sets them with
// -ldflags -X. A build from a checkout has neither. They are variables and strings, because the linker sets nothing else.
var releaseVersion, commit string

// version is the version of a release, else the module's version as the build knows it: a tag, a commit, or (devel).
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return cmp.Or(releaseVersion, info.Main.Version, "(devel)")
}

// BuildInfo says which program this is: its version, the commit it was built from, Go's version and the system. A binary that was
// built with -buildvcs=false does not know its commit.
func BuildInfo() string {
	from := commit
	if info, ok := debug.ReadBuildInfo(); ok && from == "" {
		for _, setting := range info.Settings {
			switch {
			case setting.Key == "vcs.revision":
				from = setting.Value
			case setting.Key == "vcs.modified" && setting.Value == "true":
				from += " (modified)"
			}
		}
	}
	if from != "" {
		from = " commit " + from
	}
	return fmt.Sprintf("%s%s %s %s/%s", version(), from, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
